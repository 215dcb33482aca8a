"""The conditions of Google's grants: what is ours is allowed, what is somebody else's is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.doubles.google.conditions import Evaluator, Resource, extracted
from tests.doubles.google.server import GoogleServer
from tests.doubles.google.world import Call
from tests.unit.providers.gcp.launched import KINDS, launched
from trainplan.providers.gcp.permissions import (
    CALLS,
    CLIENT_OWN,
    ROLES,
    grants_alone,
    machines_alone,
    ours_alone,
    read_runs_and_data,
    write_runs,
)

BUCKET = "trainplan-p-us-central1"
DOCS = ROOT / "docs" / "permissions" / "gcp"


def machine(name: str, project: str = "p") -> Resource:
    return Resource("compute.googleapis.com/Instance", f"projects/{project}/zones/us-central1-a/instances/{name}")


def disk(name: str) -> Resource:
    return Resource("compute.googleapis.com/Disk", f"projects/p/zones/us-central1-a/disks/{name}")


def stored(name: str, bucket: str = BUCKET) -> Resource:
    return Resource("storage.googleapis.com/Object", f"projects/_/buckets/{bucket}/objects/{name}")


def bucket(name: str = BUCKET) -> Resource:
    return Resource("storage.googleapis.com/Bucket", f"projects/_/buckets/{name}")


PROJECT_ITSELF = Resource("cloudresourcemanager.googleapis.com/Project", "projects/p")
OUR_MACHINE, RUN, DATA = machine("plan-261121-0badcafe-1"), stored("runs/r1/status.json"), stored("data/0123/a.tar")
SOMEBODYS = [
    machine("database"),
    machine("my-plan-1"),
    machine("trainplan-1"),
    disk("database"),
    stored("runs/r1/job.json", "another"),
    stored("data/a.tar", "another"),
    stored("runs", BUCKET),
    stored("invoices/2026.pdf"),
    stored("x/runs/r1"),
    bucket("another"),
    bucket(f"{BUCKET}-2"),
]


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("/order_date={date}/", "2019-11-03"),
        ("buckets/{name}/", "acme-orders-aaa"),
        ("/orders/{empty}order_date", ""),
        ("{start}/objects/data_lake", "projects/_/buckets/acme-orders-aaa"),
        ("orders/{end}", "order_date=2019-11-03/aef87g87ae0876"),
        ("{all}", "projects/_/buckets/acme-orders-aaa/objects/data_lake/orders/order_date=2019-11-03/aef87g87ae0876"),
        ("/none/{such}", ""),
    ],
)
def test_extract_finds_what_googles_page_shows(template: str, value: str) -> None:
    """The example of https://cloud.google.com/iam/docs/conditions-attribute-reference#extract."""
    name = "projects/_/buckets/acme-orders-aaa/objects/data_lake/orders/order_date=2019-11-03/aef87g87ae0876"
    assert extracted(name, template) == value


@pytest.mark.parametrize("own", [OUR_MACHINE, disk("plan-r1-1"), RUN, DATA, bucket(), PROJECT_ITSELF], ids=str)
def test_whoever_launches_reaches_what_is_ours(own: Resource) -> None:
    assert Evaluator(ours_alone(BUCKET)).holds(own)


@pytest.mark.parametrize("foreign", SOMEBODYS, ids=str)
def test_whoever_launches_reaches_nothing_of_somebody_elses(foreign: Resource) -> None:
    assert not Evaluator(ours_alone(BUCKET)).holds(foreign)


@pytest.mark.parametrize("foreign", [*SOMEBODYS, RUN, PROJECT_ITSELF], ids=str)
def test_a_machine_deletes_machines_and_disks_of_ours_alone(foreign: Resource) -> None:
    assert all(Evaluator(machines_alone()).holds(own) for own in (OUR_MACHINE, disk("plan-r1-1")))
    assert not Evaluator(machines_alone()).holds(foreign)


@pytest.mark.parametrize("foreign", [*SOMEBODYS, PROJECT_ITSELF], ids=str)
def test_a_machine_reads_runs_and_data_of_the_one_bucket(foreign: Resource) -> None:
    condition = Evaluator(read_runs_and_data(BUCKET))
    assert all(condition.holds(own) for own in (RUN, DATA, bucket()))
    assert not condition.holds(foreign)


@pytest.mark.parametrize("foreign", [*SOMEBODYS, DATA, bucket(), PROJECT_ITSELF], ids=str)
def test_a_machine_writes_runs_and_no_data_set(foreign: Resource) -> None:
    condition = Evaluator(write_runs(BUCKET))
    assert condition.holds(RUN)
    assert not condition.holds(foreign)


def test_whoever_sets_up_grants_the_machines_roles_alone() -> None:
    names = tuple(f"projects/p/roles/{role.id}" for role in ROLES)
    condition = Evaluator(grants_alone(names))
    assert condition.holds(PROJECT_ITSELF), "what changes no grant"
    assert condition.holds(PROJECT_ITSELF, names[2:4])
    assert not condition.holds(PROJECT_ITSELF, ("roles/owner",))
    assert not condition.holds(PROJECT_ITSELF, (names[2], "roles/editor"))


def test_the_files_of_the_conditions_are_the_conditions() -> None:
    client = json.loads((DOCS / "client-own-condition.json").read_text(encoding="utf-8"))
    assert client == {"title": "trainplan", "expression": ours_alone("BUCKET")}
    setup = json.loads((DOCS / "setup-condition.json").read_text(encoding="utf-8"))
    machines = tuple(f"projects/PROJECT/roles/{role.id}" for role in ROLES if not role.id.startswith("trainplanClient"))
    assert setup == {"title": "trainplan", "expression": grants_alone(machines)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_of_a_launch_holds_under_the_condition(server: GoogleServer, tmp_path: Path, kind: str) -> None:
    """From the preflight to the cleanup: the machine, disk, bucket or object that each call is about."""
    launched(server, kind, tmp_path)
    about = [found for call in server.host.world.calls if (found := _about(call)) is not None]
    buckets = {found.name.split("/")[3] for found in about if found.type.startswith("storage")}
    (own,) = buckets
    condition = Evaluator(ours_alone(own))
    assert {found.type.rpartition("/")[2] for found in about} >= {"Object", "Bucket"}
    assert any(found.type.endswith("Instance") for found in about) or kind != "machine"
    assert any(found.type.endswith("Disk") for found in about) or kind == "tpu"
    assert [found for found in about if not condition.holds(found)] == []


def _about(call: Call) -> Resource | None:
    """What the permissions of CLIENT_OWN are asked about for a call; None for a call that takes none of them."""
    if not set(CALLS.get(call.method, ())) & set(CLIENT_OWN.permissions):
        return None
    _, kind, verb = call.method.rsplit(".", 2)
    if call.method.startswith("tpu."):
        disks = call.body["tpu"]["nodeSpec"][0]["node"].get("dataDisks", ())
        return disk(disks[0]["sourceDisk"].rpartition("/")[2]) if disks else None
    if call.method.startswith("compute."):
        name = call.path.get("instance") or call.path.get("disk") or call.body["name"]
        return (machine if kind == "instances" else disk)(name)
    if verb == "list":
        return bucket(call.path["bucket"])
    return stored(call.path["object"], call.path["bucket"])
