"""The monthly alarm as Google keeps it: a budget of the project in its billing account, and a channel an address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trainplan.providers.abilities import SetupStep
from trainplan.providers.cloud.alarm import NAME, SPENT_PERCENT, Alarm, percents, somebody_elses
from trainplan.providers.errors import BadRequestError
from trainplan.providers.gcp.setup_steps import StandingResources, json_call

if TYPE_CHECKING:
    from trainplan.providers.base import VendorRequest

LATE = "Google has the costs after up to 24 hours"
"""Google, read 2026-11-28: "Calculating actual spend typically takes up to 24 hours"
(https://docs.cloud.google.com/billing/docs/how-to/budget-api-overview)."""
SERVICES = ("cloudbilling", "billingbudgets", "monitoring")
GROSS = "EXCLUDE_ALL_CREDITS"
"""What a machine costs counts, also while credits pay for it: without it Google subtracts them."""
CHANGED = "amount,budgetFilter,thresholdRules,notificationsRule.monitoringNotificationChannels"
"""The fields that a change replaces. Without them Google leaves what a change sets to 0 as it was."""
_OF_A_PERSON = ("services", "labels")
"""Filters that an alarm has not."""
_WHERE = "console: Billing, Budgets & alerts"
CHANNEL = "channel of "
"""Stands before a mail address in a recorded call: Google names a channel when it is made."""


@dataclass(frozen=True)
class GoogleAlarm:
    """Every look raises ProviderError."""

    at: StandingResources

    def found(self) -> Alarm | None:
        """None too where the project has an API of it switched off, so that nothing can have been made."""
        budget = None if self._off() else self.budget()
        if budget is None:
            return None
        counted = budget.get("budgetFilter", {})
        is_monthly = counted.get("calendarPeriod", "MONTH") == "MONTH"  # Google's default
        if "specifiedAmount" not in budget.get("amount", {}) or not is_monthly:
            raise somebody_elses(self.name, "not an amount for a month", _WHERE)
        if "spendCap" in budget or any(counted.get(name) for name in _OF_A_PERSON):
            raise somebody_elses(self.name, "not for all that the project costs", _WHERE)
        amount = budget["amount"]["specifiedAmount"]
        value = Decimal(str(amount.get("units", "0"))) + Decimal(int(amount.get("nanos", 0))) / 10**9
        addresses = {name: address for address, name in self.channels().items()}
        rule: Mapping[str, Any] = budget.get("notificationsRule", {})
        emails = (addresses.get(name) for name in rule.get("monitoringNotificationChannels", ()))
        return Alarm(
            amount=value, emails=tuple(one for one in emails if one), currency=str(amount.get("currencyCode", ""))
        )

    def steps(self, wanted: Alarm | None) -> list[SetupStep]:
        off, there = self._off(), self.found()
        if wanted is None:
            return self._removal() if there else []
        budgets = [] if off else self.budgets()
        is_gross, twins = all(map(_is_gross, budgets[:1])), budgets[1:]
        if wanted.is_like(there) and is_gross and not twins:
            return []
        before = f", in place of {there.text}{'' if is_gross else ' after credits'}" if there else ""
        detail = f"budget {self.name}: {wanted.text}, {percents()}, before credits; free, and {LATE}{before}"
        calls = [*self._switched_on(off), *self._new_channels(wanted, {} if off else self.channels())]
        calls.append(self._budget_call(wanted, has_one=there is not None))
        # Google takes a name twice: where two people made one at the same time, one of them stays.
        calls += [_deletion(twin) for twin in twins]
        return [SetupStep(name="alarm", detail=detail, calls=tuple(calls))]

    def _off(self) -> list[str]:
        on = self.at.services()
        return [name for name in SERVICES if name not in on]

    @property
    def name(self) -> str:
        """What the budget is called: a billing account pays for several projects."""
        return f"{NAME} {self.at.project}"

    def billing_account(self) -> str:
        """`billingAccounts/…`. Raises BadRequestError where nobody pays for the project."""
        path = f"/v1/projects/{self.at.project}/billingInfo"
        name = str(self.at.account.ask("GET", "cloudbilling", path).get("billingAccountName", ""))
        if not name:
            raise BadRequestError(
                f"no billing account pays for the project {self.at.project}",
                hint="link one in the console, under Billing",
            )
        return name

    def budget(self) -> Mapping[str, Any] | None:
        """The budget of this project as Google returns it, None where there is none."""
        return next(iter(self.budgets()), None)

    def budgets(self) -> list[Mapping[str, Any]]:
        """All of its name: Google does not keep a second one from being made."""
        pages = self._rows("billingbudgets", f"/v1/{self.billing_account()}/budgets", "budgets")
        return [row for row in pages if row.get("displayName") == self.name]

    def channels(self) -> dict[str, str]:
        """The names of the project's channels by mail, by their addresses."""
        rows = self._rows("monitoring", f"/v3/projects/{self.at.project}/notificationChannels", "notificationChannels")
        return {str(row["labels"]["email_address"]): str(row["name"]) for row in rows if row.get("type") == "email"}

    def filled(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a budget's call with the channels by the names that Google gave them."""
        known = self.channels()
        rule = dict(body["notificationsRule"])
        wanted: Sequence[str] = rule["monitoringNotificationChannels"]
        rule["monitoringNotificationChannels"] = [
            known[name.removeprefix(CHANNEL)] if name.startswith(CHANNEL) else name for name in wanted
        ]
        return {**body, "notificationsRule": rule}

    def _rows(self, service: str, path: str, name: str) -> Iterator[Mapping[str, Any]]:
        for page in self.at.account.pages(service, path):
            yield from page.get(name, ())

    def _switched_on(self, off: Sequence[str]) -> list[VendorRequest]:
        if not off:
            return []
        names = [f"{name}.googleapis.com" for name in off]
        path = f"/v1/projects/{self.at.project}/services:batchEnable"
        return [json_call("serviceusage", "services.batchEnable", "POST", path, {"serviceIds": names})]

    def _new_channels(self, wanted: Alarm, known: Mapping[str, str]) -> list[VendorRequest]:
        path = f"/v3/projects/{self.at.project}/notificationChannels"
        return [
            json_call(
                "monitoring",
                "notificationChannels.create",
                "POST",
                path,
                {"type": "email", "displayName": NAME, "labels": {"email_address": address}, "userLabels": {NAME: "1"}},
            )
            for address in wanted.emails
            if address not in known
        ]

    def _budget_call(self, wanted: Alarm, has_one: bool) -> VendorRequest:
        units, cents = divmod(wanted.amount, 1)
        rules = [{"thresholdPercent": percent / 100, "spendBasis": "CURRENT_SPEND"} for percent in SPENT_PERCENT]
        body = {
            "displayName": self.name,
            "budgetFilter": {
                "projects": [f"projects/{self.at.project}"],
                "calendarPeriod": "MONTH",
                "creditTypesTreatment": GROSS,
            },
            "amount": {"specifiedAmount": {"units": str(units), "nanos": int(cents * 10**9)}},
            "thresholdRules": [*rules, {"thresholdPercent": 1.0, "spendBasis": "FORECASTED_SPEND"}],
            "notificationsRule": {"monitoringNotificationChannels": [f"{CHANNEL}{one}" for one in wanted.emails]},
        }
        budget = self.budget() if has_one else None
        if budget is not None:
            path, query = f"/v1/{budget['name']}", {"updateMask": CHANGED}
            return json_call("billingbudgets", "budgets.patch", "PATCH", path, body, query)
        return json_call("billingbudgets", "budgets.create", "POST", f"/v1/{self.billing_account()}/budgets", body)

    def _removal(self) -> list[SetupStep]:
        calls = [_deletion(budget) for budget in self.budgets()]
        rows = self._rows("monitoring", f"/v3/projects/{self.at.project}/notificationChannels", "notificationChannels")
        ours = [str(row["name"]) for row in rows if NAME in row.get("userLabels", {})]
        calls += [json_call("monitoring", "notificationChannels.delete", "DELETE", f"/v3/{name}") for name in ours]
        return [SetupStep(name="alarm", detail=f"budget {self.name} and its mail channels", calls=tuple(calls))]


def _is_gross(budget: Mapping[str, Any]) -> bool:
    return bool(budget.get("budgetFilter", {}).get("creditTypesTreatment") == GROSS)


def _deletion(budget: Mapping[str, Any]) -> VendorRequest:
    return json_call("billingbudgets", "budgets.delete", "DELETE", f"/v1/{budget['name']}")
