"""Ctrl-C, detaching, and a terminal that goes away: what each means for a run here and for one that is rented."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.builders import a_run, a_target, an_attempt
from tests.doubles.clock import NOON, ctrl_c
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import ends_after, stubborn, trains_well, until_asked
from tests.rows import each_row
from trainplan.planner.api.ask import Reply
from trainplan.planner.api.event_lines import bills_line
from trainplan.planner.cli.live_view import LiveView
from trainplan.planner.cli.person import AtTerminal
from trainplan.planner.runs.execution.executor import CtrlC, Detached
from trainplan.planner.runs.execution.nobody import Nobody
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.base import EndKind
from trainplan.providers.errors import CapacityError
from trainplan.providers.interrupts import HungUp
from trainplan.workloads.job import OnSlow

BILLING = {Phase.LAUNCHING, Phase.BOOTING, Phase.RUNNING}
RENTED = a_target("3.6", provider="aws", zone="a")


def hang_up() -> None:
    raise HungUp


def at_terminal(*answers: Reply | type[BaseException]) -> AtTerminal:
    """Somebody who gives these answers, in turn."""
    left = list(answers)

    def answer(question: str, run: Run) -> Reply:
        given = left.pop(0)
        if isinstance(given, Reply):
            return given
        raise given

    return AtTerminal(LiveView(io.StringIO(), lambda: NOON), answer)


def rented(desk: Desk) -> Run:
    """A planned run on a machine that costs money."""
    desk.provider.name = "aws"
    return desk.planned(targets=[RENTED, replace(RENTED, zone="b")])


# --- what Ctrl-C means -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.DONE])
def test_nobody_is_there(phase: Phase) -> None:
    here, there = a_run(phase, attempts=1), a_run(phase, attempts=1, provider="aws")
    pressed = [Nobody().pressed_ctrl_c(here, times) for times in (1, 2, 3, 4)]
    assert pressed == [CtrlC.STOP, CtrlC.END_NOW, CtrlC.DETACH, CtrlC.DETACH]
    pressed = [Nobody().pressed_ctrl_c(there, times) for times in (1, 2, 3)]
    has_no_machine = phase in (Phase.PLANNED, Phase.INTERRUPTED)
    assert pressed == [CtrlC.STOP if has_no_machine else CtrlC.DETACH, CtrlC.DETACH, CtrlC.DETACH]
    assert Nobody().runs_slow(there, "slow") is OnSlow.CONTINUE


@each_row("phase", sorted(BILLING))
@each_row(
    ("answer", "choice"),
    [
        (Reply.YES, CtrlC.STOP),
        (Reply.NO, CtrlC.DETACH),
        (Reply.CLOSED, CtrlC.GO_ON),
        (Reply.LATE, CtrlC.GO_ON),
        (Reply.OVERTAKEN, CtrlC.GO_ON),
    ],
)
def test_somebody_is_asked_once_about_what_is_rented(phase: Phase, answer: Reply, choice: CtrlC) -> None:
    run = a_run(phase, attempts=1, provider="aws")
    person = at_terminal(answer)
    assert person.pressed_ctrl_c(run, 1) is choice
    assert person.pressed_ctrl_c(run, 2) is CtrlC.DETACH, "without a question"


def test_somebody_is_not_asked_about_a_run_on_this_machine() -> None:
    person = at_terminal()
    assert [person.pressed_ctrl_c(a_run(Phase.RUNNING), times) for times in (1, 2)] == [CtrlC.STOP, CtrlC.END_NOW]


def test_ctrl_c_at_the_question_is_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt):
        at_terminal(KeyboardInterrupt).pressed_ctrl_c(a_run(Phase.RUNNING, provider="aws"), 1)
    with pytest.raises(KeyboardInterrupt):
        at_terminal(KeyboardInterrupt).runs_slow(a_run(Phase.RUNNING), "slow")


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        (Reply.YES, OnSlow.CONTINUE),
        (Reply.NO, OnSlow.STOP),
        (Reply.CLOSED, OnSlow.CONTINUE),
        (Reply.LATE, OnSlow.CONTINUE),
        (Reply.OVERTAKEN, OnSlow.CONTINUE),
    ],
)
def test_somebody_decides_about_a_slow_run(answer: Reply, choice: OnSlow) -> None:
    assert at_terminal(answer).runs_slow(a_run(Phase.RUNNING), "slow") is choice


# --- a rented machine --------------------------------------------------------------------------------------------


def followed(desk: Desk, run: Run, *, until_launched: bool = False) -> Run:
    """The run as it is left, by whoever follows it."""
    with pytest.raises(Detached) as left:
        desk.runner().follow(run, desk.request(), until_launched=until_launched)
    return left.value.run


def test_without_a_terminal_the_first_ctrl_c_leaves_it_running(desk: Desk) -> None:
    desk.scripts(until_asked)
    desk.clock.at_sleep[3] = ctrl_c
    left = followed(desk, rented(desk))
    assert (left.phase, left.stop_asked, left.bills) == (Phase.RUNNING, None, True)
    assert desk.provider.count("stop") == desk.provider.count("delete") == 0
    assert desk.leaked == [f"{left.run_id}-1"]


def test_at_a_terminal_the_first_ctrl_c_asks_and_stop_stops(desk: Desk) -> None:
    desk.person = at_terminal(Reply.YES)
    desk.scripts(until_asked)
    desk.clock.at_sleep[3] = ctrl_c
    run, _ = desk.runner().follow(rented(desk), desk.request())
    assert (run.outcome, desk.leaked) == (Outcome.STOPPED, [])
    assert any(path.endswith("complete.json") for path in desk.provider.store(run.run_id).list("checkpoints"))


def test_the_second_ctrl_c_lets_go_even_of_one_that_is_stopping(desk: Desk) -> None:
    desk.person = at_terminal(Reply.YES)
    desk.scripts(stubborn)
    desk.clock.at_sleep |= {3: ctrl_c, 5: ctrl_c}
    left = followed(desk, rented(desk))
    assert (left.phase, left.bills) == (Phase.RUNNING, True)
    assert left.stop_asked is not None, "the wish stays: whoever follows it next sees to it"


@pytest.mark.parametrize("reply", [Reply.CLOSED, Reply.LATE, Reply.OVERTAKEN])
def test_ctrl_c_without_an_answer_to_the_question_follows_the_run_on(desk: Desk, reply: Reply) -> None:
    desk.person = at_terminal(reply)
    desk.clock.at_sleep[3] = ctrl_c
    run, receipt = desk.runner().follow(rented(desk), desk.request())
    assert (run.outcome, receipt.attempts, desk.provider.count("stop")) == (Outcome.SUCCEEDED, 1, 0)


def test_ctrl_c_at_the_question_lets_go(desk: Desk) -> None:
    desk.person = at_terminal(KeyboardInterrupt)
    desk.scripts(until_asked)
    desk.clock.at_sleep[3] = ctrl_c
    left = followed(desk, rented(desk))
    assert (left.phase, left.stop_asked) == (Phase.RUNNING, None)


@pytest.mark.parametrize("operation", ["launch", "get"])
@pytest.mark.parametrize("reply", ["refuse", "lose"])
@pytest.mark.parametrize("breaks", [KeyboardInterrupt, HungUp])
def test_whatever_is_broken_off_the_next_command_finds_the_one_machine(
    desk: Desk, operation: str, reply: str, breaks: type[BaseException]
) -> None:
    getattr(desk.provider, reply)[operation, 1] = breaks()
    left = followed(desk, rented(desk))
    assert left.live
    assert len(desk.leaked) <= 1
    run, _ = desk.runner().follow(desk.journal.run(left.run_id), desk.request())
    assert (run.outcome, len(run.attempts), desk.leaked) == (Outcome.SUCCEEDED, 1, [])


def test_ctrl_c_while_it_is_removed_lets_go_where_nobody_can_be_asked(desk: Desk) -> None:
    desk.provider.slow_deletes = None
    pressed: list[int] = []

    def press(operation: str) -> None:
        if operation == "delete" and not pressed:
            pressed.append(1)
            ctrl_c()

    desk.provider.after = press
    left = followed(desk, rented(desk))
    assert (left.phase, left.outcome, left.bills) == (Phase.TEARING_DOWN, Outcome.SUCCEEDED, True)
    assert len(pressed) == 1


def test_ctrl_c_again_and_again_here_lets_go_too(desk: Desk) -> None:
    """Even of a teardown that does not come to its end."""
    desk.scripts(stubborn)
    desk.provider.slow_deletes = None
    desk.clock.at_sleep |= {3: ctrl_c, 5: ctrl_c, 8: ctrl_c}
    left = followed(desk, desk.planned())
    assert (left.phase, left.outcome) == (Phase.TEARING_DOWN, Outcome.STOPPED)


@pytest.mark.parametrize("sleep", [1, 2, 3])
def test_a_terminal_that_goes_away_lets_go(desk: Desk, sleep: int) -> None:
    """Here too: the run goes on, and ends itself at its deadline."""
    desk.clock.at_sleep[sleep] = hang_up
    left = followed(desk, desk.planned())
    assert left.live
    assert desk.provider.count("stop") == 0
    run, _ = desk.runner().follow(left, desk.request())
    assert run.outcome is Outcome.SUCCEEDED


def test_detaching_waits_until_there_is_an_instance_and_no_longer(desk: Desk) -> None:
    run = rented(desk)
    desk.provider.refuse["launch", 1] = CapacityError("no room")
    left = followed(desk, run, until_launched=True)
    assert (left.phase, len(left.attempts), desk.clock.sleeps) == (Phase.BOOTING, 2, [])
    run, _ = desk.runner().follow(left, desk.request())
    assert run.outcome is Outcome.SUCCEEDED


def test_a_run_that_waits_for_room_can_be_let_go(desk: Desk) -> None:
    """Nothing of it bills; whoever attaches goes on asking."""
    desk.scripts(ends_after(EndKind.RECLAIMED, 10), trains_well)
    desk.provider.refuse["launch", 2] = CapacityError("no room")
    run = rented(desk)
    desk.clock.at_sleep[6] = hang_up
    left = followed(desk, run)
    assert (left.phase, left.bills, desk.leaked) == (Phase.INTERRUPTED, False, [])
    run, _ = desk.runner().follow(left, desk.request())
    assert run.outcome is Outcome.SUCCEEDED


# --- the last line -----------------------------------------------------------------------------------------------


def clock_text(seconds: float) -> str:
    return f"{(NOON + timedelta(seconds=seconds)).astimezone():%Y-%m-%d %H:%M}"


@pytest.mark.parametrize(
    ("changes", "until"),
    [
        ({}, 3600),
        ({"made": (an_attempt(1, RENTED, deadline=NOON + timedelta(minutes=20)),)}, 1200),
        ({"made": (an_attempt(1, RENTED, deadline=NOON + timedelta(days=2)),)}, 3600),
    ],
)
def test_the_last_line_says_what_bills_until_when_and_what_ends_it(changes: dict[str, object], until: float) -> None:
    run = a_run(Phase.RUNNING, target=RENTED, provider="aws", attempts=1, **changes)
    assert bills_line(run) == (
        f"run {run.run_id} bills $3.600/h until {clock_text(until)} at the latest; plan stop {run.run_id} ends it"
    )


@pytest.mark.parametrize("run", [a_run(), a_run(Phase.INTERRUPTED, made=(an_attempt(cleared=True),))])
def test_the_last_line_says_when_nothing_bills(run: Run) -> None:
    assert bills_line(run) == f"nothing of run {run.run_id} bills"
