"""A look at what exists by its labels, at every provider: what `plan cleanup` and `plan stop` share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from trainplan.planner.api import build
from trainplan.planner.report.page import Column, Page, Table
from trainplan.planner.runs.cleanup.cleanup import Cleanup, FoundResource, look
from trainplan.planner.runs.journal.reader import readable_runs
from trainplan.planner.runs.provider_clock import tells_time
from trainplan.planner.runs.run import Run
from trainplan.planner.settings import Settings
from trainplan.pricing.money import format_usd_per_hour
from trainplan.providers.base import Provider
from trainplan.providers.errors import CredentialsError, MachineError, PermissionDeniedError, ProviderError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCleanup:
    """What one provider told: what is there, or why it was left out, or why it could not be looked at.

    `had_runs`: the journal has runs that were launched there.
    """

    name: str
    cleanup: Cleanup | None = None
    left_out: str = ""
    error: ProviderError | None = None
    had_runs: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether every placement answered."""
        return self.error is None and (self.cleanup is None or not self.cleanup.unanswered)


_COLUMNS = (
    Column("what"), Column("id", shrinks=True), Column("where", shrinks=True), Column("run"),
    Column("client", rank_of_need=2), Column("since", rank_of_need=3), Column("costs", right=True),
    Column("ends by", rank_of_need=1), Column("state", shrinks=True),
)  # fmt: skip


def look_everywhere(value: str | None, settings: Settings) -> list[ProviderCleanup]:
    """Each provider that was asked for, or that may have anything of ours."""
    runs = readable_runs(settings.journal)
    names = frozenset() if runs is None else runs.providers()
    looks = []
    for name in build.provider_names(value):
        is_needed = value is not None or name in names
        if not is_needed and not build.is_used(name, settings):
            looks.append(ProviderCleanup(name=name, left_out="no sign-in on this computer"))
            continue
        # Nobody has ever launched there from here, as far as the journal knows: a sign-in for something else.
        optional = not is_needed and runs is not None and not settings.clouds.get(name)
        looks.append(_look(name, settings, optional=optional, had_runs=name in names))
    return looks


def _look(name: str, settings: Settings, *, optional: bool, had_runs: bool) -> ProviderCleanup:
    """What is there, or why nobody can tell."""
    try:
        provider = build.provider(name, settings)
        client = build.client(settings)
        cleanup = look(provider, lambda: _runs(settings), {client.id}, _time_of(provider), client.same_home)
    except (CredentialsError, PermissionDeniedError, MachineError) as error:
        if optional:
            return ProviderCleanup(name=name, left_out=error.message)
        return ProviderCleanup(name=name, error=error, had_runs=had_runs)
    except ProviderError as error:
        return ProviderCleanup(name=name, error=error, had_runs=had_runs)
    return ProviderCleanup(name=name, cleanup=cleanup)


def _time_of(provider: Provider) -> Callable[[], datetime | None]:
    """The provider's time, once it has answered; None where it does not tell: then nothing is past its deadline."""
    clock = build.clock_of(provider)
    return lambda: clock.now() if tells_time(provider) else None


def _runs(settings: Settings) -> Mapping[str, Run] | None:
    runs = readable_runs(settings.journal)
    if runs is None:
        sys.stderr.write(f"the journal {settings.journal} cannot be read: resources are found by their labels alone\n")
    return runs


def resource_page(resources: Sequence[FoundResource]) -> Page:
    """The resources that exist, as a table."""
    return [Table(_COLUMNS, [_row(resource) for resource in resources])]


def _row(owned: FoundResource) -> tuple[str, ...]:
    resource = owned.resource
    costs = "-" if resource.usd_per_hour is None else format_usd_per_hour(resource.usd_per_hour)
    where = f"{resource.provider} {resource.region}"
    since, until = _short(resource.created_at), _short(resource.deadline)
    return (resource.kind, resource.id, where, resource.run_id, resource.client or "-", since, costs, until, owned.fate)


def _short(instant: datetime | None) -> str:
    return f"{instant.astimezone():%Y-%m-%d %H:%M}" if instant else "-"
