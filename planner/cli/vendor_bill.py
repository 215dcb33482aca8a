"""Asking a vendor for a bill, and keeping what it says of a run: what `plan bill` and `plan drill --bill` share."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from trainplan.planner.api import build
from trainplan.planner.api.ask import confirm
from trainplan.planner.errors import BadInputError, from_provider
from trainplan.planner.report.bill_page import BilledRun, billed_run
from trainplan.providers.cloud.invoice import Invoice, Invoices
from trainplan.providers.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.run import Run
    from trainplan.planner.settings import Settings


def ask_invoice(name: str, settings: Settings, begin: date, end: date, *, yes: bool) -> Invoice:
    """The bill of the days from `begin` up to but without `end`; what asking costs is said before."""
    cloud = build.provider(name, settings)
    if not isinstance(cloud, Invoices):
        raise BadInputError(f"nobody sends a bill for what runs at {name}", "plan history has receipts")
    if cloud.asking_costs() and not yes:
        confirm(f"{cloud.asking_costs()}; ask?", hint="--yes does not ask", left_alone="nothing was asked")
    try:
        return cloud.invoice(begin, end)
    except ProviderError as error:
        raise from_provider(error) from error


def days_of(runs: Sequence[Run], now: datetime) -> tuple[date, date]:
    """The first day on which something of these runs was billed, and the one after the last (UTC)."""
    ends = [attempt.gone_at or attempt.ended_at or now for run in runs for attempt in run.attempts]
    last = max(ends, default=now).astimezone(UTC)
    begin = min(run.created_at for run in runs).astimezone(UTC).date()
    return begin, min(last, now).date() + timedelta(days=1)


def kept(journal: Journal, run: Run, invoice: Invoice, now: datetime) -> BilledRun:
    """A run as it was billed, which the history keeps where it has a receipt."""
    receipt = journal.receipt(run.run_id) or {}
    found = billed_run(run.run_id, run.job_name, receipt, invoice)
    if receipt and found.billed:
        billed = {str(part): float(amount) for part, amount in found.billed.items()}
        told = {"billed": billed, "billed_currency": invoice.currency, "billed_whole": invoice.is_whole}
        journal.save_billed(run.run_id, told, now)
    return found


def bill_json(invoice: Invoice, provider: str, runs: Sequence[BilledRun]) -> dict[str, object]:
    """What --json prints of a bill."""
    return {
        "provider": provider,
        "begin": invoice.begin.isoformat(),
        "end": invoice.end.isoformat(),
        "currency": invoice.currency,
        "complete": invoice.is_whole,
        "whole_until": invoice.whole_until.isoformat(),
        "runs": [
            {
                "run_id": run.run_id,
                "job_name": run.job_name,
                "estimated_usd": _float(run.estimated_usd),
                "receipt_usd": None if run.receipt is None else {k: float(v) for k, v in run.receipt.items()},
                "billed": {str(part): float(amount) for part, amount in run.billed.items()},
            }
            for run in runs
        ],
        "without_label": {str(part): float(amount) for part, amount in invoice.by_part("").items()},
        "notes": list(invoice.notes),
    }


def _float(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)
