"""What placements that may refuse do to a run: create requests, waiting, and the price of a machine elsewhere. Pure.

A placement that is good, or of which nobody says anything, counts as obtained at once. Of the others the run asks as a
launch does, three times within 45 minutes, and then goes to the same machine elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from trainplan.pricing.obtainability import (
    UNKNOWN,
    Evidence,
    MachinePlacement,
    Note,
    Obtainability,
    ObtainabilityGrade,
    note_of,
    weighed,
)

if TYPE_CHECKING:
    from trainplan.planner.forecast.times import RunTime
    from trainplan.pricing.offers import Placement, Rental

PAUSES = (timedelta(minutes=15), timedelta(minutes=30))
"""Between the create requests at one placement: as a launch pauses (trainplan.planner.runs.decision.search; a test
holds the two together). That a run goes elsewhere after three is assumed: a launch asks its next placement after
each."""
_END = 0.1
"""P90: what happens more rarely is beyond the interval."""


class ExpectedSearch(NamedTuple):
    """Asking one place for a machine: create requests, and the wait before the last one (expected, P90). `refused` is
    the chance that all of them are; `elsewhere_micro_usd_per_hour` what the machine takes then (None: there is no
    other placement, and its cost is not known to change)."""

    requests: float
    waiting: timedelta
    waiting_high: timedelta
    refused: float
    elsewhere_micro_usd_per_hour: int | None = None

    def delayed(self, time: RunTime) -> RunTime:
        """The run with the wait in its training time, as that of an interruption is."""
        return time.later(self.waiting, timedelta(0), self.waiting_high)

    def added_micro_usd(self, rate_micro_usd_per_hour: int, seconds: int, which: int = 0) -> int:
        """What going elsewhere adds to the machine's cost over the billed seconds, in millionths of a dollar; `which` 0
        expected, 1 low, 2 high."""
        if self.elsewhere_micro_usd_per_hour is None:
            return 0
        dearer = max(0, self.elsewhere_micro_usd_per_hour - rate_micro_usd_per_hour)
        share = self.refused
        if which == 1:
            share = float(self.refused >= 1 - _END)
        elif which == 2:
            share = float(self.refused > _END)
        return int(dearer * share) * seconds // 3600


def expected_search(obtainability: Obtainability, elsewhere_micro_usd_per_hour: int | None) -> ExpectedSearch | None:
    """The search at a placement; None where it counts as obtained at once. Each request is refused by itself."""
    chance = obtainability.chance
    if chance is None or obtainability.grade is ObtainabilityGrade.GOOD:
        return None
    fails = 1 - chance
    requests, waiting, high = 1.0, timedelta(0), timedelta(0)
    for number, pause in enumerate(PAUSES, start=1):
        again = fails**number
        requests += again
        waiting += again * pause
        high += pause if again > _END else timedelta(0)
    return ExpectedSearch(requests, waiting, high, fails ** (len(PAUSES) + 1), elsewhere_micro_usd_per_hour)


class Obtainabilities:
    """What is known of placements: scores that vendors gave this account, this home's own evidence, and dated notes;
    the first that says something counts."""

    def __init__(
        self,
        now: datetime | None = None,
        notes: Sequence[Note] = (),
        evidence: Iterable[Evidence] = (),
        scores: Mapping[MachinePlacement, Obtainability] = MappingProxyType({}),
    ) -> None:
        """`now` None: nothing is known."""
        self._today = now.date() if now is not None else None
        self._notes = notes
        own: dict[MachinePlacement, list[Evidence]] = {}
        for one in evidence:
            own.setdefault(one.placement, []).append(one)
        weighings = {placement: weighed(entries, now) for placement, entries in own.items()} if now is not None else {}
        self._by_placement = {placement: entry for placement, entry in weighings.items() if entry is not None} | {
            placement: score for placement, score in scores.items() if score.is_known
        }
        self._machines = {
            (placement.provider, placement.instance_type, placement.market) for placement in self._by_placement
        }
        self._devices = {(note.provider, note.device, note.market) for note in notes}

    def concerns(self, rental: Rental) -> bool:
        """Whether anything is known of some placement of a rental: asked once for each of thousands."""
        provider, market = rental.provider, rental.market
        return (provider, rental.device, market) in self._devices or (
            provider,
            rental.instance_type,
            market,
        ) in self._machines

    def of(self, rental: Rental, region: str) -> Obtainability:
        """What is known of a rental in a region."""
        placement = MachinePlacement(rental.provider, region, rental.instance_type, rental.market)
        if placement in self._by_placement:
            return self._by_placement[placement]
        if self._today is None:
            return UNKNOWN
        key = (rental.provider, region, rental.device, rental.market)
        return note_of(self._notes, key, self._today) or UNKNOWN


def elsewhere_micro(placements: Iterable[Placement], region: str) -> int | None:
    """What the same machine takes where a run goes that is refused in a region: the median of the planning prices of
    its other regions, in millionths of a dollar per hour; None where there is none."""
    prices = [placement.planning_micro_usd_per_hour for placement in placements if placement.region != region]
    return int(median(prices)) if prices else None


def explain_obtainability(obtainability: Obtainability, search: ExpectedSearch | None) -> list[str]:
    """What `--explain` says of it: the ground with its date and source, and what it does to the run."""
    if not obtainability.is_known:
        return [f"{obtainability.grade}: {obtainability.ground}; counted as obtained at once"]
    lines = [f"{obtainability.grade}, {obtainability.as_of}: {obtainability.ground}", f"source: {obtainability.source}"]
    if search is None:
        return [*lines, "counted as obtained at once"]
    minutes = " and ".join(f"{pause / timedelta(minutes=1):.0f}" for pause in PAUSES)
    return [
        *lines,
        f"{obtainability.chance:.0%} of create requests are taken to get a machine (assumed for this grade); a run "
        f"asks up to {len(PAUSES) + 1} times, {minutes} minutes apart, and then goes elsewhere (assumed)",
    ]
