"""The monthly alarm on AWS: made once, changed, removed, and told."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.doubles.aws.remote import Double
from tests.unit.providers.aws.account_side import ACCOUNT, HOME, Desk, signed_in
from tests.unit.providers.aws.conftest import TimedAws
from trainplan.providers.aws.alarm import _RULES, AwsAlarm, _budget
from trainplan.providers.aws.api import SdkApi
from trainplan.providers.cloud.alarm import NAME, Alarms, wanted
from trainplan.providers.errors import BadRequestError, PermissionDeniedError

ME = "me@example.com"


@pytest.fixture
def desk(aws_process: Double, sends: SdkApi, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Desk]:
    signed_in(monkeypatch)
    aws_process.reset()
    return lambda **changes: Desk(aws_process, sends, **changes)


def test_an_alarm_is_made_once_and_told(desk: Callable[..., Desk]) -> None:
    first = desk()
    alarm = AwsAlarm(first.at)
    assert alarm.found() is None
    asked = wanted("20", [ME, "boss@example.com"])
    (step,) = alarm.steps(asked)
    assert "20 USD a month" in step.detail, "AWS takes a budget in no other currency"
    assert "counts what was spent as 0" not in step.detail
    assert first.api.calls == []
    first.carry_out([step])
    found = alarm.found()
    assert asked.is_like(found)
    assert found is not None
    assert found.text == f"20 USD a month, mail to {ME}, boss@example.com"
    assert alarm.steps(asked) == []


def test_a_change_says_what_it_replaces(desk: Callable[..., Desk]) -> None:
    at = desk()
    alarm = AwsAlarm(at.at)
    at.carry_out(alarm.steps(wanted("20", ["other@example.com"])))
    (step,) = alarm.steps(wanted("30.50", [ME]))
    assert "AWS counts what was spent as 0 until it has new costs" in step.detail
    assert "in place of 20 USD a month, mail to other@example.com" in step.detail
    at.carry_out([step])
    assert wanted("30.5", [ME]).is_like(alarm.found())


def test_it_counts_before_credits_and_one_that_does_not_is_mended(desk: Callable[..., Desk]) -> None:
    """What AWS counts where nothing is said: a new customer's credits keep the alarm silent."""
    at = desk()
    silent = {name: value for name, value in _budget(wanted("20", [ME])).items() if name != "CostTypes"}
    people = [{"SubscriptionType": "EMAIL", "Address": ME}]
    rules = [{"Notification": rule, "Subscribers": people} for rule in _RULES]
    request = {"AccountId": ACCOUNT, "Budget": silent, "NotificationsWithSubscribers": rules}
    at.api.call("budgets", HOME, "CreateBudget", request)
    alarm = AwsAlarm(at.at)
    (step,) = alarm.steps(wanted("20", [ME]))
    assert "in place of 20 USD a month, mail to me@example.com after credits" in step.detail
    at.carry_out([step])
    types = shown(at)["CostTypes"]
    assert (types["IncludeCredit"], types["IncludeRefund"]) == (False, False)
    assert alarm.steps(wanted("20", [ME])) == []


def test_one_of_the_28th_that_is_changed_on_the_3rd_begins_when_it_did(
    desk: Callable[..., Desk], aws_process: Double
) -> None:
    at = desk()
    aws_process.sleep(7 * 86_400)  # noon of 2026-11-28
    at.carry_out(AwsAlarm(at.at).steps(wanted("20", [ME])))
    began = shown(at)["TimePeriod"]["Start"]
    aws_process.sleep(5 * 86_400)
    at.carry_out(AwsAlarm(at.at).steps(wanted("30", [ME, "new@example.com"])))
    assert wanted("30", [ME, "new@example.com"]).is_like(AwsAlarm(at.at).found())
    assert shown(at)["TimePeriod"]["Start"] == began
    assert (began.month, began.day) == (11, 1)


def shown(at: Desk) -> Any:
    return at.api.call("budgets", HOME, "DescribeBudget", {"AccountId": ACCOUNT, "BudgetName": NAME})["Budget"]


@pytest.mark.parametrize("most", range(10))
def test_a_change_that_is_cut_off_leaves_an_alarm_and_goes_on(desk: Callable[..., Desk], most: int) -> None:
    """Killed before each of its calls: somebody is warned at every threshold, at the old amount or the new one."""
    before = desk()
    before.carry_out(AwsAlarm(before.at).steps(wanted("20", [ME, "old@example.com"])))
    asked = wanted("30", [ME, "new@example.com"])
    cut = desk(most=most)
    try:
        cut.carry_out(AwsAlarm(cut.at).steps(asked))
    except KeyboardInterrupt:
        pass
    else:
        assert most == 4 + 1 + 4, "an address at each of four thresholds, the amount, an address at each"
    between = desk()
    alarm = AwsAlarm(between.at)
    found = alarm.found()
    assert found is not None
    assert found.amount in (20, 30)
    assert all(ME in alarm._heard(rule) for rule in _RULES)
    again = desk()
    again.carry_out(AwsAlarm(again.at).steps(asked))
    assert asked.is_like(AwsAlarm(again.at).found())
    assert AwsAlarm(desk().at).steps(asked) == []


def test_a_change_of_everybody_leaves_no_threshold_without_anybody(desk: Callable[..., Desk]) -> None:
    before = desk()
    before.carry_out(AwsAlarm(before.at).steps(wanted("20", ["old@example.com"])))
    for most in range(8):
        cut = desk(most=most)
        with contextlib.suppress(KeyboardInterrupt):
            cut.carry_out(AwsAlarm(cut.at).steps(wanted("20", [ME])))
        alarm = AwsAlarm(desk().at)
        assert all(alarm._heard(rule) for rule in _RULES)


@pytest.mark.parametrize(
    "changes",
    [{"TimeUnit": "DAILY"}, {"BudgetType": "USAGE"}, {"CostFilters": {"Service": ["Amazon Simple Queue Service"]}}],
)
def test_a_budget_of_that_name_that_somebody_else_made_is_left_alone(
    desk: Callable[..., Desk], changes: dict[str, object]
) -> None:
    at = desk()
    other = {**_budget(wanted("20", [ME])), **changes}
    at.api.call("budgets", HOME, "CreateBudget", {"AccountId": ACCOUNT, "Budget": other})
    for asked in (wanted("30", [ME]), None):
        with pytest.raises(BadRequestError, match="somebody has made another budget trainplan-alarm"):
            AwsAlarm(at.at).steps(asked)


@pytest.mark.parametrize("operation", ["DescribeBudget", "CreateBudget"])
def test_a_payer_that_forbids_budgets_is_told_and_nothing_is_half_made(
    aws_process: Double, desk: Callable[..., Desk], operation: str
) -> None:
    at = desk()
    aws_process.reset(
        faults=[{"service": "budgets", "operation": operation, "code": "AccessDeniedException", "times": 1}]
    )
    with pytest.raises(PermissionDeniedError) as denied:
        at.carry_out(AwsAlarm(at.at).steps(wanted("20", [ME])))
    assert operation != "DescribeBudget" or "root user" in denied.value.hint
    assert operation != "DescribeBudget" or "where another account pays" in denied.value.hint
    assert AwsAlarm(desk().at).found() is None


def test_removal_leaves_none_and_is_done_once(desk: Callable[..., Desk]) -> None:
    at = desk()
    alarm = AwsAlarm(at.at)
    at.carry_out(alarm.steps(wanted("20", [ME])))
    step = alarm.steps(None)
    at.carry_out(step)
    at.carry_out(step)  # a second command that saw the same
    assert alarm.found() is None
    assert alarm.steps(None) == []


def test_the_provider_has_it(provider: TimedAws) -> None:
    assert isinstance(provider, Alarms)
    assert provider.alarm() is None
    (line,) = [one for one in provider.doctor() if one.name == "alarm"]
    assert line.detail == (
        "no alarm is set: nobody would be mailed when a month costs more than planned "
        "(an alarm is free; AWS looks at the costs several times a day)"
    )
    assert "--alarm" in line.fix
