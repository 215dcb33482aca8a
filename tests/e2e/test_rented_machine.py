"""A machine that is rented, booted from what launch sent, trains for real; the model comes home and nothing is left."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.doubles.waiting import until
from tests.e2e.yard.machine import Running
from tests.e2e.yard.stores import Store
from tests.e2e.yard.trial import Trial
from tests.e2e.yard.yard import FIRST, SECOND, Yard

pytestmark = [pytest.mark.container, pytest.mark.train]
TIMERS = ("trainplan-boot.timer", "trainplan-deadline.timer")
PATIENCE = 1200.0


def digits(**changes: Any) -> dict[str, Any]:
    job: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "digits-vgg.yaml").read_text(encoding="utf-8"))
    return {**job, "epochs": 4, "checkpoint_every": "3s", **changes}


# In `make check`, once for each store: a minute each, after the image is built and pulled. The others are in
# `make e2e`.
@pytest.mark.parametrize("store", ["aws", "gcp", "azure"], indirect=True)
def test_it_trains_restarts_and_brings_the_model_home(
    yard: Yard, store: Store, trainer_image: str, tmp_path: Path
) -> None:
    with Trial(yard, store, tmp_path) as trial:
        client = trial.launch(digits(), trainer_image, terms={"own_end": True})
        machine = trial.machine()
        until(lambda: armed(machine) == {TIMERS[0]: True, TIMERS[1]: True}, "both timers are armed", seconds=PATIENCE)
        machine.restart()
        until(lambda: armed(machine)[TIMERS[1]], "the deadline is armed again", seconds=PATIENCE)
        receipt = client.wait(PATIENCE)

        assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1), receipt
        assert receipt["steps"] == receipt["total_steps"] == 4 * 44
        assert receipt["device"] == "1 x Tesla T4"
        assert client.of("Progressed"), "the person saw it train"
        assert home_files(tmp_path / "model") == written(machine) != {}
        assert machine.is_off()
        assert all(instance.is_gone for instance in trial.office.instances.values())
        if store.cloud != "aws":
            assert next(iter(trial.office.instances.values())).deleted_itself


@pytest.mark.e2e
@pytest.mark.parametrize("store", ["aws"], indirect=True)
def test_a_restart_while_it_trains_costs_no_attempt(
    yard: Yard, store: Store, trainer_image: str, tmp_path: Path
) -> None:
    with Trial(yard, store, tmp_path) as trial:
        client = trial.launch(digits(epochs=100), trainer_image)
        machine = trial.machine()
        client.until(lambda: "checkpoint" in trial.status(client.run_id), "a checkpoint is stored", PATIENCE)
        machine.restart()
        receipt = client.wait(PATIENCE)

        assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1), receipt
        assert receipt["steps"] == receipt["total_steps"] == 100 * 44
        first, second = (line for line in trial.progress(client.run_id) if line["event"] == "start")
        assert first["resumed_from_step"] == 0 < second["resumed_from_step"]
        assert home_files(tmp_path / "model") == written(machine) != {}
        assert len(trial.office.instances) == 1


@pytest.mark.e2e
@pytest.mark.parametrize("store", ["gcp"], indirect=True)
def test_the_second_registry_gives_what_the_first_refuses(
    yard: Yard, store: Store, public_digest: str, tmp_path: Path
) -> None:
    """And the trainer is installed into the public image: nobody runs a registry for it."""
    yard.registries[FIRST].refuses = 429
    with Trial(yard, store, tmp_path) as trial:
        job = digits(framework="jax", epochs=1)
        client = trial.launch(job, device="cpu", terms={"digest": public_digest})
        receipt = client.wait(PATIENCE)
        assert receipt["outcome"] == "succeeded", receipt
        assert receipt["framework"].startswith("jax")
        assert yard.registries[FIRST].requests, "the first registry was asked first"
        assert (
            trial.status(client.run_id)["image"] == f"{SECOND}/docker/library/python:3.12-slim-bookworm@{public_digest}"
        )


def armed(machine: Running) -> dict[str, bool]:
    """Which of the machine's own timers wait for their instant."""
    return {name: machine.run("systemctl", "is-active", name).stdout.strip() == "active" for name in TIMERS}


def written(machine: Running) -> dict[str, str]:
    """SHA-256 by name of what the trainer made, as its manifest on the machine's disk has it."""
    manifest = machine.disk / "trainplan" / "run-dir" / "output" / "manifest.json"
    return {row["path"]: row["sha256"] for row in json.loads(manifest.read_text(encoding="utf-8"))}


def home_files(folder: Path) -> dict[str, str]:
    """SHA-256 by name of what came home."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
