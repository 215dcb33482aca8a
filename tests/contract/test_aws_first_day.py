"""A new AWS account: the free plan, 5 vCPUs on demand and on spot, none with accelerators, nothing set up.

The real command line goes from the doctor to the receipt, and docs/clouds/aws-first-day.md is what it prints.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, Golden
from tests.contract.aws_command import at_a_desk, machines
from tests.contract.aws_scenes import FIRST_DAY
from tests.contract.first_day import JOB, Scene, bring_the_job, page_of
from tests.doubles.aws.remote import Double
from tests.doubles.aws.world import FIRST_DAY_VCPUS
from trainplan.planner.errors import ExitCode

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "clouds" / "aws-first-day.md"
LAUNCH = ("launch", JOB, "--provider", "aws", "--yes")
TITLE = """\
# AWS: the first day of an account

What the commands print over the double of AWS (docs/clouds/aws.md) in the state of a new account: on AWS's free plan
(offered since 2025-07-15), 5 vCPUs without accelerators on demand and on spot, 0 with, no default network, nothing set
up, and nothing known to the rest of AWS for 15 s after its create. `pytest --update-golden
tests/contract/test_aws_first_day.py` writes this page, and the same test holds it. Run ids, instance ids and folders
are replaced.
"""


SCENES = (
    Scene(
        "The doctor, before anything",
        "Quotas come first: they take longest. On the free plan EC2 creates a few small machines alone, whatever the "
        "quotas say.",
        ("doctor", "aws"),
        ExitCode.REFUSED,
    ),
    Scene(
        "The set-up",
        "A role or a bucket that was created a moment ago is asked for again until the rest of AWS knows it.",
        ("setup", "aws", "--yes"),
        ExitCode.OK,
    ),
    Scene(
        "The doctor, after the set-up",
        "Ten minutes later the standing reaper has had its first turn; until then each machine gets a schedule.",
        ("doctor", "aws", JOB),
        ExitCode.OK,
    ),
    Scene(
        "The first launch",
        "The cheapest placement within the plan and the quotas is a small machine.",
        LAUNCH,
        ExitCode.OK,
    ),
    Scene(
        "A GPU on the first day",
        "Nothing is created where the plan or a quota is known not to allow it.",
        (*LAUNCH, "--device", "T4"),
        ExitCode.REFUSED,
    ),
)


@pytest.fixture
def new(aws: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Double:
    at_a_desk(aws, tmp_path, monkeypatch)
    aws.reset(**FIRST_DAY)
    bring_the_job(tmp_path)
    return aws


def test_from_the_doctor_to_the_receipt_on_the_first_day(new: Double, golden: Golden) -> None:
    shown = [(scene, scene.typed()) for scene in SCENES]
    (machine,) = machines(new)
    assert machine["type"].endswith((".large", ".xlarge"))
    assert FIRST_DAY_VCPUS == 5.0
    assert "VcpuLimitExceeded" not in new.ask("refusals")
    assert "MaxSpotInstanceCountExceeded" not in new.ask("refusals")
    assert new.ask("unmet"), "what was just created was asked for too soon at least once"
    assert new.remaining() == []
    assert new.ask("unpermitted") == []
    golden.check(PAGE, page_of(TITLE, shown))
