"""`plan drill` as a person types it, on each double: tests/golden/drill has what it prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.contract import aws_command, azure_command, gcp_command
from tests.contract.aws import TimedAws
from tests.desk import signed_out
from tests.doubles.aws.remote import Double as AwsDouble
from tests.doubles.azure.client import Double as AzureDouble
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import Scenario
from tests.drill.defects import steps_of
from tests.faults.points import Points
from tests.faults.sim import SimCloud
from tests.json_output import complaint
from tests.transcripts import transcript
from tests.unit.planner.cli.command import plan
from trainplan.extensions.drill.result import read_result
from trainplan.planner.errors import ExitCode
from trainplan.providers import registry
from trainplan.providers.aws.provider import AwsProvider
from trainplan.providers.base import Provider, ProviderSettings

WORLDS: list[SimCloud] = []
NAMES = {"sim": "the simulated cloud", "aws": "AWS's double", "gcp": "Google Cloud's double", "azure": "Azure's double"}


def simulated(settings: ProviderSettings) -> Provider:
    """What the registry calls: the simulated cloud in this process."""
    return WORLDS[-1].provider(WORLDS[-1].answer, Points())


def check(name: str, folder: Path, golden: Golden) -> None:
    """A drill that is agreed to, and what its file says; then what an earlier one has left."""
    asked = plan("drill", name, "--max-cost-usd", "0.01")
    assert asked.code == ExitCode.NOTHING_LEFT, asked.err
    drilled = plan("drill", name, "--yes")
    assert drilled.code == 0, drilled.err
    (written,) = folder.glob("drill-*.json")
    result = read_result(written)
    assert complaint(["drill", name, "--json"], written.read_text(encoding="utf-8")) == ""
    assert not result.failed
    assert {row.step for row in result.proven} == set(steps_of(result.provider))
    cleaned = plan("drill", name, "--clean")
    assert cleaned.code == 0, cleaned.err
    page = f"# A drill of {NAMES[name]}\n\n"
    for words, said in (
        (f"drill {name} --max-cost-usd 0.01", asked),
        (f"drill {name} --yes", drilled),
        (f"drill {name} --clean", cleaned),
    ):
        page += f"```\n{transcript(words, said, *_DRAWN)}```\n\n"
    page += f"{written.name.replace(f'{result.day}', 'DATE')}:\n\n```json\n{_readable(written)}```\n"
    golden.check(f"drill/{name}.txt", page)


def test_a_drill_of_the_simulated_cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    signed_out(monkeypatch)
    given = {"HOME": str(tmp_path), "PLAN_HOME": str(tmp_path / "plan"), "TZ": "UTC", "NO_COLOR": "1"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(f"{__name__}.WORLDS", [SimCloud("plain")])
    monkeypatch.setitem(registry.FACTORIES, "sim", f"{__name__}:simulated")
    check("sim", tmp_path, golden)


def test_a_drill_of_aws(aws: AwsDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    aws_command.at_a_desk(aws, tmp_path, monkeypatch)
    monkeypatch.setattr(TimedAws, "offers", AwsProvider.offers)  # not only those that tests ask for
    aws.reset(setup="reaper", bucket=True, policies=["client"])
    check("aws", tmp_path, golden)
    assert aws.remaining() == []
    assert aws.ask("unpermitted") == []


def test_a_drill_of_google_cloud(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    gcp_command.at_a_desk(google, tmp_path, monkeypatch)
    google.reset(Scenario())
    check("gcp", tmp_path, golden)
    gcp_command.leave()
    told: dict[str, Any] = google.control("calls")
    assert told["violations"] == []


def test_a_drill_of_azure(azure: AzureDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    azure_command.at_a_desk(azure, tmp_path, monkeypatch)
    azure.control("reset", regions=["eastus", "centralindia"])  # the second is where the cheapest machine is
    for name, value in azure.options.items():
        monkeypatch.setenv(f"PLAN_AZURE_{name.upper()}", value)
    check("azure", tmp_path, golden)


_DRAWN = (
    (r"step \d+", "step N"),
    (r"(proven|failed) \([^)]*\)", r"\1 (TIME)"),
    (r"(?:\d+[hm] )?\d+[ms] (?=after|before)", "TIME "),
    (r"\d+ looks", "N looks"),
    (r"proven(, \d+ not tried)?; [^,\n]*, about \$[\d.]+", r"proven\1; TIME, about $N"),
    (r'"seconds": [\d.]+', '"seconds": 0.0'),
    (r'"usd_estimate": "[\d.]+"', '"usd_estimate": "0.04"'),
    (r"\d{4}-\d\d-\d\d", "DATE"),
)
"""How long anything takes hangs on the run's id, which is drawn anew for each drill."""


def _readable(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    for pattern, instead in _DRAWN:
        text = re.sub(pattern, instead, text)
    return text
