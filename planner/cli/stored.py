"""The part of `plan sweep` that looks into object storage: what runs have left there, and what it costs."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from planner.cli import build
from planner.cli.data import storage_of
from planner.errors import RefusedError
from planner.render import Column, table
from planner.run import Run
from planner.settings import Settings
from planner.stored import format_bytes, rate_text, rates_of
from planner.stored_runs import StoredRun, stored_runs
from providers.errors import ProviderError
from providers.stores.bucket import RUNS
from providers.stores.registry import FACTORIES

_COLUMNS = (
    Column("run directory"), Column("at"), Column("files", right=True), Column("size", right=True),
    Column("a month", right=True), Column("state"),
)  # fmt: skip


def look_stored(
    providers: Iterable[str], settings: Settings, runs: Mapping[str, Run] | None, existing: Collection[str]
) -> list[StoredRun]:
    """What runs have left at those of the providers that have storage.

    One that does not let us in is told and passed over: nothing there runs.
    """
    found: list[StoredRun] = []
    for name in (known for known in providers if known in FACTORIES):
        try:
            store = storage_of(build.provider(name, settings), RUNS)
            sizes = {} if store is None else store.sizes()
        except ProviderError as error:
            sys.stderr.write(f"{name}: what is stored there is not known: {error.message}\n")
            continue
        found += stored_runs(name, sizes, runs, existing, rates_of(name, settings.home))
    return found


def stored_text(found: list[StoredRun], home: Path) -> str:
    """A table with what a month of it costs, and at which rates."""
    rates = {name: rates_of(name, home) for name in dict.fromkeys(known.provider for known in found)}
    lines = [f"storage at {name}: {rate_text(known)}" for name, known in rates.items() if known is not None]
    return "\n".join([table(_COLUMNS, [_row(known) for known in found]), *lines])


def stored_json(known: StoredRun) -> dict[str, object]:
    """As a row of what sweep found; what differs is its kind."""
    month = known.stored.usd_per_month
    return {
        "provider": known.provider,
        "kind": "run directory",
        "run_id": known.run_id,
        "files": known.files,
        "size_bytes": known.stored.size_bytes,
        "usd_per_month": None if month is None else float(month),
        "fate": known.fate,
    }


def remove_stored(going: Iterable[StoredRun], settings: Settings) -> None:
    """Delete these directories. Raises RefusedError where a store does not let us."""
    for known in going:
        try:
            store = storage_of(build.provider(known.provider, settings), RUNS)
            if store is not None:
                store.delete(known.run_id)
        except ProviderError as error:
            raise RefusedError(f"{known.run_id} at {known.provider}: {error.message}", error.hint) from error
        sys.stderr.write(f"removed what run {known.run_id} had stored at {known.provider}\n")


def _row(known: StoredRun) -> tuple[str, ...]:
    size = format_bytes(known.stored.size_bytes)
    return (known.run_id, known.provider, f"{known.files:,}", size, known.stored.month, known.fate)
