"""The model comes home whole or not at all, and a run whose output is not whole has failed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.builders import a_job
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import (
    MODEL,
    FakeMachine,
    Sighting,
    trains_well,
)
from tests.unit.planner.runs.execution.followed import HERE, Crash, Fuse, packed
from trainplan.planner.errors import (
    TrainingFailedError,
)
from trainplan.planner.runs.events import PhaseReached
from trainplan.planner.runs.run import Outcome, Phase


def _leaves(write: Callable[[FakeMachine], None]) -> Callable[[FakeMachine], Iterator[Sighting]]:
    def script(machine: FakeMachine) -> Iterator[Sighting]:
        *looks, last = list(trains_well(machine))
        yield from looks
        write(machine)
        yield last

    return script


def _manifest(*entries: dict[str, object]) -> Callable[[FakeMachine], None]:
    return lambda machine: machine.store.put("output/manifest.json", json.dumps(entries).encode())


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda machine: machine.store.delete("output"), "left no complete output"),
        (lambda machine: machine.store.put("output/manifest.json", b"[{"), "left no complete output"),
        (lambda machine: machine.store.put("output/manifest.json", b"\xff"), "left no complete output"),
        (lambda machine: machine.store.put("output/manifest.json", b'{"path": "x"}'), "left no complete output"),
        (lambda machine: machine.store.put("output/manifest.json", b"[1]"), "left no complete output"),
        (_manifest(), "left no complete output"),
        (_manifest({"path": "model.keras"}), "left no complete output"),
        (_manifest({"path": "model.keras", "sha256": "0" * 64}), "model.keras differs from its manifest"),
        (lambda machine: machine.store.put("output/model.keras", b"half"), "model.keras differs from its manifest"),
        (lambda machine: machine.store.delete("output/model.keras"), "names model.keras, which is not there"),
        (_manifest({"path": "../../evil", "sha256": "0" * 64}), "outside its folder"),
        (_manifest({"path": "/etc/evil", "sha256": "0" * 64}), "outside its folder"),
        (_manifest({"path": "a/../../evil", "sha256": "0" * 64}), "outside its folder"),
    ],
)
def test_output_that_is_not_whole_fails_the_run(desk: Desk, write: Callable[[FakeMachine], None], message: str) -> None:
    desk.scripts(_leaves(write))
    with pytest.raises(TrainingFailedError, match=message):
        desk.launch()
    (run,) = desk.journal.runs()
    assert (run.phase, run.outcome) == (Phase.DONE, Outcome.FAILED)
    assert desk.leaked == []
    assert not (desk.folder / "model").exists()
    # The checkpoint is kept: the next launch needs no more than the last step.
    assert desk.runner().resumable(a_job(), HERE) == packed(run)


def test_a_training_that_diverged_has_failed_and_its_last_good_model_is_home(desk: Desk) -> None:
    metrics = json.dumps({"failure": "the loss became nan at step 9; the model is that of step 7"}).encode()
    desk.scripts(_leaves(lambda machine: machine.write_output(MODEL | {"metrics.json": metrics})))
    run, receipt = desk.launch()
    assert receipt.model_folder == str(desk.folder / "model")
    assert (run.outcome, run.message) == (Outcome.FAILED, "the loss became nan at step 9; the model is that of step 7")
    assert (desk.folder / "model/model.keras").read_bytes() == MODEL["model.keras"]


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [("failed", Outcome.FAILED), ("deadline", Outcome.DEADLINE), ("stopped", Outcome.STOPPED), (7, Outcome.FAILED)],
)
def test_what_a_script_had_saved_is_home_and_the_run_has_not_succeeded(
    desk: Desk, outcome: object, expected: Outcome
) -> None:
    metrics = json.dumps({"failure": "the script ended with exit code 1", "outcome": outcome}).encode()
    desk.scripts(_leaves(lambda machine: machine.write_output({"best.pt": b"weights", "metrics.json": metrics})))
    run, receipt = desk.launch()
    assert run.outcome is expected
    assert (run.message or "").endswith("the script ended with exit code 1")
    assert receipt.model_folder == str(desk.folder / "model")
    assert (desk.folder / "model/best.pt").read_bytes() == b"weights"
    assert run.billed_usd(desk.clock.now()).transfer == run.targets[0].download_usd
    assert desk.runner().resumable(a_job(), HERE) == packed(run)


@pytest.mark.parametrize("metrics", [b"[]", b"{", b'{"failure": 7}', b'{"failure": ""}', b"\xff"])
def test_figures_that_cannot_be_read_are_no_failure(desk: Desk, metrics: bytes) -> None:
    desk.scripts(_leaves(lambda machine: machine.write_output(MODEL | {"metrics.json": metrics})))
    run, _ = desk.launch()
    assert run.outcome is Outcome.SUCCEEDED


def test_files_in_folders_come_home_in_folders(desk: Desk) -> None:
    desk.scripts(_leaves(lambda machine: machine.write_output(MODEL | {"logs/a/b.txt": b"deep"})))
    desk.launch()
    assert (desk.folder / "model" / "logs" / "a" / "b.txt").read_bytes() == b"deep"
    assert not list(desk.folder.glob(".*partial*"))


def test_bringing_the_model_home_twice_changes_nothing(desk: Desk) -> None:
    """A crash after the files were moved: the next look collects again."""
    desk.listen = lambda event: Fuse(1).burn() if event == PhaseReached(Phase.TEARING_DOWN) else None
    with pytest.raises(Crash):
        desk.launch()
    desk.listen = lambda _: None
    (run,) = desk.journal.live()
    desk.journal.save(replace(run, phase=Phase.COLLECTING, outcome=None), desk.clock.now())
    (run,) = desk.journal.live()
    assert desk.runner().settle(run).outcome is Outcome.SUCCEEDED
    assert {path.name: path.read_bytes() for path in (desk.folder / "model").iterdir()} == MODEL
