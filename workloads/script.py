"""A training script of the person's own, as a job carries it: its text, its arguments and what it needs installed.

A job with a script is like any other, but for its work: nothing is known of it before somebody has measured it.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from trainplan.workloads.addresses import shown_address
from trainplan.workloads.graph import Graph, Kind, Operator, Shape
from trainplan.workloads.read_network import MOST_SOURCE_CHARACTERS
from trainplan.workloads.script_imports import MOST_FILES, REPORTING
from trainplan.workloads.secret_rules import names_a_secret, secret_kinds
from trainplan.workloads.terminal_text import has_control_characters
from trainplan.workloads.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST_ARGUMENTS = 256
_MOST_ARGUMENT_CHARACTERS = 4_096
_MOST_LOCK_CHARACTERS = 1024 * 1024
MOST_OPTIONS = 512
MOST_LEFT_BEHIND = 50

Scalar = str | int | float | bool
Argument = Scalar | tuple[Scalar, ...] | None
Arguments = tuple[str, ...] | dict[str, Argument]


def _arguments(value: object) -> object:
    """Texts as a command line has them; a mapping keeps its values, in the order of their names, which is also that of
    the job as JSON. Errors never repeat a value."""
    if value is None:
        return ()
    if isinstance(value, dict):
        _check_words([*value, *_flat(value.values())])
        if any(not re.fullmatch(r"[A-Za-z][\w.-]*", str(name)) for name in value):
            raise ValueError("each argument needs a name of letters, digits, _ and -; --epochs is written epochs")
        return dict(sorted(value.items(), key=lambda pair: str(pair[0])))
    if not isinstance(value, list | tuple):
        raise ValueError("needs keys and values ({epochs: 3}), or a list of words ([--epochs, 3])")
    _check_words(list(value))
    return tuple(argument_text(word) for word in value)


def _flat(values: Iterable[object]) -> Iterator[object]:
    """The values of a mapping one by one: those of lists, and none for null."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        elif value is not None:
            yield value


def _check_words(words: list[object]) -> None:
    if len(words) > 2 * MOST_ARGUMENTS:
        raise ValueError(f"holds more than {MOST_ARGUMENTS} arguments")
    for word in words:
        if not isinstance(word, Scalar):
            raise ValueError(
                "an argument is a text, a number, true or false; a mapping is written as text: '{\"a\": 1}'"
            )
        text = str(word)
        if len(text) > _MOST_ARGUMENT_CHARACTERS or has_control_characters(text):
            raise ValueError("an argument is one line of at most 4,096 characters")


Args = Annotated[
    Arguments,
    BeforeValidator(_arguments),
    PlainSerializer(lambda value: value if isinstance(value, dict) else list(value)),
    Field(description="arguments of the script: keys and values, or a list of words"),
]


ScriptPath = Annotated[
    str,
    Field(pattern=r"^.+\.py$", max_length=4_096),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^.+\.py$", "maxLength": 4_096},
                {
                    "type": "object",
                    "properties": {"file": {"type": "string"}, "folder": {"type": "string"}},
                    "required": ["file", "folder"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
"""The path of a script. A job file may name a folder beside it, all of which travels (`script_folder.py`)."""


class Option(Value):
    """An option of a script, as its parser declares it.

    `takes` is what stands behind its name: a value; nothing where it sets true (`flag`) or false (`off`); nothing where
    `off` is the name that sets false (`pair`). `place` is a value without a name; `unknown` an action of its own.
    `many`: a list is words behind one name (`count` of them, where that is not 0), or the name with each value. `truth`
    are its words for true and false,
    () where none has to mean them. `default` is the value without the option, as `if` takes it. A value that is a
    `number`, or one of `choices`, is refused by the script where it is none; one that `is_needed` has to be written.
    """

    names: tuple[str, ...]
    dest: str
    takes: Literal["value", "flag", "off", "pair", "place", "unknown"] = "value"
    off: str = ""
    many: Literal["", "words", "repeated"] = ""
    count: int = 0
    truth: tuple[str, str] | tuple[()] = ()
    default: Literal["", "none", "true", "false", "other"] = "other"
    number: Literal["", "int", "float"] = ""
    choices: tuple[str, ...] = ()
    is_needed: bool = False


PATH_OF_A_NEIGHBOUR = re.compile(r"[\w+-][\w .+-]*(/[\w+-][\w .+-]*)*")
"""From the folder of the script: no part begins with a dot."""


class Neighbour(Value):
    """A file that a script imports, or one of the folder that travels with it: its `path` from the folder of the
    script, and its text."""

    path: Annotated[str, Field(pattern=f"^{PATH_OF_A_NEIGHBOUR.pattern}$", max_length=500)]
    source: str


class ReadScript(Value):
    """A script as it was read. `plan` writes this, and no person.

    `sha256` is that of the file, `source` its text. `dependencies` are requirements as pip reads them, of the script
    itself or of a file. `locked` are these with all that they need, in exact versions with hashes, as pip reads them
    ("": not locked yet, or nothing is needed beside the framework). `options` are those that its parser declares, as
    far as they are written out; `needs_command`: its first word is a command (add_subparsers, click.group). `files` are
    those beside it that it imports, `imports` the packages that it cannot do without, `requires_python` the versions of
    Python that it is for (PEP 723; "": any).
    """

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    source: Annotated[str, Field(max_length=MOST_SOURCE_CHARACTERS)]
    dependencies: tuple[Annotated[str, Field(max_length=1_000)], ...] = ()
    locked: Annotated[str, Field(max_length=_MOST_LOCK_CHARACTERS)] = ""
    options: Annotated[tuple[Option, ...], Field(max_length=MOST_OPTIONS)] = ()
    has_all_options: bool = False
    needs_command: bool = False
    files: Annotated[tuple[Neighbour, ...], Field(max_length=MOST_FILES)] = ()
    inside: Annotated[str, Field(pattern=f"^({PATH_OF_A_NEIGHBOUR.pattern})?$", max_length=500)] = ""
    left_behind: Annotated[tuple[str, ...], Field(max_length=MOST_LEFT_BEHIND)] = ()
    imports: tuple[str, ...] = ()
    requires_python: Annotated[str, Field(max_length=100)] = ""

    @property
    def may_report(self) -> bool:
        """Whether it or a file that travels with it mentions what reports steps, or it needs a package from an address,
        which may do so. Nothing else can measure it."""
        texts = (self.source, *(file.source for file in self.files))
        return any(REPORTING in text for text in texts) or any("://" in one for one in self.dependencies)


def argument_text(value: object) -> str:
    """A value as a command line has it: `true` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def argument_words(args: Arguments, options: Sequence[Option] = ()) -> tuple[str, ...]:
    """The words behind the script on its command line, as its `options` mean them: `{epochs: 3}` is `--epochs 3`,
    `{fast: true}` is `--fast`, or `--fast true` where it takes a value. Of what argument_problems refuses, the words
    that show what was written."""
    if not isinstance(args, dict):
        return args
    words: list[str] = []
    places: list[str] = []
    for name, value in args.items():
        option = _option(name, options)
        try:
            of_it = _words(name, value, options)
        except ValueError:
            of_it = (f"--{name}", *map(argument_text, value if isinstance(value, list | tuple) else (value,)))
        (places if option is not None and option.takes == "place" else words).extend(of_it)
    return (*places, *words)


def argument_problems(args: Arguments, options: Sequence[Option]) -> Iterator[str]:
    """What of the arguments nobody can write as the script would understand it, a sentence each."""
    for name, value in args.items() if isinstance(args, dict) else ():
        try:
            _words(name, value, options)
        except ValueError as error:
            yield f"args.{name}: {error}"


def refused_arguments(args: Arguments, read: ReadScript, swept: Iterable[str] = ()) -> Iterator[str]:
    """What the script would refuse at its start for its name, or for want of it, a sentence each; `swept` are the
    names that a sweep gives values. Nothing where some options of it are not known."""
    if read.needs_command and (isinstance(args, dict) or not args):
        yield "args: the script has commands: write args as a list of words, a command first: [train, --lr, '0.1']"
    if not read.has_all_options:
        return
    names = {*args, *swept} if isinstance(args, dict) else {*swept}
    for name in sorted(names):
        if _option(name, read.options) is None:
            yield f"args.{name}: {_no_such(name, read.options)}"
    written = [] if isinstance(args, dict) else [*_names_among(args)]
    for word in written:
        if not any(text.startswith(word) for option in read.options for text in (*option.names, option.off, *_HELP)):
            yield f"args: {word}: {_no_such(word, read.options)}"
    for option in read.options if isinstance(args, dict) or not args else ():
        if option.is_needed and not any(_option(name, read.options) == option for name in names):
            yield f"args: the script needs {_written(option.dest, option)}; write args: {{{option.dest}: …}}"


def problems_of(args: Arguments, read: ReadScript | None, swept: Iterable[str]) -> Iterator[str]:
    """All that is wrong with the arguments of a script, a sentence each; `swept` are keys such as args.lr."""
    yield from secrets_in(args)
    if read is not None:
        yield from argument_problems(args, read.options)
        yield from refused_arguments(args, read, [key[5:] for key in swept if key.startswith("args.")])


_HELP = ("--help", "-h", "--version")


def _names_among(words: Sequence[str]) -> Iterator[str]:
    """The names of options among words, without their values; none behind `--`."""
    for word in words:
        if word == "--":
            return
        if re.match(r"--[A-Za-z]", word):
            yield word.partition("=")[0]


def _no_such(name: str, options: Sequence[Option]) -> str:
    texts = {text: text.lstrip("-").replace("-", "_") for one in options for text in (*one.names, one.off) if text}
    near = get_close_matches(name.lstrip("-").replace("-", "_"), [*texts.values()], n=1)
    nearest = [text for text, plain in texts.items() if [plain] == near]
    has = ", ".join([*texts][:10]) + (", …" if len(texts) > 10 else "") if texts else "none"
    return f"the script has no such argument; {f'did you mean {nearest[0]}?' if nearest else f'it has {has}'}"


def _option(name: str, options: Sequence[Option]) -> Option | None:
    """The option that a key of `args` means: by its name, else by that of its value in the script."""
    by_name = [one for one in options if f"--{name}" in one.names]
    by_letter = [one for one in options if {f"-{name}", name} & {*one.names}]
    by_value = [one for one in options if one.dest == name.replace("-", "_")]
    return next(iter((*by_name, *by_letter, *by_value)), None)


def _words(name: str, value: Argument, options: Sequence[Option]) -> tuple[str, ...]:
    """The words of one argument. Raises ValueError for what cannot be written so that the script has that value."""
    option = _option(name, options)
    if option is None:
        return _words_of_unknown(name, value)
    same = [one for one in options if one.dest == option.dest]
    written = _written(name, option)
    if value is None:
        if any(one.default not in ("", "none") for one in same):
            raise ValueError(
                f"the script has another default than null, which {written} cannot be set to; leave it out"
            )
        return ()
    if isinstance(value, tuple):
        return _words_of_list(written, value, option)
    if not isinstance(value, bool):
        if option.takes in ("flag", "off", "pair"):
            raise ValueError(f"{written} of the script takes no value; write true or false")
        _refuse_value(written, option, argument_text(value))
        _refuse_count(written, option, 1)
        return (argument_text(value),) if option.takes == "place" else (written, argument_text(value))
    if option.takes in ("value", "place"):
        return (*(() if option.takes == "place" else (written,)), _truth_word(written, option, value=value))
    # --no-augment that sets `augment` means the opposite of its name.
    is_of_its_value = option.takes != "off" or name.replace("-", "_") == option.dest
    return _words_of_flag(written, same, target=value == is_of_its_value)


def _refuse_value(written: str, option: Option, text: str) -> None:
    """Raises ValueError for a text that the script's parser refuses."""
    if option.choices and text not in option.choices:
        raise ValueError(f"{written} of the script takes one of {', '.join(option.choices)}")
    try:
        {"int": int, "float": float}.get(option.number, str)(text)
    except ValueError:
        what = "a whole number" if option.number == "int" else "a number"
        raise ValueError(f"{written} of the script takes {what}") from None


def _refuse_count(written: str, option: Option, count: int) -> None:
    """Raises ValueError for another number of values than the script's parser takes."""
    if option.count and count != option.count and option.many == "words":
        raise ValueError(f"{written} of the script takes {option.count} values, not {count}")


def _written(name: str, option: Option) -> str:
    for text in (f"--{name}", f"-{name}"):
        if text in option.names:
            return text
    return next((one for one in option.names if one.startswith("--")), option.names[0])


def _words_of_unknown(name: str, value: Argument) -> tuple[str, ...]:
    if value is True:
        return (f"--{name}",)
    if value is None or value is False or isinstance(value, list | tuple):
        what = "null" if value is None else "false" if value is False else "a list"
        raise ValueError(
            f"how the script takes {what} is not to be read from it (options of argparse, click and absl are, where "
            f"they are written out); write its text in quotes ({name}: 'False'), or args as a list of words "
            f"([--no-{name}])"
        )
    return (f"--{name}", argument_text(value))


def _words_of_list(written: str, values: tuple[Scalar, ...], option: Option) -> tuple[str, ...]:
    if not option.many or not values:
        raise ValueError(f"{written} of the script takes no list; write the text that it expects, such as '1,2'")
    words = [
        _truth_word(written, option, value=value) if isinstance(value, bool) else argument_text(value)
        for value in values
    ]
    _refuse_count(written, option, len(words))
    for word in words:
        _refuse_value(written, option, word)
    if option.takes == "place":
        return tuple(words)
    return (written, *words) if option.many == "words" else tuple(text for word in words for text in (written, word))


def _truth_word(written: str, option: Option, *, value: bool) -> str:
    if not option.truth:
        raise ValueError(
            f"{written} of the script takes a text or a number, and not true or false (for type=bool every text is "
            "true); write what it expects in quotes, or declare it with action=argparse.BooleanOptionalAction"
        )
    return option.truth[0 if value else 1]


def _words_of_flag(written: str, same: Sequence[Option], *, target: bool) -> tuple[str, ...]:
    """The words after which the value that these options set is the `target`."""
    for option in same:
        if option.takes == "pair":
            return (option.names[0] if target else option.off,)
        if option.takes == ("flag" if target else "off"):
            return (_longest(option),)
    # Left out it means what was asked for, or nothing does.
    if any(one.default == ("true" if target else "false") or (not target and one.default == "none") for one in same):
        return ()
    raise ValueError(
        f"no option of the script makes {written} {str(target).lower()}; declare it with action="
        f"argparse.BooleanOptionalAction (click: {written}/--no-{written.lstrip('-')}), and leave it out until then"
    )


def _longest(option: Option) -> str:
    return max(option.names, key=len)


def secrets_in(args: Arguments) -> Iterator[str]:
    """What of the arguments seems to be a secret; no sentence repeats a value."""
    words = argument_words(args)
    for place, word in enumerate(words, 1):
        name, _, value = word.lstrip("-").partition("=")
        following = words[place] if place < len(words) and word.startswith("-") else ""
        value = value or ("" if following.startswith("-") else following)
        if names_a_secret(name, value):
            yield f"args: {name} seems to be a secret, and arguments are stored and shown; {INSTEAD_OF_IT}"
        elif any(secret_kinds(f'{name}="{value}"' if value else word)) or _is_signed(word):
            yield f"args: word {place} seems to hold a secret, and arguments are stored and shown; {INSTEAD_OF_IT}"


def _is_signed(word: str) -> bool:
    """Whether it is an address with a user, or with a query, which may be a signature."""
    return "://" in word and shown_address(word) != word


INSTEAD_OF_IT = "name a variable with a reference under secrets, and let the script read it"


@cache
def unknown_graph() -> Graph:
    """The network of a script, of which nothing is known: no operators, no weights."""
    image = Operator(name="image", kind=Kind.INPUT, inputs=(), shape=Shape(1, 1, 1))
    return Graph(name="script", operators=(image,))
