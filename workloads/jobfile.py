"""A job file as a person writes it (YAML), read into a TrainingJob or refused with the line and what to write."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ValidationError

from workloads.job import TrainingJob
from workloads.nearest import nearest_names
from workloads.pretrained import weights_file
from workloads.terminal_text import has_control_characters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic_core import ErrorDetails

MAX_BYTES = 256 * 1024
MAX_DEPTH = 50
MOST_DIGITS = 100
"""Characters of a number: more than any value of a job can need."""
_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
Where = tuple[int | str, ...]
_MOST_MESSAGE = 1_000
_MOST_PROBLEMS = 20
_NO_CONTROL = "write it without line breaks, tabs and escape sequences"

# The C parser is several times faster; PyYAML falls back to the Python one where it was built without it.
_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class JobFileError(Exception):
    """The file is not a job: `message` says what and on which line, `hint` what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def read_job(path: Path) -> TrainingJob:
    """The job in the file. Relative paths (`data.path`, `model.weights`) are taken from the file's own folder.

    Raises JobFileError where there is no file, no YAML in it, or no job in the YAML.
    """
    job = _with_weights_found(parse_job(_text(path), str(path)), path)
    if job.data.path is None:
        return job
    folder = _folder(path.parent / job.data.path)
    if folder is None:
        raise JobFileError(
            f"{path}: data.path: there is no folder {path.parent / job.data.path}", "paths are relative to the job file"
        )
    if has_control_characters(str(folder)):
        raise JobFileError(f"{path}: data.path: {str(folder)!r} holds a control character", _NO_CONTROL)
    return job.model_copy(update={"data": job.data.model_copy(update={"path": str(folder)})})


def _with_weights_found(job: TrainingJob, path: Path) -> TrainingJob:
    """The job with the whole path of the file that its weights are read from. Raises JobFileError."""
    weights = weights_file(job)
    if weights is None:
        return job
    file = path.parent / weights
    if not file.is_file():
        raise JobFileError(f"{path}: model.weights: there is no file {file}", "paths are relative to the job file")
    if has_control_characters(str(file.resolve())):
        raise JobFileError(f"{path}: model.weights: {str(file)!r} holds a control character", _NO_CONTROL)
    return job.model_copy(update={"model": job.model.model_copy(update={"weights": str(file.resolve())})})


def parse_job(text: str, source: str) -> TrainingJob:
    """The job in the text; `source` names it in errors. Raises JobFileError."""
    lines, data = _load(text, source)
    if not isinstance(data, dict):
        raise JobFileError(f"{source}: a job file holds keys and values, this one does not", "plan init writes one")
    _refuse_control_characters(data, (), lines, source)
    try:
        return TrainingJob.model_validate(data)
    except ValidationError as error:
        raise explained(error, lines, source) from None


def parse_value(text: str, source: str) -> Any:
    """A value as a job file would have it; `source` names it in errors. Raises JobFileError."""
    _, value = _load(text, source)
    _refuse_control_characters(value, (), {}, source)
    return value


def _folder(path: Path) -> Path | None:
    try:
        folder = path.resolve()
        return folder if folder.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # a name too long, a null in it, a loop of links
        return None


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise JobFileError(f"{path} is a folder, not a job file", "name the YAML file in it")
        raw = path.read_bytes()
    except FileNotFoundError:
        raise JobFileError(f"there is no file {path}", _nearest_file(path)) from None
    except OSError as error:
        raise JobFileError(f"cannot read {path}: {error.strerror}", "check its permissions") from None
    except ValueError:  # a null in it, or what is no text
        raise JobFileError(f"{str(path)!r} is no name of a file", "is this the right file?") from None
    if len(raw) > MAX_BYTES:
        raise JobFileError(f"{path} is larger than {MAX_BYTES // 1024} KiB", "is this the right file?")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise JobFileError(f"{path} is not a text file in UTF-8", "is this the right file?") from None


def _nearest_file(path: Path) -> str:
    folder = path.parent
    names: list[str] = []
    with suppress(OSError):
        names = [entry.name for entry in folder.iterdir()]
    near = nearest_names(path.name, [name for name in names if name.endswith((".yaml", ".yml"))])
    return f"did you mean {folder / near[0]}?" if near else "plan init writes one"


def _load(text: str, source: str) -> tuple[dict[Where, int], Any]:
    try:
        _refuse_depth(text, source)
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise JobFileError(f"{source} is empty", "plan init writes a job file")
        lines = dict(_lines(node, (), set(), source))
        return lines, loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _not_yaml(error, source) from None
    except ValueError as error:  # a date or number that YAML recognises and Python refuses
        raise JobFileError(f"{source}: {error}", "put the value in quotes") from None
    except (AttributeError, LookupError):  # what PyYAML lets out where a tag (`!!bool`) does not fit its value
        raise JobFileError(f"{source}: a tag (!!) does not fit its value", "a job file needs no tags") from None


def _refuse_depth(text: str, source: str) -> None:
    """Building what is nested deeply would overflow the C parser's stack, and with it end the command."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise JobFileError(f"{source} is nested too deeply to be a job file", "is this the right file?")


def _refuse_control_characters(value: object, where: Where, lines: dict[Where, int], source: str) -> None:
    """No text of a job may hold one: it would reach terminals, command lines and addresses. Values are not repeated,
    since one may be a secret."""
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_control_characters(key, where, lines, source)
            _refuse_control_characters(item, (*where, str(key)), lines, source)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_control_characters(item, (*where, index), lines, source)
    elif isinstance(value, str) and has_control_characters(value):
        name = ".".join(map(str, where)) or "a key"
        place = f"{source}:{lines[where]}" if where in lines else source
        raise JobFileError(f"{place}: {name} holds a control character", _NO_CONTROL)


def _not_yaml(error: yaml.YAMLError, source: str) -> JobFileError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    line = f":{mark.line + 1}" if mark is not None else ""
    return JobFileError(f"{source}{line}: not valid YAML: {problem}", "check indentation, colons and brackets there")


def _lines(node: yaml.Node, where: Where, values: set[int], source: str) -> Iterator[tuple[Where, int]]:
    """Each key's path and line. Aliases are refused: a job needs none, and they can blow up."""
    if id(node) in values:
        raise JobFileError(f"{source}:{node.start_mark.line + 1}: YAML aliases are not allowed here", "write it out")
    values.add(id(node))
    _refuse_long_number(node, source)
    yield where, node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _lines(item, (*where, index), values, source)
    if isinstance(node, yaml.MappingNode):
        yield from _mapping_lines(node, where, values, source)


def _refuse_long_number(node: yaml.Node, source: str) -> None:
    """Python refuses to print a whole number of more than 4,300 digits, and takes long to read one."""
    if node.tag in _NUMBERS and len(node.value) > MOST_DIGITS:
        place = f"{source}:{node.start_mark.line + 1}"
        raise JobFileError(f"{place}: a number of {len(node.value):,} characters", "is this the right file?")


def _mapping_lines(node: yaml.MappingNode, where: Where, values: set[int], source: str) -> Iterator[tuple[Where, int]]:
    keys: set[str] = set()
    for key, value in node.value:
        _refuse_long_number(key, source)
        name, line = str(key.value), key.start_mark.line + 1
        if name in keys:
            raise JobFileError(f"{source}:{line}: the key {name!r} is there twice", "keep one of the two")
        keys.add(name)
        yield from (
            (path, line if path == (*where, name) else at) for path, at in _lines(value, (*where, name), values, source)
        )


@dataclass(frozen=True, slots=True)
class _Problem:
    text: str
    hint: str = ""


def explained(error: ValidationError, lines: dict[Where, int], source: str) -> JobFileError:
    """All mistakes of what was to be a job; `lines` are those of the keys, as far as they stand in a file."""
    problems = sorted(
        (_placed(details, lines) for details in _causes(error.errors(include_url=False))), key=lambda row: row[0]
    )
    if len(problems) == 1:
        line, problem = problems[0]
        return JobFileError(f"{source}:{line}: {problem.text}" if line else f"{source}: {problem.text}", problem.hint)
    hints = {problem.hint for _, problem in problems}
    common = hints.pop() if len(hints) == 1 else ""
    rows = [
        f"  {f'line {line}: ' if line else ''}{problem.text}"
        f"{f' ({problem.hint})' if problem.hint and not common else ''}"
        for line, problem in problems[:_MOST_PROBLEMS]
    ]
    more = [f"  and {len(problems) - _MOST_PROBLEMS:,} more"] if len(problems) > _MOST_PROBLEMS else []
    return JobFileError("\n".join([f"{source} has {len(problems):,} mistakes:", *rows, *more]), common)


def _causes(problems: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without keys that are missing only because they are misspelt: one line for one cause."""
    meant = {
        (*problem["loc"][:-1], *nearest_names(str(problem["loc"][-1]), _keys_at(problem["loc"][:-1])))
        for problem in problems
        if problem["type"] == "extra_forbidden"
    }
    causes: dict[str, ErrorDetails] = {}
    for number, problem in enumerate(problems):
        if problem["type"] != "missing" or problem["loc"] not in meant:
            # Each alternative of a union has a problem of its own with one value: the first one is told.
            causes.setdefault(_plain(problem["loc"]) or str(number), problem)
    return list(causes.values())


def _placed(details: ErrorDetails, lines: dict[Where, int]) -> tuple[int, _Problem]:
    """A problem and its line in the file; 0 for one of the whole file."""
    problem = _problem(details)
    where = _known_part(details["loc"], lines) if details["loc"] else _mentioned(problem.text, lines)
    text = problem.text if len(problem.text) <= _MOST_MESSAGE else f"{problem.text[:_MOST_MESSAGE]}..."
    return lines.get(where, 0) if where else 0, _Problem(text, problem.hint)


def _known_part(loc: tuple[int | str, ...], lines: dict[Where, int]) -> Where:
    """The longest part of pydantic's path that is in the file; unions add parts that are not."""
    for length in range(len(loc), 0, -1):
        if loc[:length] in lines:
            return loc[:length]
    return ()


def _mentioned(text: str, lines: dict[Where, int]) -> Where:
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
            return _Problem(f"the key {name!r} is missing", "plan init writes a complete job file")
        case "enum" | "literal_error":
            expected = str(error.get("ctx", {}).get("expected", ""))
            return _Problem(f"{_plain(loc)}: {_short(value)} is not one of {expected}", _nearest(str(value), expected))
        case "string_pattern_mismatch" if loc == ("name",):
            text = f"name: {_short(value)} does not serve as a name"
            return _Problem(text, "use lower-case letters, digits, dots, dashes and underscores, 63 at most")
        case kind if kind in _WHAT_A_KIND_NEEDS:
            return _Problem(f"{_plain(loc)}: needs {_WHAT_A_KIND_NEEDS[kind]}, not {_short(value)}")
        case kind if kind in _LIMITS:
            key, words = _LIMITS[kind]
            return _Problem(f"{_plain(loc)}: must be {words} {error['ctx'][key]}, not {_short(value)}")
        case "value_error":
            return _Problem(f"{_plain(loc)}: {error['ctx']['error']}" if loc else str(error["ctx"]["error"]))
        case _:
            return _Problem(f"{_plain(loc)}: {error['msg'][0].lower()}{error['msg'][1:]}, not {_short(value)}")


def _plain(loc: tuple[int | str, ...]) -> str:
    names = [
        str(part) for part in loc if not (isinstance(part, str) and (part.startswith("literal[") or part == "int"))
    ]
    return ".".join(part for part in names if not part.startswith(("function-", "constrained-")))


def _unknown_key(loc: tuple[int | str, ...]) -> _Problem:
    names = _keys_at(loc[:-1])
    near = nearest_names(str(loc[-1]), names)
    hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(names)}"
    inside = f" in {'.'.join(str(part) for part in loc[:-1])}" if len(loc) > 1 else ""
    return _Problem(f"there is no key {str(loc[-1])!r}{inside}", hint)


def _keys_at(loc: Where) -> list[str]:
    model: type[BaseModel] = TrainingJob
    for part in loc:
        annotation = model.model_fields[str(part)].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)


def _nearest(value: str, expected: str) -> str:
    options = [part.strip(" '") for part in expected.replace(" or ", ",").split(",")]
    near = nearest_names(value, options)
    return f"did you mean {near[0]!r}?" if near else ""


def _short(value: object) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
