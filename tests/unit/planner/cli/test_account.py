"""The commands that ask an account from the command line, over a cloud that is not there: doctor, setup, --check, and
what the others do where nobody is signed in."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job, a_run, a_target, an_attempt, small_catalog
from tests.desk import signed_out
from tests.doubles import fake_cloud
from tests.doubles.clock import FakeClock
from tests.doubles.fake_cloud import IDENTITY, NO_QUOTA, OK, FakeCloud
from tests.doubles.fake_machine import done_at_once
from tests.unit.planner.cli.command import plan
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.pricing.obtainability import Obtainability, ObtainabilityGrade
from trainplan.pricing.offers import Offer
from trainplan.providers import registry
from trainplan.providers.base import Check, PreflightState
from trainplan.providers.cloud.sign_ins import may_be_signed_in
from trainplan.providers.errors import CredentialsError, PermissionDeniedError, TransientError
from trainplan.providers.registry import CLOUDS, vendor

JOB = """\
name: tiny
model: {preset: vgg16}
data: {name: cifar10}
epochs: 2
global_batch_size: 128
"""
NOBODY = Check(name="identity", state=PreflightState.REFUSED, detail="nobody is signed in", fix="aws sso login")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_catalog(tmp_path_factory.mktemp("account"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home without any sign-in, and a job."""
    signed_out(monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloud]:
    """The one cloud there is, and somebody is signed in to it."""
    for name in ("gcp", "azure", "sim"):
        monkeypatch.delitem(registry.FACTORIES, name, raising=False)
    monkeypatch.setitem(registry.FACTORIES, "aws", fake_cloud.FACTORY)
    monkeypatch.setenv("AWS_PROFILE", "work")
    made = FakeCloud(FakeClock(), [done_at_once], tidy=True)
    fake_cloud.CLOUDS.append(made)
    yield made
    fake_cloud.CLOUDS.remove(made)


@pytest.fixture
def nobody(aws: FakeCloud, monkeypatch: pytest.MonkeyPatch) -> FakeCloud:
    """The same cloud, and nobody is signed in."""
    monkeypatch.delenv("AWS_PROFILE")
    for operation in ("doctor", "preflight", "list_owned", "get", "launch", "lacking", "refine"):
        aws.down[operation] = CredentialsError("nobody is signed in to AWS", hint="aws sso login")
    return aws


# --- doctor ------------------------------------------------------------------------------------------------------


def test_the_doctor_shows_the_account_the_offers_and_one_sentence(aws: FakeCloud) -> None:
    regions: list[str] = []

    def judge(offer: Offer) -> tuple[Check, ...]:
        """The region of the cheapest offer has no quota, whichever that is at the prices of today."""
        regions.append(offer.region)
        return (IDENTITY, NO_QUOTA if offer.region == regions[0] else OK)

    aws.judge = judge
    said = plan("doctor", "aws", "job.yaml")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == "ok        identity: account 123456789012"
    assert lines[1].startswith("refused   ")
    assert lines[1].endswith("/h: quota: needs 4 vCPUs, may have 0")
    assert lines[2] == "          fix: ask for 4: https://quotas"
    assert lines[-2].startswith("ok        ")
    assert lines[-1].startswith("aws: the cheapest that this account can launch now for tiny is ")
    assert aws.count("launch") == 0


def test_the_doctors_json_has_every_check(aws: FakeCloud) -> None:
    (told,) = plan("doctor", "aws", "--json").json["providers"]
    assert (told["provider"], told["state"]) == ("aws", "ok")
    assert told["account"] == [
        {"name": "identity", "state": "ok", "detail": "account 123456789012", "fix": ""},
    ]
    (offer,) = told["offers"]
    assert (offer["state"], offer["checks"][0]["detail"]) == ("ok", "64 vCPUs")
    assert f" is {offer['instance_type']} (" in told["sentence"]
    assert f" in {offer['region']} at $" in told["sentence"]


@pytest.mark.parametrize(
    ("check", "code", "sentence"),
    [
        (NO_QUOTA, 4, "aws: nothing can be launched yet; the one quota to ask for is that of "),
        (NOBODY, 4, "aws: nothing can be launched; identity: nobody is signed in (aws sso login)"),
        (Check(name="quota", state=PreflightState.UNKNOWN, detail="may not ask"), 0, "aws: it is not known whether"),
    ],
)
def test_the_doctor_leaves_with_the_code_of_what_it_found(
    aws: FakeCloud, check: Check, code: int, sentence: str
) -> None:
    aws.judge = lambda _: (check,)
    said = plan("doctor", "aws")
    assert (said.code, said.err) == (code, "")
    assert said.out.splitlines()[-1].startswith(sentence)
    # What costs nothing helps where a quota alone stands in the way.
    assert ("at no cost meanwhile: Kaggle (" in said.out) == (check is NO_QUOTA)
    assert ("AWS Activate" in said.out) == (check is NO_QUOTA)
    assert "Azure for Students" not in said.out
    (told,) = plan("doctor", "aws", "--json").json["providers"]
    assert bool(told["free"]) == (check is NO_QUOTA)
    assert all(grant["source"] and grant["as_of"] for grant in told["free"])


def test_a_missing_sign_in_is_told_once(aws: FakeCloud) -> None:
    why: dict[str, Any] = {"state": PreflightState.REFUSED, "detail": "there is no sign-in", "fix": "sign in"}
    names = ("quotas", "identity", "regions", "network", "bucket")
    aws.account = tuple(Check(name=name, **why) for name in names)
    assert plan("doctor", "aws").out.splitlines() == [
        "refused   there is no sign-in", "          fix: sign in", "aws: nothing can be launched, for the reason above",
    ]  # fmt: skip


def test_without_a_name_the_doctor_looks_where_somebody_is_signed_in(nobody: FakeCloud) -> None:
    said = plan("doctor")
    assert said.code == 0  # this machine can train
    assert said.out.endswith("aws: no sign-in on this computer, skipped (aws configure, or aws sso login)\n")
    assert "sim" not in said.out
    assert nobody.calls == []


def test_a_doctor_that_is_named_looks_in_any_case(nobody: FakeCloud) -> None:
    said = plan("doctor", "aws")
    assert (said.code, nobody.count("doctor")) == (4, 1)
    assert "nobody is signed in to AWS" in said.out


def test_a_lone_file_is_the_job(aws: FakeCloud, home: Path) -> None:
    (home / "job.yaml").write_text(JOB + "constraints: {regions: [eu-west-1]}\n")
    said = plan("doctor", "job.yaml")
    assert " in eu-west-1 at $" in said.out.splitlines()[-1]
    assert plan("doctor", "nothing.yaml").code == 2


def test_a_doctor_without_offers_says_of_which_job(aws: FakeCloud, home: Path) -> None:
    (home / "job.yaml").write_text(JOB + "constraints: {devices: [H100], markets: [spot], regions: [eu-central-1]}\n")
    assert plan("doctor", "aws", "job.yaml").out.splitlines()[-1] == "aws: it has no offer for the job tiny"


def test_this_machine_tells_engine_disk_and_memory() -> None:
    said = plan("doctor", "local")
    assert said.code in (0, 9)
    assert "this machine: " in said.out
    assert said.out.splitlines()[-1].startswith("local: ")


def test_every_provider_lets_go_when_the_command_is_over(aws: FakeCloud) -> None:
    plan("doctor", "aws")
    assert aws.closed == 1


# --- setup -------------------------------------------------------------------------------------------------------


def test_a_set_up_is_shown_made_once_and_removed(aws: FakeCloud) -> None:
    said = plan("setup", "aws", "--yes")
    assert (said.code, said.out) == (0, "")
    assert said.err.splitlines() == [
        "aws: this would be made:",
        "  1  bucket: the bucket of every run",
        "  2  role: the role of every run",
        "     waiting for the bucket",
        "  1  bucket: made",
        "     waiting for the role",
        "  2  role: made",
    ]
    again = plan("setup", "aws")
    assert (again.code, again.err) == (0, "aws: everything is set up\n")
    assert aws.count("carry_out") == 2
    removed = plan("setup", "aws", "--remove", "--yes", "--json")
    assert [step["name"] for step in removed.json["steps"]] == ["bucket", "role"]
    assert (removed.json["remove"], removed.json["done"], aws.finished_steps) == (True, True, [])
    assert plan("setup", "aws", "--remove").err == "aws: plan setup has created nothing here\n"


def test_a_set_up_is_not_made_without_a_yes(aws: FakeCloud) -> None:
    said = plan("setup", "aws")
    assert (said.code, said.error, aws.finished_steps) == (2, "the input is not a terminal, so nobody can be asked", [])
    assert "  2  role: the role of every run\n" in said.err


def test_a_dry_run_prints_the_calls(aws: FakeCloud) -> None:
    said = plan("setup", "aws", "--dry-run")
    assert said.code == 0
    assert said.out.startswith('fake CreateBucket\n{\n  "Name": "bucket"\n}\n')
    told = plan("setup", "aws", "--dry-run", "--json").json
    assert told["steps"][1]["calls"] == [{"service": "fake", "operation": "CreateRole", "parameters": {"Name": "role"}}]
    assert (told["done"], aws.finished_steps) == (False, [])


def test_a_set_up_that_is_stopped_says_how_to_go_on(aws: FakeCloud) -> None:
    aws.refuse["carry_out", 2] = PermissionDeniedError("you may not make roles", hint="ask who may")
    said = plan("setup", "aws", "--yes")
    assert (said.code, said.error) == (4, "role: you may not make roles")
    assert said.hint.startswith("ask who may; the same command goes on from there")
    assert aws.finished_steps == ["bucket"]
    assert plan("setup", "aws", "--yes").code == 0
    assert aws.finished_steps == ["bucket", "role"]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [("setup local", 0, "local needs no set-up\n"), ("setup nowhere", 2, "there is no provider 'nowhere'")],
)
def test_a_set_up_where_there_is_none(aws: FakeCloud, line: str, code: int, message: str) -> None:
    told = plan(*line.split())
    assert told.code == code
    assert message in told.err


def test_a_set_up_needs_a_sign_in(nobody: FakeCloud) -> None:
    said = plan("setup", "aws")
    assert (said.code, said.error, said.hint) == (4, "nobody is signed in to AWS", "aws sso login")


# --- estimate --check --------------------------------------------------------------------------------------------


def test_rows_that_the_account_cannot_launch_are_marked(aws: FakeCloud, catalog: Path) -> None:
    def judge(offer: Offer) -> tuple[Check, ...]:
        return (IDENTITY, NO_QUOTA if offer.market == "spot" else OK)

    aws.judge = judge
    said = plan("estimate", "job.yaml", "--catalog", catalog, "--check")
    assert said.code == 0
    rows = [line for line in said.out.splitlines() if re.match(r" ?\d{1,2}  ", line)]
    marks = {("spot" if "  spot" in row else "gcp" if " gcp " in row else "aws"): row.split()[-1] for row in rows}
    assert marks == {"spot": "no", "gcp": "unknown", "aws": "ok"}
    assert "no: quota: needs 4 vCPUs, may have 0 (ask for 4: https://quotas)" in said.out
    assert "unknown: provider: gcp cannot be launched on" in said.out


def test_the_json_has_one_field_more_and_only_then(aws: FakeCloud, catalog: Path) -> None:
    plain = plan("estimate", "job.yaml", "--catalog", catalog, "--json").json
    said = plan("estimate", "job.yaml", "--catalog", catalog, "--json", "--check", "--limit", 2).json
    told = [row.pop("launchable") for row in said["candidates"]]
    assert all("launchable" not in row for row in plain["candidates"])
    assert said["candidates"] == plain["candidates"][:2]
    known = [row["provider"] for row in said["candidates"]]
    assert [mark["state"] for mark in told] == ["ok" if name == "aws" else "unknown" for name in known]
    assert [mark["reason"] is None for mark in told] == [name == "aws" for name in known]


def test_rows_of_a_cloud_that_nobody_is_signed_in_to_cost_no_call(nobody: FakeCloud, catalog: Path) -> None:
    said = plan("estimate", "job.yaml", "--catalog", catalog, "--check", "--provider", "aws")
    assert "no: identity: there is no sign-in for aws on this computer (aws configure, or aws sso login)" in said.out
    assert nobody.calls == []


def a_score(grade: str) -> Obtainability:
    return Obtainability(
        grade=ObtainabilityGrade(grade), ground="score 2 of 10", as_of=date(2026, 11, 23), source="the vendor"
    )


def test_the_vendors_scores_change_the_order_of_the_rows(aws: FakeCloud, catalog: Path) -> None:
    arguments = ("estimate", "job.yaml", "--catalog", catalog, "--provider", "aws", "--json", "--check")
    first = plan(*arguments).json["candidates"][0]
    placement = [first[key] for key in ("region", "instance_type", "market")]
    aws.score = lambda offer: (
        a_score("poor") if [offer.region, offer.instance_type, offer.market] == placement else None
    )
    said = plan(*arguments)
    assert said.err == ""
    rows = said.json["candidates"]
    moved = next(row for row in rows if [row[key] for key in ("region", "instance_type", "market")] == placement)
    assert moved["obtainability"]["ground"] == "score 2 of 10"
    assert moved["total_seconds"] > first["total_seconds"]
    assert [row["obtainability"] for row in rows if row is not moved] == [None] * (len(rows) - 1)


@pytest.mark.parametrize(
    "error", [PermissionDeniedError("ec2:GetSpotPlacementScores is denied"), TransientError("no answer")]
)
def test_scores_that_cannot_be_read_are_told_in_one_line(aws: FakeCloud, catalog: Path, error: Exception) -> None:
    aws.down["obtainability"] = error
    said = plan("estimate", "job.yaml", "--catalog", catalog, "--check", "--provider", "aws")
    assert said.code == 0
    assert said.err == f"aws: whether its offers are obtained stays unknown: {error}\n"
    assert [call for call in aws.calls if "obtainability" in str(call)] != []


# --- where nobody is signed in -----------------------------------------------------------------------------------


def in_journal(home: Path, phase: Phase, **changes: Any) -> None:
    """A run that was launched on AWS from here, and has time enough."""
    target = a_target(provider="aws", region="us-east-1")
    made = an_attempt(target=target, cleared=phase is Phase.DONE)
    late = datetime(2099, 1, 1, tzinfo=UTC)
    run = a_run(phase, provider="aws", target=target, made=(made,), deadline=late, **changes)
    with Journal.open(home / "home" / "journal.sqlite") as journal:
        begun = replace(run, phase=Phase.PLANNED, outcome=None)
        journal.add_run(begun, a_job().to_json(), {}, run.created_at)
        journal.add_attempt(begun, {}, run.created_at)
        journal.save(run, run.created_at)


def test_a_cleanup_leaves_out_what_nobody_is_signed_in_to(nobody: FakeCloud) -> None:
    said = plan("cleanup", "--dry-run")
    assert (said.code, said.error) == (0, "")
    assert "aws: not read: no sign-in on this computer\n" in said.err
    assert nobody.calls == []


@pytest.mark.parametrize("error", [CredentialsError("the keys are of nobody"), PermissionDeniedError("not for that")])
def test_a_sign_in_for_something_else_is_no_error(aws: FakeCloud, error: Exception) -> None:
    aws.down["list_owned"] = error
    said = plan("cleanup", "--dry-run")
    assert (said.code, said.error) == (0, "")
    assert f"aws: not read: {error}\n" in said.err


def test_a_cloud_that_does_not_answer_is_an_error(aws: FakeCloud) -> None:
    aws.down["list_owned"] = TransientError("no answer")
    assert plan("cleanup", "--dry-run").code == 4


@pytest.mark.parametrize(("table", "code"), [("", 0), ('[aws]\nregion = "us-east-1"\n', 4)])
def test_a_cloud_with_settings_is_meant(nobody: FakeCloud, home: Path, table: str, code: int) -> None:
    (home / "home").mkdir()
    (home / "home" / "settings.toml").write_text(table)
    assert plan("cleanup", "--dry-run").code == code


def test_a_cloud_where_runs_were_launched_has_to_answer(nobody: FakeCloud, home: Path) -> None:
    in_journal(home, Phase.DONE, outcome=Outcome.SUCCEEDED)
    said = plan("cleanup", "--dry-run")
    assert (said.code, said.error) == (7, "not everything could be checked: aws: nobody is signed in to AWS")


def test_status_says_that_nobody_can_look_after_a_run(nobody: FakeCloud, home: Path) -> None:
    in_journal(home, Phase.RUNNING)
    nobody.store(a_run().run_id).down = CredentialsError("nobody is signed in to AWS", hint="aws sso login")
    said = plan("status")
    assert (said.code, said.hint) == (7, "aws sso login")
    assert (
        said.error
        == f"run {a_run().run_id} may still exist, but its provider cannot be read: nobody is signed in to AWS"
    )


def test_a_launch_over_all_clouds_needs_one_that_somebody_is_signed_in_to(nobody: FakeCloud) -> None:
    said = plan("launch", "job.yaml", "--yes")
    assert (said.code, said.error) == (4, "nobody is signed in to any cloud here")
    assert nobody.calls == []


@pytest.mark.parametrize("provider", CLOUDS)
def test_what_tells_of_a_sign_in(provider: str, tmp_path: Path) -> None:
    row = vendor(provider)
    assert row is not None
    assert row.traces is not None
    traces = row.traces
    assert not may_be_signed_in(provider, {"HOME": str(tmp_path)})
    for name in traces.variables:
        assert may_be_signed_in(provider, {"HOME": str(tmp_path), name: "x"})
        assert not may_be_signed_in(provider, {"HOME": str(tmp_path), name: ""})
    for number, name in enumerate(traces.files):
        file = tmp_path / str(number) / name
        file.parent.mkdir(parents=True)
        file.touch()
        assert may_be_signed_in(provider, {"HOME": str(tmp_path / str(number))})
    assert may_be_signed_in("local", {})


def test_what_an_sdk_logs_stays_off_the_terminal(tmp_path: Path) -> None:
    """In a process of its own: pytest has handlers of its own in this one."""
    program = (
        "import logging; from pathlib import Path\n"
        "from trainplan.planner.api import build; from trainplan.planner.settings import Settings\n"
        f"build.provider('local', Settings(home=Path({str(tmp_path)!r})))\n"
        "logging.getLogger('azure.identity').error('noise of the SDK')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stderr == ""
