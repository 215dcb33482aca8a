"""`plan data list`, `upload`, `remove`: data sets in object storage."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from planner.bringing import Bringing, bringing, providers_of, send, terms
from planner.cli import build, options
from planner.cli.ask import confirm
from planner.data_sets import Kept, Upload, listed, looked_at, named, planned, remove, upload
from planner.errors import RefusedError, from_provider
from planner.render import Column, table
from planner.settings import Settings
from planner.shards import DataSet
from planner.stored import format_bytes, rates_of
from providers.base import Provider, ProviderSettings, RunId
from providers.errors import ProviderError
from providers.stores import registry
from providers.stores.bucket import DATA
from providers.stores.store import ObjectStore, data_store
from providers.stores.unfinished import Unfinished
from workloads.job import TrainingJob

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Where = Annotated[str, typer.Option("--provider", help=f"Whose storage: {', '.join(registry.FACTORIES)}")]
Bucket = Annotated[str | None, typer.Option("--bucket", help="Another bucket than the one of our own name")]
Region = Annotated[str | None, typer.Option("--region", help="Where that bucket is")]
Project = Annotated[str | None, typer.Option("--project", help="Google: the project")]
Account = Annotated[str | None, typer.Option("--account", help="Azure: the storage account")]
_COLUMNS = (
    Column("name"),
    Column("content"),
    Column("where"),
    Column("files", right=True),
    Column("size", right=True),
    Column("a month", right=True),
)
_SHOWN = 12
_ANY = RunId("any")
"""A provider's bucket is asked for by way of a run."""


@group.callback()
def _group() -> None:
    """Data sets in object storage."""


@group.command("list", help="Every data set that was uploaded, and what keeping it costs")
def _list(
    provider: Annotated[str | None, typer.Option("--provider", help="Look at this one only")] = None,
    bucket: Bucket = None,
    region: Region = None,
    project: Project = None,
    account: Account = None,
    as_json: options.Json = False,
) -> None:
    given = {"bucket": bucket, "region": region, "project": project, "account": account}
    found: dict[str, list[Kept]] = {}
    silent: list[ProviderError] = []
    home = options.settings().home
    for name in [provider] if provider else registry.FACTORIES:
        try:
            with _store(name, given) as store:
                found[name] = listed(store, rates_of(name, home))
        except ProviderError as error:
            silent.append(error)
            if not provider:
                sys.stderr.write(f"{name}: {error.message}\n")
    if provider and silent:
        raise from_provider(silent[0])
    if not found:
        raise RefusedError("no object storage let us in", "--provider NAME tells what is missing there")
    _show(found, as_json)


@group.command("upload", help="Upload a folder, once per content; asks before anything is sent")
def _upload(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER")],
    provider: Where,
    bucket: Bucket = None,
    region: Region = None,
    project: Project = None,
    account: Account = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    as_json: options.Json = False,
) -> None:
    given = {"bucket": bucket, "region": region, "project": project, "account": account}
    home = options.settings().home
    data = looked_at(folder, home, _progress("read"))
    with _store(provider, given) as store:
        plan = planned(data, store, rates_of(provider, home))
        sys.stderr.writelines(f"{line}\n" for line in terms(plan))
        if not plan.complete:
            _confirm(f"upload {format_bytes(plan.missing_bytes)}?", "nothing was sent", assume_yes=yes)
            upload(plan, folder, store, _progress("sent", plan.missing_bytes))
    sys.stdout.write((json.dumps(_json_upload(plan)) if as_json else plan.uri) + "\n")


@group.command("remove", help="Remove a data set, by its name or the beginning of its content")
def _remove(
    text: Annotated[str, typer.Argument(metavar="NAME")],
    provider: Where,
    bucket: Bucket = None,
    region: Region = None,
    project: Project = None,
    account: Account = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
) -> None:
    given = {"bucket": bucket, "region": region, "project": project, "account": account}
    with _store(provider, given) as store:
        chosen = named(text, listed(store, None))
        what = f"{chosen.data.name if chosen.data else 'unfinished'} ({format_bytes(chosen.stored.size_bytes)})"
        _confirm(f"remove {what} from {store.uri}?", "nothing was removed", assume_yes=yes)
        remove(store, chosen.content)
    sys.stderr.write(f"removed {what}\n")


def bring(job: TrainingJob, asked: Provider, settings: Settings) -> Bringing:
    """What the job's data takes to get to a machine of the provider; its folder is read. Raises PlanError."""
    known = provider_settings(asked.name, settings, {})
    try:
        return bringing(job, asked.name, known, storage_of(asked, DATA), _progress("read"))
    except ProviderError as error:
        raise from_provider(error) from error


def only_providers(job: TrainingJob) -> tuple[str, ...]:
    """The only providers that can train the job, since its data or its secrets are there; () for any.

    Raises BadInputError.
    """
    try:
        return providers_of(job)
    except ProviderError as error:
        raise from_provider(error) from error


def send_brought(brought: Bringing, asked: Provider) -> None:
    """Upload what is missing, with a line now and then. Raises PlanError."""
    try:
        send(brought, storage_of(asked, DATA), _progress("sent", brought.missing_bytes))
    except ProviderError as error:
        raise from_provider(error) from error


def storage_of(asked: Provider, prefix: str) -> ObjectStore | None:
    """What lies below a prefix of the bucket in which a provider keeps its runs; None where it has none.

    Raises ProviderError.
    """
    store = asked.store(_ANY)
    return store.beside(prefix) if isinstance(store, ObjectStore) else None


@contextmanager
def _store(name: str, given: dict[str, str | None]) -> Iterator[ObjectStore]:
    settings = provider_settings(name, options.settings(), given)
    with closing(registry.bucket(name, settings)) as bucket:
        yield data_store(bucket, unfinished=Unfinished(settings.home / "uploads"))


def provider_settings(name: str, settings: Settings, given: Mapping[str, str | None]) -> ProviderSettings:
    """What was typed over what is set for this provider."""
    typed = {key: value for key, value in given.items() if value}
    return ProviderSettings(
        home=settings.home,
        options={**settings.options_of(name), **typed},
        environment=os.environ,
        now=build.clock().now,
    )


def _confirm(question: str, left_alone: str, *, assume_yes: bool) -> None:
    if not assume_yes:
        confirm(question, hint="--yes does it without asking", left_alone=left_alone)


def _progress(what: str, total: int = 0) -> Callable[[int], None]:
    """Says how far it is, every twentieth of it or every 10 GB."""
    step = max(1, total // 20) if total else 10_000_000_000
    done = told = 0

    def heard(size: int) -> None:
        nonlocal done, told
        done += size
        if done - told >= step:
            told = done
            of = f" of {format_bytes(total)}" if total else ""
            sys.stderr.write(f"{what} {format_bytes(done)}{of}\n")

    return heard


def _show(found: dict[str, list[Kept]], as_json: bool) -> None:
    rows = [(name, kept) for name, sets in found.items() for kept in sets]
    if as_json:
        sys.stdout.write(json.dumps([_json(name, kept) for name, kept in rows]) + "\n")
    elif not rows:
        sys.stdout.write(f"no data sets at {', '.join(found)}; plan data upload FOLDER brings one there\n")
    else:
        sys.stdout.write(table(_COLUMNS, [_row(name, kept) for name, kept in rows]) + "\n")


def _row(name: str, kept: Kept) -> tuple[str, ...]:
    size = format_bytes(kept.stored.size_bytes)
    called, files = (kept.data.name, f"{kept.data.files:,}") if kept.data else ("(unfinished)", "-")
    return (called, kept.content[:_SHOWN], name, files, size, kept.stored.month)


def _json(name: str, kept: Kept) -> dict[str, object]:
    month = kept.stored.usd_per_month
    return {
        "provider": name,
        "content": kept.content,
        "name": kept.data.name if kept.data else None,
        "files": kept.data.files if kept.data else None,
        "complete": kept.data is not None,
        "size_bytes": kept.stored.size_bytes,
        "usd_per_month": None if month is None else float(month),
    }


def _json_upload(plan: Upload) -> dict[str, object]:
    month = plan.stored.usd_per_month
    data: DataSet = plan.data
    return {
        "uri": plan.uri,
        "content": data.content,
        "name": data.name,
        "files": data.files,
        "size_bytes": data.size_bytes,
        "sent_bytes": plan.missing_bytes,
        "usd_per_month": None if month is None else float(month),
    }
