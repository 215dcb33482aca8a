"""What is wrong with what was to be a job: every mistake at once, each with its line and what to write instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from trainplan.workloads.job import UNTOLD, TrainingJob, job_keys
from trainplan.workloads.nearest import nearest_names, other_word, same_name
from trainplan.workloads.values import ContradictionsError
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Where = tuple[int | str, ...]
_MOST_MESSAGE = 1_000
_MOST_PROBLEMS = 20
_MOST_LOOKED_AT = 40
"""Mistakes that are described, of which the first in the file are shown: one takes some milliseconds."""


class JobFileError(Exception):
    """The file is not a job: `message` says what and on which line, `hint` what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class _Problem:
    text: str
    hint: str = ""


def validated_job(values: Mapping[str, Any], source: str, lines: Mapping[Where, int] | None = None) -> TrainingJob:
    """The job of these values; `lines` are those of the keys, as far as they stand in a file that `source` names.

    Raises JobFileError, which tells all mistakes.
    """
    try:
        return TrainingJob.model_validate(values)
    except ValidationError as error:
        errors = [*_each(error.errors(include_url=False)), *_behind(dict(values), error)]
        raise _explained(errors, lines or {}, source, _complete_job(values)) from None


_COMPLETE = "plan init writes a complete job file"


def _complete_job(values: Mapping[str, Any]) -> str:
    """How the person gets a job file that lacks nothing."""
    data = values.get("data")
    folder = data.get("path") if isinstance(data, dict) else None
    if not isinstance(folder, str):
        return _COMPLETE
    command = Command("init", "NEW.yaml", Option.DATA(shlex.quote(folder)))
    return f"{command} looks at the folder and writes a complete job file"


_OF_IMAGES = ("image_size", "classes")
_STAND_INS: dict[str, Any] = {
    "name": "job",
    "model": {"layers": [1], "image_size": 64, "classes": 2},
    "data": {"name": "imagenet"},
    "epochs": 1,
    "global_batch_size": 1,
}
"""What is taken for keys that a job needs while the rest of it is looked at."""


def _behind(values: dict[str, Any], error: ValidationError) -> list[ErrorDetails]:
    """The mistakes that pydantic looks for only where it has found no others: those of the values together.

    What is wrong is taken out, and the rest is looked at, until nothing is wrong. What then is wrong because something
    was taken out is nobody's mistake.
    """
    values, found = deepcopy(values), []
    taken: set[Where] = set()
    for _ in range(_MOST_LOOKS):
        locs = [_inside(values, details["loc"]) for details in error.errors(include_url=False) if details["loc"]]
        if not locs:
            break
        for where in locs:
            taken.add(where)
            _take_out(values, where)
        if taken & {("model", "preset"), ("model", "layers")} and isinstance(values.get("model"), dict):
            size_and_classes = {key: values["model"][key] for key in _OF_IMAGES if key in values["model"]}
            values["model"] = {"layers": [1], **size_and_classes}
        if ("global_batch_size",) in taken:
            values.pop("accumulate", None)
        try:
            stand_ins = _STAND_INS if values.get("script") is None else {"name": "job"}
            TrainingJob.model_validate({**stand_ins, **values})
            break
        except ValidationError as next_error:
            error = next_error
            found += [row for row in _each(error.errors(include_url=False)) if not _follows(row, taken)]
    return found


_MOST_LOOKS = 4
"""A part of a job that is looked at again may show another mistake, and with it gone the whole job may."""


def _inside(values: object, loc: Where) -> Where:
    """The part of pydantic's path that is in the values, and one key more: unions add parts that are not."""
    where: Where = ()
    for part in loc:
        where = (*where, part)
        if not isinstance(values, dict) or part not in values:
            break
        values = values[part]
    return where if len(where) < 2 or isinstance(where[-1], str) else where[:-1]


def _take_out(values: dict[str, Any], where: Where) -> None:
    within: Any = values
    for part in where[:-1]:
        within = within.get(part) if isinstance(within, dict) else None
    if isinstance(within, dict):
        within.pop(where[-1], None)


def _follows(row: ErrorDetails, taken: set[Where]) -> bool:
    """Whether a mistake may be there only because something was taken out: a part of which that was one, or words on
    it."""
    if row["loc"]:
        return any(where[: len(row["loc"])] == row["loc"] for where in taken)
    text = str(row["ctx"]["error"]) if "ctx" in row else row["msg"]
    names = (re.escape(".".join(map(str, where))) for where in taken if where != ("name",))
    return any(re.search(rf"(?<![\w./]){name}(?![\w@])", text) for name in names)


def _each(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """A row for each sentence: the values together may contradict each other in several ways."""
    rows: list[ErrorDetails] = []
    for row in errors:
        cause = row.get("ctx", {}).get("error")
        texts = cause.texts if isinstance(cause, ContradictionsError) else ()
        rows += [{**row, "ctx": {"error": text}} for text in texts] or [row]
    return rows


def _explained(errors: list[ErrorDetails], lines: Mapping[Where, int], source: str, complete_job: str) -> JobFileError:
    causes = _causes(errors)
    placed = [_placed(details, lines) for details in causes[:_MOST_LOOKED_AT]]
    problems = sorted(
        ((line, _Problem(one.text, complete_job) if one.hint == _COMPLETE else one) for line, one in placed),
        key=lambda row: row[0],
    )
    if len(problems) == 1:
        line, problem = problems[0]
        return JobFileError(f"{source}:{line}: {problem.text}" if line else f"{source}: {problem.text}", problem.hint)
    # What one command mends is told once, at the end.
    hints = {problem.hint for _, problem in problems}
    common = hints.pop() if len(hints) == 1 else complete_job if complete_job in hints else ""
    rows = [
        f"  {f'line {line}: ' if line else ''}{problem.text}"
        f"{f' ({problem.hint})' if problem.hint not in ('', common) else ''}"
        for line, problem in problems[:_MOST_PROBLEMS]
    ]
    more = [f"  and {len(causes) - _MOST_PROBLEMS:,} more"] if len(causes) > _MOST_PROBLEMS else []
    return JobFileError("\n".join([f"{source} has {len(causes):,} mistakes:", *rows, *more]), common)


def _causes(problems: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without keys that are missing only because they are misspelt: one line for one cause."""
    misspelt = [problem["loc"] for problem in problems if problem["type"] == "extra_forbidden"]
    meant = {(*loc[:-1], _meant_key(loc)) for loc in misspelt[:_MOST_LOOKED_AT]}
    causes: dict[str, ErrorDetails] = {}
    for number, problem in enumerate(problems):
        if problem["type"] != "missing" or problem["loc"] not in meant:
            # Each alternative of a union has a problem of its own with one value: the first one is told.
            is_one_of_many = problem["type"] == "value_error" or not problem["loc"]
            causes.setdefault(str(number) if is_one_of_many else _plain(problem["loc"]), problem)
    return list(causes.values())


def _placed(details: ErrorDetails, lines: Mapping[Where, int]) -> tuple[int, _Problem]:
    """A problem and its line in the file; 0 for one of the whole file."""
    problem = _problem(details)
    where = _known_part(details["loc"], lines) if details["loc"] else _mentioned(problem.text, lines)
    text = problem.text if len(problem.text) <= _MOST_MESSAGE else f"{problem.text[:_MOST_MESSAGE]}..."
    return lines.get(where, 0) if where else 0, _Problem(text, problem.hint)


def _known_part(loc: tuple[int | str, ...], lines: Mapping[Where, int]) -> Where:
    """The longest part of pydantic's path that is in the file; unions add parts that are not."""
    for length in range(len(loc), 0, -1):
        if loc[:length] in lines:
            return loc[:length]
    return ()


def _mentioned(text: str, lines: Mapping[Where, int]) -> Where:
    """The key that a problem of the whole job speaks of first, as far as it is in the file."""
    matches = {where: re.search(rf"\b{re.escape('.'.join(map(str, where)))}\b", text) for where in lines if where}
    starts = {where: match.start() for where, match in matches.items() if match}
    return min(starts, key=lambda where: (starts[where], -len(where)), default=())


_WHAT_A_KIND_NEEDS = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_parsing", "float_type", "decimal_parsing", "decimal_type"), "a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false"),
    "string_type": "text",
    "tuple_type": "a list",
    "too_short": "at least one entry",
    "model_type": "keys and values",
}


_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
"""Kinds of problems with a limit: where pydantic says the limit, and how it is called."""


def _problem(error: ErrorDetails) -> _Problem:
    loc = error["loc"]
    name = ".".join(str(part) for part in loc)
    value = error["input"]
    match error["type"]:
        case "extra_forbidden":
            return _unknown_key(loc)
        case "missing":
            return _Problem(f"the key {name!r} is missing", _COMPLETE)
        case "enum" | "literal_error":
            expected = str(error.get("ctx", {}).get("expected", ""))
            names = _options(expected)
            choice = expected if len(names) <= _MOST_NAMES else f"the {len(names)} names that are known"
            hint = _nearest(str(value), names) or ("" if choice == expected else f"write one of {', '.join(names)}")
            return _Problem(f"{_plain(loc)}: {_short(value)} is not one of {choice}", hint)
        case "string_pattern_mismatch" if loc == ("name",):
            text = f"name: {_short(value)} does not serve as a name"
            rule = "a name starts and ends with a letter or digit"
            return _Problem(text, f"{rule}; use lower-case letters, digits, dots, dashes and underscores, 63 at most")
        case kind if kind in _WHAT_A_KIND_NEEDS:
            return _Problem(f"{_plain(loc)}: needs {_WHAT_A_KIND_NEEDS[kind]}, not {_short(value)}", _in_decimal(value))
        case kind if kind in _LIMITS:
            key, words = _LIMITS[kind]
            return _Problem(f"{_plain(loc)}: must be {words} {error['ctx'][key]}, not {_short(value)}")
        case "value_error":
            text = str(error["ctx"]["error"])
            return _Problem(f"{_plain(loc)}: {text}" if loc else text, _COMPLETE if text.endswith(UNTOLD) else "")
        case _:
            return _Problem(f"{_plain(loc)}: {error['msg'][0].lower()}{error['msg'][1:]}, not {_short(value)}")


def _in_decimal(value: object) -> str:
    """How a number that YAML 1.1 reads as octal or in base 60 is written."""
    if not isinstance(value, str):
        return ""
    if zeros := re.fullmatch(r"([-+]?)0+(\d[\d_]*)", value):
        return f"write {zeros[1]}{zeros[2]}"
    return "write it in decimal digits" if re.fullmatch(r"[-+]?(\d+(:\d+)+(\.\d*)?|0[xXbBoO]\w+)", value) else ""


def _plain(loc: tuple[int | str, ...]) -> str:
    names = [
        str(part) for part in loc if not (isinstance(part, str) and (part.startswith("literal[") or part == "int"))
    ]
    return ".".join(part for part in names if not part.startswith(("function-", "constrained-")))


def _unknown_key(loc: tuple[int | str, ...]) -> _Problem:
    names = _keys_at(loc[:-1])
    meant = _meant_key(loc)
    hint = f"did you mean {meant!r}?" if meant else f"known here: {', '.join(names)}"
    inside = f" in {'.'.join(str(part) for part in loc[:-1])}" if len(loc) > 1 else ""
    return _Problem(f"there is no key {str(loc[-1])!r}{inside}", hint)


def _meant_key(loc: Where) -> str | None:
    """The key that is meant by one that is not known there: its own name elsewhere (`lr` is `optimizer.learning_rate`),
    or the nearest one there."""
    key, here = str(loc[-1]), _keys_at(loc[:-1])
    if same := same_name(key, here):
        return same
    elsewhere = {one.rpartition(".")[2]: one for one in reversed(job_keys()) if one.count(".") == 1}
    others = {name: where for name, where in elsewhere.items() if name not in _KEYS_OF_MANY}
    for names in (here, others):
        if (word := other_word(key)) in names:
            return word if names is here else others[word]
    if same := same_name(key, others):
        return others[same]
    return next(iter(nearest_names(key, here)), None)


_KEYS_OF_MANY = ("name",)
"""Keys of several parts, of which nobody can tell which is meant."""


def _keys_at(loc: Where) -> list[str]:
    model: type[BaseModel] = TrainingJob
    for part in loc:
        annotation = model.model_fields[str(part)].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return [name for name in model.model_fields if name not in ("read", "read_script")]  # which no person writes


_MOST_NAMES = 12
"""Names of a choice that a message lists where one of them is meant."""


def _options(expected: str) -> list[str]:
    return [part.strip(" '") for part in expected.replace(" or ", ",").split(",")]


def _nearest(value: str, names: list[str]) -> str:
    near = nearest_names(value, names)
    return f"did you mean {near[0]!r}?" if near else ""


def _short(value: object) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
