"""What a run of many epochs teaches of this machine."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.builders import a_run
from tests.doubles.clock import NOON
from trainplan.planner.planning.own_measurements import OwnMeasurement
from trainplan.planner.runs.directory.progress import Story
from trainplan.planner.runs.receipt.receipt import Ending, measurement_of
from trainplan.planner.runs.run import Phase

START = {
    "event": "start", "time": (NOON + timedelta(seconds=10)).isoformat(), "images": 1000, "steps_per_epoch": 10,
    "resumed_from_step": 0, "framework": "tensorflow", "framework_version": "2.21.0",
}  # fmt: skip


def taught(*epochs: dict[str, Any]) -> OwnMeasurement:
    """By a run that says of itself that it trained 77 images a second, and took a minute."""
    story = Story()
    end = {"event": "end", "step": 10 * len(epochs), "images_per_second": 77.0}
    for line in (START, *epochs, end):
        story.add(line)
    ending = Ending(asked_at=NOON, ended_at=NOON + timedelta(seconds=60), model_folder=None)
    row = measurement_of(a_run(Phase.DONE), story, ending, "machine", "shape", batch=100)
    assert row is not None
    return row


def timed_epochs(*seconds: float, beside: float = 0.5) -> list[dict[str, Any]]:
    """Epochs of so many seconds of steps, each with something beside them."""
    ended, lines = 10.0, []
    for number, trained in enumerate(seconds, start=1):
        ended += trained + beside
        at = (NOON + timedelta(seconds=ended)).isoformat()
        lines.append({"event": "epoch", "time": at, "epoch": number, "step": 10 * number,
                      "seconds": trained + beside, "train_seconds": trained})  # fmt: skip
    return lines


def test_of_many_epochs_the_usual_one_counts_and_a_stall_does_not() -> None:
    """The first compiles; of the other seven the slowest (a stall of 20 s) and the fastest are left out."""
    row = taught(*timed_epochs(4.0, 1.0, 1.0, 21.0, 1.2, 0.8, 1.0, 0.5))
    assert row.images_per_second == pytest.approx(10 * 100 / 1.0)
    assert row.per_epoch_seconds == pytest.approx(0.5)


def test_of_few_epochs_all_count() -> None:
    assert taught(*timed_epochs(4.0, 1.0, 1.0, 21.0, 1.0)).images_per_second == 77.0
