"""The harness against planted defects: each is in the clients' code while a part of all points is tried."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.faults import hours_defects as _hours_defects  # noqa: F401  they join DEFECTS
from tests.faults import last_caught
from tests.faults.all_points import Spread, all_trials, first_red, named_points, some
from tests.faults.cases import Then
from tests.faults.clouds import REAL
from tests.faults.defects import CONTROL, DEFECTS, Defect
from tests.faults.points import GOES_ON
from tests.faults.verdict import MakeCloud, Trial, Verdict

if TYPE_CHECKING:
    from tests.faults.last_caught import CaughtAt

_HERE = Path(__file__).parent
_MISTAKE = re.compile(r"^(TypeError|AttributeError|NameError|UnboundLocalError|ImportError)\b", re.MULTILINE)
"""What a defect that does not fit the code any more raises, wherever that shows."""
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
    """`verdict` is what gave the defect away, after `trial_count` trials; None: nothing did. `broken`: how it breaks
    down by itself, which nobody has to notice; "" where it does not. `seconds` are those that it took."""

    defect: str
    trial_count: int
    verdict: Verdict | None
    broken: str = ""
    seconds: float = 0.0


def trials_for_defects(began: Sequence[Verdict], *, everywhere: bool = False) -> list[Trial]:
    """The undisturbed launches first, then a seeded part of all points; those around a create, and launches that are
    left alone, before the others; one of each case in turn, as some defects show in one alone. `everywhere`: all other
    points after them."""
    names, trials = named_points(began), all_trials(began)
    near = [trial for trial in trials if trial.then is Then.LEFT or _call(names, trial) in _CREATES]
    part = some(trials, max(SHARE, min(1.0, LEAST / max(len(trials), 1))), SEED)
    for chosen in (near, part):
        Random(SEED).shuffle(chosen)
    chosen = [*(verdict.trial for verdict in began), *_in_turn(near)[:MOST_NEAR], *_in_turn(part)]
    rest = [*_in_turn(near)[MOST_NEAR:], *_in_turn(trials)] if everywhere else ()
    return list(dict.fromkeys([*chosen, *rest]))


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
    provider: str,
    chosen_defects: Sequence[ChosenDefect],
    began: Sequence[Verdict],
    make_cloud: MakeCloud,
    over: Spread,
    *,
    everywhere: bool = False,
) -> Iterator[CaughtDefect]:
    """Each defect until something is wrong, among the points of these undisturbed launches: the one at which it was
    noticed last, then others."""
    known = {row.defect: row for row in last_caught.read() if row.provider == provider}
    work = partial(_against_one, known=known, began=began, make_cloud=make_cloud, everywhere=everywhere)
    return over(work, chosen_defects)


def _against_one(
    chosen: ChosenDefect,
    known: Mapping[str, CaughtAt],
    began: Sequence[Verdict],
    make_cloud: MakeCloud,
    *,
    everywhere: bool,
) -> CaughtDefect:
    started, found = time.monotonic(), planted(chosen.defect)
    among = [verdict for verdict in began if chosen.case in ("", verdict.trial.case.name)]
    trials = trials_for_defects(among, everywhere=everywhere)
    names, last = last_caught.names_of(among), known.get(chosen.defect)
    first = last.trial(names[last.case]) if last is not None and last.case in names else None
    ordered = list(dict.fromkeys([*([first] if first else []), *trials]))
    defective = [Trial(replace(one.case, break_code=found.plant), one.then, one.point) for one in ordered]
    number, verdict = first_red(defective, make_cloud)
    broken = how_it_breaks_down(verdict) if verdict is not None else ""
    if verdict is not None:  # a function of a module's inside cannot be sent to another process
        verdict = None if broken else replace(verdict, trial=ordered[number - 1])
    seconds = time.monotonic() - started
    return CaughtDefect(defect=chosen.defect, trial_count=number, verdict=verdict, broken=broken, seconds=seconds)


def how_it_breaks_down(verdict: Verdict) -> str:
    """The traceback of a client whose defect does not fit the code any more; "" where the verdict is of what it did.
    Nobody has noticed anything then: any client would have been red that ends with an exception."""
    text = verdict.unrecorded
    if GOES_ON in text:
        return ""
    is_own = any(str(path) in text for path in _HERE.glob("*defects.py"))
    return text if "Traceback" in text and (is_own or _MISTAKE.search(text)) else ""


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
    if caught_defect.broken:
        sys.stderr.write(f"defect breaks down by itself: {caught_defect.defect}\n{caught_defect.broken}\n")
        return
    if verdict is None:
        sys.stderr.write(f"defect not caught in {caught_defect.trial_count} trials: {caught_defect.defect}\n")
        return
    kind, text = next(iter(verdict.wrong.items()))
    wrong = text.strip().splitlines()[-1]
    sys.stderr.write(
        f"defect: {caught_defect.defect}: trial {caught_defect.trial_count}, {caught_defect.seconds:.1f} s, "
        f"{verdict.trial.name}: {kind} {wrong}\n"
    )
