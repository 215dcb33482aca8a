"""From the query of `plan estimate` to its plan: own prices, listed offers, what launches met, a first refresh."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from trainplan.planner.api.told import tell
from trainplan.planner.clock import SystemClock
from trainplan.planner.planning.build_plan import PlanQuery, make_plan, with_listed_offers
from trainplan.planner.runs.queue_waits import with_queue
from trainplan.providers.registry import THIS_MACHINE

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Plan
    from trainplan.planner.settings import Settings
    from trainplan.pricing.obtainability import Evidence
    from trainplan.providers.base import Provider
    from trainplan.workloads.job import TrainingJob


def completed(query: PlanQuery, settings: Settings) -> tuple[PlanQuery, datetime]:
    """The query with the person's own prices, the offers that providers list themselves and what launches of this home
    met, and the time of it. Raises BadInputError and ProviderError."""
    if settings.prices:
        from trainplan.planner.runs.money.own_use import own_prices_now

        query = query._replace(own_prices=own_prices_now(settings, SystemClock().now()))
    query = with_listed_offers(query, lambda name: _provider(name, settings), settings, tell)
    now = SystemClock().now()
    return query._replace(evidence=_evidence(settings, now)), now


def planned(job: TrainingJob, query: PlanQuery, settings: Settings, now: datetime) -> tuple[Plan, PlanQuery]:
    """The plan for a completed query, and the query with the waits of a cluster's queue."""
    plan = make_plan(job, query, settings, now, tell)
    return with_queue(plan, query, settings, now, (lambda name: _provider(name, settings), tell))


def is_answered_here(plan: Plan, query: PlanQuery) -> bool:
    """Whether the lines below the table answer: for this machine alone, or for a named device that nobody rents out."""
    if any(device.time is not None for device in plan.named_devices):
        return True
    return query.providers == (THIS_MACHINE,) and plan.this_machine is not None and plan.this_machine.time is not None


def _provider(name: str, settings: Settings) -> Provider:
    """Providers are imported for the simulated cloud and a cluster alone: the catalog has the offers of the others."""
    from trainplan.planner.api import build

    return build.provider(name, settings)


def _evidence(settings: Settings, now: datetime) -> tuple[Evidence, ...]:
    """What earlier launches of this home met; the journal's modules are imported where there is one."""
    if not settings.journal.exists():
        return ()
    from trainplan.planner.runs.journal.evidence import read_evidence

    return read_evidence(settings.journal, now, tell)
