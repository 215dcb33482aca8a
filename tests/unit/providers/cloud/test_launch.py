"""What surrounds a cloud's create: what is looked up, that a replay writes the same bytes, and what is refused."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders import RUN_ID, a_job, an_offer
from tests.doubles.clock import FakeClock
from tests.doubles.fake_provider import FakeProvider
from trainplan.planner.runs.journal.records import request_from_record, request_record
from trainplan.pricing.offers import Offer
from trainplan.providers.agent.spec import File, read_spec
from trainplan.providers.base import LaunchRequest, ProviderSettings, RunId
from trainplan.providers.cloud.agent_archive import AGENT, agent_bytes
from trainplan.providers.cloud.data_files import folder_of
from trainplan.providers.cloud.launch import STOP, MachineResolution, Rented, hardware, known_options, mirrors_of
from trainplan.providers.errors import BadRequestError
from trainplan.workloads.job import DataSpec, job_from_json

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
DIGEST = "sha256:" + "d" * 64
END = {"kind": "power_off"}


class Resolving(FakeProvider):
    """A provider that looks up what every rented machine needs, and no more."""

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        raise AssertionError(request)

    def resolution_type(self, offer: Offer) -> type[MachineResolution]:
        return MachineResolution


PROVIDER = Resolving(FakeClock())


class MemoryBucket:
    """A run directory in memory."""

    uri = "s3://bucket/runs/r"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, path: str, data: bytes) -> None:
        self.objects[path] = data

    def delete(self, prefix: str) -> None:
        self.objects = {path: data for path, data in self.objects.items() if not path.startswith(f"{prefix}/")}

    def beside(self, prefix: str) -> MemoryBucket:
        return self


class Registries:
    """Knows one digest, and who asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, ...]] = []

    def digest(self, references: Sequence[str]) -> str:
        self.requests.append(tuple(references))
        return DIGEST


def rented(bucket: MemoryBucket, registries: Registries, **changes: Any) -> Rented:
    usual: dict[str, Any] = {
        "cloud": "aws",
        "service": "s3",
        "store": lambda run_id: bucket,
        "region": lambda: "eu-west-1",
        "now": lambda: NOON,
        "digest": registries.digest,
    }
    return Rented(**{**usual, **changes})


def a_request(**changes: Any) -> LaunchRequest:
    usual: dict[str, Any] = {
        "run_id": RUN_ID,
        "attempt": 1,
        "offer": an_offer(provider="aws", device="T4", device_count=1, memory_gib=16.0),
        "job": a_job(),
        "deadline": NOON + timedelta(hours=8),
    }
    return LaunchRequest(**{**usual, **changes})


def test_what_is_open_is_looked_up_once() -> None:
    kept, registries = MemoryBucket(), Registries()
    made = rented(kept, registries, mirrors=("here:5000",))
    assert made.resolve(a_request()) == MachineResolution(
        image_digest=DIGEST, run_uri=kept.uri, run_region="eu-west-1", boot_deadline=NOON + timedelta(minutes=45)
    )
    assert registries.requests[0][0].startswith("here:5000/library/python:")
    assert len(registries.requests) == 1
    assert kept.objects == {}


def test_an_image_of_ones_own_needs_no_look() -> None:
    registries = Registries()
    own = "registry.example/mine@sha256:" + "c" * 64
    assert rented(MemoryBucket(), registries).resolve(a_request(job=a_job(container=own))).image_digest == ""
    assert registries.requests == []


def test_a_replay_out_of_the_journal_writes_the_same_bytes() -> None:
    kept = MemoryBucket()
    made = rented(kept, Registries(), endpoints={"s3": "http://127.0.0.1:1"})
    request = a_request()
    request = replace(request, resolution=made.resolve(request))
    part = made.machine(request, END)
    assert '"http://127.0.0.1:1' in part.user_data.replace("\\", "")
    request = request_from_record(request_record(replace(request, calls=made.puts(part))), PROVIDER)
    for call in request.calls:
        assert made.is_put(call)
        made.put(RunId(RUN_ID), call)
    assert kept.objects == {stored.path: stored.data for stored in part.objects}
    assert list(kept.objects) == [stored.path for stored in part.objects]
    spec = read_spec(kept.objects["attempts/1/machine/spec.json"].decode())
    assert spec.boot_deadline == (NOON + timedelta(minutes=45)).timestamp()
    assert spec.images[-1].endswith(DIGEST)


def test_what_the_journal_keeps_is_small_and_our_own_parts_are_checked() -> None:
    made = rented(MemoryBucket(), Registries())
    request = a_request()
    calls = made.puts(made.machine(replace(request, resolution=made.resolve(request)), END))
    ours = next(call for call in calls if str(call.parameters["Path"]).endswith(AGENT))
    assert "Body" not in ours.parameters
    assert ours.parameters["SHA256"] == hashlib.sha256(agent_bytes()).hexdigest()
    other = replace(ours, parameters={**ours.parameters, "SHA256": "0" * 64})
    with pytest.raises(BadRequestError, match="another version of trainplan"):
        made.put(RunId(RUN_ID), other)
    job = next(call for call in calls if call.parameters["Path"] == "job.json")
    assert job_from_json(base64.b64decode(str(job.parameters["Body"])).decode()) == a_job()


def test_a_request_that_was_not_looked_up_is_refused() -> None:
    with pytest.raises(BadRequestError, match="was not looked up"):
        rented(MemoryBucket(), Registries()).machine(a_request(), END)


def test_the_machine_gets_its_data_and_the_framework_that_runs_there() -> None:
    file = File(path="", uri="s3://bucket/data/x/shard-0.tar", to="data/shard-0.tar", sha256="a" * 64, size_bytes=7)
    kept = MemoryBucket()
    tpu = an_offer(provider="gcp", device="TPU v5e", device_count=1, memory_gib=48.0)
    made = rented(kept, Registries(), cloud="gcp", service="storage")
    kept.uri = "gs://bucket/runs/r"
    request = request_from_record(request_record(a_request(offer=tpu, data=(file,))), PROVIDER)
    assert request.data == (file,)
    part = made.machine(replace(request, resolution=made.resolve(request)), {"kind": "power_off"})
    stored = {one.path: one.data.decode() for one in part.objects if one.path.endswith(".json")}
    assert job_from_json(stored["job.json"]).framework == "jax"
    assert file in read_spec(stored["attempts/1/machine/spec.json"]).files


ADDRESS = f"s3://bucket/data/{'a' * 64}"
OWN_DATA = {"model": {"preset": "vgg11", "image_size": 32, "classes": 2}, "data": {"url": ADDRESS, "images": 1000}}


def test_data_is_looked_up_once_and_its_machine_has_the_time_to_fetch_it() -> None:
    asked: list[str | None] = []
    file = File(
        path="", uri=f"{ADDRESS}/shard-00000.tar", to="data/x/shard-00000.tar", sha256="a" * 64,
        size_bytes=150 * 10**9, unpack=True,
    )  # fmt: skip

    def files(data: DataSpec, ours: object) -> tuple[File, ...]:
        asked.append(data.url)
        return (file,)

    made = rented(MemoryBucket(), Registries(), files=files)
    request = made.with_data(made.with_data(a_request(job=a_job(**OWN_DATA))))
    assert (request.data, asked) == ((file,), [ADDRESS])
    request = replace(request, resolution=made.resolve(request))
    assert request.resolution.boot_deadline == NOON + timedelta(minutes=45, seconds=6000)
    part = made.machine(request_from_record(request_record(request), PROVIDER), END)
    stored = {one.path: one.data.decode() for one in part.objects if one.path.endswith(".json")}
    assert file in read_spec(stored["attempts/1/machine/spec.json"]).files
    job = job_from_json(stored["job.json"])
    assert (job.data.url, job.data.images) == (None, 1000)
    assert str(job.data.path).startswith("/data/")


def test_weights_of_this_computer_are_refused_before_anything_is_rented(tmp_path: Path) -> None:
    job = a_job(model={"preset": "vgg16", "weights": str(tmp_path / "model.keras")})
    with pytest.raises(BadRequestError, match="no rented machine can read") as refusal:
        rented(MemoryBucket(), Registries()).with_data(a_request(job=job))
    assert "copy it to a bucket" in refusal.value.hint
    assert "weights: imagenet" in refusal.value.hint


WEIGHTS = "s3://mine/earlier/model.keras"
FINE_TUNED = {"preset": "vgg16", "image_size": 32, "classes": 2, "weights": WEIGHTS}


def finds(*others: File) -> Callable[[DataSpec, object], tuple[File, ...]]:
    """A look-up that knows one file at the address of the weights, and `others` at that of the data."""

    def files(data: DataSpec, ours: object) -> tuple[File, ...]:
        if data.url != WEIGHTS:
            return others
        return (File(path="", uri=WEIGHTS, to=f"data/{folder_of(WEIGHTS)}/model.keras", sha256="", size_bytes=9),)

    return files


@pytest.mark.parametrize("before", [False, True], ids=["all looked up here", "data looked up before"])
def test_weights_of_a_bucket_are_fetched_beside_the_data(*, before: bool) -> None:
    shard = File(path="", uri=f"{ADDRESS}/s.tar", to="data/x/s.tar", sha256="a" * 64, size_bytes=7, unpack=True)
    made = rented(MemoryBucket(), Registries(), files=finds(shard))
    job = a_job(**OWN_DATA | {"model": FINE_TUNED})
    request = made.with_data(made.with_data(a_request(job=job, data=(shard,) if before else ())))
    assert [file.uri for file in request.data] == [shard.uri, WEIGHTS]
    part = made.machine(replace(request, resolution=made.resolve(request)), END)
    stored = {one.path: one.data.decode() for one in part.objects if one.path.endswith(".json")}
    there = job_from_json(stored["job.json"]).model.weights
    assert there == f"/data/{folder_of(WEIGHTS)}/model.keras"
    (file,) = (file for file in read_spec(stored["attempts/1/machine/spec.json"]).files if file.uri == WEIGHTS)
    assert f"/{file.to}" == there


def test_weights_that_are_no_single_file_are_refused() -> None:
    made = rented(MemoryBucket(), Registries(), files=lambda *_: ())
    with pytest.raises(BadRequestError, match="no single file"):
        made.with_data(a_request(job=a_job(model=FINE_TUNED)))


def test_data_that_nobody_brings_and_secrets_of_another_cloud_are_refused() -> None:
    made = rented(MemoryBucket(), Registries())
    with pytest.raises(BadRequestError, match="is not brought"):
        made.with_data(a_request(job=a_job(**OWN_DATA)))
    assert made.with_data(a_request()).data == ()
    request = a_request(job=a_job(secrets={"TOKEN": "akv:https://vlt.vault.azure.net/secrets/s"}))
    with pytest.raises(BadRequestError, match="cannot resolve the secret TOKEN"):
        made.machine(replace(request, resolution=made.resolve(request)), END)


def test_stopping_is_a_file_of_the_run_directory() -> None:
    kept = MemoryBucket()
    rented(kept, Registries()).ask_to_stop(RunId(RUN_ID))
    assert list(kept.objects) == [STOP]


def test_a_wish_to_stop_is_not_for_the_next_attempt() -> None:
    """A run that was stopped and is launched again: its new machine would end as soon as it trains."""
    kept = MemoryBucket()
    made = rented(kept, Registries())
    made.ask_to_stop(RunId(RUN_ID))
    request = a_request(attempt=2)
    request = replace(request, resolution=made.resolve(request))
    for call in made.puts(made.machine(request, END)):
        made.put(RunId(RUN_ID), call)
    assert STOP not in kept.objects
    made.ask_to_stop(RunId(RUN_ID))
    assert STOP in kept.objects, "the new attempt can be asked"


@pytest.mark.parametrize(
    ("device", "kind", "capability"), [("T4", "gpu", "7.5"), ("TPU v5e", "tpu", None), ("cpu", "cpu", None)]
)
def test_hardware_of_an_offer(device: str, kind: str, capability: str | None) -> None:
    found = hardware(an_offer(provider="gcp", device=device))
    assert (found.kind, found.device, found.capability) == (kind, device, capability)


def test_options() -> None:
    settings = ProviderSettings(
        home=Path("/nowhere"), options={"mirrors": " a:5000 ,, b/c"}, environment={}, now=lambda: NOON
    )
    assert mirrors_of(settings) == ("a:5000", "b/c")
    assert known_options(settings, "aws", ("mirrors",)) == {"mirrors": " a:5000 ,, b/c"}
    with pytest.raises(BadRequestError, match="aws: there is no setting 'mirrors'"):
        known_options(settings, "aws", ("bucket",))
