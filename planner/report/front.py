"""Cost against time: what no other offer beats in both, for the chart under the table and the picture of --plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.forecast.plan import row_numbers
from trainplan.planner.forecast.times import Interval
from trainplan.planner.report.page import Chart, Mark, Page
from trainplan.pricing.money import format_usd
from trainplan.pricing.offers import Market
from trainplan.pricing.planning import AS_LISTED
from trainplan.workloads.durations import format_duration

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Candidate, Plan

FAR = 3.0
MICRO = 1_000_000


class Point(NamedTuple):
    """An offer in the plane of time and cost. `is_front`: no other offer is at most as long and at most as dear."""

    row: str
    label: str
    provider: str
    seconds: Interval
    usd: Interval
    is_front: bool


def points(plan: Plan) -> list[Point]:
    """The best-ranked offer of each machine type and market that can be launched and costs something, by time.

    What costs nothing, such as a machine of one's own cluster, has no place on a logarithmic axis.
    """
    best: dict[tuple[str, str, str], Point] = {}
    for row, candidate in zip(row_numbers(plan.ranking), plan.ranking, strict=True):
        rental = candidate.estimate.rental
        if candidate.cost_micro_usd > 0 and not candidate.estimate.estimate_only_text:
            best.setdefault((rental.provider, rental.instance_type, str(rental.market)), _point(row, candidate, plan))
    return with_front(best.values())


def with_front(offers: Iterable[Point]) -> list[Point]:
    """The points by time, each told whether it is on the front: cheaper than every faster one."""
    marked: list[Point] = []
    least = float("inf")
    for point in sorted(offers, key=lambda point: (point.seconds.expected, point.usd.expected)):
        marked.append(point._replace(is_front=point.usd.expected < least))
        least = min(least, point.usd.expected)
    return marked


def front(offers: Sequence[Point]) -> list[Point]:
    """Those of the points that are on the front, the fastest first."""
    return [point for point in offers if point.is_front]


def front_chart(plan: Plan) -> Page:
    """The chart for below the table; empty where fewer than two offers are on the front."""
    offers = points(plan)
    best = front(offers)
    if len(best) < 2:
        return []
    shown = near(offers)
    marks = [
        Mark(point.seconds.expected, point.usd.expected, f"{point.row} {point.label}" if point.is_front else "")
        for point in shown
    ]
    far = len(offers) - len(shown)
    title = (
        "cost against time, both axes logarithmic; o: no other offer is faster and cheaper (with its row), .: the "
        f"others{f', but for {far} farther away' if far else ''}"
    )
    times, costs = [mark.x for mark in marks], [mark.y for mark in marks]
    x_ends = [format_duration(timedelta(seconds=end)) for end in (min(times), max(times))]
    y_ends = [format_usd(Decimal(end)) for end in (min(costs), max(costs))]
    return [Chart(title, marks, (x_ends[0], x_ends[1]), (y_ends[0], y_ends[1]))]


def near(offers: Sequence[Point]) -> list[Point]:
    """The front, and the points at most FAR times as slow and as dear as its ends: others would squeeze it."""
    best = front(offers)
    slowest, dearest = best[-1].seconds.expected, best[0].usd.expected
    return [
        point for point in offers if point.seconds.expected <= FAR * slowest and point.usd.expected <= FAR * dearest
    ]


def _point(row: str, candidate: Candidate, plan: Plan) -> Point:
    estimate, placement, cost, _ = candidate
    rental, time = estimate.rental, estimate.time
    # Without the prices of all placements (only JSON and a picture ask for them) the ends are those of the time alone.
    spread = plan.prices[placement.row_id].stamp.spread if plan.prices else AS_LISTED
    low, high = (
        estimate.cost_micro_usd(placement.planning_micro_usd_per_hour, placement.region, end, spread) / MICRO
        for end in (1, 2)
    )
    label = f"{rental.devices_text}{' spot' if rental.market is Market.SPOT else ''}"
    return Point(row, label, rental.provider, time.seconds, Interval(cost / MICRO, low, high), is_front=False)
