"""A line of the doctor that hangs hides no other, and one cause is told once."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from tests.doubles.limit import limit_after
from trainplan.planner.cli.commands.doctor import by_cause
from trainplan.providers.base import Check, PreflightState
from trainplan.providers.cloud.checks import check_lines, failed, ok
from trainplan.providers.errors import CredentialsError, ProviderError, TransientError

OK, REFUSED, UNKNOWN = PreflightState.OK, PreflightState.REFUSED, PreflightState.UNKNOWN


def answers(name: str, state: PreflightState = OK, detail: str = "fine", fix: str = "") -> Callable[[], Check]:
    return lambda: Check(name=name, state=state, detail=detail, fix=fix)


def test_a_line_that_hangs_is_unknown_and_the_others_are_told_in_their_order() -> None:
    held = Event()

    def hangs() -> Check:
        held.wait(600)
        return answers("network")()

    looks = {
        "identity": answers("identity"),
        "network": hangs,
        "bucket": answers("bucket", REFUSED, "none", "make one"),
    }
    checks = check_lines(looks, limit=limit_after(2))
    held.set()
    assert [(check.name, check.state, check.detail) for check in checks] == [
        ("identity", OK, "fine"),
        ("network", UNKNOWN, "no answer within 600 s"),
        ("bucket", REFUSED, "none"),
    ]


def test_a_look_that_raises_is_told_as_its_cloud_wants_it() -> None:
    def signed_out() -> Check:
        raise CredentialsError("nobody is signed in", hint="sign in")

    def told(name: str, error: ProviderError) -> Check:
        return failed(name, error, (CredentialsError,))

    checks = check_lines({"identity": signed_out, "network": answers("network")}, told)
    assert checks == [
        Check(name="identity", state=REFUSED, detail="nobody is signed in", fix="sign in"),
        Check(name="network", state=OK, detail="fine"),
    ]
    assert [check.state for check in check_lines({"identity": signed_out})] == [UNKNOWN]
    assert failed("quota", TransientError("no answer"), (CredentialsError,)).state is UNKNOWN


def test_one_look_may_give_several_lines_or_none() -> None:
    quotas = [ok("quota", "cores"), ok("quota", "GPUs")]
    checks = check_lines({"closed": list, "quota": lambda: quotas, "network": answers("network")})
    assert [(check.name, check.detail) for check in checks] == [
        ("quota", "cores"), ("quota", "GPUs"), ("network", "fine"),
    ]  # fmt: skip


def test_what_is_no_answer_of_a_provider_ends_the_doctor() -> None:
    def broken() -> Check:
        raise KeyError("quotas")

    with pytest.raises(KeyError, match="quotas"):
        check_lines({"identity": answers("identity"), "quotas": broken})


def test_one_cause_is_told_once_with_all_that_it_stops() -> None:
    expired: dict[str, Any] = {"state": REFUSED, "detail": "the sign-in has expired", "fix": "sign in again"}
    checks = [
        answers("identity", **expired)(), answers("regions")(), answers("bucket", **expired)(), answers("network")(),
        answers("timer", REFUSED, "the sign-in has expired", "something else")(),
    ]  # fmt: skip
    assert [(check.name, check.state) for check in by_cause(checks)] == [
        ("identity, bucket", REFUSED), ("regions", OK), ("network", OK), ("timer", REFUSED),
    ]  # fmt: skip


def test_what_a_refusal_keeps_from_being_looked_at_is_told_with_the_refusal() -> None:
    """Google's checks without a sign-in: one refused, the others unknown, one of them in words of its own."""
    why = {"detail": "there is no sign-in", "fix": "sign in"}
    checks = [
        answers("GPUs", UNKNOWN, **why)(), answers("identity", REFUSED, **why)(),
        answers("billing", UNKNOWN, "whether it is billed cannot be seen: there is no sign-in", "sign in")(),
        answers("clock", UNKNOWN, "no reply within 7 s", "check the network")(),
    ]  # fmt: skip
    assert [(check.name, check.state, check.detail) for check in by_cause(checks)] == [
        ("GPUs, identity, billing", REFUSED, "there is no sign-in"),
        ("clock", UNKNOWN, "no reply within 7 s"),
    ]
