"""The line of a training in progress, on screens of several widths."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from planner.cli.live_view import LiveView, progress_line
from planner.runs.events import Progressed

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
