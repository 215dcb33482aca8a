"""A training script of the person's own, as a job carries it: its text, its arguments and what it needs installed.

A job with a script is like any other, but for its work: nothing is known of it before somebody has measured it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

from trainplan.workloads.addresses import shown_address
from trainplan.workloads.graph import Graph, Kind, Operator, Shape
from trainplan.workloads.read_network import MOST_SOURCE_CHARACTERS
from trainplan.workloads.terminal_text import has_control_characters
from trainplan.workloads.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_ARGUMENTS = 256
_MOST_ARGUMENT_CHARACTERS = 4_096
_MOST_LOCK_CHARACTERS = 1024 * 1024
_NAME_OF_A_SECRET = re.compile(
    r"(^|[-_.])(pass(word|wd|phrase)s?|secrets?|token|credentials?|(api|access|private)[-_]?keys?)$"
)
# How keys begin that AWS, Hugging Face, GitHub, OpenAI and Weights & Biases hand out, each by its own documentation.
_LOOKS_SECRET = re.compile(r"(AKIA|ASIA)[A-Z0-9]{16}|hf_\w{20,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|sk-[\w-]{20,}")

Scalar = str | int | float | bool
Arguments = tuple[str, ...] | dict[str, Scalar]


def _arguments(value: object) -> object:
    """Texts as a command line has them; a mapping keeps its values, in the order of their names, which is also that of
    the job as JSON. Errors never repeat a value."""
    if value is None:
        return ()
    if isinstance(value, dict):
        _check_words([*value, *value.values()])
        if any(not re.fullmatch(r"[A-Za-z][\w.-]*", str(name)) for name in value):
            raise ValueError("each argument needs a name of letters, digits, _ and -; --epochs is written epochs")
        return dict(sorted(value.items(), key=lambda pair: str(pair[0])))
    if not isinstance(value, list | tuple):
        raise ValueError("needs keys and values ({epochs: 3}), or a list of words ([--epochs, 3])")
    _check_words(list(value))
    return tuple(argument_text(word) for word in value)


def _check_words(words: list[object]) -> None:
    if len(words) > 2 * MOST_ARGUMENTS:
        raise ValueError(f"holds more than {MOST_ARGUMENTS} arguments")
    for word in words:
        if not isinstance(word, Scalar):
            raise ValueError("an argument is a text, a number, true or false")
        text = str(word)
        if len(text) > _MOST_ARGUMENT_CHARACTERS or has_control_characters(text):
            raise ValueError("an argument is one line of at most 4,096 characters")


Args = Annotated[
    Arguments,
    BeforeValidator(_arguments),
    PlainSerializer(lambda value: value if isinstance(value, dict) else list(value)),
    Field(description="arguments of the script: keys and values, or a list of words"),
]


class ReadScript(Value):
    """A script as it was read. `plan` writes this, and no person.

    `sha256` is that of the file, `source` its text. `dependencies` are requirements as pip reads them, of the script
    itself or of a file. `locked` are these with all that they need, in exact versions with hashes, as pip reads them
    ("": not locked yet, or nothing is needed beside the framework).
    """

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    source: Annotated[str, Field(max_length=MOST_SOURCE_CHARACTERS)]
    dependencies: tuple[Annotated[str, Field(max_length=1_000)], ...] = ()
    locked: Annotated[str, Field(max_length=_MOST_LOCK_CHARACTERS)] = ""


def argument_text(value: object) -> str:
    """A value as a command line has it: `true` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def argument_words(args: Arguments) -> tuple[str, ...]:
    """The words behind the script on its command line. `{epochs: 3}` is `--epochs 3`, `{fast: true}` is `--fast`, and
    what is false is left out."""
    if not isinstance(args, dict):
        return args
    words: list[str] = []
    for name, value in args.items():
        if value is not False:
            words += [f"--{name}"] if value is True else [f"--{name}", argument_text(value)]
    return tuple(words)


def secrets_in(args: Arguments) -> Iterator[str]:
    """What of the arguments seems to be a secret; no sentence repeats a value."""
    words = argument_words(args)
    for place, word in enumerate(words, 1):
        name, _, value = word.lstrip("-").partition("=")
        following = words[place] if place < len(words) else ""
        is_named = word.startswith("-") and _NAME_OF_A_SECRET.search(name.lower())
        if is_named and (value or (following and not following.startswith("-"))):
            yield f"args: {name} seems to be a secret, and arguments are stored and shown; {INSTEAD_OF_IT}"
        elif _LOOKS_SECRET.search(word) or ("://" in word and shown_address(word) != word):
            yield f"args: word {place} seems to hold a secret, and arguments are stored and shown; {INSTEAD_OF_IT}"


INSTEAD_OF_IT = "name a variable with a reference under secrets, and let the script read it"


@cache
def unknown_graph() -> Graph:
    """The network of a script, of which nothing is known: no operators, no weights."""
    image = Operator(name="image", kind=Kind.INPUT, inputs=(), shape=Shape(1, 1, 1))
    return Graph(name="script", operators=(image,))
