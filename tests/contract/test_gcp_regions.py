"""Parts of the world that are closed at Google Cloud: by a policy of the organisation, by the person's own setting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.gcp import Client
from tests.contract.gcp_command import at_a_desk, leave
from tests.contract.tpu import make_ready
from tests.desk import TINY
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import Scenario
from tests.unit.planner.cli.command import plan
from trainplan.planner.errors import ExitCode

pytestmark = pytest.mark.slow
LAUNCH = ("launch", "job.yaml", "--provider", "gcp", "--device", "T4", "--market", "on_demand", "--yes")
TWO = ("--region", "us-central1", "--region", "us-east1", "--max-cost", "5")


@pytest.fixture
def desk(google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    at_a_desk(google, tmp_path, monkeypatch)
    (tmp_path / "job.yaml").write_text(TINY)
    google.reset(Scenario(closed_regions=("us-central1",)))
    make_ready(Client(google, tmp_path))
    yield google
    leave()


def requested_zones(google: Google) -> list[str]:
    """The regions in which a machine was asked for, in their order."""
    told = google.control("calls")
    assert told["violations"] == []
    inserts = [call for call in told["calls"] if call["method"] == "compute.instances.insert"]
    return list(dict.fromkeys(call["path"]["zone"].rpartition("-")[0] for call in inserts))


def remaining(google: Google) -> list[str]:
    return [row["id"] for row in google.control("ledger")["rows"] if row["left"]]


def test_a_region_that_a_policy_closes_is_gone_past(desk: Google) -> None:
    said = plan(*LAUNCH, *TWO)
    assert said.code == ExitCode.OK, said.err
    assert requested_zones(desk)[-1] == "us-east1"
    assert remaining(desk) == []


def test_a_region_that_is_not_in_the_setting_is_not_asked(desk: Google, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_GCP_REGIONS", "us-east1")
    said = plan(*LAUNCH, *TWO)
    assert said.code == ExitCode.OK, said.err
    assert requested_zones(desk) == ["us-east1"]
    assert remaining(desk) == []
