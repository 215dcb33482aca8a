"""The monthly alarm as AWS keeps it: a cost budget of AWS Budgets with mail notifications, free (AWS's price list of
2026-11: 0 USD a budget-day without actions, and 62 days a month with)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trainplan.providers.aws.setup_steps import StandingResources, step
from trainplan.providers.aws.stop import AlarmStop
from trainplan.providers.cloud.alarm import NAME, SPENT_PERCENT, Alarm, percents, somebody_elses
from trainplan.providers.errors import PermissionDeniedError

if TYPE_CHECKING:
    from trainplan.providers.abilities import SetupStep
    from trainplan.providers.base import VendorRequest

LATE = "AWS looks at the costs several times a day"
"""The reference of AWS Budgets, read 2026-11-26; it states no hours."""
_SERVICE = "budgets"
_CURRENCY = "USD"
"""AWS refuses a budget in any other: "AUD is not in the supported unit set: [USD]"
(awslabs/landing-zone-accelerator-on-aws issue 682, 2024-12-18)."""
_COUNTS_ANEW = "with the change AWS counts what was spent as 0 until it has new costs"
"""botocore 1.44, budgets, UpdateBudget: what was spent "drops to zero until Amazon Web Services has new usage data"."""
PAYER = (
    "an IAM user or role sees billing only after the root user has allowed it (console: Account, IAM user and role "
    "access to Billing information); where another account pays, that one has to let its members have budgets"
)
"""The root user's switch: https://docs.aws.amazon.com/IAM/latest/UserGuide/tutorial_billing.html; whether it closes the
API too, and not the console alone, is not settled."""
_GROSS = {"IncludeCredit": False, "IncludeRefund": False}
"""AWS counts both where nothing is said, so that credits, a new customer's, keep an alarm silent until they are used up
(botocore 1.44, budgets, CostTypes)."""


@dataclass(frozen=True)
class AwsAlarm:
    """Every look raises ProviderError."""

    at: StandingResources

    def found(self) -> Alarm | None:
        """Raises BadRequestError too where somebody has made another kind of budget under this name."""
        budget = self._budget()
        if budget is None:
            return None
        kind, period = budget.get("BudgetType"), budget.get("TimeUnit")
        if (kind, period) != ("COST", "MONTHLY") or "BudgetLimit" not in budget or _has_filter(budget):
            raise somebody_elses(NAME, f"{kind}, {period}", "console: Billing, Budgets")
        limit = budget["BudgetLimit"]
        emails = tuple(self._heard(_notification("ACTUAL", 100)))
        amount, unit = Decimal(str(limit["Amount"])), str(limit["Unit"])
        return Alarm(amount=amount, emails=emails, currency=unit, stops=AlarmStop(self.at).stands())

    def _budget(self) -> Mapping[str, Any] | None:
        try:
            reply = self.at.find(_SERVICE, "DescribeBudget", self._who())
        except PermissionDeniedError as error:
            raise PermissionDeniedError(error.message, hint=f"{error.hint}; {PAYER}", code=error.code) from error
        return None if reply is None else reply["Budget"]

    def steps(self, wanted: Alarm | None) -> list[SetupStep]:
        """An alarm stands at any time: whoever is new is added before the amount is changed and others are left out."""
        there, stop = self.found(), AlarmStop(self.at)
        wanted = wanted and replace(wanted, currency=_CURRENCY)
        if wanted is None:
            calls = [self._call("DeleteBudget")] if there else []
            # The budget goes last: while it is there, so may be what else was made.
            rest = stop.disarming() if there or self.at.account.is_stopped() else []
            return [*rest, *(one for one in (step("alarm", f"budget {NAME}", calls),) if one is not None)]
        calls = self._changes(there, wanted) if there else [self._create(wanted)]
        before = f", in place of {there.text}{'' if _is_gross(self._budget()) else ' after credits'}" if there else ""
        detail = f"budget {NAME}: {wanted.text}, {percents()}, before credits; free, {LATE}{before}"
        if any(call.operation == "UpdateBudget" for call in calls):
            detail += f"; {_COUNTS_ANEW}"
        budget = [one for one in (step("alarm", detail, calls),) if one is not None]
        if wanted.stops:
            return [*budget, *stop.steps(wanted)]
        ends = (there is not None and there.stops) or self.at.account.is_stopped()
        return [*budget, *(stop.disarming() if ends else ())]

    def _changes(self, there: Alarm, wanted: Alarm) -> list[VendorRequest]:
        more: list[VendorRequest] = []
        less: list[VendorRequest] = []
        for rule in _RULES:
            heard = self._heard(rule)
            missing = [one for one in wanted.emails if one not in heard]
            if heard:
                more += [self._call("CreateSubscriber", Notification=rule, Subscriber=_person(one)) for one in missing]
            else:  # a notification without anybody is none: AWS deletes it with its last subscriber
                people = [_person(one) for one in wanted.emails]
                more.append(self._call("CreateNotification", Notification=rule, Subscribers=people))
            less += [
                self._call("DeleteSubscriber", Notification=rule, Subscriber=_person(one))
                for one in heard
                if one not in wanted.emails
            ]
        budget = self._budget()
        amount = []
        if there.amount != wanted.amount or not _is_gross(budget):
            # The period as it stands: a change that names none is free to begin the budget anew.
            period = {name: f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in (budget or {}).get("TimePeriod", {}).items()}
            new = {**_budget(wanted), **({"TimePeriod": period} if period else {})}
            amount.append(self.at.call(_SERVICE, "UpdateBudget", AccountId=self._who()["AccountId"], NewBudget=new))
        return [*more, *amount, *less]

    def _heard(self, rule: dict[str, object]) -> list[str]:
        """Whom a notification goes to by mail; nobody where it is not there."""
        told = self.at.find(_SERVICE, "DescribeSubscribersForNotification", {**self._who(), "Notification": rule})
        rows: Sequence[Any] = (told or {}).get("Subscribers", ())
        return [str(row["Address"]) for row in rows if row["SubscriptionType"] == "EMAIL"]

    def _who(self) -> dict[str, object]:
        return {"AccountId": self.at.account.identity().account, "BudgetName": NAME}

    def _call(self, operation: str, **parameters: object) -> VendorRequest:
        return self.at.call(_SERVICE, operation, **self._who(), **parameters)

    def _create(self, wanted: Alarm) -> VendorRequest:
        people = [_person(address) for address in wanted.emails]
        return self.at.call(
            _SERVICE,
            "CreateBudget",
            AccountId=self._who()["AccountId"],
            Budget=_budget(wanted),
            NotificationsWithSubscribers=[{"Notification": rule, "Subscribers": people} for rule in _RULES],
        )


def _budget(wanted: Alarm) -> dict[str, object]:
    return {
        "BudgetName": NAME,
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": f"{wanted.amount:f}", "Unit": _CURRENCY},
        "CostTypes": _GROSS,
    }


def _is_gross(budget: Mapping[str, Any] | None) -> bool:
    """Whether a budget counts costs before credits and refunds, as far as AWS says of it: both are counted else."""
    types: Mapping[str, bool] = (budget or {}).get("CostTypes", {})
    return not any(types.get(name, True) for name in _GROSS)


def _has_filter(budget: Mapping[str, Any]) -> bool:
    return bool(budget.get("CostFilters") or budget.get("FilterExpression"))


def _person(address: str) -> dict[str, object]:
    return {"SubscriptionType": "EMAIL", "Address": address}


def _notification(kind: str, percent: int) -> dict[str, object]:
    return {
        "NotificationType": kind,
        "ComparisonOperator": "GREATER_THAN",
        "Threshold": percent,
        "ThresholdType": "PERCENTAGE",
    }


_RULES = (*(_notification("ACTUAL", percent) for percent in SPENT_PERCENT), _notification("FORECASTED", 100))
