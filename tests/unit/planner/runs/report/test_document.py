"""The document of a run: its figures add up to those of the journal and of the receipt, whatever became of the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job, a_run, a_target
from tests.doubles.clock import NOON
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import MODEL, RATE, FakeMachine, Sighting, disappears, ends_after, trains_well
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.report.curves import MOST_EPOCHS, MOST_POINTS
from trainplan.planner.runs.report.document import Sources, run_document
from trainplan.planner.runs.report.dollars import dollars_over_time
from trainplan.planner.runs.run import Attempt, Run
from trainplan.providers.base import EndKind
from trainplan.providers.errors import CredentialsError

TAKEN_AND_DONE = (ends_after(EndKind.RECLAIMED, 500), trains_well)
"""An epoch has 390 steps: the first is trained once, and 110 steps of the second are in the checkpoint."""


def document(desk: Desk, run: Run, **changes: Any) -> dict[str, Any]:
    sources = Sources(journal=desk.journal, store=desk.provider.store(run.run_id), now=desk.clock.now())
    return run_document(desk.journal.run(run.run_id), sources._replace(**changes))


def launched(desk: Desk, *scripts: Any) -> Run:
    desk.scripts(*scripts)
    return desk.launch(targets=[a_target("3.6", zone="a"), a_target("1.8", zone="b")])[0]


def passes_over_the_checkpoint(machine: FakeMachine) -> Iterator[Sighting]:
    """It is damaged: training begins anew."""
    machine.store.delete("checkpoints")
    yield from trains_well(machine)


def test_steps_of_a_damaged_checkpoint_are_trained_again_in_every_output(desk: Desk) -> None:
    run = launched(desk, ends_after(EndKind.RECLAIMED, 500), passes_over_the_checkpoint)
    told = document(desk, run)
    (stop,) = told["interruptions"]
    assert (stop["step"], stop["lost_steps"]) == (None, 503)
    assert [one["lost_steps"] for one in told["attempts"]] == [503, None]
    assert told["receipt"]["lost_steps"] == 503
    assert [leg["steps"] for leg in told["receipt"]["placements"]] == [0, 780]


def test_an_interrupted_run_tells_where_it_was_and_what_it_lost(desk: Desk) -> None:
    run = launched(desk, *TAKEN_AND_DONE)
    told = document(desk, run)
    assert [(one["number"], one["end"], one["had_machine"]) for one in told["attempts"]] == [
        (1, "reclaimed", True),
        (2, "done", True),
    ]
    (stop,) = told["interruptions"]
    assert (stop["attempt"], stop["next"], stop["step"], stop["lost_steps"]) == (1, 2, 500, 3)
    assert stop["where"] == told["attempts"][0]["where"]
    assert [(one["epoch"], one["attempt"]) for one in told["epochs"]] == [(1, 1), (2, 2)]
    assert {point["attempt"] for point in told["progress"]} == {1, 2}
    assert told["actual"] == {
        "seconds": told["receipt"]["actual_seconds"], "usd": told["receipt"]["actual_usd"],
        "images_per_second": RATE, "step": 780, "total_steps": 780, "device": "1 x AMD EPYC",
        "framework": "tensorflow 2.20.0",
    }  # fmt: skip
    assert told["held_out"]["accuracy"] == 0.975
    assert told["job"]["model"]["preset"] == "vgg16"
    kinds = [event["kind"] for event in told["events"]]
    assert (kinds[0], kinds[-1], "interrupted" in kinds) == ("planned", "receipt", True)


def test_the_dollars_rise_to_the_receipt(desk: Desk) -> None:
    told = document(desk, launched(desk, *TAKEN_AND_DONE))
    usds = [point["usd"] for point in told["dollars"]]
    assert usds == sorted(usds)
    assert usds[0] == 0 < usds[1]
    assert usds[-1] == pytest.approx(told["receipt"]["actual_usd"], abs=1e-6)
    assert sum(one["usd"] for one in told["attempts"]) == pytest.approx(told["receipt"]["usd_by_resource"]["compute"])
    assert [point["at"] for point in told["dollars"]] == sorted(point["at"] for point in told["dollars"])


def test_a_machine_costs_nothing_before_it_is_asked_for_and_after_it_has_ended() -> None:
    hour = timedelta(hours=1)
    attempt = Attempt(number=1, target=a_target("3.6"), asked_at=NOON + hour, ended_at=NOON + 2 * hour,
                      gone_at=NOON + 2 * hour, end=EndKind.DONE, cleared=True)  # fmt: skip
    second = Attempt(number=2, target=a_target("1"), asked_at=NOON + 3 * hour)
    points = dollars_over_time(a_run(made=(attempt, second)), NOON + 4 * hour)
    usd = {datetime.fromisoformat(point["at"]): point["usd"] for point in points}
    assert (min(usd), usd[NOON + hour], usd[NOON + 2 * hour]) == (NOON + hour, 0, 3.6)
    assert usd[NOON + 3 * hour] == 3.6
    assert usd[NOON + 4 * hour] == pytest.approx(4.6)


def test_a_create_that_was_refused_costs_nothing_at_any_time() -> None:
    refused = Attempt(number=1, target=a_target("3.6"), asked_at=NOON, cleared=True, end=EndKind.NO_CAPACITY)
    points = dollars_over_time(a_run(made=(refused,)), NOON + timedelta(hours=1))
    assert {point["usd"] for point in points} == {0.0}


def test_a_run_that_goes_on_tells_what_bills_and_until_when(desk: Desk) -> None:
    desk.scripts(ends_after(EndKind.DONE, 500))
    run = desk.planned(a_job(constraints={"deadline": "2h"}), targets=[a_target("3.6")])
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(), until_launched=True)
    desk.runner().settle(run)
    told = document(desk, run)
    assert told["bills"]["bills"] is True
    assert told["bills"]["usd_per_hour"] == 3.6
    assert told["bills"]["until"] is not None
    assert told["receipt"] is None
    assert told["actual"]["usd"] == told["dollars"][-1]["usd"] > 0
    assert told["actual"]["step"] == 500
    assert told["held_out"] is None


def test_a_run_of_a_cloud_whose_clock_runs_ahead_is_dated_by_this_computers(desk: Desk) -> None:
    run = replace(launched(desk, trains_well), launched_at=NOON - timedelta(hours=2))
    desk.journal.save(run, NOON)
    told = document(desk, run)["run"]
    assert told["created_at"] == (NOON - timedelta(hours=2)).isoformat()
    assert told["clock_ahead_seconds"] == 7200.0


def test_a_run_directory_that_cannot_be_read_is_told(desk: Desk) -> None:
    run = launched(desk, *TAKEN_AND_DONE)
    told = document(desk, run, store=None, why_no_store="nobody is signed in")
    assert told["gaps"][0].endswith("nobody is signed in")
    assert told["progress"] == []
    store = desk.provider.store(run.run_id)
    store.down = CredentialsError("the sign-in has expired")
    assert [gap for gap in document(desk, run)["gaps"] if "the sign-in has expired" in gap]


def test_the_curves_of_a_run_whose_bucket_is_gone_come_from_the_models_folder(desk: Desk, tmp_path: Path) -> None:
    run = launched(desk, trains_well)
    head = "epoch,step,loss,accuracy,validation_loss,validation_accuracy,validation_top5,rate,seconds"
    (tmp_path / "model" / "metrics.csv").write_text(f"{head}\n1,390,0.5,0.75,,0.7,,0.01,9\n2,780,inf,,,,,x,9\n")
    first, second = document(desk, run, store=None)["epochs"]
    assert (first["epoch"], first["step"], first["learning_rate"], first["validation_loss"]) == (1, 390, 0.01, None)
    assert (second["epoch"], second["loss"], second["learning_rate"]) == (2, None, None)


def test_classes_come_with_the_model(desk: Desk) -> None:
    def with_classes(machine: FakeMachine) -> Iterator[Sighting]:
        for sighting in trains_well(machine):
            machine.write_output(MODEL | {"confusion.csv": b"class,cat,<b>\ncat,30,10\n<b>,0,5\n"})
            yield sighting

    told = document(desk, launched(desk, with_classes))
    assert told["held_out"]["classes"] == [
        {"name": "cat", "images": 40, "right": 30, "accuracy": 0.75, "precision": 1.0},
        {"name": "<b>", "images": 5, "right": 5, "accuracy": 1.0, "precision": 0.333333},
    ]
    assert told["held_out"]["confusion"] == [[0, 0, 30], [0, 1, 10], [1, 1, 5]]
    assert not [gap for gap in told["gaps"] if "confusion" in gap]


def test_a_run_of_years_has_few_enough_points(desk: Desk) -> None:
    run = launched(desk, disappears, trains_well)
    machine_path = "attempts/1/progress.jsonl"
    store: Any = desk.provider.store(run.run_id)
    lines = b"".join(
        b'{"event": "step", "time": "2026-11-21T12:00:00Z", "step": %d, "loss": 0.5}\n'
        b'{"event": "epoch", "time": "2026-11-21T12:00:00Z", "epoch": %d, "step": %d}\n' % (step, step, step)
        for step in range(1, 5_001)
    )
    store.files[machine_path] += lines + b"{nonsense\n"
    told = document(desk, run)
    assert len(told["progress"]) <= MOST_POINTS + 1
    assert MOST_EPOCHS / 2 <= len(told["epochs"]) <= MOST_EPOCHS + 1
    assert told["epochs"][-1]["epoch"] == 5_000
    assert "attempt 1: 1 line of progress could not be read" in told["gaps"]


def test_an_unreadable_receipt_is_told(desk: Desk) -> None:
    run = launched(desk, trains_well)
    desk.journal._db.execute('UPDATE runs SET receipt_json = \'{"actual_usd": "much"}\'')
    told = document(desk, run)
    assert told["receipt"] is None
    assert told["actual"]["usd"] == pytest.approx(float(Decimal(str(told["dollars"][-1]["usd"]))))
    assert [gap for gap in told["gaps"] if gap.startswith(f"the receipt of run {run.run_id}")]
