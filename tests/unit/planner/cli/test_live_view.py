"""The line of a training in progress, on screens of several widths."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from trainplan.planner.api.event_lines import progress_line
from trainplan.planner.cli.live_view import LiveView
from trainplan.planner.runs.events import Message, Printed, Progressed

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def an_event() -> Progressed:
    return Progressed(
        step=1_250, total_steps=2_500, epoch=45, epochs=90, loss=0.312, accuracy=0.912, validation_accuracy=0.874,
        images_per_second=12_345.6, eta=timedelta(seconds=4_030), usd_so_far=Decimal("12.34"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (None, "loss 0.312, accuracy 91.2%, validation 87.4%, 12,346 images/s, 1h 07m left, $12.34 so far"),
        (80, "loss 0.312, accuracy 91.2%, 12,346 images/s, 1h 07m left, $12.34 so far"),
        (60, "accuracy 91.2%, 12,346 images/s, 1h 07m left, $12.34 so far"),
        (45, "accuracy 91.2%, 1h 07m left, $12.34 so far"),
        (30, "1h 07m left, $12.34 so far"),
        (5, "$12.34 so far"),
    ],
)
def test_what_is_needed_least_is_left_out_first(width: int | None, text: str) -> None:
    assert progress_line(an_event(), width) == text


def test_what_is_left_has_an_interval_once_the_rate_has_one() -> None:
    assert "1h 07m left (1h 00m to 1h 13m)" in progress_line(replace(an_event(), half_width=0.1))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_bar_and_its_figures_fit_one_line_of_the_screen(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "20")
    monkeypatch.setenv("TERM", "xterm")
    stream = Tty()
    with LiveView(stream, lambda: datetime(2026, 11, 24, tzinfo=UTC)) as view:
        view.show(an_event())
        view._live.refresh()
    lines = [line for line in re.split(r"[\r\n]+", ESCAPES.sub("", stream.getvalue())) if "epoch 45/90" in line]
    assert lines
    assert all(len(line.rstrip()) <= width and "$12.34 so far" in line and "━" * 7 in line for line in lines)


def test_what_the_launch_has_told_the_run_does_not_tell_again() -> None:
    left_out = "ignored 2 files or folders (no image), for example flowers/notes.txt"
    stream = io.StringIO()
    with LiveView(stream, lambda: datetime(2026, 11, 24, tzinfo=UTC), [f"data: {left_out}"]) as view:
        view.show(Message(left_out))
        view.show(Message("the machine was taken back"))
        view.show(Message("the machine was taken back"))
    assert stream.getvalue() == "the machine was taken back\n" * 2


@pytest.mark.parametrize("width", [30, 80])
def test_lines_of_a_run_break_between_words_at_a_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    stream, text = Tty(), "the estimates on this computer were made for another processor, and are made again " * 2
    view = LiveView(stream, lambda: datetime(2026, 11, 24, tzinfo=UTC))
    view.show(Message(text))
    lines = ESCAPES.sub("", stream.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    assert " ".join(lines).split() == text.split()


@pytest.mark.parametrize("quiet", [False, True])
def test_what_a_script_prints_is_shown_unless_nobody_wants_it(quiet: bool) -> None:
    stream = io.StringIO()
    with LiveView(stream, lambda: datetime(2026, 11, 24, tzinfo=UTC), quiet=quiet) as view:
        view.show(Printed(("epoch 1", "key AKIAIOSFODNN7" + "EXAMPLE", "[bold]loss[/] \x1b]0;x\x07")))
        view.show(Message("still there"))
    shown = "epoch 1\nkey …\n[bold]loss[/] \\x1b]0;x\\x07\n"
    assert stream.getvalue() == ("" if quiet else shown) + "still there\n"
