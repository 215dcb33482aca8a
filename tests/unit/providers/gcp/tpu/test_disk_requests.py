"""What a launch on a TPU sends where its data needs a disk of its own: timers, the disk, and then the node with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from google.cloud import compute_v1, tpu_v2
from google.protobuf import json_format

from tests.builders import LARGE_DATA, a_job
from tests.conftest import Golden
from tests.unit.providers.gcp.tpu.test_requests import (
    RESOLUTION,
    V3_8,
    a_request,
    an_offer,
    calls_of,
    machines,
    text_of,
)
from trainplan.planner.forecast.estimate import run_usage
from trainplan.pricing.devices import MOST_DATA_DISK_GIB
from trainplan.providers.agent.spec import File
from trainplan.providers.base import LaunchRequest
from trainplan.providers.errors import BadRequestError
from trainplan.providers.gcp.request import name_of, token_of
from trainplan.providers.gcp.tpu import data_disk, deadline

NET = {"preset": "vgg16", "image_size": 64, "classes": 10}


def a_large_request(**changes: Any) -> LaunchRequest:
    resolution = replace(RESOLUTION, compute_address="https://compute.googleapis.com")
    return a_request(**{"job": a_job(**LARGE_DATA), "resolution": resolution, **changes})


def test_a_v3_8_with_a_data_disk_as_it_is_asked_for(golden: Golden) -> None:
    text = text_of(calls_of(a_large_request()))
    golden.check_difference("gcp/v3-8-data-disk.diff", text, V3_8, text_of(calls_of(a_request())))


def test_google_takes_every_field_of_the_requests() -> None:
    """By the types of its own libraries, which refuse a field that they do not know."""
    calls = {call.operation: call for call in calls_of(a_large_request())}
    disk: Mapping[str, Any] = calls[data_disk.INSERT].parameters
    made = compute_v1.Disk.from_json(json.dumps(disk["body"]))
    assert (made.name, made.size_gb) == (name_of(a_request()), 157)
    assert made.type_.endswith("/diskTypes/pd-balanced")
    create = tpu_v2.CreateQueuedResourceRequest()
    json_format.ParseDict(dict(calls["CreateQueuedResource"].parameters), type(create).pb(create))
    (attached,) = create.queued_resource.tpu.node_spec[0].node.data_disks
    assert attached.source_disk == data_disk.name_made(calls[data_disk.INSERT])
    assert attached.mode == tpu_v2.AttachedDisk.DiskMode.READ_WRITE
    with pytest.raises(json_format.ParseError):
        compute_v1.Disk.from_json(json.dumps({**disk["body"], "autoDelete": True}))


def test_timers_come_first_then_the_disk_then_the_node() -> None:
    request = a_large_request()
    calls = [call for call in calls_of(request) if call.service != "storage"]
    assert [call.operation for call in calls] == [*["CreateTask"] * 6, "disks.insert", "CreateQueuedResource"]
    tasks: list[Any] = [call.parameters["task"] for call in calls[3:6]]
    name = data_disk.name_made(calls[6])
    assert {task["httpRequest"]["url"] for task in tasks} == {f"https://compute.googleapis.com/compute/v1/{name}"}
    assert {task["httpRequest"]["httpMethod"] for task in tasks} == {"DELETE"}
    due = [datetime.fromisoformat(task["scheduleTime"]) - request.deadline for task in tasks]
    # Each some minutes after a delete of the node, which holds the disk until it is gone.
    assert due == [timedelta(minutes=5), timedelta(minutes=20), timedelta(minutes=65)]


def test_the_names_of_the_disks_timers_tell_whose_they_are() -> None:
    request = a_large_request()
    call = [call for call in calls_of(request) if call.operation == deadline.CREATE_TASK][-1]
    task: Any = call.parameters["task"]
    known = deadline.read_task({**task, "createTime": "2026-11-21T12:00:00Z"})
    assert known is not None
    assert known.is_of_disk
    assert (known.run_id, known.attempt, known.client) == (request.run_id, 2, request.client)
    assert (known.zone, known.ends, known.deadline) == ("us-central1-a", name_of(request), request.deadline)


def test_the_disk_says_whose_it_is_and_until_when_and_has_a_token_of_its_own() -> None:
    request = a_large_request()
    call = next(call for call in calls_of(request) if call.operation == data_disk.INSERT)
    asked: Mapping[str, Any] = call.parameters
    node: Any = calls_of(request)[-1].parameters["queuedResource"]
    assert asked["body"]["labels"] == node["tpu"]["nodeSpec"][0]["node"]["labels"]
    assert asked["body"]["labels"]["trainplan-deadline"] == "20261121t200000z"
    assert asked["requestId"] != token_of(request)
    assert calls_of(request) == calls_of(request)


def test_a_job_whose_data_fits_makes_no_disk() -> None:
    calls = calls_of(a_request())
    assert data_disk.INSERT not in {call.operation for call in calls}
    node: Any = calls[-1].parameters["queuedResource"]
    assert "dataDisks" not in node["tpu"]["nodeSpec"][0]["node"]
    assert "disk.sh" not in node["tpu"]["nodeSpec"][0]["node"]["metadata"]["startup-script"]


def test_the_start_up_text_mounts_a_disk_of_that_size() -> None:
    node: Any = calls_of(a_large_request())[-1].parameters["queuedResource"]
    script = node["tpu"]["nodeSpec"][0]["node"]["metadata"]["startup-script"]
    assert "/usr/local/lib/trainplan/disk.sh" in script


@pytest.mark.parametrize(
    ("gigabytes", "text", "gib"),
    [
        (75, "the job", 0),
        (76, "the job", 149),
        (75, "files", 0),
        (76, "files", 149),
        # One archive is there beside what is in it, and the disk has room for both.
        (37, "an archive", 0),
        (38, "an archive", 75),
        (73, "archives", 0),
        (75, "archives", 147),
    ],
)
def test_a_disk_is_made_for_data_that_has_no_room_on_the_nodes_own(gigabytes: int, text: str, gib: int) -> None:
    """100 GiB less 30 for system and container are 75.2 GB."""
    size, parts = gigabytes * 10**9, {"files": 75, "an archive": 1, "archives": 75}.get(text, 0)
    data: dict[str, Any] = {"url": "gs://images/train", "images": 1000}
    if text == "the job":
        data["size_bytes"] = size
    part = File(
        path="", uri="gs://x/y", to="data/y", sha256="", size_bytes=size // max(parts, 1), unpack=text != "files"
    )
    request = a_request(job=a_job(data=data, model=NET), data=(part,) * parts)
    assert data_disk.size_gib(request) == gib


def test_the_estimate_counts_the_disk_that_a_launch_makes() -> None:
    job = a_job(data={"name": "imagenet"})
    made = data_disk.size_gib(a_request(job=job))
    assert float(run_usage(job, an_offer().device).disk_gb) == 100 + made


def test_a_disk_of_compute_engine_is_sized_by_its_machine() -> None:
    assert data_disk.size_gib(a_large_request(offer=an_offer("tpu-v6e-1"))) == 0


def test_data_that_no_disk_holds_is_refused_before_anything_is_made() -> None:
    data = {**LARGE_DATA["data"], "size_bytes": 34 * 10**12}
    request = a_large_request(job=a_job(model=NET, data=data))
    assert data_disk.size_gib(request) > MOST_DATA_DISK_GIB
    for asked in (machines().requests, machines().resolve):
        with pytest.raises(BadRequestError, match=str(MOST_DATA_DISK_GIB)) as caught:
            asked(request)
        assert caught.value.hint


def test_where_compute_engine_answers_is_looked_up() -> None:
    with pytest.raises(BadRequestError, match="address that deletes its data disk"):
        machines().requests(a_request(job=a_job(**LARGE_DATA)))
