"""What a launch on a TPU sends: timers first, one queued resource, the start-up text as a shell script."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import TODAY, a_job
from tests.conftest import Golden
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import Market, Offer, OfferQuery
from trainplan.providers.base import LaunchRequest, ProviderSettings, RunId, VendorRequest
from trainplan.providers.cloud.bootstrap import Boot, shell_parts, start_up
from trainplan.providers.cloud.checks import check_lines
from trainplan.providers.cloud.launch import Rented
from trainplan.providers.cloud.machine import BOOT_ALLOWANCE
from trainplan.providers.errors import BadRequestError
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.provider import make
from trainplan.providers.gcp.request import name_of
from trainplan.providers.gcp.settings import GcpSettings
from trainplan.providers.gcp.tpu import deadline
from trainplan.providers.gcp.tpu.data_disk import DataDisks
from trainplan.providers.gcp.tpu.provider import TpuMachines
from trainplan.providers.gcp.tpu.request import as_shell, takes
from trainplan.providers.gcp.tpu.resolution import TpuResolution, choose_version

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
BOOT = Boot(
    cloud="gcp",
    run_uri="gs://b'ucket/runs/r1",
    attempt=1,
    deadline=NOON + timedelta(hours=8),
    boot_deadline=NOON + BOOT_ALLOWANCE,
    requested_at=NOON,
    agent_sha256="a" * 64,
    spec_sha256="b" * 64,
    region="us-central1",
)


V3_8 = "gcp/v3-8-queued-resource.json"


def an_offer(instance_type: str = "tpu-v3-8", market: Market = Market.ON_DEMAND) -> Offer:
    asked = OfferQuery(instance_types=frozenset({instance_type}), markets=frozenset({market}))
    with Catalog.open() as catalog:
        return catalog.offers(asked, TODAY)[0]


RESOLUTION = TpuResolution(
    image_digest=f"sha256:{'5' * 64}",
    run_uri="gs://trainplan-a-project-us-central1/runs/261121-0000abcd",
    run_region="us-central1",
    boot_deadline=NOON + BOOT_ALLOWANCE,
    project="a-project",
    machine_account="trainplan-machine@a-project.iam.gserviceaccount.com",
    zone="us-central1-a",
    runtime_version="tpu-ubuntu2204-base",
    tpu_address="https://tpu.googleapis.com",
)


def machines(**settings: Any) -> TpuMachines:
    """Nobody answers: what is asked here is pure."""
    given = GcpSettings(project="a-project", endpoint="http://nowhere", **settings)
    rented = Rented(cloud="gcp", service="storage", store=_nothing, region=lambda: "us-central1", now=lambda: NOON)
    disks = DataDisks(_nothing)  # type: ignore[arg-type]
    return TpuMachines(GcpAccount(given), rented, _nothing, _nothing, disks, lambda: NOON)  # type: ignore[arg-type]


def a_request(offer: Offer | None = None, **changes: Any) -> LaunchRequest:
    made = LaunchRequest(
        run_id=RunId("261121-0000abcd"),
        attempt=2,
        offer=offer or an_offer(),
        job=a_job(),
        deadline=NOON + timedelta(hours=8),
        zone="us-central1-a",
        client="c0ffee0123456789",
        resolution=RESOLUTION,
    )
    return replace(made, **changes)


def calls_of(request: LaunchRequest, **settings: Any) -> list[VendorRequest]:
    return list(machines(**settings).requests(request))


def test_a_v3_8_as_it_is_asked_for(golden: Golden) -> None:
    golden.check(V3_8, text_of(calls_of(a_request())))


def test_timers_come_before_what_they_end_and_end_it_by_its_name() -> None:
    calls = [call for call in calls_of(a_request()) if call.service != "storage"]
    assert [call.operation for call in calls] == [*["CreateTask"] * 3, "CreateQueuedResource"]
    create: Mapping[str, Any] = calls[-1].parameters
    name = f"{create['parent']}/queuedResources/{create['queuedResourceId']}"
    due = []
    for call in calls[:-1]:
        task: Any = call.parameters["task"]
        assert task["httpRequest"]["url"] == f"https://tpu.googleapis.com/v2/{name}?force=true"
        assert task["httpRequest"]["httpMethod"] == "DELETE"
        assert task["httpRequest"]["oauthToken"]["serviceAccountEmail"].startswith("trainplan-machine@")
        due.append(datetime.fromisoformat(task["scheduleTime"]) - a_request().deadline)
    assert due == [timedelta(0), timedelta(minutes=15), timedelta(minutes=60)]


def test_the_machine_ends_itself_by_the_same_name() -> None:
    calls = calls_of(a_request())
    spec = next(call for call in calls if str(call.parameters.get("Path", "")).endswith("spec.json"))
    told = json.loads(base64.b64decode(str(spec.parameters["Body"])))
    assert told["end"] == {
        "kind": "tpu_delete",
        "project": "a-project",
        "zone": "us-central1-a",
        "queued_resource": calls[-1].parameters["queuedResourceId"],
    }
    assert told["privileged"] is True
    assert told["framework"] == "jax"


def test_names_are_the_attempts_and_tell_it() -> None:
    request = a_request()
    (first, *_) = [call for call in calls_of(request) if call.operation == "CreateTask"]
    task: Any = first.parameters["task"]
    known = deadline.read_task({**task, "createTime": "2026-11-21T12:00:00Z"})
    assert known is not None
    assert (known.run_id, known.attempt, known.client) == (request.run_id, 2, request.client)
    assert (known.zone, known.ends, known.deadline) == ("us-central1-a", name_of(request), request.deadline)
    assert calls_of(request) == calls_of(request)


@pytest.mark.parametrize("text", ["Ab_c.d/é-1", "", "a__b", "_5f", "x" * 60])
def test_what_is_no_name_of_a_task_is_spelled_out(text: str) -> None:
    request = a_request(run_id=RunId(f"r{text}"), client=text)
    ends = deadline.Ends(
        project="p", name="projects/p/locations/z-a/queuedResources/n", address="https://x", account="a"
    )
    call = deadline.task_calls(request, ends)[0]
    name = deadline.task_name(call).rpartition("/")[2]
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,500}", name)
    known = deadline.read_task({"name": f"q/{name}"})
    assert known is not None
    assert (known.run_id, known.client) == (request.run_id, text)


@pytest.mark.parametrize(
    "name", ["mine", "trainplan__r__x__c__z__0", "trainplan__r__1__c__z", "trainplan__r__1__c__z__x"]
)
def test_other_tasks_are_none_of_ours(name: str) -> None:
    assert deadline.read_task({"name": f"projects/p/locations/l/queues/trainplan/tasks/{name}"}) is None


def test_spot_is_asked_for_as_spot_alone() -> None:
    body: Any = calls_of(a_request(an_offer(market=Market.SPOT)))[-1].parameters["queuedResource"]
    assert body["spot"] == {}
    assert "spot" not in calls_of(a_request())[-1].parameters["queuedResource"]  # type: ignore[operator]


@pytest.mark.parametrize(("hours", "minutes"), [(8, 20), (1, 15), (0.05, 1)])
def test_it_waits_no_longer_than_another_zone_could_use(hours: float, minutes: float) -> None:
    request = a_request(deadline=NOON + timedelta(hours=hours))
    body: Any = calls_of(request)[-1].parameters["queuedResource"]
    until = datetime.fromisoformat(body["queueingPolicy"]["validUntilTime"])
    assert until - NOON == timedelta(minutes=minutes)


def test_the_persons_network_is_used() -> None:
    body: Any = calls_of(a_request(), network="mine", subnetwork="here")[-1].parameters["queuedResource"]
    network = body["tpu"]["nodeSpec"][0]["node"]["networkConfig"]
    assert network == {"network": "mine", "subnetwork": "here", "enableExternalIps": True}


def test_a_slice_of_several_machines_is_refused_with_the_reason() -> None:
    request = a_request(an_offer("tpu-v3-32"))
    assert takes(request.offer)
    with pytest.raises(BadRequestError, match="slice of 4 machines"):
        machines().requests(request)
    with pytest.raises(BadRequestError, match="slice of 4 machines"):
        machines().resolve(request)
    (line,) = check_lines(machines().looks(request.offer))
    assert "slice of 4 machines" in line.detail


@pytest.mark.parametrize(
    ("instance_type", "batch", "refused"),
    [("tpu-v3-8", 100, True), ("tpu-v3-8", 104, False), ("tpu-v4-8", 100, False), ("tpu-v5litepod-8", 100, True)],
)
def test_a_batch_divides_over_cores_not_chips(instance_type: str, batch: int, refused: bool) -> None:
    request = a_request(an_offer(instance_type), job=a_job(global_batch_size=batch))
    if not refused:
        assert machines().requests(request)
        return
    for asked in (machines().requests, machines().resolve):
        with pytest.raises(BadRequestError, match="8 cores") as caught:
            asked(request)
        assert "multiple" in caught.value.hint


def test_what_was_not_looked_up_is_not_sent() -> None:
    with pytest.raises(BadRequestError, match="was not looked up"):
        machines().requests(a_request(resolution=None))


def test_a_deadline_that_no_task_reaches_is_refused() -> None:
    with pytest.raises(BadRequestError, match="30 days"):
        machines().resolve(a_request(deadline=NOON + timedelta(days=30)))


def test_a_placement_without_a_zone_is_refused() -> None:
    offer = replace(an_offer(), zones=())
    with pytest.raises(BadRequestError, match="no zone of it is known"):
        machines().resolve(a_request(offer, zone=None))


@pytest.mark.parametrize(
    ("version", "versions", "match"),
    [
        ("tpu-ubuntu2204-base", ["tpu-ubuntu2204-base", "tpu-ubuntu2404-base"], "tpu-ubuntu2204-base"),
        ("tpu-ubuntu2204-base", ["tpu-vm-base", "tpu-ubuntu2404-base"], "tpu-ubuntu2404-base"),
        ("tpu-ubuntu2204-base", ["tpu-vm-tf-2.18.0"], None),
        ("v2-alpha-tpuv5-lite", ["tpu-ubuntu2204-base"], None),
    ],
)
def test_the_runtime_version_is_one_that_is_there(version: str, versions: list[str], match: str | None) -> None:
    assert choose_version(version, versions) == match


# --- the start-up text as a shell script ---------------------------------------------------------------------------


def test_the_script_does_what_the_document_says(tmp_path: Path) -> None:
    """Run with the machine's folders elsewhere: every file is as cloud-init would have written it."""
    document = yaml.safe_load(start_up(BOOT))
    script = as_shell(start_up(BOOT))
    for folder in ("/etc", "/usr/local"):
        script = script.replace(folder, f"{tmp_path}{folder}")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/told\n')
    (tools / "systemctl").chmod(0o755)
    for _ in range(2):  # at every boot
        run = subprocess.run(["sh", "-e"], input=script, text=True, env={"PATH": f"{tools}:/usr/bin:/bin"}, check=False)
        assert run.returncode == 0
    for row in document["write_files"]:
        written = (tmp_path / row["path"].lstrip("/")).read_bytes()
        expected = _content(row)
        elsewhere = expected.decode().replace("/etc", f"{tmp_path}/etc").replace("/usr/local", f"{tmp_path}/usr/local")
        assert written in (expected, elsewhere.encode())
    told = (tmp_path / "told").read_text()
    assert "trainplan-deadline.timer" in told
    assert told.count("start trainplan.service") == 2


def test_the_script_is_good_shell(tmp_path: Path) -> None:
    path = tmp_path / "startup.sh"
    path.write_text(as_shell(start_up(BOOT)))
    checker = Path(sys.executable).parent / "shellcheck"
    checked = subprocess.run([checker, "-s", "sh", path], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    assert path.stat().st_size < 256 * 1024
    for part in ("arm.sh", "run.sh"):
        assert shell_parts(BOOT)[part].rstrip() in path.read_text()


def test_a_document_with_more_in_it_is_refused() -> None:
    with pytest.raises(ValueError, match="packages"):
        as_shell("#cloud-config\npackages: [docker.io]\n")
    with pytest.raises(ValueError, match="owner"):
        as_shell("#cloud-config\nwrite_files:\n- {path: /x, content: y, owner: nobody}\n")


def _content(row: dict[str, str]) -> bytes:
    if row.get("encoding") == "gz+b64":
        return gzip.decompress(base64.b64decode(row["content"]))
    return row["content"].encode()


def test_the_settings_of_the_provider_reach_the_part(tmp_path: Path) -> None:
    given = ProviderSettings(home=tmp_path, options={"project": "a-project"}, environment={}, now=lambda: NOON)
    provider = make(given)
    assert provider._for(an_offer()).owns("tpu/us-central1-a/x")
    assert provider._for(an_offer("tpu-v6e-1")).owns("gce/us-central1-a/x")


def text_of(calls: list[VendorRequest]) -> str:
    return json.dumps([_readable(call) for call in calls if call.service != "storage"], indent=1) + "\n"


def _readable(call: VendorRequest) -> dict[str, Any]:
    """Without its start-up text, which has tests of its own, and changes with the agent."""
    told = json.loads(json.dumps({"service": call.service, "operation": call.operation, **call.parameters}))
    if call.operation == "CreateQueuedResource":
        metadata = told["queuedResource"]["tpu"]["nodeSpec"][0]["node"]["metadata"]
        metadata["startup-script"] = "#!/bin/sh …"
    return dict(told)


def _nothing(*_: object) -> Any:
    raise AssertionError("nobody is asked")
