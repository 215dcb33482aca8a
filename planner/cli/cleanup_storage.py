"""The part of `plan cleanup` that looks into object storage: what runs have left there, and what it costs."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from trainplan.planner.api import build
from trainplan.planner.api.data_steps import storage_of
from trainplan.planner.datasets.storage_costs import format_bytes, rate_text, rates_of
from trainplan.planner.errors import RefusedError
from trainplan.planner.report.page import Column, Page, Table
from trainplan.planner.runs.money.storage import StoredRun, stored_runs
from trainplan.planner.runs.run import Run
from trainplan.planner.settings import Settings
from trainplan.providers.errors import ProviderError
from trainplan.providers.stores.bucket import RUNS
from trainplan.providers.stores.registry import FACTORIES

_COLUMNS = (
    Column("run directory"), Column("at"), Column("files", right=True), Column("size", right=True),
    Column("a month", right=True), Column("state", shrinks=True),
)  # fmt: skip


def look_stored(
    providers: Iterable[str], settings: Settings, runs: Mapping[str, Run] | None, existing: Collection[str]
) -> list[StoredRun]:
    """What runs have left at those of the providers that have storage.

    One that does not let us in is told and passed over: nothing there runs.
    """
    stored: list[StoredRun] = []
    for name in (wanted_name for wanted_name in providers if wanted_name in FACTORIES):
        try:
            store = storage_of(build.provider(name, settings), RUNS)
            sizes = {} if store is None else store.sizes()
        except ProviderError as error:
            sys.stderr.write(f"{name}: the stored files could not be listed: {error.message}\n")
            continue
        stored += stored_runs(name, sizes, runs, existing, rates_of(name, settings.home))
    return stored


def stored_page(stored_runs: list[StoredRun], home: Path) -> Page:
    """A table with what a month of it costs, and at which rates."""
    rates = {name: rates_of(name, home) for name in dict.fromkeys(stored_run.provider for stored_run in stored_runs)}
    lines = [
        f"storage at {name}: {rate_text(provider_rates)}"
        for name, provider_rates in rates.items()
        if provider_rates is not None
    ]
    return [Table(_COLUMNS, [_row(stored_run) for stored_run in stored_runs]), *lines]


def stored_json(stored_run: StoredRun) -> dict[str, object]:
    """Return the object as a row of the cleanup's output, with a kind of its own."""
    month = stored_run.stored.usd_per_month
    return {
        "provider": stored_run.provider,
        "kind": "run directory",
        "run_id": stored_run.run_id,
        "files": stored_run.files,
        "size_bytes": stored_run.stored.size_bytes,
        "usd_per_month": None if month is None else float(month),
        "fate": stored_run.fate,
    }


def remove_stored(going: Iterable[StoredRun], settings: Settings) -> None:
    """Delete these directories. Raises RefusedError where a store does not let us."""
    for stored_run in going:
        try:
            store = storage_of(build.provider(stored_run.provider, settings), RUNS)
            if store is not None:
                store.delete(stored_run.run_id)
        except ProviderError as error:
            raise RefusedError(f"{stored_run.run_id} at {stored_run.provider}: {error.message}", error.hint) from error
        sys.stderr.write(f"removed what run {stored_run.run_id} had stored at {stored_run.provider}\n")


def _row(stored_run: StoredRun) -> tuple[str, ...]:
    size = format_bytes(stored_run.stored.size_bytes)
    return (
        stored_run.run_id,
        stored_run.provider,
        f"{stored_run.files:,}",
        size,
        stored_run.stored.month,
        stored_run.fate,
    )
