"""What a launch sends, whole, as a person reads it: golden files for each kind of machine."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
import yaml

from tests.builders import TODAY, a_job
from tests.conftest import Golden
from tests.doubles.clock import NOON
from tests.doubles.google.discovery import description
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import Market, Offer, OfferQuery
from trainplan.providers.base import LaunchRequest, RunId, VendorRequest
from trainplan.providers.cloud.launch import Rented
from trainplan.providers.errors import BadRequestError
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.compute import Machines
from trainplan.providers.gcp.request import ComputeResolution, attempt_of, instant_of, name_of, token_of
from trainplan.providers.gcp.settings import GcpSettings

RESOLUTION = ComputeResolution(
    image_digest=f"sha256:{'5' * 64}",
    run_uri="gs://trainplan-a-project-us-central1/runs/261121-0badcafe",
    run_region="us-central1",
    boot_deadline=NOON + timedelta(minutes=45),
    project="a-project",
    machine_account="trainplan-machine@a-project.iam.gserviceaccount.com",
    zone="us-central1-a",
    least_disk_gib=100,
    image="projects/an-image-project/global/images/an-image-v20261101",
    image_gib=50,
)
_OF_THE_CLOUD = ("deadline", "boot_deadline", "device", "end", "framework", "images", "privileged")
"""What spec.json says that hangs on the cloud; the rest is every machine's (test_machine_part.py)."""
KINDS = [
    ("n1-t4-spot", "n1-standard-4+1xT4", Market.SPOT, "us-central1", "us-central1-a"),
    ("n1-v100", "n1-standard-8+1xV100", Market.ON_DEMAND, "us-central1", "us-central1-c"),
    ("g2", "g2-standard-8", Market.ON_DEMAND, "europe-west4", "europe-west4-b"),
    ("a2", "a2-highgpu-1g", Market.ON_DEMAND, "us-central1", "us-central1-f"),
    ("ct6e-spot", "tpu-v6e-4", Market.SPOT, "europe-west4", "europe-west4-a"),
    ("cpu", "n2-standard-8", Market.ON_DEMAND, "us-central1", "us-central1-b"),
]
BASE = "gcp/n1-t4-spot.json"


@cache
def offer_of(instance_type: str, market: Market, region: str) -> Offer:
    asked = OfferQuery(
        providers=frozenset({"gcp"}),
        instance_types=frozenset({instance_type}),
        markets=frozenset({str(market)}),
    )
    with Catalog.open() as catalog:
        offers = catalog.offers(asked, TODAY)
    return next((offer for offer in offers if offer.region == region), replace(offers[0], region=region))


def machines(settings: GcpSettings | None = None) -> Machines:
    """Nobody is there to ask: what is tried here is pure."""
    settings = settings or GcpSettings(project="a-project")
    nobody: Any = None
    rented = Rented(cloud="gcp", service="storage", store=nobody, region=lambda: "us-central1", now=lambda: NOON)
    return Machines(nobody, GcpAccount(settings), rented)


def a_request(instance_type: str, market: Market, region: str, zone: str, **changes: Any) -> LaunchRequest:
    made = LaunchRequest(
        run_id=RunId("261121-0badcafe"),
        attempt=2,
        offer=offer_of(instance_type, market, region),
        job=a_job(framework="jax" if instance_type.startswith("tpu-") else "tensorflow"),
        deadline=NOON + timedelta(hours=2),
        zone=zone,
        client="0123456789abcdef",
        resolution=replace(RESOLUTION, zone=zone),
    )
    return replace(made, **changes)


def t4(**changes: Any) -> LaunchRequest:
    _, *given = KINDS[0]
    return a_request(*given, **changes)  # type: ignore[arg-type]


def body_of(request: LaunchRequest, settings: GcpSettings | None = None) -> dict[str, Any]:
    parameters: Mapping[str, Any] = machines(settings).requests(request)[-1].parameters
    return dict(parameters["body"])


@pytest.mark.parametrize(("name", "instance_type", "market", "region", "zone"), KINDS, ids=[row[0] for row in KINDS])
def test_a_launch_sends(golden: Golden, name: str, instance_type: str, market: Market, region: str, zone: str) -> None:
    base = _text(t4())
    if name == KINDS[0][0]:
        golden.check(BASE, base)
    else:
        golden.check_difference(f"gcp/{name}.diff", _text(a_request(instance_type, market, region, zone)), BASE, base)


@pytest.mark.parametrize(("name", "instance_type", "market", "region", "zone"), KINDS, ids=[row[0] for row in KINDS])
def test_google_would_read_it(name: str, instance_type: str, market: Market, region: str, zone: str) -> None:
    """Every field, type and enumeration is in Google's own description, and none is Google's alone to write."""
    body = body_of(a_request(instance_type, market, region, zone))
    description("compute.v1").check_value("Instance", body, sent=True)


def test_the_library_sends_what_is_written_down() -> None:
    """Nothing is lost or renamed on the way through google-cloud-compute."""
    from google.cloud import compute_v1

    body = body_of(t4())
    message = compute_v1.Instance.from_json(json.dumps(body))
    text = compute_v1.Instance.to_json(
        message, use_integers_for_enums=False, always_print_fields_with_no_presence=False
    )
    assert json.loads(text) == body


def test_the_same_request_gives_the_same_bytes() -> None:
    assert machines().requests(t4()) == machines().requests(t4())


def test_a_name_and_a_token_are_of_one_attempt() -> None:
    assert name_of(t4()) == "plan-261121-0badcafe-2"
    assert attempt_of(name_of(t4())) == ("261121-0badcafe", 2)
    others = [t4(attempt=3), t4(run_id=RunId("x")), t4(resolution=replace(RESOLUTION, zone="us-central1-b"))]
    assert len({token_of(request) for request in (t4(), *others)}) == 4


def test_a_name_is_one_that_google_takes() -> None:
    for run_id in ("R_1.2", "x" * 80, "261121-ffffffff"):
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name_of(t4(run_id=RunId(run_id))))


def test_labels_are_such_that_google_takes_and_tell_what_they_must() -> None:
    request = t4(run_id=RunId("Run_1"), client="AB cd")
    body = body_of(request)
    labels = body["labels"]
    assert all(re.fullmatch(r"[a-z0-9_-]{0,63}", value) for value in labels.values())
    assert instant_of(labels["trainplan-deadline"]) == request.deadline
    assert body["disks"][0]["initializeParams"]["labels"] == labels


def test_a_label_that_is_no_instant_is_none() -> None:
    assert instant_of("tomorrow") is None
    assert instant_of(None) is None


@pytest.mark.parametrize(("hours", "seconds"), [(2, "7500"), (-1, "30"), (24 * 365, "10368000")])
def test_googles_timer_comes_some_minutes_after_the_machines_own(hours: int, seconds: str) -> None:
    """Counted from when the request was looked up, in the bounds that Google takes."""
    scheduling = body_of(t4(deadline=NOON + timedelta(hours=hours)))["scheduling"]
    assert scheduling["maxRunDuration"] == {"seconds": seconds}
    assert scheduling["instanceTerminationAction"] == "DELETE"


@pytest.mark.parametrize("market", [Market.SPOT, Market.ON_DEMAND])
def test_an_accelerator_stops_for_maintenance_and_is_not_started_again(market: Market) -> None:
    scheduling = body_of(a_request("n1-standard-4+1xT4", market, "us-central1", "us-central1-a"))["scheduling"]
    assert (scheduling["onHostMaintenance"], scheduling["automaticRestart"]) == ("TERMINATE", False)
    assert scheduling["provisioningModel"] == ("SPOT" if market is Market.SPOT else "STANDARD")


def test_the_disk_has_room_for_image_and_data() -> None:
    imagenet = a_job(data={"name": "imagenet"})
    size = body_of(t4(job=imagenet))["disks"][0]["initializeParams"]["diskSizeGb"]
    assert size == str(100 + 280)


def test_a_network_of_ones_own_is_used() -> None:
    settings = GcpSettings(project="a-project", network="mine", subnetwork="here")
    (interface,) = body_of(t4(), settings)["networkInterfaces"]
    assert interface["network"] == "global/networks/mine"
    assert interface["subnetwork"] == "regions/us-central1/subnetworks/here"


def test_what_was_not_looked_up_is_not_sent() -> None:
    with pytest.raises(BadRequestError, match="was not looked up"):
        machines().requests(t4(resolution=None))


def test_its_timers() -> None:
    timers = machines().timers(t4())
    assert (timers.machine, timers.cloud) == (NOON + timedelta(hours=2), NOON + timedelta(hours=2, minutes=5))


def _text(request: LaunchRequest) -> str:
    sent = [_readable(call) for call in machines().requests(request)]
    return json.dumps(sent, indent=1, sort_keys=True) + "\n"


def _readable(call: VendorRequest) -> dict[str, Any]:
    """Without what changes with every version of ours, and the texts within texts as what they are."""
    parameters: dict[str, Any] = json.loads(json.dumps(call.parameters))
    if call.operation == "PutObject":
        parameters = _put(parameters)
    else:
        for row in parameters["body"]["metadata"]["items"]:
            row["value"] = _start_up(row["value"]) if row["key"] == "user-data" else row["value"]
    return {"service": call.service, "operation": call.operation, "parameters": parameters}


def _put(parameters: dict[str, Any]) -> dict[str, Any]:
    name = parameters["Path"].rpartition("/")[2]
    shown = {"RunDirectory": parameters["RunDirectory"], "Path": parameters["Path"]}
    if name != "spec.json":
        return shown
    body = json.loads(base64.b64decode(parameters["Body"]))
    return {**shown, "Body": {key: body[key] for key in _OF_THE_CLOUD}}


def _start_up(text: str) -> dict[str, Any]:
    document = yaml.safe_load(text)
    files = {row["path"]: row["content"] for row in document["write_files"]}
    boot = json.loads(files["/etc/trainplan/boot.json"])
    arm = re.findall(r"^ *arm .*$", "\n".join(map(str, document["bootcmd"])), re.MULTILINE)
    return {"boot.json": boot, "files": sorted(files), "timers": [line.strip() for line in arm]}
