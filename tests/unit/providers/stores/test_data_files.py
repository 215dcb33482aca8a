"""What a rented machine fetches for its job's data, in each of the stores, and what it is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.providers.stores.worlds import World
from tests.unit.workloads.trainer.builders import a_job
from trainplan.planner.datasets.pack import read, scan
from trainplan.planner.datasets.store import planned, upload
from trainplan.providers.agent.spec import File
from trainplan.providers.cloud import data_files as module
from trainplan.providers.cloud.data_files import data_files, data_on_the_machine, index_files, is_ours
from trainplan.providers.cloud.secrets import KINDS, references
from trainplan.providers.errors import BadRequestError
from trainplan.providers.stores.bucket import DATA
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.urls import size_bytes
from trainplan.workloads.job import DataSpec


def root_of(world: World, *, machine: bool = False) -> str:
    bucket = world.options["bucket"]
    azure = "azblob" if machine else "az"
    roots = {"aws": f"s3://{bucket}", "gcp": f"gs://{bucket}", "azure": f"{azure}://devstoreaccount1/{bucket}"}
    return roots[world.name]


def files_of(world: World, **data: Any) -> tuple[File, ...]:
    ours = world.store().beside(DATA)
    return data_files(DataSpec(**data), world.name, world.settings(), ours, Patience(sleep=world.slept.append))


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "imagenet"
    for name in ("cat/1.png", "dog/1.png"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(name.encode())
    return folder


def test_a_data_set_of_ours_comes_as_its_shards(away: World, images: Path) -> None:
    data = read(images, scan(images).items, lambda _: None)
    store = away.store().beside(DATA)
    upload(planned(data, store, None), images, store, lambda _: None)
    address = f"{root_of(away)}/data/{data.content}"
    assert is_ours(address)
    shard = data.shards[0]
    folder = data_on_the_machine(DataSpec(url=address)).path
    assert folder is not None
    wanted = File(
        path="",
        uri=f"{root_of(away, machine=True)}/data/{data.content}/shard-00000.tar",
        to=f"{folder.lstrip('/')}/shard-00000.tar",
        sha256=shard.sha256,
        size_bytes=shard.size_bytes,
        unpack=True,
    )
    assert files_of(away, url=address) == (wanted,)
    # ImageNet may not be downloaded by anybody: a data set of that name takes its place.
    named = files_of(away, name="imagenet")
    assert [(file.uri, file.to) for file in named] == [(wanted.uri, "data/imagenet/shard-00000.tar")]
    store.delete(f"{data.content}/index.json")
    with pytest.raises(BadRequestError, match="is not finished"):
        files_of(away, url=address)
    with pytest.raises(BadRequestError, match="no data set is called imagenet"):
        files_of(away, name="imagenet")


def test_what_lies_in_a_bucket_is_fetched_object_by_object(away: World) -> None:
    store = away.store()
    for path, data in {"set/train/a b.tfrecord": b"12345", "set/b.tar.gz": b"678", "set-2/c": b"9"}.items():
        store.put(path, data)
    address = f"{root_of(away)}/runs/r1/set"
    folder = str(data_on_the_machine(DataSpec(url=address)).path).lstrip("/")
    assert [(file.to, file.size_bytes, file.sha256, file.unpack) for file in files_of(away, url=address)] == [
        (f"{folder}/b.tar.gz", 3, "", True),
        (f"{folder}/train/a b.tfrecord", 5, "", False),
    ]
    one = files_of(away, url=f"{address}/train/a b.tfrecord")
    assert [(file.uri, file.to.rpartition("/")[2]) for file in one] == [
        (f"{root_of(away, machine=True)}/runs/r1/set/train/a b.tfrecord", "a b.tfrecord")
    ]
    with pytest.raises(BadRequestError, match="is empty or does not exist"):
        files_of(away, url=f"{address}-3")


@pytest.mark.parametrize("away", ["gcs"], indirect=True)
def test_too_many_objects_are_refused(away: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OBJECTS", 2)
    for number in range(3):
        away.store().put(f"set/{number}", b"x")
    with pytest.raises(BadRequestError, match="more than 2 objects"):
        files_of(away, url=f"{root_of(away)}/runs/r1/set")


@pytest.mark.parametrize("away", ["gcs"], indirect=True)
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"url": "s3://bucket/x"}, "a machine of gcp cannot read s3://bucket/x"),
        ({"url": "az://account/box/x"}, "a machine of gcp cannot read"),
        ({"path": "/home/somebody/images"}, "lies on this computer"),
    ],
)
def test_data_that_no_machine_can_read_is_refused_before_it_is_rented(
    away: World, data: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadRequestError, match=message):
        files_of(away, **data)


@pytest.mark.parametrize("away", ["gcs"], indirect=True)
@pytest.mark.parametrize("name", ["digits", "mnist", "cifar10", "synthetic"])
def test_what_the_trainer_makes_or_downloads_is_not_brought(away: World, name: str) -> None:
    assert files_of(away, name=name) == ()


def test_an_address_of_the_web_is_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "https://example.org/a/set%20v2.tar.gz?x=1": ("set v2.tar.gz", True),
        "https://example.org/": ("data", False),
        "https://example.org/a/%2e%2e%2fevil": ("evil", False),
    }
    for url, (name, unpack) in files.items():
        made = module._of_the_web(url, 7)
        assert (made.to.rpartition("/")[2], made.unpack, made.uri, made.size_bytes) == (name, unpack, url, 7)
        assert made.to.count("/") == 2


@pytest.mark.parametrize("away", ["gcs"], indirect=True)
def test_a_bucket_that_is_not_there_is_told_in_words(away: World) -> None:
    with pytest.raises(BadRequestError, match="there is no bucket"):
        files_of(away, url=f"{root_of(away)}/nothing")
    with pytest.raises(BadRequestError, match="there is no bucket"):
        size_bytes(f"{root_of(away)}/nothing", away.settings())


@pytest.mark.parametrize(
    "index",
    [
        b"",
        b"[]",
        b'{"shards": []}',
        json.dumps({"shards": [{"name": "../evil.tar", "sha256": "e", "size_bytes": 1}]}).encode(),
        json.dumps({"shards": [{"name": "shard-00000.tar", "sha256": "", "size_bytes": 1}]}).encode(),
    ],
)
def test_an_index_that_cannot_be_read_is_refused(index: bytes) -> None:
    with pytest.raises(BadRequestError, match="cannot be read"):
        index_files(index, "s3://b/data/x", "abc")


def test_the_machine_reads_a_folder_whose_name_hangs_on_the_address() -> None:
    first, second = (data_on_the_machine(DataSpec(url=f"s3://b/data/{letter * 64}", images=9)) for letter in "ab")
    assert first.path != second.path
    assert str(first.path).startswith("/data/")
    assert (first.url, first.images) == (None, 9)
    named = DataSpec(name="cifar10")
    assert data_on_the_machine(named) is named


def test_a_secret_is_the_machine_s_own_clouds() -> None:
    kept = {
        "aws": "aws-sm:token",
        "gcp": "gcp-sm:projects/p/secrets/s/versions/1",
        "azure": "akv:https://vlt.vault.azure.net/secrets/s",
    }
    assert set(kept) == set(KINDS)
    for cloud, reference in kept.items():
        assert references(a_job(secrets={"TOKEN": reference}), cloud) == {"TOKEN": reference}
        for other in {*kept, "local", "sim"} - {cloud}:
            with pytest.raises(BadRequestError, match="TOKEN"):
                references(a_job(secrets={"TOKEN": reference}), other)
    assert references(a_job(), "local") == {}
