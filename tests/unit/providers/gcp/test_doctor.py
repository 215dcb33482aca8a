"""`plan doctor gcp`: one line for each thing, what is missing named with what mends it, and nothing made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.gcp import PROJECT, Client
from tests.contract.harness import request
from tests.doubles.fresh_process import alone
from tests.doubles.google import tasks
from tests.doubles.google.machines import Disk, Machine, table_of
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import FaultRule
from tests.doubles.google.server import GoogleServer
from tests.unit.providers.gcp.account_side import Project, reset
from trainplan.pricing.offers import Market, OfferQuery
from trainplan.providers.abilities import Doctor
from trainplan.providers.base import PreflightState, ProviderSettings
from trainplan.providers.errors import QuotaError
from trainplan.providers.gcp.permissions import ACT_AS
from trainplan.providers.gcp.provider import make

OK, REFUSED, UNKNOWN = PreflightState.OK, PreflightState.REFUSED, PreflightState.UNKNOWN
LINES = [
    "GPUs",
    "vCPUs",
    "identity",
    "billing",
    "services",
    "regions",
    "network",
    "permissions",
    "machine account",
    "machine roles",
    "scope",
    "timers",
    "bucket",
    "alarm",
]


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
    ("wrong", "line", "state", "message"),
    [
        (lambda known: known.iam.disabled.add("tpu"), "services", OK, "tpu is off, which TPUs v2 to v5e need"),
        (lambda known: known.iam.disabled.add("cloudbilling"), "services", OK, "cloudbilling is off, which tells"),
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
        (
            lambda known: known.iam.policy["bindings"].pop(),
            "machine roles",
            REFUSED,
            "trainplanRunsWrite is not granted",
        ),
        (
            lambda known: next(iter(known.world.table(tasks.Tasks).queues.values())).update(state="PAUSED"),
            "timers",
            OK,
            "paused: no TPU",
        ),
    ],
)
def test_what_is_wrong_is_named(
    project: Project, wrong: Callable[[Project], object], line: str, state: PreflightState, message: str
) -> None:
    wrong(project)
    check = project.lines()[line]
    assert check.state is state
    assert message in check.detail
    assert check.fix


def _made_by_hand(project: Project, name: str) -> None:
    now, zone = project.world.now, "us-central1-a"
    body = {"name": name, "zone": f"zones/{zone}", "status": "RUNNING", "labels": {"team": "web"}}
    disk = Disk(zone=zone, body={"name": name}, created_at=now)
    machine = Machine(zone=zone, body=body, disk=disk, created_at=now, shown_from=now, is_created=True)
    table_of(project.world).machines.append(machine)


def test_machines_of_somebody_else_are_counted(project: Project) -> None:
    """What Google has no condition for wants a project of its own."""
    assert "no machines but those of runs" in project.lines()["scope"].detail
    for name in ("database", "plan-of-marys"):
        _made_by_hand(project, name)
    check = project.lines()["scope"]
    assert "2 machines that are not of runs: 1 of them begin with plan-" in check.detail
    assert "a project for these runs alone" in check.fix


def test_what_may_not_be_looked_at_is_left_open(project: Project) -> None:
    """A policy is the owner's to read; without it nothing is said to be wrong."""
    script = Google(project.server.url).script
    for operation in ("cloudresourcemanager.projects.getIamPolicy", "serviceusage.services.list"):
        script(FaultRule(operation=operation, status=403, code="forbidden", times=None))
    found = project.lines()
    assert {name for name, check in found.items() if check.state is UNKNOWN} == {"machine roles", "services", "alarm"}
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


FIRST_DAY = {"global": {"GPUS_ALL_REGIONS": 0, "CPUS_ALL_REGIONS": 12}, "us-central1": {"CPUS": 4, "N2_CPUS": 4}}
"""As a new project has them, but for fewer CPUs in a region, the harder case."""


@pytest.fixture
def first_day(bare: Project) -> Project:
    bare.world.scenario = bare.world.scenario.model_copy(update={"quotas": FIRST_DAY})
    return bare


def test_a_new_project_is_told_its_quotas_first(first_day: Project) -> None:
    found = first_day.lines()
    assert list(found)[:2] == ["GPUs", "vCPUs"]
    assert found["GPUs"].detail.startswith(
        "GPUS_ALL_REGIONS is 0: no GPU can be launched; whether TPUs can is not known"
    )
    assert found["GPUs"].fix.startswith("on a free trial, which gets no GPUs, upgrade the billing account first")
    assert "NVIDIA_T4_GPUS" in found["GPUs"].fix, "the GPU's own quota in its region is needed as well"
    assert "hours to days" in found["GPUs"].fix
    assert "console.cloud.google.com" in found["GPUs"].fix
    assert "meanwhile processors launch" in found["GPUs"].fix
    assert "TPUs too" in found["GPUs"].detail
    assert found["GPUs"].state is UNKNOWN
    assert "CPUS_ALL_REGIONS 0 of 12" in found["vCPUs"].detail
    assert "e2-standard-4 is the largest" in found["vCPUs"].detail


def test_what_a_new_projects_quotas_forbid_is_known_before_any_create(first_day: Project) -> None:
    """And is what the double refuses: no more, no less."""
    first_day.set_up()
    names = ("e2-standard-4", "e2-standard-8", "n2-standard-4", "g2-standard-4", "n1-standard-4+1xT4")
    query = OfferQuery(instance_types=frozenset(names), regions=frozenset({"us-central1"}))
    wanted = [offer for offer in first_day.provider.offers(query) if offer.market is Market.ON_DEMAND]
    assert {offer.instance_type for offer in wanted} == set(names)
    told = dict(zip(wanted, first_day.provider.shortfalls(wanted), strict=True))
    short = {offer.instance_type: why for offer, why in told.items() if why}
    assert set(short) == {"e2-standard-8", "g2-standard-4", "n1-standard-4+1xT4"}
    assert short["e2-standard-8"] == "CPUS in us-central1: 4, 8 are needed"
    assert short["g2-standard-4"].startswith("GPUS_ALL_REGIONS: 0")


@pytest.mark.parametrize(("name", "is_let_in"), [("e2-standard-4", True), ("e2-standard-8", False)])
def test_the_double_refuses_what_was_told_and_nothing_else(first_day: Project, name: str, is_let_in: bool) -> None:
    first_day.set_up()
    client = Client(Google(first_day.server.url), first_day.home)
    query = OfferQuery(instance_types=frozenset({name}), regions=frozenset({"us-central1"}))
    offer = next(one for one in client.provider(only=name).offers(query) if one.market is Market.ON_DEMAND)
    provider = client.provider()
    asked = provider.resolve(replace(request(provider), offer=offer, resolution=None))
    if is_let_in:
        assert provider.launch(asked).run_id == asked.run_id
    else:
        with pytest.raises(QuotaError) as caught:
            provider.launch(asked)
        assert caught.value.quota == "CPUS"


def imported_by_the_doctor(url: str, home: Path) -> list[str]:
    options = {"project": PROJECT, "endpoint": url}
    provider = make(ProviderSettings(home=home, options=options, environment={}, now=Google(url).now))
    assert [line.name for line in provider.doctor()][:2] == ["GPUs", "vCPUs"]
    return [name for name in sys.modules if name.startswith(("google.cloud.compute", "google.cloud.tpu"))]


def test_a_doctor_imports_no_library_of_a_service(project: Project) -> None:
    """That of Compute Engine takes 1.4 s and 110 MB, and on a busy computer most of the time that a doctor has."""
    assert alone(imported_by_the_doctor, project.server.url, project.home) == []


def test_every_regions_answer_is_in_one_line(project: Project) -> None:
    line = project.lines()["regions"]
    assert (line.state, line.detail.startswith("42 looked at; open: africa-south1, asia-east1")) == (OK, True)
    settings = project.settings(regions="us-central1,mars-north1")
    (line,) = [check for check in make(settings).doctor() if check.name == "regions"]
    assert line.state is OK
    assert "; open: us-central1" in line.detail
    assert "open, not in the setting `regions`: africa-south1" in line.detail
    assert line.detail.endswith("; set, but not open to this project: mars-north1")


def test_a_region_that_does_not_answer_is_named(project: Project) -> None:
    rule = FaultRule(operation="compute.instances.aggregatedList", effect="warning", placement="us-east1-b", times=None)
    Google(project.server.url).script(rule)
    line = project.lines()["regions"]
    assert line.state is UNKNOWN
    assert "; no answer: us-east1" in line.detail


def test_only_regions_that_are_not_there_are_refused(project: Project) -> None:
    (line,) = [check for check in make(project.settings(regions="mars-north1")).doctor() if check.name == "regions"]
    assert line.state is REFUSED
