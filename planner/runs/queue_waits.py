"""A plan with the wait in the queue of the person's cluster, where it ranks there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from trainplan.planner.planning.build_plan import PlanQuery, make_plan
from trainplan.providers.registry import CLUSTER

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Plan
    from trainplan.planner.settings import Settings
    from trainplan.providers.base import Provider


def with_queue(
    plan: Plan,
    query: PlanQuery,
    settings: Settings,
    now: datetime,
    asking: tuple[Callable[[str], Provider], Callable[[str], None]],
) -> tuple[Plan, PlanQuery]:
    """The plan and its query with the waits that the cluster tells. `asking` are a function that gives a provider by
    its name, and one that hears in a line why nothing is known."""
    provider_of, say = asking
    if not any(one.estimate.rental.provider == CLUSTER for one in plan.ranking):
        return plan, query
    from trainplan.planner.planning.queue_reader import QueueReader, with_queue_waits
    from trainplan.planner.runs.journal.queue_waits import own_queue_waits

    plan, waits = with_queue_waits(
        plan,
        lambda waits: make_plan(plan.job, query._replace(queue_waits=waits), settings, now, say),
        QueueReader(provider_of, say),
        own_queue_waits(settings.journal),
    )
    return plan, query._replace(queue_waits=waits)
