"""What `tests/mutants.toml` says: which tests answer for a module, and which mutants need no test."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parent.parent
ANSWERS = ROOT / "tests" / "mutants.toml"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a module that can be changed, and the changes: each the name of an operator and its occurrence.

    `name` tells it from all others, also after lines elsewhere in the module have moved it.
    """

    module: str
    line: int
    name: str
    changes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one change: `was` and `becomes` are the lines that differ, `source` is all of it."""

    module: str
    line: int
    operator: str
    was: str
    becomes: str
    source: str

    @property
    def key(self) -> str:
        return sha256(f"{self.module}\n{self.source}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A mutant that needs no test. `module` may be a pattern, for lines that occur in many modules."""

    module: str
    was: str
    becomes: str
    why: str


@dataclass(frozen=True, slots=True)
class Answers:
    """The tests of each module that is changed, quickest first, and the mutants that need none."""

    tests: dict[str, tuple[str, ...]]
    reviewed: tuple[Reviewed, ...]

    def reason(self, mutant: Mutant) -> str:
        """Why a mutant needs no test; "" for one that does."""
        return next(
            (
                entry.why
                for entry in self.reviewed
                if fnmatchcase(mutant.module, entry.module)
                and (entry.was, entry.becomes) == (mutant.was, mutant.becomes)
            ),
            "",
        )


def read_answers(path: Path = ANSWERS) -> Answers:
    """Raises KeyError and TypeError for a table that is not of this form."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    tests = {module: tuple(words) for module, words in table["tests"].items()}
    return Answers(tests, tuple(Reviewed(**row) for row in table.get("reviewed", [])))
