"""`plan setup PROVIDER --alarm`: what a person types wrongly is told before anything is made."""

from __future__ import annotations

from decimal import Decimal

import pytest

from trainplan.planner.cli.commands.setup import _compare_alarm, _steps, wanted_alarm
from trainplan.planner.errors import BadInputError
from trainplan.providers.abilities import SetupStep
from trainplan.providers.cloud.alarm import Alarm
from trainplan.providers.errors import BadRequestError, PermissionDeniedError, ProviderError

ME = "me@example.com"


@pytest.mark.parametrize(
    ("amount", "emails", "remove", "words"),
    [
        ("20", [], False, "--email"),
        ("", [ME], False, "--alarm"),
        ("20", [ME], True, "--remove"),
    ],
)
def test_half_an_alarm_is_told(amount: str, emails: list[str], remove: bool, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        wanted_alarm(amount, emails, remove=remove)


def test_none_is_asked_for_where_nothing_is_typed() -> None:
    assert wanted_alarm("", [], remove=False) is None
    assert wanted_alarm("", [], remove=True) is None


class Cloud:
    """A cloud whose set-up can be removed, and whose alarm cannot be looked up."""

    def __init__(self, error: ProviderError) -> None:
        self.error = error

    def lacking(self) -> list[SetupStep]:
        return []

    def removable(self) -> list[SetupStep]:
        return [SetupStep(name="bucket", detail="", calls=())]

    def carry_out(self, step: SetupStep, report: object) -> None: ...

    def alarm(self) -> Alarm | None:
        raise self.error

    def alarm_steps(self, wanted: Alarm | None) -> list[SetupStep]:
        raise self.error


@pytest.mark.parametrize("error", [PermissionDeniedError("not yours"), BadRequestError("nobody pays", hint="link one")])
def test_an_alarm_that_cannot_be_seen_keeps_nothing_else_from_being_removed(
    error: ProviderError, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [step.name for step in _steps("aws", Cloud(error), None, remove=True)] == ["bucket"]
    assert f"the monthly alarm stays, if there is one: {error.message}" in capsys.readouterr().err


def test_a_cloud_that_ends_nothing_by_itself_makes_no_such_alarm() -> None:
    stopping = wanted_alarm("20", [ME], remove=False, stop=True)
    with pytest.raises(BadInputError, match="gcp cannot end machines at an amount") as told:
        _steps("gcp", Cloud(BadRequestError("unused")), stopping, remove=False)
    assert told.value.hint.startswith("leave out --stop")
    for remove, words in ((False, "--stop needs --alarm and --email"), (True, "--remove")):
        with pytest.raises(BadInputError, match=words):
            wanted_alarm("", [], remove=remove, stop=True)


def test_an_alarm_that_somebody_else_made_meanwhile_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    class Paying(Cloud):
        def alarm(self) -> Alarm | None:
            return Alarm(amount=Decimal(7), emails=("boss@example.com",), currency="USD")

    asked = wanted_alarm("20", [ME], remove=False)
    _compare_alarm(Paying(BadRequestError("unused")), asked)
    assert "another alarm stands now: 7 USD a month, mail to boss@example.com" in capsys.readouterr().err
    _compare_alarm(Paying(BadRequestError("unused")), Alarm(amount=Decimal(7), emails=("boss@example.com",)))
    _compare_alarm(Cloud(PermissionDeniedError("not yours")), asked)
    assert capsys.readouterr().err == ""
