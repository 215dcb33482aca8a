"""Calls of a set-up: sent again while that helps, waited for until they have taken effect, and never for ever."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from trainplan.providers.base import VendorRequest
from trainplan.providers.cloud.propagation import Pair, pair_of
from trainplan.providers.cloud.setup_steps import StepEngine
from trainplan.providers.errors import BadRequestError, PermissionDeniedError, ProviderError, TransientError

CALL = VendorRequest(service="iam", operation="PutRolePolicy", parameters={"RoleName": "r"})
TOO_NEW = "NoSuchEntity"
PAIR = pair_of("aws", "role", CALL.operation)


@dataclass
class Vendor:
    """Answers each send with the next of `answers`, and is under way for as long as `states` has some."""

    answers: list[ProviderError | str]
    states: list[str] = field(default_factory=list)
    sends: int = 0

    def send(self, call: VendorRequest) -> str:
        assert call == CALL
        self.sends += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ProviderError):
            raise answer
        return answer

    def too_new(self, call: VendorRequest, error: ProviderError) -> Pair | None:
        return PAIR if error.code == TOO_NEW else None

    def may_pass(self, call: VendorRequest, error: ProviderError) -> bool:
        return isinstance(error, TransientError)

    def under_way(self, call: VendorRequest, answer: Any) -> str:
        assert answer == "made"
        return self.states.pop(0) if self.states else ""


@dataclass
class Desk:
    vendor: Vendor
    slept: list[float] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def carry_out(self, **patience: float) -> None:
        given = {"pause_seconds": 10.0, "trouble_seconds": 60.0, "effect_seconds": 60.0} | patience
        StepEngine(calls=self.vendor, sleep=self.slept.append, **given).carry_out(CALL, self.lines.append)


@pytest.fixture
def desk() -> Desk:
    return Desk(Vendor(["made"]))


def test_a_call_that_takes_effect_at_once_is_sent_once(desk: Desk) -> None:
    desk.carry_out()
    assert (desk.vendor.sends, desk.slept, desk.lines) == (1, [], [])


def test_trouble_that_passes_is_waited_for(desk: Desk) -> None:
    desk.vendor.answers = [TransientError("lost"), TransientError("lost"), "made"]
    desk.carry_out()
    assert (desk.vendor.sends, desk.slept) == (3, [10.0, 10.0])


def test_trouble_that_lasts_is_raised(desk: Desk) -> None:
    desk.vendor.answers = [TransientError("lost")]
    with pytest.raises(TransientError, match="lost"):
        desk.carry_out(trouble_seconds=20.0)
    assert desk.vendor.sends == 3


def test_a_cloud_without_patience_sends_once(desk: Desk) -> None:
    desk.vendor.answers = [TransientError("lost"), "made"]
    with pytest.raises(TransientError):
        desk.carry_out(trouble_seconds=0.0)
    assert desk.vendor.sends == 1


def test_what_stays_wrong_is_raised_at_once(desk: Desk) -> None:
    desk.vendor.answers = [BadRequestError("wrong"), "made"]
    with pytest.raises(BadRequestError):
        desk.carry_out()
    assert desk.vendor.sends == 1


def test_what_is_too_new_is_waited_for_as_long_as_its_pair_says_and_told_once(desk: Desk) -> None:
    assert PAIR is not None
    desk.vendor.answers = [BadRequestError("no such role", code=TOO_NEW)]
    with pytest.raises(PermissionDeniedError, match="asked again for"):
        desk.carry_out()
    assert sum(desk.slept) == pytest.approx(PAIR.patience_seconds, abs=15)
    assert len(desk.lines) == 1


def test_an_effect_is_waited_for_and_each_state_told_once(desk: Desk) -> None:
    desk.vendor.states = ["Creating", "Creating", "Updating"]
    desk.carry_out()
    assert (desk.slept, desk.lines) == ([10.0] * 3, ["Creating", "Updating"])


def test_an_effect_that_never_comes_is_an_error(desk: Desk) -> None:
    desk.vendor.states = ["Creating"] * 100
    with pytest.raises(TransientError, match="PutRolePolicy is not done after 60 s: Creating"):
        desk.carry_out()
    assert desk.vendor.sends == 1
