"""`plan stop` without the journal: the run's machines are found and ended by their label."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trainplan.planner.api import build
from trainplan.planner.cli.cleanups import ProviderCleanup, look_everywhere, resource_page
from trainplan.planner.cli.screen import show
from trainplan.planner.errors import BadInputError, PlanError, RefusedError, TeardownUnverifiedError
from trainplan.planner.runs.cleanup.cleanup import Fate, FoundResource
from trainplan.planner.runs.cleanup.stop_by_label import stop_by_label
from trainplan.planner.settings import Settings
from trainplan.providers.base import RunId
from trainplan.workloads.durations import format_duration

_RUN_ID = re.compile(r"\d{6}(-[0-9a-f]{0,8})?")


class StopQuery(NamedTuple):
    """A run by its id or the beginning of it. `why` says why the journal does not do; `providers` are the only ones
    that are asked (empty: all); `is_any_client`: also where another client made it."""

    name: str
    why: str
    providers: tuple[str, ...] = ()
    is_any_client: bool = False


def is_run_id(name: str) -> bool:
    """Whether it can be the id of a run, or the beginning of one that tells the day at least."""
    return _RUN_ID.fullmatch(name) is not None


def stop_labelled(query: StopQuery, settings: Settings, unknown: PlanError | None, *, as_json: bool) -> None:
    """End the run's machines, and say what was ended and that it is not recorded.

    Raises `unknown` where every placement answered that nothing has the label (None: that is said, and no error),
    BadInputError where several runs match, RefusedError for another client's machines, TeardownUnverifiedError where
    something may still be there.
    """
    sys.stderr.write(f"{query.why}: looking for machines with the label of run {query.name}\n")
    looks = _looks(query, settings)
    resources = _resources(looks, query)
    silent = _silent(looks)
    # Nothing found is no answer as long as a placement has not answered: the machine may be there.
    if not resources and silent:
        raise TeardownUnverifiedError(
            f"no machine of run {query.name} was found where somebody answered; {'; '.join(silent)}",
            "it may be where nobody answered; the same command looks again",
        )
    if not resources:
        if unknown is not None:
            raise unknown
        placements = ", ".join(one.name for one in looks if one.cleanup)
        sys.stderr.write(f"nothing with the label of run {query.name} exists at {placements}; nothing was recorded\n")
        if as_json:
            sys.stdout.write(json.dumps({"run_id": query.name, "ended": [], "recorded": False}) + "\n")
        return
    run_id = _the_run(resources, query)
    show(["ending:", *resource_page(resources)], wide=True, stream=sys.stderr)
    rest = [line for one in looks for line in _end(one.name, run_id, resources, settings)]
    if rest or silent:
        raise TeardownUnverifiedError(
            f"run {run_id}: may still be there: {'; '.join([*rest, *silent])}", "the same command looks again"
        )
    names = [resource.resource.id for resource in resources]
    sys.stderr.write(
        f"run {run_id}: {', '.join(names)} ended by label, and nothing with its label is left; the outcome is not "
        f"recorded: {query.why}\n"
    )
    if as_json:
        sys.stdout.write(json.dumps({"run_id": run_id, "ended": names, "recorded": False}) + "\n")


def _looks(query: StopQuery, settings: Settings) -> list[ProviderCleanup]:
    """A look at each provider; two where the first one finds nothing and may have been too early: a list need not show
    at once what was created a moment ago."""
    looks = _looks_now(query, settings)
    if _resources(looks, query):
        return looks
    cloud = max(
        (build.provider(one.name, settings) for one in looks if one.cleanup),
        key=lambda provider: provider.listing_lag,
        default=None,
    )
    if cloud is None or not cloud.listing_lag:
        return looks
    clock = build.clock_of(cloud)
    if not _may_be_new(query.name, clock.now()):
        return looks
    lag = format_duration(cloud.listing_lag)
    _tell(
        f"nothing is listed; what was created a moment ago is listed at {cloud.name} within {lag}: looking again then"
    )
    clock.sleep(cloud.listing_lag.total_seconds())
    return _looks_now(query, settings)


def _looks_now(query: StopQuery, settings: Settings) -> list[ProviderCleanup]:
    return [one for name in query.providers or (None,) for one in look_everywhere(name, settings)]


def _may_be_new(name: str, now: datetime) -> bool:
    """Whether the id is of a run that began today or yesterday, by its first six digits."""
    return name[:6] in {f"{day:%y%m%d}" for day in (now, now - timedelta(days=1))}


def _resources(looks: Sequence[ProviderCleanup], query: StopQuery) -> list[FoundResource]:
    """What is listed of the run."""
    return [
        resource
        for one in looks
        if one.cleanup
        for resource in one.cleanup.resources
        if resource.resource.run_id.startswith(query.name)
    ]


def _silent(looks: Sequence[ProviderCleanup]) -> list[str]:
    """Return the providers that did not answer, and why."""
    failed = [f"{one.name} did not answer: {one.error.message}" for one in looks if one.error is not None]
    return failed + [
        f"{placement} did not answer" for one in looks if one.cleanup for placement in one.cleanup.unanswered
    ]


def _the_run(resources: Sequence[FoundResource], query: StopQuery) -> RunId:
    run_ids = sorted({resource.resource.run_id for resource in resources})
    if len(run_ids) > 1:
        raise BadInputError(f"{query.name!r} is the beginning of {len(run_ids)} runs", f"one of {', '.join(run_ids)}")
    (run_id,) = run_ids
    foreign = sorted({str(resource.resource.client) for resource in resources if resource.fate is Fate.FOREIGN})
    if foreign and not query.is_any_client:
        raise RefusedError(
            f"run {run_id} has machines of client {', '.join(foreign)}, which is not this home: they are left alone",
            f"if they are yours: plan stop {run_id} --client any ends them",
        )
    return run_id


def _end(provider: str, run_id: RunId, resources: Sequence[FoundResource], settings: Settings) -> list[str]:
    owned = [resource.resource for resource in resources if resource.resource.provider == provider]
    if not owned:
        return []
    cloud = build.provider(provider, settings)
    return stop_by_label(cloud, run_id, owned, build.clock_of(cloud), _tell)


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
