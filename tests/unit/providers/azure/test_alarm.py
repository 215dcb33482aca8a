"""The monthly alarm on Azure: made once, changed by its version, removed, told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, cast

import pytest

from tests.doubles.clock import NOON
from tests.unit.providers.azure.conftest import Client
from trainplan.providers.azure.alarm import AzureAlarm
from trainplan.providers.azure.provider import AzureProvider
from trainplan.providers.cloud.alarm import Alarms, wanted
from trainplan.providers.errors import BadRequestError, PermissionDeniedError, ProviderError

if TYPE_CHECKING:
    from trainplan.providers.azure.account import AzureAccount

MakeWorld = Callable[..., "Client"]
ME = "me@example.com"


def carry_out(provider: AzureProvider, amount: str, *emails: str) -> list[str]:
    steps = provider.alarm_steps(wanted(amount, emails))
    for step in steps:
        provider.carry_out(step, print)
    return [step.detail for step in steps]


def test_an_alarm_is_made_once_changed_and_removed(make_world: MakeWorld) -> None:
    provider = make_world().provider
    assert isinstance(provider, Alarms)
    assert provider.alarm() is None
    (made,) = carry_out(provider, "20", ME)
    assert "free" in made
    assert carry_out(provider, "20", ME) == []
    (changed,) = carry_out(provider, "35.5", ME, "boss@example.com")
    assert f"in place of 20 CHF a month, mail to {ME}" in changed
    found = provider.alarm()
    assert found is not None
    assert (found.amount, found.emails, found.currency) == (Decimal("35.5"), (ME, "boss@example.com"), "CHF")
    removal = provider.alarm_steps(None)
    for step in [*removal, *removal]:
        provider.carry_out(step, print)
    assert provider.alarm_steps(None) == []


def test_an_alarm_that_was_made_in_an_earlier_month_is_changed(make_world: MakeWorld) -> None:
    """Azure keeps the begin of a budget, and refuses a change that names another."""
    world = make_world()
    twenty_eighth = world.azure.now().replace(day=28)
    world.azure.sleep((twenty_eighth - world.azure.now()).total_seconds())
    carry_out(world.provider, "20", ME)
    world.azure.sleep(timedelta(days=6).total_seconds())
    assert world.azure.now().month != twenty_eighth.month
    (changed,) = carry_out(world.another(), "35", ME)
    assert "in place of 20 CHF a month" in changed
    found = world.another().alarm()
    assert found is not None
    assert found.amount == Decimal(35)


def test_the_doctor_tells_it_and_what_makes_one(make_world: MakeWorld) -> None:
    provider = make_world().provider
    (none,) = [line for line in provider.doctor() if line.name == "alarm"]
    assert (none.state, none.fix) == ("ok", "plan setup azure --alarm 20 --email ADDRESS")
    carry_out(provider, "20", ME)
    (one,) = [line for line in provider.doctor() if line.name == "alarm"]
    assert one.detail.startswith(f"20 CHF a month, mail to {ME}; Azure has the costs after 8 to 24 hours")


def test_who_may_not_make_one_is_told_which_right_is_missing(make_world: MakeWorld) -> None:
    world = make_world()
    world.rules(granted=[{"actions": ["Microsoft.Consumption/budgets/read"], "notActions": []}])
    provider = world.provider
    with pytest.raises(PermissionDeniedError, match="budgets/write"):
        carry_out(provider, "20", ME)
    assert provider.alarm() is None


@pytest.mark.parametrize(
    "changes", [{"timeGrain": "Quarterly"}, {"category": "Usage"}, {"filter": {"tags": {"name": "team"}}}]
)
def test_a_budget_of_that_name_that_somebody_else_made_is_left_alone(changes: dict[str, object]) -> None:
    class OfSomebody:
        home = "/subscriptions/one"

        def get(self, path: str, api: str) -> dict[str, object]:
            assert (path, api) == (alarm.path, "consumption")
            return {"eTag": "1", "properties": {"category": "Cost", "timeGrain": "Monthly", "amount": 7, **changes}}

    alarm = AzureAlarm(cast("AzureAccount", OfSomebody()), lambda: NOON)
    for asked in (wanted("30", [ME]), None):
        with pytest.raises(BadRequestError, match="somebody has made another budget trainplan-alarm"):
            alarm.steps(asked)


def test_an_offer_that_has_no_budgets_is_told_and_nothing_is_half_made(make_world: MakeWorld) -> None:
    """The code is assumed: no reply of such a subscription has been recorded."""
    world = make_world()
    world.script("PUT budgets", code="BadRequest")
    with pytest.raises(ProviderError):
        carry_out(world.provider, "20", ME)
    assert world.provider.alarm() is None
