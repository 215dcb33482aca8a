"""Live prices: a plan's first offers as they are to be had now, and no machine dearer than what was agreed to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, assert_never

from trainplan.planner.errors import NothingLeftError
from trainplan.planner.forecast.choose import is_unknown
from trainplan.planner.forecast.plan import Candidate, Plan, RankedOffer, paid_by_credit
from trainplan.planner.runs.targets import DearerError, Target, above, agreed
from trainplan.pricing.money import format_usd, format_usd_per_hour, to_micro
from trainplan.pricing.obtainability import MachinePlacement
from trainplan.pricing.offers import Offer, Placement, PriceGrade
from trainplan.pricing.planning import PlannedAs
from trainplan.pricing.plausible import moved_too_far
from trainplan.providers.abilities import Refiner
from trainplan.providers.errors import CapacityError, ProviderError
from trainplan.workloads.job import Objective
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.planner.runs.execution.create import MakeRequest
    from trainplan.planner.runs.run import Run
    from trainplan.providers.base import LaunchRequest, Provider

REFINED = 10
"""Rows of the ranking whose prices are looked up, the best placement of each machine type and market."""
MOST_ROUNDS = 3
FRESH = timedelta(minutes=5)
"""For how long a live price counts as one."""


def refined(plan: Plan, provider_of: Callable[[str], Provider], say: Callable[[str], None]) -> Plan:
    """The plan with its first offers at their live prices, ranked again; `say` is told what cannot be looked up.

    Another round follows where the new first one has not been looked at. Raises NothingLeftError where nothing of the
    plan is to be had any more within its budget.
    """
    asked_machines: set[MachinePlacement] = set()
    for _ in range(MOST_ROUNDS):
        rows = [row for row in map(_machine, _rows(plan)) if row not in asked_machines]
        asking = {row for row in rows[:REFINED] if isinstance(provider_of(row.provider), Refiner)}
        if not asking:
            break
        asked_machines |= asking
        offers = [ranked.offer for ranked in plan.candidates if _machine(ranked.offer) in asking]
        plan = _ranked_again(plan, _live(offers, provider_of, say))
        if _machine(plan.candidates[0].offer) in asked_machines:
            break
    return plan


def dearer(before_plan: Plan, now: Plan) -> str:
    """Why the first placement is to be asked about again, in words; "" where its price is about what was shown."""
    best = now.candidates[0]
    before = next(
        (candidate for candidate in before_plan.candidates if _machine(candidate.offer) == _machine(best.offer)), None
    )
    rate = agreed(best.offer)
    if before is not None and above(rate, agreed(before.offer)):
        where = f"{best.offer.instance_type} ({best.offer.market.replace('_', ' ')}) in {best.offer.region}"
        return f"{where} costs {_rates(rate, agreed(before.offer))} that was shown"
    first = before_plan.candidates[0]
    if above(best.cost_usd, first.cost_usd):
        return (
            f"the cheapest costs {format_usd(best.cost_usd)} now, {_percent(best.cost_usd, first.cost_usd)} above the "
            f"{format_usd(first.cost_usd)} that was shown"
        )
    return ""


class Watchful:
    """Makes requests only for placements that cost about what was agreed to: looked up before each attempt.

    `offers` are those of the plan; what was observed today among them counts as live for FRESH. A price that
    nobody tells is no reason to wait: the machine is asked for at the price that is known.
    """

    def __init__(
        self, provider_of: Callable[[str], Provider], now: Callable[[], datetime], offers: Iterable[Offer] = ()
    ) -> None:
        self._provider_of = provider_of
        self._now = now
        self._began = now()
        today = self._began.date()
        self._observed = {
            _machine(offer)
            for offer in offers
            if offer.price_grade is PriceGrade.OBSERVED and offer.price_as_of == today
        }

    def is_stale(self) -> bool:
        """Whether the plan has the prices of a while ago."""
        return self._now() - self._began >= FRESH

    def over(self, make: MakeRequest) -> MakeRequest:
        """The same requests, at live prices. Raises DearerError or CapacityError: the run passes the placement over."""

        def request(run: Run, number: int, target: Target) -> LaunchRequest:
            return make(run, number, replace(target, offer=self._live(target)))

        return request

    def _live(self, target: Target) -> Offer:
        offer = target.offer
        provider = self._provider_of(offer.provider)
        is_fresh = _machine(offer) in self._observed and self._now() - self._began < FRESH
        if is_fresh or not isinstance(provider, Refiner):
            return offer
        try:
            answers = provider.refine([offer])
        except ProviderError:
            return offer
        there = [answer for answer in answers if target.zone is None or not answer.zones or target.zone in answer.zones]
        # The provider answered and no longer lists this placement: it would refuse the create.
        if not there:
            raise CapacityError(f"{target.where} is not to be had any more")
        live = _plausible(min(there, key=agreed), offer, lambda _: None)
        if above(agreed(live), agreed(offer)):
            raise DearerError(
                f"it costs {_rates(agreed(live), agreed(offer))} that was agreed to", usd_per_hour=agreed(live)
            )
        return live


def _rows(plan: Plan) -> list[Offer]:
    """The best placement of each machine type and market, in the plan's order.

    Each type, not each device: of two types with the same device, the one with the higher price in the catalog may be
    the cheaper one now.
    """
    first_of_machine: dict[tuple[str, str, str], Offer] = {}
    for ranked in plan.candidates:
        offer = ranked.offer
        first_of_machine.setdefault((offer.provider, offer.instance_type, offer.market), offer)
    return list(first_of_machine.values())


def _live(
    offers: Sequence[Offer], provider_of: Callable[[str], Provider], say: Callable[[str], None]
) -> dict[MachinePlacement, list[Offer]]:
    """What each machine is to be had for now; those of a provider that does not tell are not in it."""
    live_offers: dict[MachinePlacement, list[Offer]] = {}
    for name in dict.fromkeys(offer.provider for offer in offers):
        own_offers = [offer for offer in offers if offer.provider == name]
        provider = provider_of(name)
        assert isinstance(provider, Refiner)
        try:
            answers = provider.refine(own_offers)
        except ProviderError as error:
            say(f"{name} has no live prices ({error.message}): those of the catalog stand")
            continue
        live_offers |= {_machine(offer): [] for offer in own_offers}
        # Reversed, so that of several rows of a machine the one that ranks first is kept.
        listed_offers = {_machine(offer): offer for offer in reversed(own_offers)}
        for offer in dict.fromkeys(answers):
            live_offers.setdefault(_machine(offer), []).append(
                _plausible(offer, listed_offers.get(_machine(offer)), say)
            )
    return live_offers


def _plausible(live: Offer, listed_offer: Offer | None, say: Callable[[str], None]) -> Offer:
    """The live offer, at the price of the catalog where the live one is too low to be true (pricing/plausible.py).

    A price that is too high is taken as it is: whoever pays it is asked first. An own rate stands whatever is listed.
    """
    if listed_offer is not None and listed_offer.own_usd_per_hour is not None:
        return replace(listed_offer, zones=live.zones or listed_offer.zones)
    if (
        listed_offer is not None
        and listed_offer.planned_as is PlannedAs.OUTLIER
        and listed_offer.planning_usd_per_hour is not None
    ):
        # That the price is still listed does not say that somebody gets a machine for it.
        planning = max(live.planning_usd_per_hour or live.usd_per_hour, listed_offer.planning_usd_per_hour)
        live = replace(live, planning_usd_per_hour=planning, planned_as=listed_offer.planned_as)
    if listed_offer is None or live.usd_per_hour >= listed_offer.usd_per_hour:
        return live
    why = moved_too_far(live.usd_per_hour, listed_offer.usd_per_hour)
    if not why:
        return live
    price = format_usd_per_hour(live.usd_per_hour)
    say(f"{live.instance_type} in {live.region}: the live price {price} is {why} and is not used")
    return replace(listed_offer, zones=live.zones or listed_offer.zones)


def _ranked_again(plan: Plan, live: dict[MachinePlacement, list[Offer]]) -> Plan:
    candidates: list[tuple[Candidate, Offer]] = []
    placed: set[MachinePlacement] = set()
    for ranked in plan.candidates:
        machine = _machine(ranked.offer)
        # Not looked up, or its provider did not answer: the price of the plan stands.
        if machine not in live:
            candidates.append((ranked.candidate, ranked.offer))
        elif machine not in placed:  # its placements may be several rows, and the live ones take the place of all
            placed.add(machine)
            at_live = paid_by_credit([_at(ranked.candidate, offer) for offer in live[machine]], plan.credit_usd)
            candidates += zip(at_live, live[machine], strict=True)
    budget = plan.job.budget_usd
    within_budget = [pair for pair in candidates if budget is None or pair[0].cost_micro_usd <= to_micro(budget)]
    if not within_budget:
        why = "within the budget at live prices" if candidates else "at live prices"
        raise NothingLeftError(
            f"nothing of the plan is to be had {why}",
            f"raise {Option.BUDGET}, or widen the filters",
            field=Option.BUDGET,
        )
    within_budget.sort(key=lambda pair: _order(plan.job.objective, *pair))
    again = (RankedOffer(rank, *pair) for rank, pair in enumerate(within_budget, start=1))
    return plan._replace(candidates=tuple(again))


def _at(candidate: Candidate, offer: Offer) -> Candidate:
    """The candidate at the offer's own price."""
    rate = to_micro(agreed(offer))
    placement = Placement(rate, offer.region, candidate.placement.row_id)
    return Candidate(candidate.estimate, placement, candidate.estimate.cost_micro_usd(rate, placement.region))


def _order(objective: Objective, candidate: Candidate, offer: Offer) -> tuple[object, ...]:
    """The order of trainplan.planner.forecast.choose, and within one machine that of its zones."""
    cost, seconds = candidate.ranked_micro_usd, candidate.estimate.time.total.total_seconds()
    match objective:
        case Objective.COST:
            first: float = cost
        case Objective.TIME:
            first = seconds
        case Objective.BALANCED:
            first = cost * seconds
        case _:
            assert_never(objective)
    return is_unknown(candidate), first, cost, seconds, *_machine(offer), offer.zones


def _machine(offer: Offer) -> MachinePlacement:
    return MachinePlacement(offer.provider, offer.region, offer.instance_type, offer.market)


def _rates(now: Decimal, before: Decimal) -> str:
    """`$0.300/h now, 43% above the $0.210/h`."""
    return f"{format_usd_per_hour(now)} now, {_percent(now, before)} above the {format_usd_per_hour(before)}"


def _percent(now: Decimal, before: Decimal) -> str:
    return f"{float(now / before - 1):.0%}" if before else "far"
