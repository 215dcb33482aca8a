"""The monthly alarm as AWS keeps it: a cost budget of AWS Budgets with mail notifications, free (AWS's price list of
2026-11: 0 USD a budget-day without actions)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from providers.aws.setup_steps import StandingResources, step
from providers.cloud.alarm import NAME, SPENT_PERCENT, Alarm, percents

if TYPE_CHECKING:
    from providers.abilities import SetupStep
    from providers.base import VendorRequest

LATE = "AWS looks at the costs several times a day"
"""The reference of AWS Budgets, read 2026-11-26; it states no hours."""
_SERVICE = "budgets"


@dataclass(frozen=True)
class AwsAlarm:
    """Every look raises ProviderError."""

    at: StandingResources

    def found(self) -> Alarm | None:
        reply = self.at.find(_SERVICE, "DescribeBudget", self._who())
        if reply is None:
            return None
        limit = reply["Budget"]["BudgetLimit"]
        told = {**self._who(), "Notification": _notification("ACTUAL", 100)}
        heard = self.at.find(_SERVICE, "DescribeSubscribersForNotification", told)
        rows: Sequence[Any] = (heard or {}).get("Subscribers", ())
        emails = tuple(row["Address"] for row in rows if row["SubscriptionType"] == "EMAIL")
        return Alarm(amount=Decimal(str(limit["Amount"])), emails=emails, currency=str(limit["Unit"]))

    def steps(self, wanted: Alarm | None) -> list[SetupStep]:
        """A budget that is changed is deleted and made anew: its notifications cannot be changed in one call."""
        there = self.found()
        if wanted is None:
            calls = [self._call("DeleteBudget")] if there else []
            return [one for one in (step("alarm", f"budget {NAME}", calls),) if one is not None]
        if wanted.is_like(there):
            return []
        calls = [*([self._call("DeleteBudget")] if there else []), self._create(wanted)]
        before = f", in place of {there.text}" if there else ""
        detail = f"budget {NAME}: {wanted.text}, {percents()}; free, {LATE}{before}"
        return [one for one in (step("alarm", detail, calls),) if one is not None]

    def _who(self) -> dict[str, object]:
        return {"AccountId": self.at.account.identity().account, "BudgetName": NAME}

    def _call(self, operation: str) -> VendorRequest:
        return self.at.call(_SERVICE, operation, **self._who())

    def _create(self, wanted: Alarm) -> VendorRequest:
        people = [{"SubscriptionType": "EMAIL", "Address": address} for address in wanted.emails]
        rules = [*(_notification("ACTUAL", percent) for percent in SPENT_PERCENT), _notification("FORECASTED", 100)]
        return self.at.call(
            _SERVICE,
            "CreateBudget",
            AccountId=self.at.account.identity().account,
            Budget={
                "BudgetName": NAME,
                "BudgetType": "COST",
                "TimeUnit": "MONTHLY",
                "BudgetLimit": {"Amount": f"{wanted.amount:f}", "Unit": "USD"},
            },
            NotificationsWithSubscribers=[{"Notification": rule, "Subscribers": people} for rule in rules],
        )


def _notification(kind: str, percent: int) -> dict[str, object]:
    return {
        "NotificationType": kind,
        "ComparisonOperator": "GREATER_THAN",
        "Threshold": percent,
        "ThresholdType": "PERCENTAGE",
    }
