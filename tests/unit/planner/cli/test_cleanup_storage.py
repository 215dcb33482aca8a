"""Data and what runs leave behind, at the command line: sent after the question, launched by address, cleaned up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import fake_provider
from tests.doubles.clock import NOON, FakeClock
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import done_at_once
from tests.doubles.fake_provider import FakeProvider
from tests.doubles.gcs import GcsDouble, Stored
from tests.unit.planner.cli.command import plan
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.providers import registry
from trainplan.providers.base import ProviderSettings, RunId
from trainplan.providers.stores import registry as stores_registry
from trainplan.providers.stores.bucket import Bucket
from trainplan.providers.stores.store import run_store

Image: Any = pytest.importorskip("PIL.Image")

JOB = """\
name: own
model: {preset: vgg11, image_size: 32, classes: 2}
data: {path: images, images: 2}
epochs: 1
global_batch_size: 2
"""
BUCKET = "trainplan-p-us-central1"


@pytest.fixture
def gcs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GcsDouble]:
    """A person who is signed in to Google, and a folder of images with a job for it."""
    for grey, folder in enumerate(("train/cat", "train/dog", "val/cat", "val/dog")):
        (tmp_path / "images" / folder).mkdir(parents=True)
        Image.new("L", (8, 8), grey).save(tmp_path / "images" / folder / "1.png")
    (tmp_path / "job.yaml").write_text(JOB)
    with GcsDouble() as double:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", double.url)
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
        yield double


class AtGoogle(FakeProvider):
    """Machines of Google's that are not there, and its storage; what they write stays in memory."""

    bucket: Bucket

    def store(self, run_id: RunId) -> Any:
        return run_store(self.bucket, run_id) if run_id == "any" else super().store(run_id)


@pytest.fixture
def google(gcs: GcsDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProvider:
    settings = ProviderSettings(home=tmp_path / "home", options={}, environment=os.environ, now=lambda: NOON)
    made = AtGoogle(FakeClock(), [done_at_once], name="gcp", tidy=True)
    made.bucket = stores_registry.bucket("gcp", settings)
    monkeypatch.setitem(registry.FACTORIES, "gcp", f"{fake_provider.__name__}:make")
    monkeypatch.setattr(fake_provider, "PROVIDERS", [made])
    return made


def shards(gcs: GcsDouble) -> list[str]:
    objects = gcs.world.objects.get(BUCKET, {})
    return sorted(name for name in objects if name.startswith("data/") and name.endswith(".tar"))


def test_a_folder_is_sent_after_the_question_and_launched_by_its_address(gcs: GcsDouble, google: FakeProvider) -> None:
    said = plan("launch", "job.yaml", "--provider", "gcp")
    assert said.error == "the input is not a terminal, so nobody can be asked"
    assert "data images: 4 files, 10 kB stored, under $0.01 a month at gs://trainplan-p-us-central1/data/" in said.err
    assert "to send: 10 kB, about 1s at 20 Mbit/s; sending is free" in said.err
    assert shards(gcs) == []
    said = plan("launch", "job.yaml", "--provider", "gcp", "--yes")
    assert said.code == 0, said.err
    assert len(shards(gcs)) == 1
    assert [file.uri for file in google.received[0].data] == [f"gs://{BUCKET}/{shards(gcs)[0]}"]
    data = google.received[0].job.data
    assert data.url == f"gs://{BUCKET}/{shards(gcs)[0].rpartition('/')[0]}"
    assert (data.path, data.images, data.size_bytes) == (None, 2, 10240)
    said = plan("launch", "job.yaml", "--provider", "gcp", "--yes", "--json", "--another")
    assert "it is stored already: nothing is sent" in said.err
    receipt = said.json
    assert receipt["data_stored_bytes"] == 10240
    assert receipt["stored_bytes"] > 0


def test_a_model_never_goes_among_the_images_that_are_sent(google: FakeProvider) -> None:
    """The job that is launched has an address in the place of their folder."""
    said = plan("launch", "job.yaml", "--provider", "gcp", "--yes", "--output", "images/model")
    assert (said.code, google.received) == (2, [])
    assert "lies in the folder of the images" in said.error


def test_data_and_secrets_of_another_cloud_are_refused_in_words(
    google: FakeProvider, gcs: GcsDouble, tmp_path: Path
) -> None:
    for line, text in (
        ("data: {url: 's3://b/x', images: 1000}", "a machine of gcp cannot read s3://b/x"),
        ("data: {url: 'gs://none/x', images: 1000}", "there is no bucket none"),
        ("secrets: {TOKEN: 'aws-sm:token'}\ndata: {name: synthetic}", "cannot resolve the secret TOKEN"),
    ):
        (tmp_path / "job.yaml").write_text(JOB.replace("data: {path: images, images: 2}", line))
        said = plan("launch", "job.yaml", "--provider", "gcp", "--yes")
        assert (said.code, text in said.error) == (2, True), said.err
    assert google.received == []


def test_an_upload_that_breaks_off_launches_nothing_and_is_gone_on_with(gcs: GcsDouble, google: FakeProvider) -> None:
    gcs.world.foreign.add(BUCKET)
    said = plan("launch", "job.yaml", "--provider", "gcp", "--yes")
    assert said.code == 4, said.err
    assert google.received == []
    gcs.world.foreign.clear()
    assert plan("launch", "job.yaml", "--provider", "gcp", "--yes").code == 0


def leave(gcs: GcsDouble, run_id: str, size: int) -> None:
    gcs.world.buckets.setdefault(BUCKET, {})
    gcs.world.objects.setdefault(BUCKET, {})[f"runs/{run_id}/output/model"] = Stored(bytes(size), 1)


def test_cleanup_shows_what_is_stored_and_removes_what_is_over(
    gcs: GcsDouble, google: FakeProvider, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAN_HOME", str(desk.settings.home))
    over, live = desk.planned(provider="gcp"), desk.planned(provider="gcp")
    ended = replace(over, phase=Phase.DONE, outcome=Outcome.STOPPED)
    desk.journal.save(ended, desk.clock.now())
    desk.close()
    for run_id, size in ((over.run_id, 3000), (live.run_id, 2000), ("somebodys-run", 1000)):
        leave(gcs, run_id, size)
    said = plan("cleanup", "--provider", "gcp")
    assert said.code == 0, said.err
    rows = [line.split() for line in said.out.splitlines()]
    assert [(row[0], row[1], row[-1]) for row in rows if row[-1:] in (["ended"], ["live"], ["foreign"])] == [
        (over.run_id, "gcp", "ended"), (live.run_id, "gcp", "live"), ("somebodys-run", "gcp", "foreign"),
    ]  # fmt: skip
    assert "storage at gcp: $0.02 per GB and month (listed, 2026-07-30: github.com/Cyclenerd/" in said.out
    told = plan("cleanup", "--provider", "gcp", "--json").json
    assert (told[0]["run_id"], told[0]["size_bytes"], told[0]["fate"]) == (over.run_id, 3000, "ended")
    assert (
        plan("cleanup", "--provider", "gcp", "--stored").error == "the input is not a terminal, so nobody can be asked"
    )
    assert plan("cleanup", "--provider", "gcp", "--stored", "--dry-run").code == 0
    assert len(gcs.world.objects[BUCKET]) == 3
    said = plan("cleanup", "--provider", "gcp", "--stored", "--yes")
    assert said.code == 0, said.err
    assert sorted(path.split("/")[1] for path in gcs.world.objects[BUCKET]) == sorted([live.run_id, "somebodys-run"])
    again = plan("cleanup", "--provider", "gcp", "--stored", "--yes")
    assert "no ended run of this computer has left anything in storage" in again.err


def test_storage_that_lets_nobody_in_does_not_stop_a_cleanup(gcs: GcsDouble, google: FakeProvider) -> None:
    gcs.world.foreign.add(BUCKET)
    said = plan("cleanup", "--provider", "gcp")
    assert said.code == 0
    assert "gcp: the stored files could not be listed" in said.err
