"""What a program reads: the stable JSON of `estimate --json` (docs in the README).

The ranking has thousands of rows that share all but a dozen figures with the others of their machine type. What they
share is written once for each type, and the rest is put between: a hundred thousand rows would take seconds else.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pricing.grades import is_old

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    from planner.doctoring import Judged
    from planner.plan import Estimate, MachineEstimate, Plan
    from planner.throughput.values import Throughput
    from pricing.offers import PriceStamp

MICRO = 1_000_000


def estimate_json(plan: Plan, checked: Mapping[int, Judged] | None = None) -> str:
    """The plan as JSON, whole."""
    return "".join(json_pieces(plan, checked))


def json_pieces(plan: Plan, checked: Mapping[int, Judged] | None = None) -> Iterator[str]:
    """The plan as JSON in pieces, since a hundred thousand rows are better not held at once: numbers for money and
    rates, null for unknown. Needs the plan's prices.

    With `checked` each candidate tells whether the account could launch it: null where nobody was asked.
    """
    around = {
        "job": plan.job.model_dump(mode="json"),
        "made_at": plan.made_at.isoformat(),
        "currency": "USD",
        "prices": "list prices before tax and discounts; a row with own_rate is planned at the person's own",
        "advice": list(plan.advice),
        "this_machine": _machine(plan.this_machine),
        "candidates": [],
        "rejections": [{**key._asdict(), "count": count} for key, count in sorted(plan.rejections.items())],
    }
    # In a string these quotes would be escaped: the first place is the one.
    before, key, after = json.dumps(around).partition('"candidates": [')
    yield before + key
    yield from _rows(plan, checked)
    yield after


def _rows(plan: Plan, checked: Mapping[int, Judged] | None) -> Iterator[str]:
    """Candidates in their order, a comma between two. One loop: a call in it would be made a hundred thousand times."""
    machines: dict[int, _Machine] = {}
    stamps: dict[int, tuple[str, str]] = {}
    today, comma = plan.made_at.date(), ""
    for rank, (estimate, (rate, region, row_id), cost) in enumerate(plan.ranking, start=1):
        machine = machines.get(id(estimate)) or machines.setdefault(id(estimate), _machine_of(estimate))
        planning, costs = machine.costs.get(rate) or machine.costs.setdefault(rate, _costs(machine, rate, cost))
        usd, stamp = plan.prices[row_id]
        zone, graded = stamps.get(id(stamp)) or stamps.setdefault(id(stamp), _stamp_texts(stamp, today))
        yield (
            f'{comma}{{"rank": {rank}, {machine.text}, "region": {_quoted(region)}, "zone": {zone}, '
            f'"usd_per_hour": {usd / MICRO}, "planning_usd_per_hour": {planning}, {graded}, {costs}'
            f"{'' if checked is None else _launchable(checked.get(rank))}}}"
        )
        comma = ", "


def _launchable(judged: Judged | None) -> str:
    told = None if judged is None else {"state": judged.state, "reason": judged.why or None}
    return f', "launchable": {json.dumps(told)}'


class _Machine(NamedTuple):
    """What the rows of one machine type share: text of their own, the parts of the cost beside compute, and, of those
    at the same price, that price and the cost."""

    estimate: Estimate
    text: str
    parts: str
    costs: dict[int, tuple[str, str]]


def _machine_of(estimate: Estimate) -> _Machine:
    fixed = estimate.fixed
    parts = {"disk": float(fixed.disk), "address": float(fixed.address), "transfer": float(fixed.transfer)}
    return _Machine(estimate, _shared(estimate), json.dumps(parts)[1:-1], {})


def _costs(machine: _Machine, rate: int, cost: int) -> tuple[str, str]:
    estimate, _, parts, _ = machine
    low, high = estimate.cost_micro_usd(rate, 1), estimate.cost_micro_usd(rate, 2)
    compute = cost - estimate.fixed_micro_usd[0]
    return str(rate / MICRO), (
        f'"cost_usd": {cost / MICRO}, "cost_low_usd": {low / MICRO}, "cost_high_usd": {high / MICRO}, '
        f'"cost_parts": {{"compute": {compute / MICRO}, {parts}}}'
    )


def _shared(estimate: Estimate) -> str:
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
        "availability": rental.availability.source,
        **_speed(estimate.throughput),
        "setup_seconds": time.setup.total_seconds(),
        "train_seconds": time.train.total_seconds(),
        "total_seconds": time.total.total_seconds(),
        "fits": True,
        "input_bound": estimate.input_bound,
        "unproven": estimate.unproven or None,
    }
    return json.dumps(machine)[1:-1]


def _stamp_texts(stamp: PriceStamp, today: date) -> tuple[str, str]:
    """The zone, then grade, date and whose rate it is."""
    zone = _quoted(stamp.zones[0]) if stamp.zones else "null"
    as_of = _quoted(stamp.price_as_of.isoformat()) if stamp.price_as_of else "null"
    old = "true" if is_old(stamp.price_as_of, today) else "false"
    own = _quoted(stamp.own_rate) if stamp.own_rate else "null"
    graded = f'"price_grade": "{stamp.price_grade.value}", "price_as_of": {as_of}'
    return zone, f'{graded}, "price_old": {old}, "own_rate": {own}'


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
