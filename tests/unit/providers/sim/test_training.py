"""The simulated trainer leaves what the real one leaves."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.contract.sim import DirectApi
from tests.doubles.clock import NOON
from tests.unit.planner.cli.command import plan
from tests.unit.providers.sim.worlds import JOB, Practice
from trainplan.planner.runs.directory.progress import story_of
from trainplan.planner.runs.execution.collect import collect
from trainplan.providers.base import RunId
from trainplan.providers.sim.catalogue import TYPES
from trainplan.providers.sim.scenario import Scenario
from trainplan.providers.sim.store import SimStore
from trainplan.providers.sim.training import Simulated, images_per_second
from trainplan.providers.sim.values import Course
from trainplan.workloads.jobfile import read_job

STEPS = 390 * 90


def store(practice: Practice) -> SimStore:
    return SimStore(DirectApi(practice.world), RunId("r1"))


def trained(practice: Practice, **span: float) -> Practice:
    practice.launch()
    practice.wait(**span)
    return practice


def test_a_whole_run_reads_as_a_real_one(tmp_path: Path) -> None:
    practice = trained(Practice(), hours=1)
    story = story_of(store(practice), 1)
    assert story.start is not None
    assert story.end is not None
    assert (story.start["framework"], story.start["device_name"]) == ("simulated", "T4")
    assert (story.start["total_steps"], story.start["resumed_from_step"]) == (STEPS, 0)
    assert (story.end["state"], story.step, len(story.epochs)) == ("done", STEPS, 90)
    assert [line["epoch"] for line in story.epochs] == list(range(1, 91))
    assert story.end["hold_out_accuracy"] is None
    assert story.images_per_second == pytest.approx(50_000 / story.epochs[0]["seconds"], rel=0.01)
    assert set(story.phase_seconds) == {"data", "import", "build", "compile", "train", "evaluate", "save"}
    assert {path.name for path in collect(store(practice), tmp_path / "model")} == {"model.keras", "metrics.json"}
    assert json.loads((tmp_path / "model" / "metrics.json").read_text())["framework"] == "simulated"


def test_lines_are_in_the_order_of_their_time() -> None:
    practice = trained(Practice(), hours=1)
    lines = practice.read("attempts/1/progress.jsonl").decode().splitlines()
    assert all(first["time"] <= second["time"] for first, second in pairwise(map(json.loads, lines)))


def test_it_does_not_matter_how_often_somebody_looks() -> None:
    seldom, often = trained(Practice(), hours=1), Practice()
    often.launch()
    for _ in range(3600 // 7):
        often.wait(seconds=7)
        often.paths()
    often.wait(seconds=3600 % 7)
    assert often.world.now == seldom.world.now
    assert seldom.paths() == often.paths()
    for path in seldom.paths():
        assert seldom.read(path) == often.read(path), path
    assert seldom.ledger["resources"] == often.ledger["resources"]


def test_the_newest_two_checkpoints_are_kept_and_written_in_time() -> None:
    practice = trained(Practice(), minutes=18)
    marks = [path for path in practice.paths("checkpoints") if path.endswith("complete.json")]
    assert len(marks) == 2
    steps = [json.loads(practice.read(path))["step"] for path in marks]
    assert [f"checkpoints/step-{step:08}/complete.json" for step in steps] == marks
    assert all(practice.read(path.replace("complete.json", "weights")) for path in marks)


def test_the_next_attempt_goes_on_from_the_newest_whole_checkpoint() -> None:
    practice = Practice()
    practice.script(incidents=[{"event": "crash", "attempt": 1, "after": "13m"}])
    trained(practice, minutes=20)
    newest = max(int(path.split("-")[1][:8]) for path in practice.paths("checkpoints"))
    practice.call("DeleteObjects", run="r1", prefix=f"checkpoints/step-{newest:08}/weights")
    older = min(int(path.split("-")[1][:8]) for path in practice.paths("checkpoints"))
    practice.launch(attempt=2)
    practice.wait(hours=1)
    story = story_of(store(practice), 2)
    assert story.start is not None
    assert 0 < older < newest
    assert (story.start["resumed_from_step"], story.step) == (older, STEPS)


def test_a_checkpoint_of_another_job_is_passed_over() -> None:
    practice = trained(Practice(), minutes=15)
    practice.put_job(job=JOB.model_copy(update={"seed": 1}))
    practice.world.files.write("r1", "checkpoints/step-99999999/weights", b"")
    practice.world.files.write("r1", "checkpoints/step-99999999/complete.json", b"{}")
    asked: dict[str, Any] = {"clientToken": "again", "userData": {"run": "r1", "attempt": "2"}}
    job = practice.read("job.json")
    practice.launch(attempt=2, **asked)
    practice.world.files.write("r1", "job.json", job)
    practice.wait(minutes=5)
    story = story_of(store(practice), 2)
    assert story.start is not None
    assert story.start["resumed_from_step"] == 0


def test_a_measuring_run_ends_after_its_steps_and_leaves_no_model() -> None:
    practice = Practice()
    practice.launch(userData={"run": "r1", "attempt": "1", "max_steps": "50"})
    practice.wait(minutes=10)
    story = story_of(store(practice), 1)
    assert story.end is not None
    assert (story.end["state"], story.step) == ("done", 50)
    assert practice.paths("output") == practice.paths("checkpoints") == []


def test_a_slow_world_trains_slowly() -> None:
    normal, slow = (
        story_of(store(trained(Practice(given), minutes=20)), 1).images_per_second
        for given in ({}, {"throughput_factor": 0.25})
    )
    assert normal is not None
    assert slow == pytest.approx(normal / 4, rel=1e-3)


def test_the_default_scenario_is_one_to_practise_on() -> None:
    rules = Scenario()
    assert rules.reclaims_per_hour > 0
    assert rules.listing_lag > timedelta(0)


@pytest.mark.parametrize("name", ["digits-vgg", "mnist-cnn", "vgg16-cifar10", "vgg16-imagenet"])
def test_what_is_practised_is_not_slower_than_its_estimate(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every practice run would stop to ask."""
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))
    file = ROOT / "examples" / f"{name}.yaml"
    said = plan("estimate", file, "--provider", "sim", "--json")
    assert said.code == 0, said.err
    job_json = read_job(file).to_json()
    for row in said.json["candidates"]:
        assert images_per_second(job_json, TYPES[row["instance_type"]]) > row["images_per_second_low"], row
    assert said.json["candidates"]


def test_it_gives_signs_of_life_while_it_tests_its_model() -> None:
    """The real agent writes its status every 20 s, whatever its trainer does."""
    seconds = 50 * 60.0
    course = Course(
        run="r1", attempt=1, job_json=JOB.to_json(), device="T4", device_count=1, images_per_second=1e6, began_at=NOON,
        evaluate_seconds=seconds,
    )  # fmt: skip
    ending = Simulated().ends(course)
    assert ending is not None
    looks = [ending.at - timedelta(seconds=back) for back in range(int(seconds), 0, -600)]
    newest = [[write.at for write in Simulated().writes(course, NOON, look)][-1] for look in looks]
    assert all(look - at <= timedelta(seconds=20) for look, at in zip(looks, newest, strict=True))
