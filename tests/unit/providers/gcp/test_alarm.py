"""The monthly alarm on Google Cloud: its budget and its channels, made once, changed, removed, told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from tests.contract.gcp import PROJECT
from tests.doubles.google import budgets
from tests.doubles.google.server import GoogleServer
from tests.unit.providers.gcp.account_side import Project, reset
from trainplan.providers.abilities import SetupStep
from trainplan.providers.cloud.alarm import Alarms, wanted
from trainplan.providers.errors import BadRequestError, PermissionDeniedError

ME, BOSS = "me@example.com", "boss@example.com"


@pytest.fixture
def project(server: GoogleServer, tmp_path: Path) -> Iterator[Project]:
    reset(server)
    made = Project(server, tmp_path)
    made.set_up()
    yield made
    assert made.world.violations == []


def carry_out(project: Project, steps: Sequence[SetupStep]) -> None:
    asked = project.waiting()
    for step in steps:
        asked.carry_out(step, lambda _: None)


def make(project: Project, amount: str, *emails: str) -> list[str]:
    steps = project.provider.alarm_steps(wanted(amount, emails))
    carry_out(project, steps)
    return [step.detail for step in steps]


def table(project: Project) -> budgets.Budgets:
    return project.world.table(budgets.Budgets)


def test_an_alarm_is_made_once_with_its_channels(project: Project) -> None:
    assert isinstance(project.provider, Alarms)
    assert project.provider.alarm() is None
    assert len(make(project, "20", ME, BOSS)) == 1
    found = project.provider.alarm()
    assert found is not None
    assert found.text == f"20 EUR a month, mail to {ME}, {BOSS}"
    assert make(project, "20", ME, BOSS) == []
    assert len(table(project).channels) == 2


def test_a_change_uses_the_channel_that_is_there(project: Project) -> None:
    make(project, "20", ME)
    (detail,) = make(project, "30.25", ME, BOSS)
    assert f"in place of 20 EUR a month, mail to {ME}" in detail
    assert len(table(project).budgets) == 1
    assert len(table(project).channels) == 2
    assert wanted("30.25", [BOSS, ME]).is_like(project.provider.alarm())


def test_an_alarm_of_the_28th_is_changed_on_the_third_and_loses_its_cents(project: Project) -> None:
    now = project.world.now
    project.world.pass_by((now.replace(day=28) - now).total_seconds())
    make(project, "20.50", ME)
    project.world.pass_by(timedelta(days=6).total_seconds())
    assert project.world.now.month != now.month
    (detail,) = make(project, "20", ME)
    assert "in place of 20.5 EUR a month" in detail
    assert make(project, "20", ME) == []


def test_it_counts_before_credits_and_a_change_leaves_what_a_person_has_added(project: Project) -> None:
    make(project, "20", ME)
    (budget,) = table(project).budgets.values()
    assert budget["budgetFilter"]["creditTypesTreatment"] == "EXCLUDE_ALL_CREDITS"
    del budget["budgetFilter"]["creditTypesTreatment"]
    budget["notificationsRule"]["pubsubTopic"] = "projects/team/topics/costs"
    (detail,) = make(project, "20", ME)
    assert "before credits" in detail
    assert "in place of 20 EUR a month, mail to me@example.com after credits" in detail
    (budget,) = table(project).budgets.values()
    assert budget["budgetFilter"]["creditTypesTreatment"] == "EXCLUDE_ALL_CREDITS"
    assert budget["notificationsRule"]["pubsubTopic"] == "projects/team/topics/costs"


def test_a_step_that_was_cut_off_is_carried_out_again(project: Project) -> None:
    (step,) = project.provider.alarm_steps(wanted("20", [ME]))
    carry_out(project, [step])
    carry_out(project, [step])
    assert len(table(project).budgets) == len(table(project).channels) == 1


def test_budgets_and_channels_of_others_stay(project: Project) -> None:
    make(project, "20", ME)
    of_others = {"displayName": "team", "amount": {"specifiedAmount": {"units": "5"}}, "notificationsRule": {}}
    for number in range(3):
        name = f"{budgets.ACCOUNT}/budgets/other{number}"
        table(project).budgets[name] = {"name": name, **of_others}
    channel = f"projects/{PROJECT}/notificationChannels/99"
    table(project).channels[channel] = {"name": channel, "type": "email", "labels": {"email_address": "x@y.zz"}}
    carry_out(project, project.provider.alarm_steps(None))
    assert project.provider.alarm() is None
    assert len(table(project).budgets) == 3
    assert list(table(project).channels) == [channel]
    assert project.provider.alarm_steps(None) == []


def test_of_two_alarms_that_two_people_made_at_once_one_stays(project: Project) -> None:
    make(project, "20", ME)
    (name, ours) = next(iter(table(project).budgets.items()))
    twin = f"{budgets.ACCOUNT}/budgets/twin"
    table(project).budgets[twin] = {**ours, "name": twin}
    make(project, "20", ME)
    assert list(table(project).budgets) == [name]
    table(project).budgets[twin] = {**ours, "name": twin}
    carry_out(project, project.provider.alarm_steps(None))
    assert table(project).budgets == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": {"lastPeriodAmount": {}}},
        {"budgetFilter": {"calendarPeriod": "YEAR"}},
        {"budgetFilter": {"services": ["services/24E6-581D-38E5"]}},
        {"spendCap": {"inputState": "CONFIGURED"}},
    ],
)
def test_a_budget_of_that_name_that_somebody_else_made_is_left_alone(
    project: Project, changes: dict[str, object]
) -> None:
    make(project, "20", ME)
    (name, ours) = next(iter(table(project).budgets.items()))
    table(project).budgets[name] = {**ours, **changes}
    for asked in (wanted("30", [ME]), None):
        with pytest.raises(BadRequestError, match="somebody has made another budget"):
            project.provider.alarm_steps(asked)


def test_a_project_that_nobody_pays_for_is_told(project: Project) -> None:
    project.world.scenario = project.world.scenario.model_copy(update={"billing": False})
    with pytest.raises(BadRequestError, match="no billing account pays"):
        project.provider.alarm_steps(wanted("20", [ME]))


def test_who_may_not_make_budgets_is_told_and_nothing_is_half_made(project: Project) -> None:
    project.iam.denied = {"billing.budgets.create"}
    with pytest.raises(PermissionDeniedError, match="billing"):
        make(project, "20", ME)
    project.iam.denied = set()
    make(project, "20", ME)
    assert len(table(project).channels) == 1
