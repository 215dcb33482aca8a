"""What Azure has billed: the query of Cost Management over the subscription, by the tag of a run and the meter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from trainplan.providers.azure.account import AzureAccount
from trainplan.providers.azure.api import Call
from trainplan.providers.azure.names import API
from trainplan.providers.base import LABEL_RUN
from trainplan.providers.cloud.invoice import Invoice, InvoiceLine, Part

LAG = timedelta(days=3)
"""Microsoft: costs are there within 8 to 24 hours, and may change for 72 hours (Understand Cost Management data)."""
_SERVICES = {
    "virtual machines": Part.COMPUTE,
    "storage": Part.STORAGE,
    "virtual network": Part.ADDRESS,
    "bandwidth": Part.TRANSFER,
}
_DISK = "disk"


@dataclass(frozen=True)
class AzureInvoice:
    """Asks Cost Management about the whole subscription."""

    account: AzureAccount

    def told(self, begin: date, end: date, now: datetime) -> Invoice:
        """Raises ProviderError."""
        lines: list[InvoiceLine] = []
        currency = ""
        for row in self._rows(begin, end):
            currency = str(row.get("currency", currency))
            meter = f"{row.get('metercategory', '')} / {row.get('metersubcategory', '')}"
            lines.append(
                InvoiceLine(
                    run_id=str(row.get("tagvalue") or ""),
                    part=part_of(str(row.get("metercategory", "")), str(row.get("metersubcategory", ""))),
                    amount=Decimal(str(row["cost"])),
                    what=meter,
                )
            )
        notes = ("taxes are on the invoice alone: Cost Management has costs before tax",)
        whole_until = min(end, (now - LAG).date())
        return Invoice(
            begin=begin, end=end, currency=currency, lines=tuple(lines), whole_until=whole_until, notes=notes
        )

    def _rows(self, begin: date, end: date) -> Iterator[dict[str, Any]]:
        """Each row by the names of its columns, in small letters."""
        call: Call | None = Call(
            method="POST",
            path=f"{self.account.home}/providers/Microsoft.CostManagement/query",
            api=API["costs"],
            body=_query(begin, end),
        )
        while call is not None:
            properties = (self.account.ask(call).body or {}).get("properties", {})
            names = [str(column["name"]).lower() for column in properties.get("columns", ())]
            rows: Sequence[Sequence[object]] = properties.get("rows", ())
            for row in rows:
                yield dict(zip(names, row, strict=True))
            more = properties.get("nextLink")
            call = Call(method="POST", path=more, body=_query(begin, end)) if more else None


def part_of(category: str, sub_category: str) -> Part:
    """The part of a receipt that a meter belongs to. Managed disks are a kind of storage."""
    if _DISK in sub_category.lower():
        return Part.DISK
    return _SERVICES.get(category.lower(), Part.OTHER)


def _query(begin: date, end: date) -> dict[str, Any]:
    last = end - timedelta(days=1)
    return {
        "type": "ActualCost",
        "timeframe": "Custom",
        "timePeriod": {"from": f"{begin}T00:00:00Z", "to": f"{last}T23:59:59Z"},
        "dataset": {
            "granularity": "None",
            "aggregation": {"Cost": {"name": "Cost", "function": "Sum"}},
            "grouping": [
                {"type": "TagKey", "name": LABEL_RUN},
                {"type": "Dimension", "name": "MeterCategory"},
                {"type": "Dimension", "name": "MeterSubCategory"},
            ],
        },
    }
