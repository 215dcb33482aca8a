"""At which point each planted defect was noticed last: it is tried there first, so that trying all of them is short.

`python -m tests.faults --provider NAME --defects all --keep` writes the lines of what is noticed anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.cases import CASES, Then
from tests.faults.verdict import Trial, Verdict

FILE = Path(__file__).parent / "last_caught.txt"
_HEAD = "# provider | defect | case | what happens | at; written by python -m tests.faults --defects all --keep\n"
_UNDISTURBED, _DRAW = "undisturbed", "draw"


@dataclass(frozen=True, slots=True)
class CaughtAt:
    """A point by its name and by which of that name it is, from 1: numbers change with every call that is added."""

    provider: str
    defect: str
    case: str
    then: str
    at: str

    def trial(self, names: Sequence[str]) -> Trial | None:
        """The trial there; None where its launch has no such point any more. `names` are the points of the launch."""
        case = next((known for known in CASES if known.name == self.case), None)
        if case is None or self.then not in set(Then):
            return None
        name, _, number = self.at.rpartition(" ")
        if self.at == _UNDISTURBED:
            return Trial(case, Then(self.then))
        if name == _DRAW:
            return Trial(case, Then(self.then), int(number))
        same = [point for point, known in enumerate(names) if known == name]
        return Trial(case, Then(self.then), same[int(number) - 1]) if len(same) >= int(number) else None


def caught_at(provider: str, defect: str, trial: Trial, names: Sequence[str]) -> CaughtAt:
    """How the point of this trial is kept."""
    return CaughtAt(provider, defect, trial.case.name, trial.then, _at(trial, names))


def _at(trial: Trial, names: Sequence[str]) -> str:
    if trial.point is None:
        return _UNDISTURBED
    if trial.then is Then.LEFT:
        return f"{_DRAW} {trial.point}"
    name = names[trial.point]
    return f"{name} {names[: trial.point + 1].count(name)}"


def names_of(began: Iterable[Verdict]) -> dict[str, tuple[str, ...]]:
    """The points of undisturbed launches, by case."""
    return {verdict.trial.case.name: verdict.names for verdict in began}


def read() -> list[CaughtAt]:
    """What was kept."""
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    return [CaughtAt(*line.split(" | ")) for line in lines if line and not line.startswith("#")]


def keep(provider: str, rows: Iterable[CaughtAt]) -> None:
    """Write these in the place of the lines of the same defects."""
    rows = list(rows)
    anew = {row.defect for row in rows}
    others = [row for row in read() if row.provider != provider or row.defect not in anew]
    lines = sorted(" | ".join((row.provider, row.defect, row.case, row.then, row.at)) for row in (*others, *rows))
    FILE.write_text(_HEAD + "".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
