"""What is tried, and what was wrong with it: shared by every kind of trial."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tests.faults.cases import Case, Then
from trainplan.planner.planning.own_measurements import load_measurements
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.faults.harness import Cloud, Lived
    from trainplan.planner.runs.run import Run
    from trainplan.planner.settings import Settings


KINDS = ("leaked", "doubled", "unrecorded", "destroyed", "kept")
"""What can be wrong, in the order of the last line."""
_ROUNDED = timedelta(seconds=1)
"""A timer counts whole seconds."""


class MakeCloud(Protocol):
    """A provider's double: `cases` are the names of those that it has a scenario for, each a world of its own."""

    cases: frozenset[str]

    def __call__(self, case: str) -> Cloud: ...


@dataclass(frozen=True, slots=True)
class Trial:
    """`point` None: nothing happens to the launch, and its points are written down. Where a case lets nothing happen at
    any point (Then.LEFT), it is the number of a draw."""

    case: Case
    then: Then
    point: int | None = None

    @property
    def name(self) -> str:
        where = "undisturbed" if self.point is None else f"{'point' if self.then.kills else 'number'} {self.point}"
        return f"{self.case.name}, {where} ({self.then})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is wrong, in words: "" is nothing. `names` are the points of an undisturbed launch."""

    trial: Trial
    leaked: str = ""
    doubled: str = ""
    unrecorded: str = ""
    destroyed: str = ""
    kept: str = ""
    names: tuple[str, ...] = ()

    @property
    def wrong(self) -> dict[str, str]:
        """What is wrong, by kind."""
        return {kind: text for kind in KINDS if (text := getattr(self, kind))}

    @property
    def good(self) -> bool:
        return not self.wrong


def without_receipt(settings: Settings, run: Run, model: Path) -> str:
    """In words, what the receipt of an ended run lacks; "" for nothing."""
    with Journal.open(settings.journal) as journal:
        receipt = journal.receipt(run.run_id)
    if receipt is None:
        return "there is no receipt"
    if (receipt["outcome"], receipt["attempts"]) != (run.outcome, len(run.attempts)):
        return f"the receipt says {receipt['outcome']} after {receipt['attempts']} attempts"
    ended_early = run.outcome is Outcome.BUDGET and "last rung of the sweep" in (run.message or "")
    if run.outcome is not Outcome.SUCCEEDED and not ended_early:
        return ""
    if run.max_steps is None and not (model / "model.keras").is_file():
        return "the model is not at home"
    if run.max_steps is not None and all(row.run_id != run.run_id for row in load_measurements(settings.measurements)):
        return "what it measured is not kept"
    return ""


def outlives_its_record(run: Run, machines: Sequence[Lived]) -> str:
    """In words, a machine whose own timer is set later than the journal has the deadline of its attempt; "" for none.
    Whoever reads the journal believes that it has ended by then."""
    for row in machines:
        asked = [one for one in run.attempts if one.asked_at is not None and one.asked_at <= row.created_at]
        until, limit = row.work.deadline if row.work else None, asked[-1].deadline if asked else None
        if until is not None and limit is not None and until > limit + _ROUNDED:
            return f"{row.id} ends itself at {until:%d %H:%M:%S}, and the journal says {limit:%d %H:%M:%S}"
    return ""


def at_once(machines: Sequence[Lived]) -> int:
    """Most machines alive at any one time."""
    turns = sorted(
        [(row.created_at, 1, 1) for row in machines]
        + [(row.ended_at, 0, -1) for row in machines if row.ended_at is not None]
    )
    most = count = 0
    for _, _, step in turns:
        count += step
        most = max(most, count)
    return most


@contextlib.contextmanager
def a_home() -> Iterator[Path]:
    """A state folder, in memory where the system has such a folder: it is not what is tried here."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="plan-faults-", dir=memory if memory.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
