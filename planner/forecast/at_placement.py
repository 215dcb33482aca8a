"""An estimate at a placement: with the search for a machine there, the wait in its queue, and its price. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainplan.planner.forecast.obtainability import expected_search
from trainplan.planner.forecast.plan import Candidate, Estimate

if TYPE_CHECKING:
    from trainplan.planner.forecast.queue_wait import QueueWait
    from trainplan.pricing.obtainability import Obtainability
    from trainplan.pricing.offers import Placement


def at_placement(
    estimated: Estimate,
    placement: Placement,
    obtainability: Obtainability,
    elsewhere: int | None,
    queue: QueueWait | None = None,
) -> Candidate:
    """The estimate at a placement; `elsewhere` is what the same machine takes in other regions, in millionths of a
    dollar per hour, `queue` the wait in the queue there."""
    search = expected_search(obtainability, elsewhere)
    if queue is not None:
        estimated = replace(estimated, time=queue.delayed(estimated.time), queue=queue)
    if obtainability.is_known:
        time = search.delayed(estimated.time) if search is not None else estimated.time
        estimated = replace(estimated, time=time, obtainability=obtainability, search=search)
    cost = estimated.cost_micro_usd(placement.planning_micro_usd_per_hour, placement.region)
    return Candidate(estimated, placement, cost)
