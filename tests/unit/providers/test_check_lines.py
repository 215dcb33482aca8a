"""A line of the doctor that hangs hides no other, and one cause is told once."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

from planner.cli.doctor import by_cause
from providers.base import Check, PreflightState
from providers.check_lines import check_lines

if TYPE_CHECKING:
    from collections.abc import Callable

OK, REFUSED, UNKNOWN = PreflightState.OK, PreflightState.REFUSED, PreflightState.UNKNOWN


def answers(name: str, state: PreflightState = OK, detail: str = "fine", fix: str = "") -> Callable[[], Check]:
    return lambda: Check(name=name, state=state, detail=detail, fix=fix)


def test_a_line_that_hangs_is_unknown_and_the_others_are_told_in_their_order() -> None:
    held = Event()

    def hangs() -> Check:
        held.wait(20)
        return answers("network")()

    looks = {
        "identity": answers("identity"),
        "network": hangs,
        "bucket": answers("bucket", REFUSED, "none", "make one"),
    }
    checks = check_lines(looks, limit_seconds=0.3)
    held.set()
    assert [(check.name, check.state, check.detail) for check in checks] == [
        ("identity", OK, "fine"),
        ("network", UNKNOWN, "no answer within 0.3 s"),
        ("bucket", REFUSED, "none"),
    ]


def test_one_cause_is_told_once_with_all_that_it_stops() -> None:
    expired = {"state": REFUSED, "detail": "the sign-in has expired", "fix": "sign in again"}
    checks = [
        answers("identity", **expired)(), answers("regions")(), answers("bucket", **expired)(), answers("network")(),
        answers("timer", REFUSED, "the sign-in has expired", "something else")(),
    ]  # fmt: skip
    assert [(check.name, check.state) for check in by_cause(checks)] == [
        ("identity, bucket", REFUSED), ("regions", OK), ("network", OK), ("timer", REFUSED),
    ]  # fmt: skip
