"""Candidates in full, each with everything that the catalog says of its offer, and the first of them in numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from trainplan.planner.errors import BadInputError
from trainplan.planner.forecast.estimate import Workload
from trainplan.planner.forecast.machines import GroupQuery, best_of_each_machine, groups_of, numbers_up_to
from trainplan.planner.forecast.plan import Candidate, Group, RankedOffer, row_numbers
from trainplan.pricing.money import from_micro
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.planner.forecast.choose import World
    from trainplan.pricing.offer_source import OfferSource
    from trainplan.pricing.offers import Offer
    from trainplan.workloads.job import TrainingJob


def in_full(candidates: Sequence[Candidate], catalog: OfferSource, now: datetime) -> tuple[RankedOffer, ...]:
    """The candidates with their offers, ranked from 1."""
    offers = catalog.offers([candidate.placement.row_id for candidate in candidates], now.date())
    rows = zip(candidates, map(_at_planning_price, candidates, offers), row_numbers(candidates), strict=True)
    return tuple(RankedOffer(rank, *row) for rank, row in enumerate(rows, start=1))


def _at_planning_price(candidate: Candidate, offer: Offer) -> Offer:
    """The offer as the run pays it: at its own rate and, beyond the hours that are left of that, at the other price."""
    if offer.own_hours is None:
        return offer
    return replace(offer, planning_usd_per_hour=from_micro(candidate.placement.planning_micro_usd_per_hour))


def first_of_each(ranking: Sequence[Candidate], catalog: OfferSource, now: datetime) -> list[RankedOffer]:
    """The first placements of the best-ranked machines, in full and with their ranks."""
    first = best_of_each_machine(ranking)
    ranked = in_full(list(first.values()), catalog, now)
    rows = list(row_numbers(ranking))
    return [one._replace(rank=rank, row=rows[rank - 1]) for rank, one in zip(first, ranked, strict=True)]


def in_numbers(
    job: TrainingJob,
    numbers: Sequence[int],
    offers: Callable[[], Sequence[RankedOffer]],
    world: World,
) -> tuple[Group, ...]:
    """The offers in these numbers of machines, or in those that the job may use; none for a job of one machine."""
    numbers = numbers or numbers_up_to(job.nodes)
    if not numbers:
        return ()
    if job.sweep is not None:
        raise BadInputError("a sweep is trained on one machine", f"leave out {Option.NODES}, or the job's sweep")
    return groups_of(offers(), GroupQuery(Workload(job, world.around), numbers, world.throughput))
