"""A script of the person's own on rented machines, in the public image into which the product installs its trainer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.doubles.serving import Serving
from tests.doubles.waiting import until
from tests.e2e.test_rented_interruptions import resumed, take_back
from tests.e2e.test_rented_machine import home_files, written
from tests.e2e.yard.stores import Store
from tests.e2e.yard.trial import Trial
from tests.e2e.yard.yard import Yard
from tests.unit.planner.planning.test_locked_script import wheel
from trainplan.planner.planning.locked_script import with_lock
from trainplan.planner.settings import load_settings
from trainplan.workloads.jobfile import read_job

pytestmark = [
    pytest.mark.container, pytest.mark.train, pytest.mark.e2e, pytest.mark.parametrize("store", ["aws"], indirect=True),
]  # fmt: skip
PATIENCE = 1200.0
STEPS, TAKEN_BACK_AT = 300, 150
COUNTS = f"""\
import sys, time
import jax
import trainplan_above
import trainplan_run
from pathlib import Path
assert trainplan_above.HERE
folder = trainplan_run.resume_from()
value, done = (0, 0) if folder is None else (int((folder / name).read_text()) for name in ("value", "step"))
for step in range(done + 1, {STEPS} + 1):
    value = (value * 31 + step) % 1_000_003
    time.sleep(0.02)
    trainplan_run.report(step, images=4, total_steps={STEPS}, loss=1 / step)
    while step == {TAKEN_BACK_AT} and not trainplan_run.should_stop():
        time.sleep(0.1)  # the first machine is taken back here, and the second begins behind it
    stop = trainplan_run.should_stop()
    if stop or step % 100 == 0:
        with trainplan_run.checkpoint_folder() as folder:
            (folder / "value").write_text(str(value))
            (folder / "step").write_text(str(step))
    if stop:
        sys.exit(trainplan_run.EXIT_STOPPED)
Path("value.txt").write_text(str(value))
"""


@pytest.fixture
def _index(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """pip on the person's computer asks the yard's index, as pip on the machines does."""
    wheel(yard.wheels, "trainplan_above", "1.5")
    with Serving(yard.packages.handler) as served:
        for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", f"{served.url}/simple")
        yield


def a_job(folder: Path, text: str) -> dict[str, Any]:
    """The job as `plan launch` reads and locks it."""
    (folder / "job.yaml").write_text(f"name: mine\nframework: jax\nconstraints: {{deadline: 1h}}\n{text}")
    job = read_job(folder / "job.yaml")
    values: dict[str, Any] = with_lock(
        job, "aws", load_settings({"PLAN_HOME": str(folder / "home")}), lambda _: None
    ).model_dump(mode="json")
    return values


@pytest.mark.usefixtures("_index")
def test_it_is_taken_back_and_goes_on_to_the_same_result_with_what_was_locked(
    yard: Yard, store: Store, public_digest: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(COUNTS, encoding="utf-8")
    (tmp_path / "needs.txt").write_text("trainplan-above>=1\n", encoding="utf-8")
    job = a_job(tmp_path, "script: train.py\nrequirements: needs.txt\ncheckpoints: true\n")
    with Trial(yard, store, tmp_path) as trial:
        yard.packages.requests.clear()
        client = trial.launch(job, device="cpu", terms={"digest": public_digest}, deadline_seconds=3600)
        client.until(lambda: "checkpoint" in trial.status(client.run_id), "a checkpoint is stored", PATIENCE)
        assert fetched(yard) == 1
        take_back(trial.machine(1), timedelta(seconds=40))
        receipt = client.wait(PATIENCE)

        assert (receipt["outcome"], receipt["attempts"], receipt["interruptions"]) == ("succeeded", 2, 1), receipt
        assert receipt["steps"] == receipt["total_steps"] == STEPS
        assert receipt["lost_steps"] == 0
        assert resumed(trial, client, 1)["framework"] == "jax"
        assert resumed(trial, client, 2)["resumed_from_step"] == TAKEN_BACK_AT
        assert fetched(yard) == 2, "the second machine installs it anew"
        assert home_files(tmp_path / "model") == written(trial.machine(2))
        assert (tmp_path / "model" / "value.txt").read_text() == counted()
        assert client.of("Progressed"), "the person saw it train"
        assert all(machine.is_off() for machine in trial.machines())
        until(lambda: all(one.is_gone for one in trial.office.instances.values()), "nothing is left")


def test_the_example_for_keras_trains_there(yard: Yard, store: Store, public_digest: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "scripts" / "keras_images.py", tmp_path)
    with Trial(yard, store, tmp_path) as trial:
        job = a_job(tmp_path, "script: keras_images.py\n")
        client = trial.launch(job, device="cpu", terms={"digest": public_digest}, deadline_seconds=3600)
        receipt = client.wait(PATIENCE)
        assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1), receipt
        assert receipt["steps"] == receipt["total_steps"] == 3 * 16
        assert home_files(tmp_path / "model") == written(trial.machine())
        assert (tmp_path / "model" / "model.keras").is_file()
        assert trial.machine().is_off()


def fetched(yard: Yard) -> int:
    """How often a machine has fetched what the script needs."""
    return sum(path.startswith("/files/trainplan_above-1.5") for path in yard.packages.requests)


def counted() -> str:
    """What it writes when it has counted without a break."""
    value = 0
    for step in range(1, STEPS + 1):
        value = (value * 31 + step) % 1_000_003
    return str(value)
