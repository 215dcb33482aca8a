"""The lines of a run, one after another."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from trainplan.planner.api.event_lines import EventLines
from trainplan.planner.runs.events import Event, PhaseReached, Printed, Progressed, TrainerStarted
from trainplan.planner.runs.run import Phase

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
STARTED = TrainerStarted(device="T4", strategy="", framework="jax 0.10", epochs=1, total_steps=9, resumed_from_step=0)


def test_training_is_not_announced_after_its_first_lines() -> None:
    """The first look that reads what the trainer wrote is the one after which the run trains."""
    lines = EventLines(lambda: NOON)
    step = Progressed(epoch=1, epochs=1, step=3, total_steps=9, loss=None, accuracy=None, images_per_second=None,
                      eta=None, usd_so_far=Decimal(0), validation_accuracy=None)  # fmt: skip
    events: list[Event] = [PhaseReached(Phase.BOOTING, ""), STARTED, step, PhaseReached(Phase.RUNNING, "")]
    told = [lines.text(event) for event in events]
    assert told[0] == "waiting for the trainer"
    assert told[2].startswith("epoch 1/1, step 3/9")
    assert told[3] == ""
    assert lines.text(PhaseReached(Phase.BOOTING, "")) == "waiting for the trainer"
    assert lines.text(PhaseReached(Phase.RUNNING, "")) == "training"


def test_why_a_run_ends_is_told_once() -> None:
    why = "the script ended with exit code 1"
    ends = [PhaseReached(phase, why) for phase in (Phase.TEARING_DOWN, Phase.DONE)]
    lines = EventLines(lambda: NOON)
    assert [lines.text(event) for event in ends] == [f"deleting what was created: {why}", "nothing is left"]
    lines = EventLines(lambda: NOON)
    events: list[Event] = [Printed(("ValueError: none", f"error: {why}")), PhaseReached(Phase.COLLECTING), *ends]
    told = [lines.text(event) for event in events]
    assert "\n".join(told).count(why) == 1
    assert told[1:] == ["fetching the model", "deleting what was created", "nothing is left"]
