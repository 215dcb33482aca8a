"""A job's data on its way to a rented machine: told before, sent once, counted in the estimate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job
from tests.doubles.gcs import GcsDouble
from tests.unit.planner.cli.command import plan
from tests.unit.providers.agent.machine import Rented
from trainplan.planner.datasets import pack
from trainplan.planner.datasets.store import known_bytes, remember_bytes
from trainplan.planner.datasets.transfer import data_line, plan_transfer, providers_of, send
from trainplan.planner.forecast.estimate import (
    DOWNLOAD_BYTES_PER_SECOND,
    UNPACK_BYTES_PER_SECOND,
    UNPACK_FILE_SECONDS,
    Workload,
    fetch_seconds,
    run_usage,
)
from trainplan.providers.agent import requests
from trainplan.providers.agent.downloads import fetch
from trainplan.providers.agent.stores import open_store
from trainplan.providers.base import ProviderSettings, RunId
from trainplan.providers.cloud.data_files import data_files, data_on_the_machine
from trainplan.providers.errors import BadRequestError
from trainplan.providers.stores import registry
from trainplan.providers.stores.bucket import DATA
from trainplan.providers.stores.pending_uploads import Unfinished
from trainplan.providers.stores.store import ObjectStore, run_store
from trainplan.workloads.job import DataSpec, TrainingJob

MODEL = {"preset": "vgg11", "image_size": 32, "classes": 2}


def silent(_: int) -> None:
    """Nobody listens."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "images"
    for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(name.encode() * 100)
    return made


@pytest.fixture
def gcs() -> Iterator[GcsDouble]:
    with GcsDouble() as double:
        yield double


@pytest.fixture
def at_google(gcs: GcsDouble, tmp_path: Path) -> ProviderSettings:
    return ProviderSettings(
        home=tmp_path / "home",
        options={"endpoint": gcs.url, "project": "p"},
        environment={},
        now=lambda: datetime(2026, 11, 21, tzinfo=UTC),
    )


@pytest.fixture
def store(at_google: ProviderSettings) -> Iterator[ObjectStore]:
    """The data sets there."""
    with closing(registry.bucket("gcp", at_google)) as bucket:
        unfinished = Unfinished(at_google.home / "uploads")
        yield run_store(bucket, RunId("any"), unfinished=unfinished).beside(DATA)


def own_job(**data: Any) -> TrainingJob:
    return a_job(model=MODEL, data={"images": 1000, **data})


def test_a_folder_is_told_sent_and_found_by_the_machine(
    folder: Path, at_google: ProviderSettings, store: ObjectStore
) -> None:
    job = own_job(path=str(folder), channels=1, first_label=1, duplicates="allow")
    brought = plan_transfer(job, "gcp", at_google, store, silent)
    assert brought.bound
    assert brought.upload is not None
    content = brought.upload.data.content
    assert brought.job.data.model_dump() == {
        "name": None, "path": None, "url": f"gs://trainplan-p-us-central1/data/{content}", "images": 1000,
        "channels": 1, "size_bytes": 10240, "first_label": 1, "duplicates": "allow",
    }  # fmt: skip
    assert list(brought.lines) == [
        f"data images: 3 files, 10 kB stored, under $0.01 a month at gs://trainplan-p-us-central1/data/{content}",
        "to send: 10 kB, about 1s at 20 Mbit/s; sending is free",
        f"it stays there until plan data remove {content[:12]}",
        "to the machine's disk: about 1s",
    ]
    other = folder.parent / "other.png"
    other.write_bytes(bytes(3_000))
    (folder / "linked.png").symlink_to(other)
    told = plan_transfer(job, "gcp", at_google, store, silent).lines
    assert told[2] == f"1 of them lies outside the folder, where links lead (3.0 kB); the first is {other.resolve()}"
    (folder / "linked.png").unlink()
    assert brought.missing_bytes == 10240
    sent: list[int] = []
    send(brought, store, sent.append)
    assert sum(sent) == 10240
    again = plan_transfer(job, "gcp", at_google, store, silent)
    assert again.lines[1] == "it is stored already: nothing is sent"
    send(again, store, sent.append)
    assert sum(sent) == 10240
    files = data_files(again.job.data, "gcp", at_google, store)
    assert files == brought.files == again.files, "what is planned before an upload is what is found after it"
    assert [file.size_bytes for file in files] == [10240]
    assert files[0].to.startswith(str(data_on_the_machine(again.job.data).path).lstrip("/"))
    assert sorted(path.rpartition("/")[2] for path in store.list()) == ["index.json", "shard-00000.tar"]


def test_from_a_folder_here_to_the_trainer_there(
    folder: Path, at_google: ProviderSettings, store: ObjectStore, gcs: GcsDouble, tmp_path: Path
) -> None:
    """The shards that were sent, fetched by the machine's own client, unpacked, and opened by the trainer."""
    pytest.importorskip("numpy")
    from trainplan.workloads.trainer.data import open_data

    for number in range(40):  # enough for one in ten to be held out
        for name in ("cat", "dog"):
            (folder / name / f"{number:02}.png").write_bytes(f"{name} {number}".encode())
    brought = plan_transfer(own_job(path=str(folder)), "gcp", at_google, store, silent)
    send(brought, store, silent)

    def asked(method: str, url: str, headers: Any = None, body: Any = None, timeout: float = 20.0) -> Any:
        if "computeMetadata" in url:
            return 200, {}, b'{"access_token": "token", "expires_in": 3599}'
        return requests.send(method, url, headers, body, timeout)

    boot = {
        "cloud": "gcp",
        "run_uri": "gs://trainplan-p-us-central1/runs/r1",
        "region": "",
        "endpoints": {"gcs": gcs.url},
    }
    access = requests.Access(boot, asked)
    there = open_store(access)
    there.put("job.json", b"{}")
    rented = Rented(tmp_path / "machine", files=data_files(brought.job.data, "gcp", at_google, store))
    machine = dataclasses.replace(rented.machine, access=access, store=there)
    for _ in fetch(machine):
        pass
    root = machine.paths.root / "data"
    brought_to = root / str(data_on_the_machine(brought.job.data).path).rpartition("/")[2]
    assert {path.relative_to(brought_to): path.read_bytes() for path in brought_to.rglob("*.png")} == {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.png")
    }
    job = brought.job.model_copy(update={"data": data_on_the_machine(brought.job.data), "global_batch_size": 8})
    split = open_data(job.model_copy(update={"data": job.data.model_copy(update={"images": None})}), root)
    assert split.class_names == ("cat", "dog")
    assert split.train.count + split.hold_out.count == 83


def test_other_data_is_another_training(folder: Path, at_google: ProviderSettings, store: ObjectStore) -> None:
    """A checkpoint of the folder as it was is not gone on with on what is in it now."""
    job = own_job(path=str(folder))
    before = plan_transfer(job, "gcp", at_google, store, silent).job
    assert plan_transfer(job, "gcp", at_google, store, silent).job.digest() == before.digest()
    (folder / "dog" / "2.png").write_bytes(b"new")
    assert plan_transfer(job, "gcp", at_google, store, silent).job.digest() != before.digest()


def test_an_interrupted_upload_is_gone_on_with(
    folder: Path, at_google: ProviderSettings, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "SHARD_BYTES", 1)
    job = own_job(path=str(folder))
    first = plan_transfer(job, "gcp", at_google, store, silent)
    assert first.upload is not None
    one_shard = dataclasses.replace(first.upload, missing_shards=first.upload.missing_shards[:1])
    send(dataclasses.replace(first, upload=one_shard), store, silent)
    assert plan_transfer(job, "gcp", at_google, store, silent).missing_bytes == first.missing_bytes * 2 // 3


def test_a_bucket_is_looked_at_and_remembered(folder: Path, at_google: ProviderSettings, store: ObjectStore) -> None:
    sent = plan_transfer(own_job(path=str(folder)), "gcp", at_google, store, silent)
    send(sent, store, silent)
    address = str(sent.job.data.url)
    brought = plan_transfer(own_job(url=address), "gcp", at_google, store, silent)
    assert brought.lines == (
        f"data 10 kB at {address}, about 1s to a rented machine's disk, which machines of gcp alone can fetch",
    )
    assert (brought.bound, brought.upload, brought.job.data.size_bytes) == (True, None, 10240)
    assert known_bytes(DataSpec(url=address), at_google.home) == 10240
    with pytest.raises(BadRequestError, match="a machine of aws cannot read"):
        plan_transfer(own_job(url=address), "aws", at_google, store, silent)


def test_where_nothing_has_to_be_brought(folder: Path, at_google: ProviderSettings, store: ObjectStore) -> None:
    for job, provider, storage in (
        (own_job(path=str(folder)), "local", None),
        (own_job(path=str(folder)), "sim", None),
        (a_job(), "gcp", store),
    ):
        brought = plan_transfer(job, provider, at_google, storage, silent)
        assert (brought.job, brought.lines, brought.bound, brought.missing_bytes) == (job, (), False, 0)
        send(brought, storage, silent)


def test_imagenet_needs_a_data_set_of_that_name(folder: Path, at_google: ProviderSettings, store: ObjectStore) -> None:
    job = a_job(model={"preset": "vgg16"}, data={"name": "imagenet"})
    with pytest.raises(BadRequestError, match="no data set is called imagenet"):
        plan_transfer(job, "gcp", at_google, store, silent)
    renamed = folder.rename(folder.with_name("imagenet"))
    send(plan_transfer(own_job(path=str(renamed)), "gcp", at_google, store, silent), store, silent)
    brought = plan_transfer(job, "gcp", at_google, store, silent)
    assert (brought.job, brought.bound) == (job, True)
    assert brought.lines == ("data imagenet: 10 kB in the storage of gcp",)


SECRET = {"TOKEN": "aws-sm:arn:aws:secretsmanager:eu-west-1:123456789012:secret:token"}


def test_whose_machines_can_train_a_job() -> None:
    wanted = {"s3://b/x": ("aws",), "gs://b/x": ("gcp",), "az://a/b/x": ("azure",), "https://example.org/x": ()}
    assert {url: providers_of(own_job(url=url)) for url in wanted} == wanted
    assert providers_of(a_job()) == ()
    assert providers_of(a_job(secrets=SECRET)) == ("aws",)
    assert providers_of(a_job(model=MODEL, data={"url": "s3://b/x"}, secrets=SECRET)) == ("aws",)
    for data, secrets in (({"url": "gs://b/x"}, SECRET), ({"url": "s3://b/x"}, {"TOKEN": "akv:https://v/secrets/x"})):
        with pytest.raises(BadRequestError, match="are at"):
            providers_of(a_job(model=MODEL, data=data, secrets=secrets))


def test_a_secret_that_nobody_there_could_resolve_is_refused_before_anything_is_read(
    folder: Path, at_google: ProviderSettings, store: ObjectStore
) -> None:
    job = own_job(path=str(folder)).model_copy(update={"secrets": SECRET})
    for provider in ("gcp", "local", "sim"):
        with pytest.raises(BadRequestError, match="TOKEN"):
            plan_transfer(job, provider, at_google, store, silent)
    at_home = a_job(secrets={"TOKEN": "gcp-sm:projects/p/secrets/s/versions/1"})
    assert plan_transfer(at_home, "gcp", at_google, store, silent).bound


# --- the estimate ------------------------------------------------------------------------------------------------


def test_how_large_it_is_as_far_as_this_computer_knows(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert known_bytes(DataSpec(path=str(folder)), home) == 2700
    assert known_bytes(DataSpec(path=str(folder), size_bytes=5), home) == 5
    assert known_bytes(DataSpec(url="s3://b/x"), home) is None
    remember_bytes("s3://b/x", 12, home)
    assert known_bytes(DataSpec(url="s3://b/x"), home) == 12
    assert known_bytes(DataSpec(path=str(tmp_path / "nothing")), home) is None
    remember_bytes(str(folder.resolve()), 99, home)
    assert known_bytes(DataSpec(path=str(folder)), home) == 2700
    assert (pack.folder_bytes(folder, 3), pack.folder_bytes(folder, 2)) == (2700, None)


def test_the_time_of_the_transfer_by_hand() -> None:
    """100 GB at 100 MB/s, unpacked at 600 MB/s, a million files at 0.13 ms."""
    job = own_job(url="s3://b/x", size_bytes=10**11, images=10**6)
    assert (DOWNLOAD_BYTES_PER_SECOND, UNPACK_BYTES_PER_SECOND, UNPACK_FILE_SECONDS) == (10**8, 6 * 10**8, 0.00013)
    assert fetch_seconds(job) == pytest.approx(1000 + 166.67 + 130, abs=0.01)
    assert Workload(job).download_seconds == fetch_seconds(job)
    assert run_usage(job, "cpu").disk_gb > 230
    unknown = own_job(url="s3://b/x")
    assert fetch_seconds(unknown) == 0
    assert fetch_seconds(a_job()) == pytest.approx(1.70498)


def test_what_the_estimate_says_of_the_data() -> None:
    assert data_line(a_job()) == ""
    assert "is not counted" in data_line(own_job(url="s3://b/x"))
    sized = own_job(url="s3://b/x", size_bytes=12 * 10**9, images=100_000)
    assert data_line(sized) == (
        "12 GB at s3://b/x, about 2m 33s to a rented machine's disk, which machines of aws alone can fetch"
    )
    web = own_job(url="https://example.org/x.tar", size_bytes=12 * 10**9, images=100_000)
    assert data_line(web).endswith("about 2m 33s to a rented machine's disk")


def test_plan_estimate_counts_a_folder_and_says_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    text = "name: own\nmodel: {preset: vgg11, image_size: 32, classes: 2}\nepochs: 1\nglobal_batch_size: 8\n"
    (tmp_path / "job.yaml").write_text(f"{text}data: {{path: images}}\n")
    said = plan("estimate", tmp_path / "job.yaml", "--provider", "aws")
    line = (
        f"data: 2.7 kB at {folder}, about 1s to a rented machine's disk; sent to its storage before, once, in about 1s"
    )
    assert line in said.out
    (tmp_path / "job.yaml").write_text(f"{text}data: {{url: 's3://b/x', images: 1000}}\n")
    without = plan("estimate", tmp_path / "job.yaml", "--provider", "aws", "--json")
    assert "s3://b/x is not counted" in plan("estimate", tmp_path / "job.yaml", "--provider", "aws").out
    remember_bytes("s3://b/x", 360 * 10**9, tmp_path / "home")
    sized = plan("estimate", tmp_path / "job.yaml", "--provider", "aws", "--json")
    setups = [said.json["candidates"][0]["setup_seconds"] for said in (without, sized)]
    assert timedelta(seconds=setups[1] - setups[0]) > timedelta(hours=1)
