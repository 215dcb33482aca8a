"""A drill on machines with an accelerator, which are taken only where it is named, at their own price."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract import aws_command, gcp_command
from tests.contract.aws import TimedAws
from tests.contract.tpu import TpuClient, make_ready
from tests.doubles.aws.remote import Double as AwsDouble
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import Scenario
from tests.drill.defects import steps_of
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.extensions.drill.behaviours import behaviours
from trainplan.extensions.drill.result import DrillResult, read_result
from trainplan.extensions.drill.steps import Step
from trainplan.planner.errors import ExitCode
from trainplan.providers.aws.provider import AwsProvider

pytestmark = pytest.mark.slow


def drill_command(*words: str, folder: Path) -> CommandResult:
    """What is shown before a question that nobody is there to answer."""
    said = plan("drill", *words)
    assert said.code != 0
    assert list(folder.glob("drill-*")) == []
    return said


def drilled(*words: str, folder: Path) -> DrillResult:
    said = plan("drill", *words, "--yes")
    assert said.code == 0, said.err
    result = read_result(*folder.glob("drill-*"))
    assert [row.step for row in result.proven] == list(steps_of(result.provider))
    return result


def test_a_gpu_at_aws(aws: AwsDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aws_command.at_a_desk(aws, tmp_path, monkeypatch)
    monkeypatch.setattr(TimedAws, "offers", AwsProvider.offers)  # not only those that tests ask for
    aws.reset(setup="reaper", bucket=True, policies=["client"])
    assert drill_command("aws", "--device", "T4", folder=tmp_path).code == ExitCode.NOTHING_LEFT, "15 cents are too few"
    words = ("aws", "--device", "T4", "--max-cost-usd", "1")
    shown = drill_command(*words, folder=tmp_path).err
    assert "aws g4dn.xlarge (on_demand) in us-east-1a at $0.526/h" in shown
    assert "at most $0.54 with disks and addresses (limit $1.00)" in shown
    result = drilled(*words, folder=tmp_path)
    assert (result.machine_type, result.device) == ("g4dn.xlarge", "T4")
    assert all(row.proves == behaviours("aws", row.step) for row in result.steps)
    assert aws.remaining() == []
    assert aws.ask("unpermitted") == []


def test_a_tpu_at_google_cloud(google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows nothing of Compute Engine: its timers are tasks, and its node is a queued resource's."""
    gcp_command.at_a_desk(google, tmp_path, monkeypatch)
    google.reset(Scenario())
    make_ready(TpuClient(google, tmp_path))
    words = ("gcp", "--device", "TPU v3", "--max-cost-usd", "20")
    shown = drill_command(*words, folder=tmp_path).err
    assert "gcp tpu-v3-8 (on_demand) in us-central1-a at $8.000/h" in shown
    assert "at most $7.77 with disks and addresses (limit $20.00)" in shown
    result = drilled(*words, folder=tmp_path)
    gcp_command.leave()
    assert (result.machine_type, result.device) == ("tpu-v3-8", "TPU v3")
    proves = {row.step: row.proves for row in result.steps if row.proves}
    assert set(proves) == {Step.AGENT, Step.MACHINE_TIMER, Step.CLOUD_TIMER}
    assert proves[Step.AGENT] == ("google: `startup-script` runs when the node boots",)
    told = google.control("calls")
    assert told["violations"] == []
