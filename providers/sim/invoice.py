"""What the simulated cloud has billed, as a vendor tells it: its ledger, by the label of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from trainplan.providers.cloud.invoice import Invoice, InvoiceLine, Part

_PARTS = {"instance": Part.COMPUTE, "disk": Part.DISK, "address": Part.ADDRESS, "transfer": Part.TRANSFER}


def invoice_of(ledger: Mapping[str, Any], begin: date, end: date) -> Invoice:
    """The bill of the days from `begin` up to but without `end`. What lasted longer is shared out by its time; a
    transfer, of which the ledger has no time, is in the bill of any days on which something of its run was billed."""
    now = datetime.fromisoformat(ledger["now"])
    first, last = (datetime.combine(day, time(), UTC) for day in (begin, end))
    lines = [line for row in ledger["resources"] for line in _line(row, first, last, now)]
    runs = {line.run_id for line in lines}
    lines += [_transfer(row) for row in ledger["transfers"] if row["run"] in runs]
    return Invoice(begin=begin, end=end, currency="USD", lines=tuple(lines), whole_until=end)


def _line(row: Mapping[str, Any], first: datetime, last: datetime, now: datetime) -> Iterator[InvoiceLine]:
    part = _PARTS.get(row["kind"])
    if part is None:  # a schedule costs nothing
        return
    began_at = datetime.fromisoformat(row["created_at"])
    ended_at = datetime.fromisoformat(row["ended_at"]) if row["ended_at"] else now
    lasting = (ended_at - began_at).total_seconds()
    within = (min(ended_at, last) - max(began_at, first)).total_seconds()
    if within <= 0 or lasting <= 0:
        return
    amount = Decimal(row["usd"]) * Decimal(within / lasting)
    yield InvoiceLine(run_id=row["run"] or "", part=part, amount=amount, what=row["kind"])


def _transfer(row: Mapping[str, Any]) -> InvoiceLine:
    return InvoiceLine(run_id=row["run"], part=Part.TRANSFER, amount=Decimal(row["usd"]), what="transfer")
