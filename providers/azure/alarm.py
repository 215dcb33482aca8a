"""The monthly alarm as Azure keeps it: a cost budget of the subscription, with notifications by mail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from trainplan.providers.abilities import SetupStep
from trainplan.providers.azure.account import AzureAccount
from trainplan.providers.azure.api import Call, recorded
from trainplan.providers.azure.names import API
from trainplan.providers.cloud.alarm import NAME, SPENT_PERCENT, Alarm, percents, somebody_elses
from trainplan.providers.errors import InstanceNotFoundError

LATE = "Azure has the costs after 8 to 24 hours and looks at them once a day"
"""Microsoft's tutorial on budgets of 2025-06-26, read 2026-11-26: the mail is sent within an hour after that."""


@dataclass(frozen=True)
class AzureAlarm:
    """Every look raises ProviderError. `now` tells the instant: a new budget begins with the month."""

    account: AzureAccount
    now: Callable[[], datetime]

    @property
    def path(self) -> str:
        """The path of the budget."""
        return f"{self.account.home}/providers/Microsoft.Consumption/budgets/{NAME}"

    def found(self) -> Alarm | None:
        document = self._document()
        if document is None:
            return None
        properties: Any = document["properties"]
        kind, grain = properties.get("category"), properties.get("timeGrain")
        if (kind, grain) != ("Cost", "Monthly") or properties.get("filter"):
            raise somebody_elses(NAME, f"{kind}, {grain}", "portal: Cost Management, Budgets")
        rules = (properties.get("notifications") or {}).values()
        emails = dict.fromkeys(address for rule in rules for address in rule.get("contactEmails", ()))
        unit = str((properties.get("currentSpend") or {}).get("unit", ""))
        return Alarm(amount=Decimal(str(properties["amount"])), emails=tuple(emails), currency=unit)

    def steps(self, wanted: Alarm | None) -> list[SetupStep]:
        there = self.found()
        if wanted is None:
            call = Call(method="DELETE", path=self.path, api=API["consumption"])
            return [SetupStep(name="alarm", detail=f"budget {NAME}", calls=(recorded(call),))] if there else []
        if wanted.is_like(there):
            return []
        before = f", in place of {there.text}" if there else ""
        detail = f"budget {NAME} of the subscription: {wanted.text}, {percents()}; free, and {LATE}{before}"
        call = Call(method="PUT", path=self.path, api=API["consumption"], body=self._body(wanted))
        return [SetupStep(name="alarm", detail=detail, calls=(recorded(call),))]

    def _document(self) -> Mapping[str, Any] | None:
        try:
            return self.account.get(self.path, "consumption")
        except InstanceNotFoundError:
            return None

    def _body(self, wanted: Alarm) -> dict[str, Any]:
        """Azure takes a new budget from the first of a month that is not over, and a change only with the version
        that is changed (`eTag`) and the begin that it has ("Start date of budgets cannot be updated", a 400:
        https://github.com/Azure/CanadaPubSecALZ/issues/317)."""
        before = self._document() or {}
        begins = self.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        first = {"startDate": begins.strftime("%Y-%m-%dT%H:%M:%SZ")}
        rules = {f"spent-{percent}": _rule(wanted, percent, "Actual") for percent in SPENT_PERCENT}
        body: dict[str, Any] = {
            "properties": {
                "category": "Cost",
                "amount": float(wanted.amount),
                "timeGrain": "Monthly",
                "timePeriod": before["properties"]["timePeriod"] if before else first,
                "notifications": {**rules, "forecast-100": _rule(wanted, 100, "Forecasted")},
            }
        }
        return {**body, "eTag": before["eTag"]} if "eTag" in before else body


def _rule(wanted: Alarm, percent: int, kind: str) -> dict[str, Any]:
    return {
        "enabled": True,
        "operator": "GreaterThan",
        "threshold": percent,
        "thresholdType": kind,
        "contactEmails": list(wanted.emails),
    }
