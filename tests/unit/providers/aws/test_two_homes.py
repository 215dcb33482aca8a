"""Two homes on one AWS account, as two containers have them: equal host names, equal names of the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.aws_command import machines
from tests.doubles.aws import remote
from tests.unit.planner.cli.command import CommandResult, plan

PLACEMENT = ("--provider", "aws", "--device", "T4", "--market", "on_demand", "--region", "us-east-1")


UNTIL_LISTED = 120.0
JOB = """\
name: long
model: {preset: vgg16}
data: {name: cifar10}
epochs: 90
global_batch_size: 128
"""


def cleanup(*more: str) -> CommandResult:
    said = plan("cleanup", "--provider", "aws", "--yes", "--json", *more)
    assert said.code == 0, said.err
    return said


def living(double: remote.Double) -> list[str]:
    return [row["id"] for row in machines(double) if row["ended_at"] is None]


def test_a_cleanup_in_one_home_leaves_the_others_machine_alone(
    double: remote.Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAN_COMPUTER", "trainer")
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "one" / "root"))
    (tmp_path / "job.yaml").write_text(JOB)
    launched = plan("launch", "job.yaml", *PLACEMENT, "--detach", "--yes", "--json")
    assert launched.code == 0, launched.err
    (machine,) = living(double)
    double.sleep(UNTIL_LISTED)
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "two" / "root"))
    for options in ((), ("--all",)):
        found = cleanup(*options).json
        assert {row["fate"] for row in found if row["kind"] != "run directory"} == {"foreign"}
        assert living(double) == [machine]
    whose = {row["client"] for row in found if row["kind"] == "instance"}
    (client,) = whose
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "one" / "root"))
    assert {row["fate"] for row in cleanup().json if row["kind"] == "instance"} == {"live"}
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "two" / "root"))
    cleanup("--client", client)
    assert living(double) == []
    assert double.remaining() == []
