"""What AWS has billed: Cost Explorer, by the tag of a run and the type of usage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from trainplan.providers.aws.account import AwsAccount
from trainplan.providers.aws.alarm import PAYER
from trainplan.providers.base import LABEL_RUN
from trainplan.providers.cloud.invoice import Invoice, InvoiceLine, Part
from trainplan.providers.errors import BadRequestError, PermissionDeniedError, ProviderError

ASKING_COSTS = "AWS takes one cent for each page of costs, of which there are two at least: costs and credits"
"""Prices of AWS Cost Management: 0.01 USD for each paginated request of Cost Explorer's API."""
REGION = "us-east-1"
_PARTS = (
    (re.compile(r"(BoxUsage|SpotUsage|DedicatedUsage|UnusedBox)"), Part.COMPUTE),
    (re.compile(r"EBS:"), Part.DISK),
    (re.compile(r"(PublicIPv4|ElasticIP|IdleAddress)"), Part.ADDRESS),
    (re.compile(r"(DataTransfer|-Bytes$|-Out-|-In-)"), Part.TRANSFER),
    (re.compile(r"(TimedStorage|Requests-)"), Part.STORAGE),
    (re.compile(r"^(NoUsageType|)$"), Part.TAX),
)
_CREDITS = {"Dimensions": {"Key": "RECORD_TYPE", "Values": ["Credit", "Refund"]}}
"""Lines of a bill that take something off again (Cost Explorer's charge types)."""
"""By the name of the usage type, without the region's code that stands before it. That taxes have none is assumed."""
_NOT_ACTIVE = (
    f"no cost has the tag {LABEL_RUN}: it has to be switched on (console: Billing, Cost allocation tags), which counts "
    "from a day later on, and not for what was billed before"
)

_NEW_ACCOUNT = "AWS has costs of an account a day after Cost Explorer is first opened (console: Billing, Cost Explorer)"


@dataclass(frozen=True)
class AwsInvoice:
    """Asks Cost Explorer."""

    account: AwsAccount

    def told(self, begin: date, end: date) -> Invoice:
        """Raises ProviderError."""
        lines: list[InvoiceLine] = []
        whole_until, currency = end, "USD"
        costs = [(day, None) for day in self._days(begin, end, {"Not": _CREDITS}, "USAGE_TYPE")]
        credits_ = [(day, Part.CREDIT) for day in self._days(begin, end, _CREDITS, "RECORD_TYPE")]
        for day, part in (*costs, *credits_):
            if day.get("Estimated"):
                whole_until = min(whole_until, date.fromisoformat(day["TimePeriod"]["Start"]))
            for group in day.get("Groups", ()):
                metric = group["Metrics"]["UnblendedCost"]
                currency = str(metric["Unit"])
                tag, what = map(str, group["Keys"])
                run_id, amount = tag.partition("$")[2], Decimal(str(metric["Amount"]))
                lines.append(InvoiceLine(run_id=run_id, part=part or part_of(what), amount=amount, what=what))
        notes = [_NOT_ACTIVE] if lines and not any(line.run_id for line in lines) else []
        return Invoice(
            begin=begin, end=end, currency=currency, lines=tuple(lines), whole_until=whole_until, notes=tuple(notes)
        )

    def _days(self, begin: date, end: date, lines: Mapping[str, Any], group: str) -> list[dict[str, Any]]:
        """Each day's costs by run and by a dimension, of the lines that a filter of Cost Explorer takes."""
        if end <= begin:
            raise BadRequestError(f"costs from {begin} up to {end}: no day lies between", hint="a later end")
        asked: dict[str, Any] = {
            "TimePeriod": {"Start": begin.isoformat(), "End": end.isoformat()},
            "Granularity": "DAILY",
            "Metrics": ["UnblendedCost"],
            "Filter": lines,
            "GroupBy": [{"Type": "TAG", "Key": LABEL_RUN}, {"Type": "DIMENSION", "Key": group}],
        }
        days: list[dict[str, Any]] = []
        while True:
            try:
                page = self.account.api.call("ce", REGION, "GetCostAndUsage", asked)
            except ProviderError as error:
                if error.code == "DataUnavailableException":
                    raise BadRequestError(error.message, hint=_NEW_ACCOUNT, code=error.code) from error
                if isinstance(error, PermissionDeniedError):
                    raise PermissionDeniedError(
                        error.message, hint=f"{error.hint}; {PAYER}", code=error.code
                    ) from error
                raise
            days += page.get("ResultsByTime", ())
            if not page.get("NextPageToken"):
                return days
            asked = {**asked, "NextPageToken": page["NextPageToken"]}


def part_of(usage_type: str) -> Part:
    """The part of a receipt that a usage type belongs to (`USW2-BoxUsage:g4dn.xlarge`)."""
    return next((part for pattern, part in _PARTS if pattern.search(usage_type)), Part.OTHER)
