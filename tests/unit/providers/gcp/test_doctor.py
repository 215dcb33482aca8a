"""`plan doctor gcp`: one line for each thing, what is missing named with what mends it, and nothing made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from providers.base import Doctor, PreflightState
from providers.gcp.permissions import ACT_AS
from providers.gcp.provider import make
from tests.contract.gcp import PROJECT
from tests.doubles.google import tasks
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import FaultRule
from tests.doubles.google.server import GoogleServer
from tests.unit.providers.gcp.account_side import Project, reset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OK, REFUSED, UNKNOWN = PreflightState.OK, PreflightState.REFUSED, PreflightState.UNKNOWN
LINES = [
    "identity",
    "billing",
    "services",
    "network",
    "permissions",
    "machine account",
    "machine roles",
    "timers",
    "bucket",
    "GPUs",
]


@pytest.fixture(scope="module")
def server() -> Iterator[GoogleServer]:
    with GoogleServer() as made:
        yield made


@pytest.fixture
def bare(server: GoogleServer, tmp_path: Path) -> Iterator[Project]:
    reset(server)
    made = Project(server, tmp_path)
    yield made
    assert made.world.violations == []


@pytest.fixture
def project(bare: Project) -> Project:
    bare.set_up()
    return bare


def test_a_project_that_is_set_up_is_well_and_nothing_is_made(project: Project) -> None:
    assert isinstance(project.provider, Doctor)
    before = len(project.world.calls)
    found = project.lines()
    assert list(found) == LINES
    assert {name: check.state for name, check in found.items()} == dict.fromkeys(LINES, OK)
    assert all(check.detail for check in found.values())
    makes = ("create", "insert", "delete", "Enable", "setIamPolicy", "patch")
    assert not {method for method in project.methods(before) if method.endswith(makes)}


def test_a_bare_project_lacks_what_set_up_makes(bare: Project) -> None:
    found = bare.lines()
    refused = {name for name, check in found.items() if check.state is REFUSED}
    assert refused == {"services", "network", "machine account", "machine roles"}
    assert all("plan setup gcp" in found[name].fix for name in refused)
    assert "plan setup gcp" in found["timers"].fix
    assert "made by the first launch" in found["bucket"].detail


@pytest.mark.parametrize(
    ("wrong", "line", "state", "said"),
    [
        (lambda known: known.iam.disabled.add("tpu"), "services", OK, "TPUs v2 to v5e need"),
        (lambda known: known.iam.disabled.add("compute"), "services", REFUSED, "compute are off"),
        (lambda known: known.iam.denied.add("tpu.nodes.list"), "permissions", REFUSED, "tpu.nodes.list"),
        (lambda known: known.iam.denied.add(ACT_AS), "machine account", REFUSED, "may not give"),
        (lambda known: known.iam.accounts.clear(), "machine account", REFUSED, "there is no trainplan-machine@"),
        (
            lambda known: next(iter(known.iam.accounts.values())).update(disabled=True),
            "machine account",
            REFUSED,
            "switched off",
        ),
        (lambda known: known.iam.policy["bindings"].pop(), "machine roles", REFUSED, "trainplanRuns is not granted"),
        (
            lambda known: next(iter(known.world.table(tasks.Tasks).queues.values())).update(state="PAUSED"),
            "timers",
            OK,
            "paused: no TPU",
        ),
    ],
)
def test_what_is_wrong_is_named(
    project: Project, wrong: Callable[[Project], object], line: str, state: PreflightState, said: str
) -> None:
    wrong(project)
    check = project.lines()[line]
    assert check.state is state
    assert said in check.detail
    assert check.fix


def test_what_may_not_be_looked_at_is_left_open(project: Project) -> None:
    """A policy is the owner's to read; without it nothing is said to be wrong."""
    script = Google(project.server.url).script
    for operation in ("cloudresourcemanager.projects.getIamPolicy", "serviceusage.services.list"):
        script(FaultRule(operation=operation, status=403, code="forbidden", times=None))
    found = project.lines()
    assert {name for name, check in found.items() if check.state is UNKNOWN} == {"machine roles", "services"}
    assert {name for name, check in found.items() if check.state is REFUSED} == set()


def test_nobody_signed_in_is_said_once_as_refused(project: Project) -> None:
    Google(project.server.url).script(FaultRule(status=401, code="authError", times=None))
    found = project.lines()
    assert found["identity"].state is REFUSED
    assert "gcloud auth" in found["identity"].fix
    assert {check.state for name, check in found.items() if name != "identity"} <= {UNKNOWN, OK}


def test_a_persons_own_account_is_not_judged_by_our_roles(project: Project) -> None:
    email = f"mine@{PROJECT}.iam.gserviceaccount.com"
    project.iam.accounts[email] = {"email": email}
    found = {check.name: check for check in make(project.settings(service_account=email)).doctor()}
    assert found["machine account"].state is OK
    assert found["machine roles"].state is UNKNOWN
