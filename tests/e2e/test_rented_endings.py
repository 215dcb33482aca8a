"""How a rented machine ends, whatever happens to it: it is off, and a person understands what it left."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.waiting import until
from tests.e2e.yard.stores import Store
from tests.e2e.yard.trial import Trial
from tests.e2e.yard.yard import OWN, Yard

# In `make check` are the two that nothing but a real machine can show and that cost most where they fail: what a job
# may reach, and that nothing trains without its accelerator. Half a minute each; the others are in `make e2e`.
pytestmark = [pytest.mark.container, pytest.mark.parametrize("store", ["aws"], indirect=True)]
PATIENCE = 1200.0
ABSENT_IMAGE = f"plain@sha256:{'0' * 64}"


@pytest.fixture
def shapes() -> list[dict[str, Any]]:
    """How the machines of a test differ from the usual one."""
    return []


@pytest.fixture
def trial(yard: Yard, store: Store, shapes: list[dict[str, Any]], tmp_path: Path) -> Iterator[Trial]:
    with Trial(yard, store, tmp_path, shapes) as made:
        yield made


def a_job(name: str) -> dict[str, Any]:
    """One for the plain image; its name says what happens."""
    model = {"layers": [8, "M"], "dense": [8]}
    return {"name": name, "model": model, "data": {"name": "digits"}, "epochs": 1, "global_batch_size": 32}


def last_record(trial: Trial, job: str, image: str, **changes: Any) -> dict[str, Any]:
    """What the machine says of itself once it is off and the client has let it go."""
    client = trial.launch(a_job(job), image, zones=("a",), **changes)
    said = client.wait(PATIENCE)
    assert said.get("outcome") != "succeeded", said
    until(trial.machine().is_off, "the machine is off", seconds=PATIENCE)
    assert all(instance.is_gone for instance in trial.office.instances.values())
    return trial.status(client.run_id)


def test_containers_reach_no_metadata_and_names_resolve(trial: Trial, plain_image: str, tmp_path: Path) -> None:
    receipt = trial.launch(a_job("look"), plain_image).wait(PATIENCE)
    assert receipt["outcome"] == "succeeded", receipt
    seen = json.loads((tmp_path / "model" / "seen.json").read_text())
    assert (seen["metadata"], seen["host agent"]) == ("ConnectionRefusedError", "ConnectionRefusedError")
    assert "nameserver 169.254.169.254" in seen["resolver"]
    assert (seen["name"], seen["resolver over TCP"]) == ("10.77.0.1", "open")
    asked = trial.machine().identity.requests
    assert ("PUT", "/latest/api/token") in asked, "the machine itself does reach it"


@pytest.mark.e2e
def test_a_hung_container_is_stopped(trial: Trial, plain_image: str) -> None:
    said = last_record(trial, "hang", plain_image, terms={"hurry": {"hung_seconds": 6}})
    assert (said["state"], said["reason"]) == ("failed", "HUNG")
    assert "the container was stopped" in said["message"]


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param([{"gpus": ()}], id="machine", marks=pytest.mark.e2e),
        pytest.param([{"hides_gpus": True}], id="container"),
    ],
)
def test_without_its_accelerator_nothing_is_trained(trial: Trial, plain_image: str) -> None:
    said = last_record(trial, "quick", plain_image)
    assert (said["state"], said["reason"]) == ("failed", "ACCELERATOR_NOT_VISIBLE")
    for word in ("1 x T4", "nothing was trained", "the machine says", "the container says"):
        assert word in said["message"]


@pytest.mark.e2e
@pytest.mark.parametrize("shapes", [[{"disk_mib": 300}]], ids=["300 MiB"])
def test_a_full_disk_ends_the_run(trial: Trial, plain_image: str) -> None:
    said = last_record(trial, "fill", plain_image)
    assert (said["state"], said["reason"]) == ("failed", "DISK_FULL")
    assert "rent it with a larger one" in said["message"]


@pytest.mark.e2e
def test_the_deadline_ends_a_run_that_does_not_listen(trial: Trial, plain_image: str) -> None:
    said = last_record(trial, "deaf", plain_image, deadline_seconds=60, terms={"hurry": {"end_reserve_seconds": 20}})
    assert (said["state"], said["reason"]) == ("deadline", "DEADLINE")


@pytest.mark.e2e
def test_what_does_not_train_by_the_boot_deadline_ends(trial: Trial, yard: Yard, plain_image: str) -> None:
    yard.registries[OWN].stalls = threading.Event()
    said = last_record(trial, "quick", plain_image, terms={"boot_seconds": 60})
    assert (said["state"], said["reason"]) == ("failed", "BOOT_DEADLINE")
    assert "the machine was fetching" in said["message"]


@pytest.mark.e2e
def test_an_image_that_cannot_be_pulled_is_told_with_the_registrys_word(trial: Trial) -> None:
    said = last_record(trial, "quick", ABSENT_IMAGE)
    assert (said["state"], said["reason"]) == ("failed", "IMAGE_NOT_PULLED")
    assert "registry.example/plain" in said["message"]
    assert "manifest unknown" in said["message"]


@pytest.mark.e2e
def test_a_machine_that_never_reaches_its_store_ends_at_the_boot_deadline(trial: Trial, plain_image: str) -> None:
    """It has not even its agent: the timer that cloud-init armed is all there is."""
    trial.store.relay.cut()
    client = trial.launch(a_job("quick"), plain_image, detached=True, terms={"boot_seconds": 25})
    client.wait(PATIENCE)
    machine = trial.machine()
    until(machine.is_off, "the boot deadline ends it", seconds=PATIENCE)
    assert trial.status(client.run_id) == {}


@pytest.mark.e2e
def test_a_store_that_is_away_for_a_while_is_waited_for(trial: Trial, plain_image: str, tmp_path: Path) -> None:
    client = trial.launch(a_job("quick"), plain_image)
    client.until(lambda: trial.status(client.run_id).get("state") == "running", "it trains", PATIENCE)
    trial.store.relay.cut()
    machine = trial.machine()
    output = machine.disk / "trainplan" / "run-dir" / "output" / "model.txt"
    until(output.exists, "it has trained", seconds=PATIENCE)
    relay = trial.store.relay
    tried = relay.refused
    until(lambda: relay.refused >= tried + 4, "it has tried again and again", seconds=PATIENCE)
    assert not machine.is_off()
    relay.mend()
    assert client.wait(PATIENCE)["outcome"] == "succeeded"
    assert (tmp_path / "model" / "model.txt").read_text() == "trained\n"


@pytest.mark.e2e
def test_a_store_that_stays_away_ends_the_machine_all_the_same(trial: Trial, plain_image: str) -> None:
    hurry = {"store_patience_seconds": 15}
    client = trial.launch(a_job("quick"), plain_image, detached=True, terms={"hurry": hurry})
    until(lambda: trial.status(client.run_id).get("state") == "running", "it trains", seconds=PATIENCE)
    trial.store.relay.cut()
    machine = trial.machine()
    until(machine.is_off, "it ends", seconds=PATIENCE)
    said = json.loads((machine.disk / "trainplan" / "status.json").read_text())
    assert (said["state"], said["reason"]) == ("failed", "RESULTS_NOT_STORED")


@pytest.mark.e2e
@pytest.mark.parametrize("shapes", [[{}, {}]], ids=["two machines"])
def test_an_accelerator_that_is_lost_is_an_interruption(trial: Trial, plain_image: str) -> None:
    client = trial.launch(a_job("hang"), plain_image)
    client.until(lambda: trial.status(client.run_id).get("state") == "running", "it trains", PATIENCE)
    trial.machine().lose_accelerator()
    client.until(lambda: trial.status(client.run_id).get("state") == "interrupted", "it is seen", PATIENCE)
    said = trial.status(client.run_id)
    assert said["reason"] == "ACCELERATOR_LOST"
    assert "lost the accelerator while it trained" in said["message"]
    trial.machine(2)
    assert trial.machine().is_off()


@pytest.mark.e2e
def test_whoever_launched_may_go(trial: Trial, plain_image: str, tmp_path: Path) -> None:
    client = trial.launch(a_job("quick"), plain_image)
    machine = trial.machine()
    client.kill()
    until(lambda: trial.status(client.run_id).get("state") == "done", "it ends well", seconds=PATIENCE)
    until(machine.is_off, "and is gone", seconds=PATIENCE)
    assert "output/manifest.json" in trial.run_store(client.run_id).list("output")
    receipt = trial.attach(client.run_id).wait(PATIENCE)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1), receipt
    assert (tmp_path / "model" / "model.txt").read_text() == "trained\n"
