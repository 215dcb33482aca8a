"""The roles of docs/permissions/gcp against what is really called: a whole launch of each kind, and a machine's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.contract.gcp import PROJECT
from tests.doubles.google.discovery import description
from tests.doubles.google.iam import Iam, refuse_forbidden
from tests.doubles.google.machine_side import machine_calls
from tests.doubles.google.permissions import all_names
from tests.doubles.google.permissions import permissions_for as needed_by
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import Scenario
from tests.doubles.google.server import DOCUMENTS, GoogleServer
from tests.doubles.google.world import Call, RefusedError
from tests.unit.providers.gcp.account_side import Project, reset
from tests.unit.providers.gcp.launched import GRANTED, KINDS, launched
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.errors import BadRequestError
from trainplan.providers.gcp.permissions import (
    ACT_AS,
    CALLS,
    CLIENT,
    CLIENT_ROLES,
    FILES,
    MACHINE,
    NOT_GRANTED,
    READS,
    SETUP,
    SETUP_CALLS,
    TPU_END,
    USES_QUOTA,
    WRITES,
    permissions_for,
)

_G2 = OfferQuery(instance_types=frozenset({"g2-standard-4"}), regions=frozenset({"us-central1"}))
SETTING_UP = {"cloudtasks.projects.locations.queues.create", "iam.projects.serviceAccounts.create"}
"""What this test makes ready with; plan setup has permissions of its own."""

OPTIONAL = set(NOT_GRANTED)
"""What the doctor does without where it may not, and what no launch needs."""
MACHINES = {name for role in (MACHINE, TPU_END, READS, WRITES) for name in role.permissions}


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_the_roles(name: str) -> None:
    text = (ROOT / "docs" / "permissions" / "gcp" / name).read_text(encoding="utf-8")
    assert text == FILES[name].text
    assert set(json.loads(text)) == {"title", "description", "stage", "includedPermissions"}


def test_every_call_is_one_of_googles() -> None:
    known = {str(method["id"]) for name in DOCUMENTS for _, _, method in description(name)._methods}
    assert {*CALLS, *SETUP_CALLS} <= known
    assert not set(CALLS) & set(SETUP_CALLS)


def test_launches_take_all_of_the_clients_role_and_no_more(server: GoogleServer, tmp_path: Path) -> None:
    """From the doctor to the cleanup, on a machine and on a TPU, with what a teardown finds left behind."""
    called = {method for kind in KINDS for method in launched(server, kind, tmp_path)}
    called |= _doctor(server, tmp_path)
    called -= SETTING_UP | OPTIONAL
    assert {*permissions_for(called), USES_QUOTA} == GRANTED
    assert ACT_AS in {permission for method in called for permission in CALLS[method]}
    assert set(CALLS) - called == OPTIONAL, "a row that nothing calls"
    assert len(GRANTED) == sum(len(role.permissions) for role in CLIENT_ROLES), "one permission in two roles"


def test_a_machine_takes_all_of_its_roles_and_no_more(server: GoogleServer) -> None:
    Google(server.url).reset(Scenario())
    server.host.world.table(Iam).machine_granted = frozenset(MACHINES)
    called = machine_calls(server)
    called.add("compute.disks.delete")  # Cloud Tasks sends it in the machine's name (test_tpu_disks.py)
    assert set(permissions_for(called)) == MACHINES
    stored = set(permissions_for(method for method in called if method.startswith("storage.")))
    assert stored == {*READS.permissions, *WRITES.permissions}


def test_a_set_up_takes_all_of_its_role_and_no_more(server: GoogleServer, tmp_path: Path) -> None:
    """A bare project set up, a role of it brought up to date, all of it removed and made again."""
    reset(server)
    project = Project(server, tmp_path)
    project.iam.granted = frozenset(SETUP.permissions)
    project.set_up()
    project.iam.roles[f"projects/{PROJECT}/roles/{CLIENT.id}"]["includedPermissions"] = []
    project.set_up()
    project.remove()
    project.set_up()
    called = project.methods()
    assert set(SETUP_CALLS) <= called
    assert {*permissions_for(called), USES_QUOTA} == set(SETUP.permissions)


def test_a_name_that_does_not_exist_refuses_the_role_and_the_question(server: GoogleServer, tmp_path: Path) -> None:
    """As Google does; a set-up with one such name ends at its first role."""
    reset(server)
    project = Project(server, tmp_path)
    project.set_up()
    account, unknown = project.provider.account, "tpu.queuedResources.get"
    home = f"/v1/projects/{PROJECT}"
    role = {"roleId": "another", "role": {"title": "t", "includedPermissions": ["tpu.nodes.get", unknown]}}
    with pytest.raises(BadRequestError, match=unknown):
        account.ask("POST", "iam", f"{home}/roles", None, role)
    body = {"permissions": ["tpu.nodes.get", unknown]}
    with pytest.raises(BadRequestError, match=unknown):
        account.ask("POST", "cloudresourcemanager", f"{home}:testIamPermissions", None, body)
    assert f"projects/{PROJECT}/roles/another" not in project.iam.roles


def test_the_products_roles_are_what_their_calls_need_by_the_table(server: GoogleServer, tmp_path: Path) -> None:
    """The product's table knows methods; tests/doubles/needs.csv knows what is in a call. They differ nowhere."""
    for kind in KINDS:
        launched(server, kind, tmp_path)
        for call in server.host.world.calls:
            theirs = set(needed_by(call)) - {"iam.roles.get"}
            assert theirs <= {*{**CALLS, **SETUP_CALLS}[call.method]}, call.method


def _refused_without(server: GoogleServer, calls: Sequence[Call], held: frozenset[str], *, machine: bool) -> list[str]:
    """The methods of these calls that are refused to whoever has what is `held`."""
    table = server.host.world.table(Iam)
    table.granted = table.machine_granted = held
    refused = []
    for call in calls:
        try:
            refuse_forbidden(server.host.world, call, machine=machine)
        except RefusedError:
            refused.append(call.method)
    return refused


def test_each_permission_of_the_clients_role_is_missed(server: GoogleServer, tmp_path: Path) -> None:
    """A call of a launch, the doctor or a teardown is refused without it."""
    calls = []
    for kind in KINDS:
        launched(server, kind, tmp_path)
        calls += server.host.world.calls
    _doctor(server, tmp_path)
    calls += server.host.world.calls
    calls = [call for call in calls if call.method not in {*SETTING_UP, *OPTIONAL}]
    assert _refused_without(server, calls, GRANTED, machine=False) == []
    for name in GRANTED - {USES_QUOTA}:
        assert _refused_without(server, calls, GRANTED - {name}, machine=False), name


def test_each_permission_of_the_set_ups_role_is_missed(server: GoogleServer, tmp_path: Path) -> None:
    reset(server)
    project = Project(server, tmp_path)
    project.set_up()
    project.iam.roles[f"projects/{PROJECT}/roles/{CLIENT.id}"]["includedPermissions"] = []
    project.set_up()
    project.remove()
    project.set_up()
    held, calls = frozenset(SETUP.permissions), list(project.world.calls)
    assert _refused_without(server, calls, held, machine=False) == []
    for name in held - {USES_QUOTA}:
        assert _refused_without(server, calls, held - {name}, machine=False), name


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_each_permission_of_the_machines_roles_is_missed(server: GoogleServer, name: str) -> None:
    """A call of a machine's own program is refused without it."""
    Google(server.url).reset(Scenario())
    calls = [Call(method, {}, {}, {}) for method in {**CALLS} if name in CALLS[method]]
    assert _refused_without(server, calls, frozenset(MACHINES - {name}), machine=True)


def test_every_role_names_permissions_of_the_table() -> None:
    assert {name for role in FILES.values() for name in role.permissions} <= all_names()


def _doctor(server: GoogleServer, home: Path) -> set[str]:
    project = Project(server, home)
    project.iam.granted = GRANTED
    before = len(project.world.calls)
    project.lines()
    provider = project.provider
    preflights = [provider.preflight(offer) for offer in provider.offers(_G2)]
    assert preflights
    return project.methods(before)
