"""The alarm that ends what runs: made, spent, set anew, removed; by exactly the documented permissions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.harness import request
from tests.doubles.aws import remote
from tests.doubles.aws.remote import Double
from tests.doubles.needs import Need
from tests.doubles.typing_person import AtPty
from tests.unit.providers.aws.account_side import HOME, Desk, signed_in
from tests.unit.providers.aws.conftest import TimedAws
from tests.unit.providers.aws.test_permissions import judged
from trainplan.providers.aws.alarm import AwsAlarm
from trainplan.providers.aws.api import SdkApi
from trainplan.providers.aws.doctor import examine
from trainplan.providers.aws.preflight import standing_check
from trainplan.providers.aws.settings import ALARM_ROLE, REAPER
from trainplan.providers.aws.stop import stop_policy_arn
from trainplan.providers.base import PreflightState
from trainplan.providers.cloud.alarm import Alarm, Stops, wanted
from trainplan.providers.cloud.checks import Limit
from trainplan.providers.errors import PermissionDeniedError

ME = "me@example.com"
STOPPING = wanted("20", [ME], stops=True)


@pytest.fixture
def desk(aws_process: Double, sends: SdkApi, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Desk]:
    signed_in(monkeypatch)
    aws_process.reset()
    return lambda **changes: Desk(aws_process, sends, **changes)


def made(desk: Callable[..., Desk], asked: Alarm | None = STOPPING) -> list[str]:
    """The names of the steps that this alarm took."""
    at = desk()
    steps = AwsAlarm(at.at).steps(asked)
    at.carry_out(steps)
    return [one.name for one in steps]


def line(desk: Callable[..., Desk]) -> tuple[PreflightState, str]:
    found = next(check for check in examine(desk().at, Limit(60.0)) if check.name == "alarm")
    return found.state, found.detail


def test_what_it_would_end_is_said_before_and_it_is_made_once(desk: Callable[..., Desk]) -> None:
    budget, role, stop = AwsAlarm(desk().at).steps(STOPPING)
    assert "20 USD a month" in budget.detail
    assert "ends what runs when it is spent" in budget.detail
    assert "every machine of trainplan in this account, whoever launched it" in stop.detail
    assert "8 to 12 hours" in stop.detail
    assert "one policy to that one role" in role.detail
    assert made(desk) == ["alarm", "alarm's role", "alarm's stop"]
    assert STOPPING.is_like(AwsAlarm(desk().at).found())
    assert made(desk) == []
    state, detail = line(desk)
    assert (state, "ends what runs when it is spent" in detail) == (PreflightState.OK, True)


def test_spent_by_credits_too_it_ends_what_runs_and_lets_nothing_be_launched(
    desk: Callable[..., Desk], aws_process: Double, provider: TimedAws
) -> None:
    aws_process.reset(bucket=True)
    made(desk)
    alive = provider.launch(request(provider))
    aws_process.ask("spend", usd=19.0, credit_usd=19.0)
    aws_process.sleep(600)
    assert aws_process.remaining() != [], "nothing is ended before all is spent"
    aws_process.ask("spend", usd=21.0, credit_usd=21.0)
    assert {mail["percent"] for mail in aws_process.ask("mails")} == {50, 90, 100}
    aws_process.sleep(600)
    (machine,) = [row for row in aws_process.ask("ledger") if row["id"] == alive.ref.id]
    assert machine["ended_at"] is not None
    assert line(desk)[0] is PreflightState.REFUSED
    assert standing_check(desk().at).state is PreflightState.REFUSED
    with pytest.raises(PermissionDeniedError, match="alarm is spent") as refused:
        provider.resolve(request(provider))
    assert "plan setup aws --alarm" in refused.value.hint
    assert made(desk, wanted("50", [ME], stops=True)) == ["alarm", "alarm's stop"]
    assert line(desk)[0] is PreflightState.OK
    provider.resolve(request(provider))
    assert made(desk, wanted("50", [ME], stops=True)) == []


def test_one_of_aws_own_that_counts_credits_stays_silent(desk: Callable[..., Desk], aws_process: Double) -> None:
    """The double takes credits off where a budget does not say otherwise, as AWS does."""
    made(desk, wanted("20", [ME]))
    at = desk()
    account, budget = at.account.identity().account, {"BudgetName": "mine", "BudgetType": "COST", "TimeUnit": "MONTHLY"}
    rule = {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 50.0}
    people = [{"SubscriptionType": "EMAIL", "Address": "silent@example.com"}]
    at.api.call(
        "budgets", HOME, "CreateBudget",
        {
            "AccountId": account,
            "Budget": {**budget, "BudgetLimit": {"Amount": "20", "Unit": "USD"}},
            "NotificationsWithSubscribers": [{"Notification": rule, "Subscribers": people}],
        },
    )  # fmt: skip
    aws_process.ask("spend", usd=100.0, credit_usd=100.0)
    assert {mail["to"] for mail in aws_process.ask("mails")} == {ME}


@pytest.mark.parametrize("most", range(6))
def test_one_that_was_cut_off_is_gone_on_with(desk: Callable[..., Desk], most: int) -> None:
    cut = desk(most=most)
    with contextlib.suppress(KeyboardInterrupt):
        cut.carry_out(AwsAlarm(cut.at).steps(STOPPING))
    made(desk)
    assert STOPPING.is_like(AwsAlarm(desk().at).found())
    assert made(desk) == []


def test_without_the_option_it_warns_alone_again_and_removal_leaves_nothing(
    desk: Callable[..., Desk], sends: SdkApi
) -> None:
    made(desk)
    assert made(desk, wanted("20", [ME])) == ["alarm's stop", "alarm's role"]
    assert wanted("20", [ME]).is_like(AwsAlarm(desk().at).found())
    made(desk)
    arn = stop_policy_arn(desk().account.identity())
    sends.call("iam", HOME, "AttachRolePolicy", {"RoleName": REAPER, "PolicyArn": arn})
    assert made(desk, None) == ["alarm's stop", "alarm's role", "alarm"]
    assert made(desk, None) == []
    assert not desk().account.is_stopped()
    assert desk().at.role(ALARM_ROLE) is None
    assert desk().at.find("iam", "GetPolicy", {"PolicyArn": arn}) is None


def test_whoever_makes_it_may_do_exactly_what_that_takes(
    desk: Callable[..., Desk], aws_process: Double, sends: SdkApi
) -> None:
    aws_process.reset(policies=["alarm", "setup"])
    made(desk, wanted("20", ["old@example.com"]))
    made(desk, wanted("30", [ME]))
    made(desk)
    aws_process.ask("permit", policies=[])
    arn = stop_policy_arn(desk().account.identity())
    sends.call("iam", HOME, "AttachRolePolicy", {"RoleName": REAPER, "PolicyArn": arn})
    aws_process.ask("permit", policies=["alarm", "setup"])
    made(desk)
    made(desk, None)
    assert aws_process.ask("unpermitted") == []
    needed = [Need(**row) for row in aws_process.ask("needed")]
    assert judged("alarm", [one for one in needed if one.action != "sts:GetCallerIdentity"]) == ([], set())


def test_a_person_is_asked_what_would_end(aws_process: Double, tmp_path: Path) -> None:
    aws_process.reset()
    there = {**remote.ENVIRONMENT, "PLAN_AWS_ENDPOINT": aws_process.url, "PLAN_AWS_REGION": HOME}
    with AtPty(tmp_path, "setup", "aws", "--alarm", "20", "--email", ME, "--stop", **there) as person:
        person.wait_for(
            "the alarm's stop would end every machine of trainplan in this account, whoever launched it; make"
        )
        person.type("n\n")
        code, _ = person.wait_for_end()
    assert code != 0
    assert [call for call in aws_process.ask("calls") if call["operation"].startswith(("Create", "Put"))] == []


def test_the_provider_has_it(provider: TimedAws) -> None:
    assert isinstance(provider, Stops)
    assert "every machine" in provider.alarm_ends()
