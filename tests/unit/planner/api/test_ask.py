"""Questions: what is understood, what counts where nobody answers, and what happens to a run while one waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.doubles.clock import NOON, FakeClock
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import ends_after, until_asked
from tests.doubles.terminal import FakeTerminal
from trainplan.planner.api.ask import ANSWER_WITHIN, SLICE_SECONDS, Reply, ask, confirm
from trainplan.planner.errors import BadInputError, DeclinedError, RefusedError, ThisMachineError
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.runs.telling.news import ASK_PROVIDER_EVERY, READ_JOURNAL_EVERY, News
from trainplan.providers.base import EndKind
from trainplan.providers.errors import TransientError


@pytest.mark.parametrize(
    ("typed", "default", "reply"),
    [
        (["y\n"], None, Reply.YES),
        (["YES\n"], False, Reply.YES),
        (["no\n"], True, Reply.NO),
        (["\n"], True, Reply.YES),
        (["\n"], False, Reply.NO),
        (["\n", "n\n"], None, Reply.NO),
        (["what?\n", "y\n"], True, Reply.YES),
        (["y", None, "e", "s\n"], False, Reply.YES),
        ([None, None, "n\n"], True, Reply.NO),
        ([""], True, Reply.CLOSED),
        (["y", ""], True, Reply.CLOSED),
        ([], True, Reply.LATE),
    ],
)
def test_how_a_question_ends(typed: list[str | None], default: bool | None, reply: Reply) -> None:
    clock = FakeClock()
    assert ask("launch?", FakeTerminal(clock, typed), clock, default=default) is reply


def test_a_question_has_a_limit_and_nobody_waits_much_longer() -> None:
    clock = FakeClock()
    ask("launch?", FakeTerminal(clock), clock)
    assert ANSWER_WITHIN <= clock.now() - NOON <= ANSWER_WITHIN + READ_JOURNAL_EVERY


def test_it_shows_what_an_empty_line_means_and_says_what_it_did_not_understand() -> None:
    clock = FakeClock()
    terminal = FakeTerminal(clock, ["what?\n", "y\n"])
    ask("launch?", terminal, clock, default=True)
    assert terminal.written == "launch? [Y/n]: answer y or n [Y/n]: "


def test_nobody_is_asked_without_a_terminal() -> None:
    clock = FakeClock()
    terminal = FakeTerminal(clock, ["y\n"], there=False)
    assert (ask("launch?", terminal, clock), terminal.written) == (Reply.NOBODY, "")


def test_news_end_a_question_within_a_slice() -> None:
    clock = FakeClock()
    terminal = FakeTerminal(clock)
    reply = ask("stop?", terminal, clock, news=lambda: "it has ended" if terminal.reads >= 3 else "")
    assert (reply, terminal.reads) == (Reply.OVERTAKEN, 3)
    assert terminal.written == "stop? [y/n]: \nit has ended\n"
    assert (clock.now() - NOON).total_seconds() == pytest.approx(3 * SLICE_SECONDS)


@pytest.mark.parametrize(
    ("terminal", "message"),
    [
        (FakeTerminal(FakeClock(), there=False), "the input is not a terminal, so nobody can be asked"),
        (FakeTerminal(FakeClock(), [""]), "the input ended before an answer: nothing was launched"),
    ],
)
def test_a_command_that_is_not_answered_does_nothing_and_says_so(terminal: FakeTerminal, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        confirm("launch?", hint="--yes launches", left_alone="nothing was launched", terminal=terminal)
    assert (caught.value.message, caught.value.hint) == (message, "--yes launches")


def test_no_is_no_and_the_error_for_nobody_can_be_another() -> None:
    said_no, away = FakeTerminal(FakeClock(), ["n\n"]), FakeTerminal(FakeClock(), there=False)
    with pytest.raises(DeclinedError):
        confirm("launch?", hint="", left_alone="", terminal=said_no)
    with pytest.raises(RefusedError, match="dearer"):
        confirm("launch?", hint="", left_alone="", nobody=RefusedError("dearer"), terminal=away)


# --- news of a run -----------------------------------------------------------------------------------------------


def training(desk: Desk) -> Run:
    """A rented run that trains, and that nobody acts on at this moment."""
    desk.scripts(until_asked)
    desk.provider.name = "aws"
    with pytest.raises(Detached):
        desk.executor().follow(desk.planned(), desk.request(), until_launched=True)
    (run,) = desk.journal.live()
    return run


def test_a_run_that_goes_on_is_no_news_and_the_provider_is_not_asked_all_the_time(desk: Desk) -> None:
    run = training(desk)
    news, asked = News(desk.journal, lambda _: desk.provider, desk.clock), desk.provider.count("get")
    for _ in range(100):
        assert news.of(run) == ""
        desk.clock.advance(SLICE_SECONDS)
    seconds = 100 * SLICE_SECONDS
    assert desk.provider.count("get") - asked <= 1 + seconds / ASK_PROVIDER_EVERY.total_seconds()


def test_a_wish_to_stop_of_another_command_is_news(desk: Desk) -> None:
    run = training(desk)
    news = News(desk.journal, lambda _: desk.provider, desk.clock)
    assert news.of(run) == ""
    with desk.reopened() as theirs:
        theirs.ask_to_stop(run.run_id, desk.clock.now())
    desk.clock.advance(READ_JOURNAL_EVERY.total_seconds())
    assert news.of(run) == f"run {run.run_id}: another command has asked it to stop"


def test_the_end_of_the_run_or_of_its_machine_is_news(desk: Desk) -> None:
    run = training(desk)
    news = News(desk.journal, lambda _: desk.provider, desk.clock)
    desk.provider.down["get"] = TransientError("away")
    assert news.of(run) == "", "nobody can tell"
    del desk.provider.down["get"]
    desk.provider.machines[f"{run.run_id}-1"].kill()
    desk.clock.advance(ASK_PROVIDER_EVERY.total_seconds())
    assert news.of(run) == f"the machine of run {run.run_id} has ended meanwhile"
    desk.journal.save(replace(run, phase=Phase.DONE, outcome=Outcome.STOPPED), desk.clock.now())
    desk.clock.advance(1)
    assert news.of(run) == f"run {run.run_id} has ended meanwhile"


def test_a_machine_that_is_gone_is_news_and_a_run_without_one_has_none(desk: Desk) -> None:
    run = training(desk)
    desk.provider.machines.clear()
    assert "has ended" in News(desk.journal, lambda _: desk.provider, desk.clock).of(run)
    without = replace(run, phase=Phase.LAUNCHING)
    assert News(desk.journal, lambda _: desk.provider, desk.clock).of(without) == ""


def test_a_journal_that_nobody_can_read_is_no_news(desk: Desk) -> None:
    run = training(desk)
    desk.journal.close()
    with pytest.raises(ThisMachineError):
        _read_closed(desk, run)
    assert News(desk.journal, lambda _: desk.provider, desk.clock).of(run) == ""


def _read_closed(desk: Desk, run: Run) -> None:
    desk.journal.run(run.run_id)


def test_ends_after_is_seen_from_the_question(desk: Desk) -> None:
    """Training reaches its end while a question waits."""
    desk.scripts(ends_after(EndKind.DONE, 3))
    desk.provider.name = "aws"
    with pytest.raises(Detached):
        desk.executor().follow(desk.planned(), desk.request(), until_launched=True)
    (run,) = desk.journal.live()
    terminal = FakeTerminal(desk.clock)
    news = News(desk.journal, lambda _: desk.provider, desk.clock)
    assert ask("stop?", terminal, desk.clock, news=lambda: news.of(run)) is Reply.OVERTAKEN
    assert desk.clock.now() - run.created_at < ANSWER_WITHIN
