"""The harness against planted defects: each is in the clients' code while a part of all points is tried."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.faults import hours_defects as _hours_defects  # noqa: F401  they join DEFECTS
from tests.faults.all_points import all_trials, first_red, named_points, some
from tests.faults.cases import Then
from tests.faults.clouds import REAL
from tests.faults.defects import CONTROL, DEFECTS
from tests.faults.verdict import Trial, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.faults.all_points import Spread
    from tests.faults.defects import Defect
    from tests.faults.verdict import MakeCloud

_HERE = Path(__file__).parent
SHARE = 0.1
LEAST = 10
"""Trials, where a case has so few that a tenth of them shows nothing."""
SEED = 20261121
MOST_NEAR = 60
_CREATES = (
    "RunInstance",
    "RunInstances",
    "CreateSchedule",
    "insert",
    "CreateQueuedResource",
    "CreateTask",
    "virtualMachinesSubmitDeallocate",
    "sbatch",
    "add_attempt",
)
_WITH_OWN = tuple(row.name for row in REAL)


@dataclass(frozen=True, slots=True)
class ChosenDefect:
    """A defect that is to be noticed in a case, or with "" in any."""

    defect: str
    case: str = ""

    @classmethod
    def parse(cls, text: str) -> ChosenDefect:
        """From "defect" or "defect @ case"."""
        return cls(*text.split(" @ ", 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtDefect:
    """`verdict` is what gave the defect away, after `tried` trials; None: nothing did."""

    defect: str
    trial_count: int
    verdict: Verdict | None


def trials_for_defects(began: Sequence[Verdict]) -> list[Trial]:
    """The undisturbed launches first, then a seeded part of all points; those around a create, and launches that are
    left alone, before the others; one of each case in turn, as some defects show in one alone."""
    names, trials = named_points(began), all_trials(began)
    near = [trial for trial in trials if trial.then is Then.LEFT or _call(names, trial) in _CREATES]
    part = some(trials, max(SHARE, min(1.0, LEAST / max(len(trials), 1))), SEED)
    for chosen in (near, part):
        Random(SEED).shuffle(chosen)
    return [*(verdict.trial for verdict in began), *_in_turn(near)[:MOST_NEAR], *_in_turn(part)]


def _call(names: dict[tuple[str, int | None], str], trial: Trial) -> str:
    """The call or write that a trial's point is at; "" where it is at none."""
    if trial.then is Then.LEFT:
        return ""
    return names[trial.case.name, trial.point].split()[-1]


def _in_turn(trials: Sequence[Trial]) -> list[Trial]:
    """The first of each case, then the second of each, and so on."""
    turns: Counter[str] = Counter()
    numbered = []
    for trial in trials:
        numbered.append((turns[trial.case.name], trial))
        turns[trial.case.name] += 1
    return [trial for _, trial in sorted(numbered, key=itemgetter(0))]


def against_defects(
    chosen_defects: Sequence[ChosenDefect], began: Sequence[Verdict], make_cloud: MakeCloud, over: Spread
) -> Iterator[CaughtDefect]:
    """Each defect until something is wrong, among the points of these undisturbed launches."""
    return over(partial(against_one, began=began, make_cloud=make_cloud), chosen_defects)


def against_one(chosen_defects: ChosenDefect, began: Sequence[Verdict], make_cloud: MakeCloud) -> CaughtDefect:
    name, found = chosen_defects.defect, planted(chosen_defects.defect)
    trials = trials_for_defects([verdict for verdict in began if chosen_defects.case in ("", verdict.trial.case.name)])
    broken = [Trial(replace(known.case, break_code=found.plant), known.then, known.point) for known in trials]
    number, verdict = first_red(broken, make_cloud)
    if verdict is not None and any(str(path) in verdict.unrecorded for path in _HERE.glob("*defects.py")):
        # It does not fit the code any more and breaks down by itself: nobody has noticed anything then.
        sys.stderr.write(f"{verdict.unrecorded}\n")
        verdict = None
    if verdict is not None:  # a function of a module's inside cannot be sent to another process
        case = replace(verdict.trial.case, break_code=replace(trials[0].case).break_code)
        verdict = replace(verdict, trial=Trial(case, verdict.trial.then, verdict.trial.point))
    return CaughtDefect(defect=name, trial_count=number, verdict=verdict)


def defects_of(provider: str) -> list[Defect]:
    """Those of the engine show in launches on sim; a provider has its own beside."""
    if provider == "sim":
        return DEFECTS
    found: list[Defect] = getattr(import_module(f"tests.faults.{provider}_defects"), provider.upper())
    return found


def planted(name: str) -> Defect:
    """Raises LookupError for a name that nobody knows."""
    provider = name.partition(": ")[0]
    known = defects_of(provider) if provider in _WITH_OWN else [*DEFECTS, CONTROL]
    found = next((one for one in known if one.name == name), None)
    if found is None:
        raise LookupError(f"no defect is named {name!r}")
    return found


def tell_caught(caught_defect: CaughtDefect) -> None:
    """On stderr: how a defect was noticed, or that it was not."""
    verdict = caught_defect.verdict
    if verdict is None:
        sys.stderr.write(f"defect not caught in {caught_defect.trial_count} trials: {caught_defect.defect}\n")
        return
    kind, text = next(iter(verdict.wrong.items()))
    wrong = text.strip().splitlines()[-1]
    sys.stderr.write(
        f"defect: {caught_defect.defect}: trial {caught_defect.trial_count}, {verdict.trial.name}: {kind} {wrong}\n"
    )
