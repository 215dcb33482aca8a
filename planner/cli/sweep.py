"""`plan sweep`: find whatever of ours still exists, by label, and end what no run uses."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from planner.cli import build, options
from planner.cli.ask import confirm
from planner.cli.stored import look_stored, remove_stored, stored_json, stored_text
from planner.clock import tells_time
from planner.errors import RefusedError, StateError, TeardownUnverifiedError
from planner.last_sweep import LastSweep, keep_sweep
from planner.recorded_runs import RecordedRuns, readable_runs
from planner.render import Column, table
from planner.run import Run
from planner.settings import Settings
from planner.stored import format_bytes
from planner.stored_runs import StoredRun, removable
from planner.sweep import Fate, Found, Sweep, end, look
from pricing.money import format_usd_per_hour
from providers.base import OwnedResource, Provider
from providers.errors import CredentialsError, MachineError, PermissionDeniedError, ProviderError

ANY_CLIENT = "any"
_COLUMNS = (
    Column("what"), Column("id"), Column("where"), Column("run"), Column("client"), Column("since"),
    Column("costs", right=True), Column("ends by"), Column("state"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What one provider told: what is there, or why it was left out, or why it could not be looked at.

    `had_runs`: the journal has runs that were launched there.
    """

    name: str
    sweep: Sweep | None = None
    left_out: str = ""
    error: ProviderError | None = None
    had_runs: bool = False

    @property
    def is_whole(self) -> bool:
        """Nothing there was left unanswered."""
        return self.error is None and (self.sweep is None or not self.sweep.unanswered)


def command(
    provider: Annotated[str | None, typer.Option("--provider", help="Look at this one only")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="End also what this client is just making; never what another one made")
    ] = False,
    client: Annotated[
        str | None,
        typer.Option("--client", metavar="any|ID", help="End also what other clients made, live runs too; or one's"),
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Remove also what ended runs of this computer have left in storage")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    as_json: options.Json = False,
) -> None:
    """Look at every provider, show what is there and what it costs, end what nobody uses."""
    settings = options.settings()
    build.client(settings)  # before the journal is brought to its newest schema
    looked = look_everywhere(provider, settings)
    swept = {one.name: one.sweep for one in looked if one.sweep is not None}
    for one in looked:
        if one.left_out:
            sys.stderr.write(f"{one.name}: {one.left_out}, not looked at\n")
    kept = _stored(swept, settings)
    _show(swept, kept, settings, as_json)
    if provider is None and all(one.is_whole for one in looked):
        keep_sweep(settings.home, LastSweep(build.clock().now(), tuple(swept)))
    ending = {name: _ending(found, client, everything=everything) for name, found in swept.items()}
    left: list[str] = []
    if any(ending.values()) and not dry_run:
        _ask(_question(ending, swept), assume_yes=yes)
        left = [line for name, wanted in ending.items() for line in _end(name, wanted, settings)]
    if stored and not dry_run:
        _remove_stored(removable(kept), settings, assume_yes=yes)
    _settle_unverified(settings, dry_run)
    _complain(left, looked)


def look_everywhere(given: str | None, settings: Settings) -> list[Looked]:
    """Each provider that was asked for, or that may have anything of ours."""
    runs = readable_runs(settings.journal)
    known = frozenset() if runs is None else runs.providers()
    found = []
    for name in build.provider_names(given):
        needed = given is not None or name in known
        if not needed and not build.is_used(name, settings):
            found.append(Looked(name=name, left_out="not signed in"))
            continue
        # Nobody has ever launched there from here, as far as the journal knows: a sign-in for something else.
        optional = not needed and runs is not None and not settings.clouds.get(name)
        found.append(_look(name, settings, optional=optional, had_runs=name in known))
    return found


def _look(name: str, settings: Settings, *, optional: bool, had_runs: bool) -> Looked:
    """What is there, or why nobody can tell."""
    try:
        asked = build.provider(name, settings)
        sweep = look(asked, lambda: _runs(settings), build.client(settings).ids, _time_of(asked))
    except (CredentialsError, PermissionDeniedError, MachineError) as error:
        if optional:
            return Looked(name=name, left_out=error.message)
        return Looked(name=name, error=error, had_runs=had_runs)
    except ProviderError as error:
        return Looked(name=name, error=error, had_runs=had_runs)
    return Looked(name=name, sweep=sweep)


def _time_of(asked: Provider) -> Callable[[], datetime | None]:
    """The provider's time, once it has answered; None where it does not tell: then nothing is past its deadline."""
    clock = build.clock_of(asked)
    return lambda: clock.now() if tells_time(asked) else None


def _runs(settings: Settings) -> Mapping[str, Run] | None:
    runs = readable_runs(settings.journal)
    if runs is None:
        sys.stderr.write(f"the journal {settings.journal} cannot be read: labels alone tell what is ours\n")
    return runs


def _stored(swept: Mapping[str, Sweep], settings: Settings) -> list[StoredRun]:
    """What runs have left in storage, at those that answered."""
    existing = {known.resource.run_id for sweep in swept.values() for known in sweep.found}
    return look_stored(swept, settings, _own_runs(settings), existing)


def _own_runs(settings: Settings) -> RecordedRuns | None:
    """The runs of the journal that are this home's; None where it cannot be read."""
    runs, client = readable_runs(settings.journal), build.client(settings)
    return None if runs is None else runs.only(client.owns)


def _remove_stored(going: list[StoredRun], settings: Settings, *, assume_yes: bool) -> None:
    if not going:
        sys.stderr.write("no ended run of this computer has left anything in storage\n")
        return
    size = format_bytes(sum(known.stored.size_bytes for known in going))
    _ask(f"remove {size} of {len(going)} ended runs from storage, with their checkpoints?", assume_yes=assume_yes)
    remove_stored(going, settings)


def _ending(found: Sweep, client: str | None, *, everything: bool) -> list[OwnedResource]:
    """What is to end; another client's only where that client, or any, was named."""
    also = {Fate.NEWBORN} if everything else set()
    return [
        known.resource
        for known in found.found
        if known.fate.ends
        or known.fate in also
        or (known.fate is Fate.FOREIGN and client in (ANY_CLIENT, known.resource.client))
    ]


def _question(ending: Mapping[str, list[OwnedResource]], swept: Mapping[str, Sweep]) -> str:
    """How many, and whose."""
    foreign = [known.resource for sweep in swept.values() for known in sweep.found if known.fate is Fate.FOREIGN]
    going = [resource for wanted in ending.values() for resource in wanted]
    theirs = Counter(resource.client for resource in going if resource in foreign)
    also = "".join(f", {count} of client {client}" for client, count in theirs.items())
    return f"end {len(going)} of these{also}?"


def _end(name: str, wanted: list[OwnedResource], settings: Settings) -> list[str]:
    if not wanted:
        return []
    asked = build.provider(name, settings)
    return end(asked, wanted, build.clock_of(asked))


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
        confirm(question, hint=hint, left_alone="nothing more was ended or removed")


def _complain(left: list[str], looked: Sequence[Looked]) -> None:
    if left:
        raise TeardownUnverifiedError(f"may still be there: {'; '.join(left)}", "plan sweep looks again")
    unanswered = [place for one in looked if one.sweep for place in one.sweep.unanswered]
    if unanswered:
        raise TeardownUnverifiedError(
            f"some places did not answer: {'; '.join(unanswered)}", "more may be there; plan sweep looks again"
        )
    silent = [one for one in looked if one.error is not None]
    if not silent:
        return
    told = "; ".join(f"{one.name}: {one.error.message}" for one in silent if one.error)
    if any(one.had_runs for one in silent):
        hint = "runs were launched there; plan doctor tells what is missing"
        raise TeardownUnverifiedError(f"could not look everywhere: {told}", hint)
    raise RefusedError(f"could not look everywhere: {told}", "plan doctor tells what is missing")


def _show(swept: Mapping[str, Sweep], kept: list[StoredRun], settings: Settings, as_json: bool) -> None:
    found = [known for sweep in swept.values() for known in sweep.found]
    if as_json:
        rows = [*(_json(known) for known in found), *(stored_json(known) for known in kept)]
        sys.stdout.write(json.dumps(rows) + "\n")
        return
    _show_found(found, swept)
    if kept:
        sys.stdout.write(f"\n{stored_text(kept, settings.home)}\n")


def _show_found(found: list[Found], swept: Mapping[str, Sweep]) -> None:
    if not found and any(sweep.unanswered for sweep in swept.values()):
        sys.stdout.write("nothing was found where somebody answered\n")
    elif not found:
        sys.stdout.write(f"nothing of ours exists at {', '.join(swept) or 'any provider'}\n")
    else:
        sys.stdout.write(found_text(found) + "\n")


def found_text(found: Sequence[Found]) -> str:
    """What was found, as a table."""
    return table(_COLUMNS, [_row(known) for known in found])


def _row(known: Found) -> tuple[str, ...]:
    resource = known.resource
    costs = "-" if resource.usd_per_hour is None else format_usd_per_hour(resource.usd_per_hour)
    where = f"{resource.provider} {resource.region}"
    since, until = _short(resource.created_at), _short(resource.deadline)
    return (resource.kind, resource.id, where, resource.run_id, resource.client or "-", since, costs, until, known.fate)


def _short(instant: datetime | None) -> str:
    return f"{instant.astimezone():%Y-%m-%d %H:%M}" if instant else "-"


def _json(known: Found) -> dict[str, object]:
    resource = known.resource
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
        "fate": known.fate,
    }
