"""Options and commands of `plan` that a text refers to, each written in the words of the front end that shows the text.

    f"raise {Option.BUDGET}, or {Option.PROVIDER('local')} trains here"
    raise --budget, or --provider local trains here                  the command line
    raise budget_usd, or providers=['local'] trains here             a program that calls the Python API

The words are chosen where the text is formed: a front end whose words are others forms its texts within `written_in`. A
text that is kept as a constant is a `Text`, which is formed wherever it is shown. Commands of other programs (aws,
gcloud) are plain text. docs/adr/0059-typed-references.md has the alternatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple, Protocol


class Option(Enum):
    """An option of `plan` without its dashes; several commands may have it. `Option.BUDGET("20")` is one with a value,
    `Option.PROVIDER("aws", "gcp")` with either of two."""

    ALARM = "alarm"
    ALL = "all"
    ALLOW_RETIRED = "allow-retired"
    ANOTHER = "another"
    ASSUME_AVAILABLE = "assume-available"
    BATCH = "batch"
    BUDGET = "budget"
    CHECK = "check"
    CLEAN = "clean"
    CLIENT = "client"
    COUNT = "count"
    DATA = "data"
    DEADLINE = "deadline"
    DEVICE = "device"
    DRY_RUN = "dry-run"
    EMAIL = "email"
    EXPLAIN = "explain"
    FORCE = "force"
    FREE = "free"
    FRESH = "fresh"
    GIVE_UP_RESULTS = "give-up-results"
    HELD = "held"
    IMAGE = "image"
    INCLUDE_RETIRED = "include-retired"
    JSON = "json"
    LIMIT = "limit"
    MARKET = "market"
    MAX_COST = "max-cost"
    MAX_COST_USD = "max-cost-usd"
    MODEL = "model"
    NODES = "nodes"
    NOTES = "notes"
    OBJECTIVE = "objective"
    OUT = "out"
    OUTPUT = "output"
    PILOT = "pilot"
    PROVIDER = "provider"
    REGION = "region"
    RUN_FILE = "run-file"
    STOP = "stop"
    STORED = "stored"
    TO = "to"
    USER = "user"
    ADDRESS = "address"
    WEEKS = "weeks"
    WIDE = "wide"
    YES = "yes"

    def __call__(self, *values: object) -> Setting:
        return Setting(self, tuple(map(str, values)))

    def __str__(self) -> str:
        return _words.option(self)


class Setting(NamedTuple):
    """An option with its value; with several, any of them."""

    option: Option
    values: tuple[str, ...]

    def __str__(self) -> str:
        return _words.setting(self)


class Command:
    """A command of `plan`, as words and options: `Command("stop", run_id, Option.CLIENT("any"))`."""

    def __init__(self, *parts: str | Option | Setting) -> None:
        self.parts = parts

    @property
    def typed(self) -> str:
        """As it is typed, whichever front end shows it: for a text that is recorded, and shown by another one later."""
        options = CommandLine()
        return " ".join(["plan", *(part if isinstance(part, str) else _of(options, part) for part in self.parts)])

    def __str__(self) -> str:
        return _words.command(self)


class Text:
    """A text that is a constant: each part is formed when the text is."""

    def __init__(self, *parts: object) -> None:
        self._parts = parts

    def __str__(self) -> str:
        return "".join(map(str, self._parts))


class Words(Protocol):
    """How a front end writes what a text refers to."""

    def option(self, option: Option) -> str:
        """The option without a value."""

    def setting(self, setting: Setting) -> str:
        """The option with its value."""

    def command(self, command: Command) -> str:
        """The command."""


class CommandLine:
    """The words of the command line."""

    def option(self, option: Option) -> str:
        return f"--{option.value}"

    def setting(self, setting: Setting) -> str:
        return f"--{setting.option.value} {' or '.join(setting.values)}"

    def command(self, command: Command) -> str:
        return command.typed


def _of(words: Words, part: Option | Setting) -> str:
    return words.option(part) if isinstance(part, Option) else words.setting(part)


_words: Words = CommandLine()


@contextmanager
def written_in(words: Words) -> Iterator[None]:
    """Texts are formed in these words, in every thread: a provider is asked from several."""
    global _words
    before, _words = _words, words
    try:
        yield
    finally:
        _words = before
