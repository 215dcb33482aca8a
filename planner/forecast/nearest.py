"""What nearly fits where nothing is left: which limit to relax, by how much, and what for. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from trainplan.pricing.money import format_usd, from_micro, to_micro
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.planner.forecast.choose import Filters
    from trainplan.planner.forecast.plan import Candidate


def nearest_misses(relaxed: Sequence[Candidate], filters: Filters) -> tuple[str, ...]:
    """A line for each of deadline and budget that would let an offer in if it alone were relaxed, or one for both.

    `relaxed` are the candidates of the same job without the two.
    """
    if not relaxed or (filters.deadline is None and filters.budget_usd is None):
        return ()
    in_time = [one for one in relaxed if filters.deadline is None or _time(one) <= filters.deadline]
    budget_micro = math.inf if filters.budget_usd is None else to_micro(filters.budget_usd)
    affordable = [one for one in relaxed if one.cost_micro_usd <= budget_micro]
    lines = []
    if filters.budget_usd is not None and in_time:
        lines.append(
            _line(
                "the cheapest offer that meets the deadline" if filters.deadline is not None else "the cheapest offer",
                min(in_time, key=_cost),
                _budget,
            )
        )
    if filters.deadline is not None and affordable:
        lines.append(
            _line(
                # The deadline is told in whole minutes: of the offers that it lets in, the cheapest is named.
                "an offer within the budget" if filters.budget_usd is not None else "an offer",
                min(affordable, key=lambda one: (_minutes(one), _cost(one))),
                _deadline,
            )
        )
    if not lines:
        cheapest = min(relaxed, key=_cost)
        lines.append(_line("the cheapest offer", cheapest, lambda one: f"{_deadline(one)} {_budget(one)}"))
    return tuple(lines)


def _line(what: str, one: Candidate, option: Callable[[Candidate], str]) -> str:
    rental = one.estimate.rental
    where = f"{rental.instance_type} ({rental.market.replace('_', ' ')}) at {rental.provider} in {one.placement.region}"
    cost = format_usd(from_micro(one.cost_micro_usd))
    return f"{option(one)} would admit {what}: {where}, {one.estimate.time.text} for {cost}"


def _budget(one: Candidate) -> str:
    # Rounded up: the limit that is named has to let the offer in.
    cents = math.ceil(one.cost_micro_usd / 10_000)
    return str(Option.BUDGET(f"{cents / 100:.2f}"))


def _deadline(one: Candidate) -> str:
    # Rounded up, as the budget is.
    hours, minutes = divmod(_minutes(one), 60)
    return str(Option.DEADLINE(f"{f'{hours}h' if hours else ''}{f'{minutes}m' if minutes or not hours else ''}"))


def _minutes(one: Candidate) -> int:
    return math.ceil(_time(one) / timedelta(minutes=1))


def _time(one: Candidate) -> timedelta:
    return one.estimate.time.total


def _cost(one: Candidate) -> int:
    return one.cost_micro_usd
