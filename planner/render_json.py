"""What a program reads: the stable JSON of `estimate --json` (docs in the README).

The ranking has thousands of rows that share all but a dozen figures with the others of their machine type. What they
share is written once for each type, and the rest is put between: a hundred thousand rows would take seconds else.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import date

    from planner.plan import Candidate, Estimate, MachineEstimate, Plan
    from planner.throughput.values import Throughput
    from pricing.grades import PriceGrade
    from pricing.offers import Quote as PlacePrice

MICRO = 1_000_000


def estimate_json(plan: Plan) -> str:
    """The plan as JSON: numbers for money and rates, null for unknown. Needs the plan's prices."""
    around = {
        "job": plan.job.model_dump(mode="json"),
        "made_at": plan.made_at.isoformat(),
        "advice": list(plan.advice),
        "this_machine": _machine(plan.this_machine),
        "candidates": [],
        "rejections": [{**key._asdict(), "count": count} for key, count in sorted(plan.rejections.items())],
    }
    rows = _Rows(plan)
    candidates = ", ".join([rows.text(rank, candidate) for rank, candidate in enumerate(plan.ranking, start=1)])
    return json.dumps(around).replace('"candidates": []', f'"candidates": [{candidates}]', 1)


class _Rows:
    """Writes candidates; keeps what those of one machine type share."""

    def __init__(self, plan: Plan) -> None:
        self._prices = plan.prices
        self._shared: dict[int, tuple[str, str]] = {}

    def text(self, rank: int, candidate: Candidate) -> str:
        estimate = candidate.estimate
        shared = self._shared.get(id(estimate))
        if shared is None:
            shared = self._shared[id(estimate)] = _shared(estimate)
        price = self._prices[candidate.place.row_id]
        return f'{{"rank": {rank}, {shared[0]}, {_place(price)}, {_cost(candidate)}, {shared[1]}}}'


def _shared(estimate: Estimate) -> tuple[str, str]:
    rental, time = estimate.rental, estimate.time
    life = rental.lifecycle
    machine = {
        "provider": rental.provider,
        "instance_type": rental.instance_type,
        "market": rental.market,
        "device": rental.device,
        "device_count": rental.device_count,
        "lifecycle": {
            "state": life.state,
            "date": life.date.isoformat() if life.date else None,
            "successor": life.successor,
        },
        **_speed(estimate.throughput),
        "setup_seconds": time.setup.total_seconds(),
        "train_seconds": time.train.total_seconds(),
        "total_seconds": time.total.total_seconds(),
        "fits": True,
        "input_bound": estimate.input_bound,
    }
    parts = {
        "disk": float(estimate.fixed.disk),
        "address": float(estimate.fixed.address),
        "transfer": float(estimate.fixed.transfer),
    }
    # The compute part differs from place to place: _cost opens the object that these close.
    return json.dumps(machine)[1:-1], json.dumps(parts)[1:-1] + "}"


def _place(price: PlacePrice) -> str:
    zone = _quoted(price.zones[0]) if price.zones else "null"
    planning = price.planning_micro_usd_per_hour
    return (
        f'"region": {_quoted(price.region)}, "zone": {zone}, "usd_per_hour": {price.micro_usd_per_hour / MICRO}, '
        f'"planning_usd_per_hour": {"null" if planning is None else planning / MICRO}, '
        f"{_graded(price.price_grade, price.price_as_of)}"
    )


def _cost(candidate: Candidate) -> str:
    estimate, (rate, _, _), cost = candidate
    _, low_seconds, high_seconds = estimate.billed_seconds
    fixed, low_fixed, high_fixed = estimate.fixed_micro_usd
    # Estimate.cost_micro_usd, written out.
    low, high = rate * low_seconds // 3600 + low_fixed, rate * high_seconds // 3600 + high_fixed
    return (
        f'"cost_usd": {cost / MICRO}, "cost_low_usd": {low / MICRO}, "cost_high_usd": {high / MICRO}, '
        f'"cost_parts": {{"compute": {(cost - fixed) / MICRO}'
    )


@cache
def _graded(grade: PriceGrade, as_of: date | None) -> str:
    return f'"price_grade": "{grade.value}", "price_as_of": {_quoted(as_of.isoformat()) if as_of else "null"}'


@cache
def _quoted(text: str) -> str:
    return json.dumps(text)


def _speed(throughput: Throughput) -> dict[str, Any]:
    return {
        "images_per_second": throughput.images_per_second,
        "images_per_second_low": throughput.low,
        "images_per_second_high": throughput.high,
        "basis": throughput.basis,
    }


def _machine(machine: MachineEstimate | None) -> dict[str, Any] | None:
    if machine is None:
        return None
    time = machine.time
    return {
        "name": machine.name,
        "device": machine.device,
        "device_count": machine.device_count,
        "usd_per_hour": float(machine.usd_per_hour),
        **(_speed(machine.throughput) if machine.throughput else _NO_SPEED),
        "setup_seconds": time.setup.total_seconds() if time else None,
        "train_seconds": time.train.total_seconds() if time else None,
        "total_seconds": time.total.total_seconds() if time else None,
        "cost_usd": float(machine.cost_usd) if machine.cost_usd is not None else None,
        "fits": machine.fits,
        "reason": machine.reason or None,
    }


_NO_SPEED = {"images_per_second": None, "images_per_second_low": None, "images_per_second_high": None, "basis": None}
