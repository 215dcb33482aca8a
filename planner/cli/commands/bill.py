"""`plan bill`: what the vendor has billed for a run, or in a month, beside receipts and estimates."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, date, timedelta
from typing import Annotated

import typer

from trainplan.planner.api import build
from trainplan.planner.cli import completion, options
from trainplan.planner.cli.screen import show
from trainplan.planner.cli.vendor_bill import ask_invoice, bill_json, days_of, kept
from trainplan.planner.errors import BadInputError
from trainplan.planner.report.bill_page import BilledRun, billed_run, month_page, run_page
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.settings import Settings
from trainplan.providers.base import RunId
from trainplan.providers.cloud.invoice import Invoice, Invoices

_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


def command(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The run (default: a month)", autocompletion=completion.runs)
    ] = None,
    month: Annotated[
        str | None, typer.Option("--month", metavar="YYYY-MM", help="The month (default: this one, in UTC)")
    ] = None,
    provider: Annotated[
        str | None, typer.Option("--provider", help="Of a month: whose bill", autocompletion=completion.clouds)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask where asking costs")] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Of a month: print one CSV row for each part of each run, and for the rest")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Ask the vendor what was billed; nothing in the account is changed."""
    if run is not None and (month is not None or provider is not None):
        raise BadInputError("a run has its own days and provider", "leave out --month and --provider, or the run")
    if as_csv and (as_json or run is not None):
        raise BadInputError("--csv is a format of a month", "leave out --json and the run, or --csv")
    settings = options.settings()
    with build.journal(settings) as journal:
        if run is not None:
            _of_run(journal, settings, RunId(run), yes=yes, as_json=as_json)
        else:
            name, invoice, runs = _of_month(journal, settings, provider, month, yes=yes)
            if as_json:
                sys.stdout.write(json.dumps(bill_json(invoice, name, runs)) + "\n")
            elif as_csv:
                _write_csv(name, invoice, runs)
            else:
                show(month_page(runs, invoice))


def _of_run(journal: Journal, settings: Settings, run_id: RunId, *, yes: bool, as_json: bool) -> None:
    run = journal.run(run_id)
    now = build.clock_of(build.provider(run.provider, settings)).now().astimezone(UTC)
    invoice = ask_invoice(run.provider, settings, *days_of([run], now), yes=yes)
    found = kept(journal, run, invoice, now)
    if as_json:
        sys.stdout.write(json.dumps(bill_json(invoice, run.provider, [found])) + "\n")
    else:
        show(run_page(found, invoice))


def _of_month(
    journal: Journal, settings: Settings, provider: str | None, month: str | None, *, yes: bool
) -> tuple[str, Invoice, list[BilledRun]]:
    """Whose bill it is, the bill, and the runs in it."""
    begin, end = _days_of(month)
    names = [name for name in build.provider_names(provider) if provider or build.is_used(name, settings)]
    clouds = [name for name in names if isinstance(build.provider(name, settings), Invoices)]
    if len(clouds) != 1:
        known = ", ".join(clouds) or "none is signed in to"
        raise BadInputError("a month's bill is that of one provider", f"--provider NAME ({known})")
    invoice = ask_invoice(clouds[0], settings, begin, end, yes=yes)
    summaries = {str(one.run_id): one for one in journal.summaries(lambda _: None, None)}
    runs = []
    for run_id in invoice.run_ids:
        summary = summaries.get(run_id)
        name, receipt = (summary.job_name, summary.receipt) if summary else ("of another computer", {})
        runs.append(billed_run(run_id, name, receipt, invoice))
    return clouds[0], invoice, runs


def _write_csv(provider: str, invoice: Invoice, runs: Sequence[BilledRun]) -> None:
    """Rows that add up to the bill: each part of each run, with its project, and what has no label of a run."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("provider", "begin", "end", "project", "run_id", "job_name", "part", "billed", "currency"))
    days = (provider, invoice.begin.isoformat(), invoice.end.isoformat())
    for run in runs:
        for part, amount in run.billed.items():
            writer.writerow((*days, run.project, run.run_id, run.job_name, part, amount, invoice.currency))
    for part, amount in invoice.by_part("").items():
        writer.writerow((*days, "", "", "", part, amount, invoice.currency))


def _days_of(month: str | None) -> tuple[date, date]:
    """The first day of the month, and the day after its last that has begun."""
    today = build.clock().now().astimezone(UTC).date()
    if month is None:
        begin = today.replace(day=1)
    elif _MONTH.fullmatch(month):
        begin = date.fromisoformat(f"{month}-01")
    else:
        raise BadInputError(f"--month {month!r} is no month", "write it as 2026-11")
    if begin > today:
        raise BadInputError(f"the month {begin:%Y-%m} has not begun", "a month that has, such as " + f"{today:%Y-%m}")
    following = (begin + timedelta(days=32)).replace(day=1)
    return begin, min(following, today + timedelta(days=1))
