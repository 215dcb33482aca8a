"""The estimate that a run is held against: that of the placements where it trained."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import a_run, a_target, an_attempt
from tests.doubles.clock import NOON
from trainplan.planner.runs.directory.progress import Story
from trainplan.planner.runs.receipt.legs import estimate_of, legs_of
from trainplan.planner.runs.receipt.receipt import Ending, Receipt, receipt_record, write_receipt
from trainplan.planner.runs.receipt.receipt_text import receipt_text
from trainplan.planner.runs.run import Attempt, Outcome, Phase, Run
from trainplan.planner.runs.targets import Target
from trainplan.providers.base import EndKind

HOUR = timedelta(hours=1)
T4 = a_target(
    "0.13", provider="gcp", region="r1", instance_type="t4", seconds=3600.0, usd=Decimal("0.13"),
    images_per_second=2581.8, basis="measured",
)  # fmt: skip
A100 = a_target(
    "2.93", provider="gcp", region="r2", instance_type="a100", seconds=600.0, usd=Decimal("0.34"),
    images_per_second=23084.6, basis="scaled",
)  # fmt: skip
AT_THE_FIRST_PLACEMENT = {"seconds": 3600.0, "usd": 0.13, "images_per_second": 2581.8, "basis": "measured"}


def refused(target: Target) -> Attempt:
    return an_attempt(1, target, ref=None, cleared=True, ended_at=NOON, reason="no room")


def went(number: int, target: Target, step: int | None = None, **changes: Any) -> Attempt:
    return an_attempt(number, target, cleared=True, step=step, ended_at=NOON + number * HOUR, **changes)


def receipt(*attempts: Attempt, steps: int = 1000, targets: tuple[Target, ...] = (T4, A100)) -> Receipt:
    run = a_run(Phase.DONE, made=attempts, targets=targets, provider="gcp", outcome=Outcome.SUCCEEDED)
    story = Story(last_step={"event": "step", "step": steps})
    ending = Ending(asked_at=NOON, ended_at=NOON + 3 * HOUR, model_folder=None)
    return write_receipt(run, story, AT_THE_FIRST_PLACEMENT, ending)


def estimated(of: Receipt) -> tuple[float | None, float | None, float | None, str | None]:
    return of.estimated_seconds, of.estimated_usd, of.estimated_images_per_second, of.basis


def test_a_run_that_the_first_placement_had_no_room_for_is_held_against_the_placement_where_it_trained() -> None:
    assert estimated(receipt(refused(T4), went(2, A100))) == (600.0, 0.34, 23084.6, "scaled")
    assert estimated(receipt(went(1, T4))) == (3600.0, 0.13, 2581.8, "measured")


def test_a_run_that_moved_is_held_against_both_placements_by_the_steps_trained_at_each() -> None:
    moved = receipt(went(1, T4, 250, end=EndKind.RECLAIMED, lost_steps=30), went(2, A100))
    assert estimated(moved) == (pytest.approx(0.25 * 3600 + 0.75 * 600), pytest.approx(0.25 * 0.13 + 0.75 * 0.34),
                                23084.6, "scaled")  # fmt: skip
    assert [(placement["attempt"], placement["where"], placement["steps"]) for placement in moved.placements] == [
        (1, T4.where, 250), (2, A100.where, 750)
    ]  # fmt: skip
    text = receipt_text(moved)
    assert f"  attempt 1   {T4.where}: 250 steps, $0.13; the whole job there: 1h 00m, $0.13\n" in text
    assert f"  attempt 2   {A100.where}: 750 steps, " in text


def test_a_placement_that_kept_no_step_has_no_share() -> None:
    lost = receipt(went(1, T4, None, end=EndKind.LOST), went(2, A100))
    assert estimated(lost) == (600.0, 0.34, 23084.6, "scaled")


def test_where_nothing_was_trained_the_last_placement_counts_and_without_a_machine_the_first() -> None:
    assert estimated(receipt(went(1, T4, end=EndKind.LOST), went(2, A100), steps=0))[:2] == (600.0, 0.34)
    nowhere = receipt(refused(T4), steps=0)
    assert (estimated(nowhere), nowhere.placements) == ((3600.0, 0.13, 2581.8, "measured"), [])


def test_a_run_of_an_earlier_version_keeps_the_estimate_of_its_launch() -> None:
    """Its placements have seconds and images per second, and no cost."""
    old = replace(A100, usd=None, basis=None)
    assert estimated(receipt(refused(T4), went(2, old))) == (600.0, 0.13, 23084.6, "measured")


def test_a_checkpoint_from_before_is_counted_once() -> None:
    run: Run = a_run(made=(went(1, T4, 100), went(2, A100, 100), went(3, T4, 400)))
    assert [leg.steps for leg in legs_of(run, 500, NOON + HOUR)] == [100, 0, 400]
    assert estimate_of((), {"usd": 1.0}) == {"usd": 1.0}


def test_the_receipt_of_a_run_that_moved_is_read_back_from_the_journal() -> None:
    record = receipt(went(1, T4, 250, end=EndKind.RECLAIMED), went(2, A100)).to_json()
    assert receipt_record(record) == record
    assert receipt_record(record | {"placements": [{"where": 3}]}) is None
    assert receipt_record(record | {"placements": "none"}) is None
