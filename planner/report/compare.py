"""Two jobs side by side: the cheapest and the fastest offer of each, one offer under both, and what differs. Data and
JSON; compare_page has the text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.planner.forecast.plan import REASON_TEXTS, Candidate, MachineEstimate, MemoryNeed, Plan, Reason
from trainplan.planner.forecast.script_work import known_rate
from trainplan.planner.forecast.times import Interval
from trainplan.planner.report.estimate_json import (
    Numbered,
    candidate_rows,
    changed_json,
    device_json,
    machine_json,
    numbered,
)
from trainplan.pricing.devices import device_text
from trainplan.pricing.money import from_micro
from trainplan.pricing.offers import Market
from trainplan.workloads.job import shown_job
from trainplan.workloads.job_changes import Difference, differences
from trainplan.workloads.memory import GIB

if TYPE_CHECKING:
    from trainplan.planner.throughput.values import Throughput

OF_A_FILTER = (
    Reason.RETIRED, Reason.NOT_OFFERED, Reason.PROVIDER, Reason.REGION, Reason.DEVICE, Reason.COUNT, Reason.MARKET
)  # fmt: skip
"""Reasons that other placements of one machine type may have: they explain nothing where another reason is there
too."""


class Figures(NamedTuple):
    """One offer, or this machine, under one job. Times in seconds, money in USD; `row` is the same for programs."""

    placement: str
    machine: str
    device: str
    market: str
    seconds: Interval
    usd: Interval
    usd_per_hour: Decimal
    throughput: Throughput
    memory: MemoryNeed | None
    row: Mapping[str, Any]

    @property
    def measures(self) -> dict[str, float | None]:
        """What a difference is taken of, by its key in the JSON."""
        return {
            "total_seconds": self.seconds.expected,
            "cost_usd": self.usd.expected,
            "usd_per_hour": float(self.usd_per_hour),
            "images_per_second": known_rate(self.throughput),
            "memory_gib": None if self.memory is None else self.memory.step.allocated / GIB,
        }


class Delta(NamedTuple):
    """How much more B has than A: `absolute` in the unit of the key, `percent` of A (None: A has nothing)."""

    absolute: float
    percent: float | None


class Pair(NamedTuple):
    """The figures of A and of B for one question; None: there is no such offer. `reasons` say why B has none."""

    first: Figures | None = None
    second: Figures | None = None
    reasons: tuple[Reason, ...] = ()

    @property
    def deltas(self) -> dict[str, Delta | None]:
        """B less A by key; None where one of the two is not known, empty where one is not there."""
        if self.first is None or self.second is None:
            return {}
        return {key: _delta(value, self.second.measures[key]) for key, value in self.first.measures.items()}

    @property
    def is_same_machine(self) -> bool:
        """Whether both are of one machine type, so that errors in its speed cancel out."""
        one, other = self.first, self.second
        return one is not None and other is not None and (one.machine, one.device) == (other.machine, other.device)

    @property
    def overlaps(self) -> dict[str, bool]:
        """Whether the 80 % intervals of time and cost overlap; empty where one of the two is not there, or is a script
        of which nothing but its deadline is known."""
        if self.first is None or self.second is None:
            return {}
        if known_rate(self.first.throughput) is None or known_rate(self.second.throughput) is None:
            return {}
        return {
            "total_seconds": self.first.seconds.overlaps(self.second.seconds),
            "cost_usd": self.first.usd.overlaps(self.second.usd),
        }


class Side(NamedTuple):
    """A job as its page names it, and its plan, with the prices of its placements."""

    source: str
    plan: Plan


class Comparison(NamedTuple):
    """`same_offer` is the first of A's ranking under both jobs; `changed` are the keys in which B differs from A."""

    first: Side
    second: Side
    changed: tuple[Difference, ...]
    cheapest: Pair
    fastest: Pair
    same_offer: Pair
    this_machine: Pair

    @property
    def pairs(self) -> dict[str, Pair]:
        """The pairs by their keys in the JSON."""
        return {
            "cheapest": self.cheapest,
            "fastest": self.fastest,
            "same_offer": self.same_offer,
            "this_machine": self.this_machine,
        }


def compare(first: Side, second: Side) -> Comparison:
    """Two plans that were made at one time with one query."""

    def best(key: Callable[[Candidate], Any]) -> Pair:
        return Pair(_best(first.plan, key), _best(second.plan, key))

    return Comparison(
        first=first,
        second=second,
        changed=differences(first.plan.job, second.plan.job),
        cheapest=best(lambda one: one.ranked_micro_usd),
        fastest=best(lambda one: (one.estimate.time.total, one.ranked_micro_usd)),
        same_offer=_same_offer(first.plan, second.plan),
        this_machine=Pair(_of_machine(first.plan.this_machine), _of_machine(second.plan.this_machine)),
    )


def _delta(before: float | None, after: float | None) -> Delta | None:
    if before is None or after is None:
        return None
    return Delta(after - before, 100 * (after - before) / before if before else None)


def _best(plan: Plan, key: Callable[[Candidate], Any]) -> Figures | None:
    """The candidate with the lowest key; of equal ones the first in rank."""
    best = min(numbered(plan.ranking), key=lambda one: key(one.candidate), default=None)
    return None if best is None else of_offer(plan, best)


def _same_offer(before: Plan, after: Plan) -> Pair:
    if not before.ranking:
        return Pair()
    first = next(numbered(before.ranking))
    offer = first.candidate
    for one in numbered(after.ranking):
        if _identity(one.candidate) == _identity(offer):
            return Pair(of_offer(before, first), of_offer(after, one))
    return Pair(of_offer(before, first), reasons=_reasons(after, offer))


def _identity(candidate: Candidate) -> tuple[str, str, str, str, int]:
    rental, placement = candidate.estimate.rental, candidate.placement
    return rental.provider, rental.instance_type, rental.market, placement.region, placement.row_id


def _reasons(plan: Plan, offer: Candidate) -> tuple[Reason, ...]:
    """Why a machine of this type is no candidate; where placements of it differ, each reason that one of them has."""
    rental = offer.estimate.rental
    machine = rental.provider, rental.instance_type, rental.market
    reasons = {key.reason for key in plan.rejections if key[:3] == machine}
    later = reasons.difference(OF_A_FILTER)
    return tuple(reason for reason in REASON_TEXTS if reason in (later or reasons))


def of_offer(plan: Plan, offer: Numbered) -> Figures:
    """An offer of a plan with its number, as one side of a pair. Needs the plan's prices."""
    estimate, placement, _, _ = offer.candidate
    rental, rate = estimate.rental, placement.planning_micro_usd_per_hour
    spread = plan.prices[placement.row_id].stamp.spread
    costs = (from_micro(estimate.cost_micro_usd(rate, placement.region, end, spread)) for end in range(3))
    row = next(iter(candidate_rows(plan, [offer])))
    return Figures(
        placement=f"{rental.provider} {placement.region}",
        machine=rental.instance_type,
        device=rental.devices_text,
        market="spot" if rental.market is Market.SPOT else "on demand",
        seconds=estimate.time.seconds,
        usd=Interval(*map(float, costs)),
        usd_per_hour=from_micro(rate),
        throughput=estimate.throughput,
        memory=estimate.memory,
        row=row,
    )


def _of_machine(machine: MachineEstimate | None) -> Figures | None:
    """This machine, where it can train the job."""
    if machine is None or machine.time is None or machine.throughput is None or machine.cost_usd is None:
        return None
    seconds = machine.time.seconds
    # What it costs here goes with the time.
    usd = Interval(*(float(machine.cost_usd) * end / (seconds.expected or 1) for end in seconds))
    return Figures(
        placement="here",
        machine=machine.name,
        device=device_text(machine.device, machine.device_count, 1.0, None),
        market="",
        seconds=seconds,
        usd=usd,
        usd_per_hour=machine.usd_per_hour,
        throughput=machine.throughput,
        memory=None,
        row=machine_json(machine) or {},
    )


def comparison_json(comparison: Comparison) -> str:
    """What `plan estimate --compare --json` prints: stable keys, null for what is not known or not there."""
    sides = {"a": comparison.first, "b": comparison.second}
    return json.dumps(
        {
            **{key: _side_json(side) for key, side in sides.items()},
            "made_at": comparison.first.plan.made_at.isoformat(),
            "currency": "USD",
            "changed": changed_json(comparison.changed),
            **{key: _pair_json(pair) for key, pair in comparison.pairs.items()},
        }
    )


def _side_json(side: Side) -> dict[str, Any]:
    plan = side.plan
    return {
        "source": side.source,
        "job": shown_job(plan.job),
        "candidate_count": len(plan.ranking),
        "filtered_last": None if plan.ranking else plan.filtered_last,
        "advice": list(plan.advice),
        "named_devices": [device_json(device) for device in plan.named_devices],
    }


def _pair_json(pair: Pair) -> dict[str, Any]:
    return {
        "a": None if pair.first is None else dict(pair.first.row),
        "b": None if pair.second is None else dict(pair.second.row),
        "time_intervals": {"a": _ends(pair.first), "b": _ends(pair.second)},
        "difference": {key: delta and delta._asdict() for key, delta in pair.deltas.items()} or None,
        "intervals_overlap": pair.overlaps or None,
        "same_machine": pair.is_same_machine if pair.overlaps else None,
        "reasons": list(pair.reasons),
    }


def _ends(figures: Figures | None) -> dict[str, float] | None:
    return None if figures is None else {"low_seconds": figures.seconds.low, "high_seconds": figures.seconds.high}
