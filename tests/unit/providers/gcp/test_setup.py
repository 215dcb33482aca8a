"""`plan setup gcp`: what a bare project lacks, made once; what was made, removed again; others' things left alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.contract.gcp import PROJECT
from tests.doubles.google import iam, tasks
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import FaultRule
from tests.doubles.google.server import HANDLERS, GoogleServer
from tests.unit.providers.gcp.account_side import Project, reset
from trainplan.providers.abilities import SetUp
from trainplan.providers.base import PreflightState
from trainplan.providers.errors import BadRequestError, PermissionDeniedError
from trainplan.providers.gcp.permissions import (
    ADVICE,
    CLIENT,
    CLIENT_OWN,
    CLIENT_ROLES,
    ROLES,
    machines_alone,
    ours_alone,
    read_runs_and_data,
    write_runs,
)
from trainplan.providers.gcp.provider import make

EMAIL = f"trainplan-machine@{PROJECT}.iam.gserviceaccount.com"
EVERYTHING = [
    "services",
    "network",
    "machine account",
    *(f"role {role.id}" for role in ROLES),
    "grants",
    "queue",
    "bucket",
]


@pytest.fixture
def project(server: GoogleServer, tmp_path: Path) -> Iterator[Project]:
    reset(server)
    made = Project(server, tmp_path)
    yield made
    assert made.world.violations == []


def test_a_bare_project_is_told_what_it_lacks_and_nothing_is_made(project: Project) -> None:
    assert isinstance(project.provider, SetUp)
    steps = project.provider.lacking()
    assert [step.name for step in steps] == EVERYTHING
    assert all(step.detail and step.calls for step in steps)
    told = {step.name: step.detail for step in steps}
    assert ", 1 permission (" in told["role trainplanTpuEnd"]
    assert ", 2 permissions (" in told["role trainplanMachine"]
    assert not {
        method for method in project.methods() if method.endswith((".create", ".insert", "Enable", "setIamPolicy"))
    }


def test_what_is_lacking_is_made_once(project: Project) -> None:
    assert [step.name for step in project.set_up()] == EVERYTHING
    assert project.provider.lacking() == []
    assert project.iam.disabled == {"billingbudgets"}, "an alarm alone needs it"
    assert EMAIL in project.iam.accounts
    roles = {name.rpartition("/")[2]: role["includedPermissions"] for name, role in project.iam.roles.items()}
    assert roles == {role.id: list(role.permissions) for role in ROLES}
    assert list(project.world.table(tasks.Tasks).queues) == [
        f"projects/{PROJECT}/locations/us-central1/queues/trainplan"
    ]
    (bucket,) = project.world.bucket.buckets.values()
    assert bucket["name"] == f"trainplan-{PROJECT}-us-central1"
    assert bucket["iamConfiguration"]["publicAccessPrevention"] == "enforced"


def test_the_machines_account_may_end_machines_and_write_one_bucket(project: Project) -> None:
    project.set_up()
    bindings = {row["role"].rpartition("/")[2]: row for row in project.iam.policy["bindings"]}
    assert set(bindings) == {"trainplanMachine", "trainplanTpuEnd", "trainplanRuns", "trainplanRunsWrite"}
    assert all(row["members"] == [f"serviceAccount:{EMAIL}"] for row in bindings.values())
    bucket = f"trainplan-{PROJECT}-us-central1"
    conditions = {name: row.get("condition", {}).get("expression") for name, row in bindings.items()}
    assert conditions == {
        "trainplanMachine": machines_alone(),
        "trainplanTpuEnd": None,
        "trainplanRuns": read_runs_and_data(bucket),
        "trainplanRunsWrite": write_runs(bucket),
    }
    assert project.iam.policy["version"] == 3


@pytest.mark.parametrize("beside", [False, True])
def test_a_grant_without_its_condition_is_replaced(project: Project, beside: bool) -> None:
    """As an older version made it: any machine of the project, and the whole bucket."""
    project.set_up()
    role, member = f"projects/{PROJECT}/roles/trainplanMachine", f"serviceAccount:{EMAIL}"
    wide = {"role": role, "members": [member]}
    bindings = project.iam.policy["bindings"]
    project.iam.policy["bindings"] = [wide, *(row for row in bindings if beside or row["role"] != role)]
    assert "for more than it has to be" in project.lines()["machine roles"].detail
    assert [step.name for step in project.set_up()] == ["grants"]
    assert [row.get("condition") for row in project.iam.policy["bindings"] if row["role"] == role] == [
        {"title": "machines of trainplan", "expression": machines_alone()}
    ]
    assert project.provider.lacking() == []


def test_a_project_from_before_there_were_data_disks_is_named_and_brought_up_to_date(project: Project) -> None:
    """Without it Cloud Tasks may not delete the disk of a TPU whose client never comes back."""
    project.set_up()
    role = f"projects/{PROJECT}/roles/trainplanMachine"
    project.iam.roles[role] = {**project.iam.roles[role], "includedPermissions": ["compute.instances.delete"]}
    (grant,) = [row for row in project.iam.policy["bindings"] if row["role"] == role]
    machines, _, _ = machines_alone().partition(" || ")
    grant["condition"] = {"title": "machines of trainplan", "expression": machines}
    assert "trainplanMachine is not granted" in project.lines()["machine roles"].detail
    assert [step.name for step in project.set_up()] == ["role trainplanMachine", "grants"]
    assert "compute.disks.delete" in project.iam.roles[role]["includedPermissions"]
    assert project.provider.lacking() == []


def test_an_owner_is_told_what_to_type_for_whoever_launches(project: Project) -> None:
    said: list[str] = []
    for step in project.provider.lacking():
        project.provider.carry_out(step, said.append)
    commands = [shlex.split(line) for line in said if line.startswith("gcloud")]
    roles = [words[words.index("--role") + 1] for words in commands]
    assert roles[:2] == [f"projects/{PROJECT}/roles/{role.id}" for role in CLIENT_ROLES]
    own = f"expression={ours_alone(f'trainplan-{PROJECT}-us-central1')},title=trainplan"
    assert [words[words.index("--condition") + 1] for words in commands[:2]] == ["None", own]
    assert own.count(",") == 1, "gcloud parts the condition at commas"


@pytest.mark.parametrize("cut_off", range(len(EVERYTHING)))
def test_a_set_up_that_was_cut_off_is_gone_on_with(project: Project, cut_off: int) -> None:
    asked = project.provider
    steps = asked.lacking()
    for step in steps[: cut_off + 1]:
        asked.carry_out(step, lambda _: None)
    asked.carry_out(steps[cut_off], lambda _: None)  # its answer was lost
    assert [step.name for step in asked.lacking()] == EVERYTHING[cut_off + 1 :]
    project.set_up()
    assert asked.lacking() == []


def test_others_grants_stay(project: Project) -> None:
    owner = {"role": "roles/owner", "members": ["user:mary@example.com"]}
    other = {"role": f"projects/{PROJECT}/roles/trainplanMachine", "members": ["user:mary@example.com"]}
    project.iam.policy["bindings"] = [owner, other]
    project.set_up()
    assert owner in project.iam.policy["bindings"]
    assert other in project.iam.policy["bindings"]
    project.remove()
    assert project.iam.policy["bindings"] == [owner, other]


def test_a_role_that_changed_is_brought_up_to_date(project: Project) -> None:
    project.set_up()
    name = f"projects/{PROJECT}/roles/trainplanClient"
    project.iam.roles[name] = {**project.iam.roles[name], "includedPermissions": ["compute.instances.get"]}
    assert [step.name for step in project.set_up()] == ["role trainplanClient"]
    assert project.provider.lacking() == []


def test_what_was_made_is_removed_and_can_be_made_again(project: Project) -> None:
    project.set_up()
    project.remove()
    assert project.iam.accounts == {}
    assert project.iam.policy["bindings"] == []
    assert all(role["deleted"] for role in project.iam.roles.values())
    assert project.world.scenario.networks == ()
    assert len(project.world.table(tasks.Tasks).queues) == 1, "its name may not be given again for three days"
    assert len(project.world.bucket.buckets) == 1, "it has the person's models"
    assert project.provider.removable() == []
    again = [step.name for step in project.set_up()]
    assert again == [name for name in EVERYTHING if name not in ("services", "queue", "bucket")]
    assert project.provider.lacking() == []


def test_what_a_person_made_is_not_removed(project: Project) -> None:
    project.iam.networks["trainplan"] = {"kind": "compute#network", "name": "trainplan", "description": "mary's"}
    project.iam.accounts[EMAIL] = {"email": EMAIL, "description": "mary's"}
    project.set_up()
    project.remove()
    assert "trainplan" in project.iam.networks
    assert EMAIL in project.iam.accounts


def test_the_persons_own_account_and_bucket_are_left_as_they_are(project: Project) -> None:
    own = make(project.settings(service_account=f"mine@{PROJECT}.iam.gserviceaccount.com", bucket="my-bucket"))
    names = [step.name for step in own.lacking()]
    assert names == [name for name in EVERYTHING if name not in ("machine account", "grants", "bucket")]


def test_nothing_is_removed_while_machines_are_there(project: Project) -> None:
    project.set_up()
    name = f"projects/{PROJECT}/locations/us-central1/queues/trainplan"
    task = {
        "name": f"{name}/tasks/trainplan__r1__1____us-central1-a__0",
        "scheduleTime": "2026-11-22T12:00:00Z",
        "httpRequest": {"url": "https://tpu.googleapis.com/v2/x", "httpMethod": "DELETE"},
    }
    project.provider.account.ask("POST", "cloudtasks", f"/v2/{name}/tasks", None, {"task": task})
    with pytest.raises(BadRequestError, match="task") as caught:
        project.provider.removable()
    assert "plan cleanup" in caught.value.hint


def test_who_may_not_is_told(project: Project) -> None:
    rule = FaultRule(operation="cloudresourcemanager.projects.getIamPolicy", status=403, code="forbidden", times=None)
    Google(project.server.url).script(rule)
    with pytest.raises(PermissionDeniedError) as caught:
        project.provider.lacking()
    assert "docs/permissions/gcp" in caught.value.hint


@pytest.mark.parametrize("unsupported", [ADVICE[:1], ADVICE])
def test_a_role_is_made_without_advice_where_no_custom_role_may_ask_for_it(
    project: Project, unsupported: tuple[str, ...]
) -> None:
    project.iam.unsupported = frozenset(unsupported)
    said: list[str] = []
    for step in project.provider.lacking():
        project.provider.carry_out(step, said.append)
    made = project.iam.roles[f"projects/{PROJECT}/roles/{CLIENT.id}"]["includedPermissions"]
    assert set(CLIENT.permissions) - set(made) == set(ADVICE)
    assert [line for line in said if "no custom role with compute.advice.capacity" in line]
    assert project.provider.lacking() == []
    project.iam.granted = frozenset(made) | set(CLIENT_OWN.permissions)
    line = project.lines()["permissions"]
    assert line.state is PreflightState.OK
    assert "no advice on capacity" in line.detail


def test_an_older_role_is_brought_up_to_date_without_advice(project: Project) -> None:
    project.set_up()
    project.iam.roles[f"projects/{PROJECT}/roles/{CLIENT.id}"]["includedPermissions"] = []
    project.iam.unsupported = frozenset(ADVICE)
    project.set_up()
    assert project.provider.lacking() == []


def test_a_drill_asks_whether_custom_roles_may_have_every_permission(project: Project) -> None:
    project.set_up()
    check = project.provider.probes()["custom-role"]()
    assert check.state is PreflightState.OK
    assert "all for custom roles" in check.detail
    project.iam.unsupported = frozenset(ADVICE)
    check = project.provider.probes()["custom-role"]()
    assert check.state is PreflightState.REFUSED
    assert ", ".join(ADVICE) in check.detail


def test_a_role_that_cannot_do_without_what_is_refused_is_not_made(project: Project) -> None:
    project.iam.unsupported = frozenset({"compute.networks.get"})
    with pytest.raises(BadRequestError, match=r"compute\.networks\.get is not supported in custom roles"):
        project.set_up()
    assert f"projects/{PROJECT}/roles/{CLIENT.id}" not in project.iam.roles


def test_a_policy_that_somebody_else_changes_is_read_again(project: Project) -> None:
    steps = {step.name: step for step in project.provider.lacking()}
    for name in EVERYTHING[: EVERYTHING.index("grants")]:
        project.provider.carry_out(steps[name], lambda _: None)
    changed: list[float] = []

    def meanwhile(seconds: float) -> None:
        changed.append(seconds)

    rule = FaultRule(operation="cloudresourcemanager.projects.setIamPolicy", status=409, code="aborted", times=2)
    Google(project.server.url).script(rule)
    asked = project._set_up()
    type(asked)(asked.at, asked.owned, meanwhile).carry_out(steps["grants"], lambda _: None)
    assert len(changed) == 2
    assert len(project.iam.policy["bindings"]) == 4


def test_what_google_takes_its_time_for_is_waited_for(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, method = [False, False, True], "serviceusage.operations.get"
    real = iam.HANDLERS[method]
    monkeypatch.setitem(HANDLERS, method, lambda world, call: {**real(world, call), "done": answers.pop(0)})
    told: list[str] = []
    asked = project._set_up()
    asked.carry_out(asked.lacking()[0], told.append)
    assert answers == []
    assert len(told) == 1


@pytest.mark.parametrize("lag_seconds", [60.0, 120.0, 170.0])
def test_what_was_just_made_may_not_be_known_yet(project: Project, lag_seconds: float) -> None:
    """An account and a role to the policy, an API to its callers: for minutes, by Google's pages."""
    project.iam.lag_seconds = lag_seconds
    steps = project.set_up_waiting()
    assert [step.name for step in steps] == EVERYTHING
    assert project.provider.lacking() == []


def test_what_never_comes_to_be_known_ends_the_set_up_within_five_minutes(project: Project) -> None:
    steps = {step.name: step for step in project.provider.lacking()}
    for name in EVERYTHING[: EVERYTHING.index("grants")]:
        project.provider.carry_out(steps[name], lambda _: None)
    project.iam.known_from[EMAIL] = project.world.now + timedelta(days=1)
    began = project.world.now
    with pytest.raises(PermissionDeniedError, match="does not exist"):
        project.waiting().carry_out(steps["grants"], lambda _: None)
    assert timedelta(minutes=3) <= project.world.now - began <= timedelta(minutes=5)


def test_a_refusal_that_waiting_does_not_change_is_told_at_once(project: Project) -> None:
    steps = {step.name: step for step in project.provider.lacking()}
    project.iam.denied.add("compute.networks.create")
    began = project.world.now
    with pytest.raises(PermissionDeniedError):
        project.waiting().carry_out(steps["network"], lambda _: None)
    assert project.world.now == began
