"""`plan cleanup`: find whatever of ours still exists, by label, and end what no run uses."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from trainplan.planner.api import build
from trainplan.planner.api.ask import confirm
from trainplan.planner.cli import completion, options
from trainplan.planner.cli.cleanup_storage import look_stored, remove_stored, stored_json, stored_page
from trainplan.planner.cli.cleanups import ProviderCleanup, look_everywhere, resource_page
from trainplan.planner.cli.screen import show
from trainplan.planner.datasets.storage_costs import format_bytes
from trainplan.planner.errors import RefusedError, StateError, TeardownUnverifiedError
from trainplan.planner.report.page import Page, joined
from trainplan.planner.runs.cleanup.cleanup import Cleanup, Fate, FoundResource, end
from trainplan.planner.runs.cleanup.last_cleanup import LastCleanup, keep_cleanup
from trainplan.planner.runs.journal.reader import RecordedRuns, readable_runs
from trainplan.planner.runs.money.storage import StoredRun, removable
from trainplan.planner.settings import Settings
from trainplan.providers.base import OwnedResource

ANY_CLIENT = "any"


def command(
    provider: Annotated[
        str | None, typer.Option("--provider", help="This provider only", autocompletion=completion.providers)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the resources and delete nothing")] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also delete what this client is creating now; never what another client created"),
    ] = False,
    client: Annotated[
        str | None,
        typer.Option(
            "--client",
            metavar="any|ID",
            help="Also delete what other clients created, live runs too: any, or the id of one",
        ),
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Also delete what ended runs of this computer have left in storage")
    ] = False,
    yes: options.Yes = False,
    wide: options.Wide = False,
    as_json: options.Json = False,
) -> None:
    """Look at every provider, show what is there and what it costs, end what nobody uses."""
    settings = options.settings()
    build.client(settings)  # before the journal is brought to its newest schema
    looks = look_everywhere(provider, settings)
    cleaned = {one.name: one.cleanup for one in looks if one.cleanup is not None}
    for one in looks:
        if one.left_out:
            sys.stderr.write(f"{one.name}: not read: {one.left_out}\n")
    stored_runs = _stored(cleaned, settings)
    if as_json:
        resources = [resource for cleanup in cleaned.values() for resource in cleanup.resources]
        rows = [*(_json(resource) for resource in resources), *(stored_json(stored_run) for stored_run in stored_runs)]
        sys.stdout.write(json.dumps(rows) + "\n")
    else:
        left = [stored_page(stored_runs, settings.home)] if stored_runs else []
        show(joined([_cleaned_page(cleaned), *left]), wide=wide)
    # Only a look at all of them, each with an answer, may say later that nothing was left.
    if provider is None and all(one.is_whole for one in looks):
        keep_cleanup(settings.home, LastCleanup(build.clock().now(), tuple(cleaned)))
    ending = {name: _ending(cleanup, client, everything=everything) for name, cleanup in cleaned.items()}
    rest: list[str] = []
    if client not in (None, ANY_CLIENT) and not _has_any_of(client, cleaned):
        sys.stderr.write(f"nothing there was created by client {client}: the column client has the ids\n")
    if any(ending.values()) and not dry_run:
        _ask(_question(ending, cleaned), assume_yes=yes)
        rest = [line for name, resources in ending.items() for line in _end(name, resources, settings)]
    if stored and not dry_run:
        _remove_stored(removable(stored_runs), settings, assume_yes=yes)
    # After the deletions: what could not be confirmed before may be gone by now.
    _settle_unverified(settings, dry_run)
    _complain(rest, looks)


def _stored(cleaned: Mapping[str, Cleanup], settings: Settings) -> list[StoredRun]:
    """What runs have left in storage, at those that answered."""
    existing = {resource.resource.run_id for cleanup in cleaned.values() for resource in cleanup.resources}
    return look_stored(cleaned, settings, _own_runs(settings), existing)


def _own_runs(settings: Settings) -> RecordedRuns | None:
    """The runs of the journal that are this home's; None where it cannot be read."""
    runs, client = readable_runs(settings.journal), build.client(settings)
    return None if runs is None else runs.only(client.owns)


def _remove_stored(going: list[StoredRun], settings: Settings, *, assume_yes: bool) -> None:
    if not going:
        sys.stderr.write("no ended run of this computer has left anything in storage\n")
        return
    size = format_bytes(sum(stored_run.stored.size_bytes for stored_run in going))
    _ask(f"remove {size} of {len(going)} ended runs from storage, with their checkpoints?", assume_yes=assume_yes)
    remove_stored(going, settings)


def _ending(cleanup: Cleanup, client: str | None, *, everything: bool) -> list[OwnedResource]:
    """What is to end; another client's only where that client, or any, was named."""
    also = {Fate.NEWBORN} if everything else set()
    return [
        resource.resource
        for resource in cleanup.resources
        if resource.fate.ends
        or resource.fate in also
        or (resource.fate is Fate.FOREIGN and client in (ANY_CLIENT, resource.resource.client))
    ]


def _has_any_of(client: str | None, cleaned: Mapping[str, Cleanup]) -> bool:
    return any(owned.resource.client == client for cleanup in cleaned.values() for owned in cleanup.resources)


def _question(ending: Mapping[str, list[OwnedResource]], cleaned: Mapping[str, Cleanup]) -> str:
    """How many, and whose."""
    foreign = [
        owned.resource for cleanup in cleaned.values() for owned in cleanup.resources if owned.fate is Fate.FOREIGN
    ]
    going = [resource for resources in ending.values() for resource in resources]
    theirs = Counter(resource.client for resource in going if resource in foreign)
    also = "".join(f", {count} of client {client}" for client, count in theirs.items())
    return f"end {len(going)} of these{also}?"


def _end(name: str, resources: list[OwnedResource], settings: Settings) -> list[str]:
    if not resources:
        return []
    provider = build.provider(name, settings)
    return end(provider, resources, build.clock_of(provider))


def _settle_unverified(settings: Settings, dry_run: bool) -> None:
    """Runs whose teardown nobody could make sure of are looked at again."""
    runs = _own_runs(settings)
    unsure = [] if runs is None else runs.unverified()
    if dry_run or not unsure:
        return
    try:
        with build.journal(settings) as journal:
            for run in unsure:
                build.runner(journal, settings, lambda _: None, run.provider).settle(run)
    except StateError as error:
        sys.stderr.write(f"what became of unverified runs is not recorded: {error.message}\n")


def _ask(question: str, *, assume_yes: bool) -> None:
    if not assume_yes:
        hint = "--yes ends them without asking, --dry-run only looks"
        confirm(question, hint=hint, left_alone="nothing more was deleted")


def _complain(rest: list[str], looks: Sequence[ProviderCleanup]) -> None:
    if rest:
        raise TeardownUnverifiedError(f"may still be there: {'; '.join(rest)}", "plan cleanup looks again")
    unanswered = [placement for one in looks if one.cleanup for placement in one.cleanup.unanswered]
    if unanswered:
        raise TeardownUnverifiedError(
            f"some placements did not answer: {'; '.join(unanswered)}", "more may be there; plan cleanup looks again"
        )
    silent = [one for one in looks if one.error is not None]
    if not silent:
        return
    text = "; ".join(f"{one.name}: {one.error.message}" for one in silent if one.error)
    if any(one.had_runs for one in silent):
        hint = "runs were launched there; plan doctor shows what is missing"
        raise TeardownUnverifiedError(f"not everything could be checked: {text}", hint)
    raise RefusedError(f"not everything could be checked: {text}", "plan doctor shows what is missing")


def _cleaned_page(cleaned: Mapping[str, Cleanup]) -> Page:
    resources = [resource for cleanup in cleaned.values() for resource in cleanup.resources]
    if resources:
        return resource_page(resources)
    if any(cleanup.unanswered for cleanup in cleaned.values()):
        return ["the providers that answered list no resource of a run"]
    return [f"no resource of a run exists at {', '.join(cleaned) or 'any provider'}"]


def _json(owned: FoundResource) -> dict[str, object]:
    resource = owned.resource
    return {
        "provider": resource.provider,
        "region": resource.region,
        "kind": resource.kind,
        "id": resource.id,
        "run_id": resource.run_id,
        "attempt": resource.attempt,
        "client": resource.client,
        "created_at": resource.created_at.isoformat() if resource.created_at else None,
        "deadline": resource.deadline.isoformat() if resource.deadline else None,
        "usd_per_hour": float(resource.usd_per_hour) if resource.usd_per_hour is not None else None,
        "fate": owned.fate,
    }
