"""A new AWS account: 5 vCPUs on demand and on spot, none with accelerators, no default network, nothing set up.

The real command line goes from the doctor to the receipt, and docs/clouds/aws-first-day.md is what it prints.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT, Golden
from tests.contract.aws_command import at_a_desk, machines
from tests.contract.aws_scenes import FIRST_DAY
from tests.doubles.aws.remote import Double
from tests.doubles.aws.world import FIRST_DAY_VCPUS
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.errors import ExitCode

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "clouds" / "aws-first-day.md"
JOB = "examples/digits-vgg.yaml"
LAUNCH = ("launch", JOB, "--provider", "aws", "--yes")
TITLE = """\
# AWS: the first day of an account

What the commands print over the double of AWS (docs/clouds/aws.md) in the state of a new account: 5 vCPUs without
accelerators on demand and on spot, 0 with, no default network, nothing set up, and nothing known to the rest of AWS
for 15 s after its create. `pytest --update-golden tests/contract/test_aws_first_day.py` writes this page, and the same
test holds it. Run ids, instance ids and folders are replaced.
"""


class Scene(NamedTuple):
    heading: str
    text: str
    words: tuple[str, ...]
    code: ExitCode


SCENES = (
    Scene(
        "The doctor, before anything",
        "Quotas come first: they take longest. Meanwhile machines without accelerators can be launched.",
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
    Scene("The first launch", "The cheapest placement within the quotas is a small machine.", LAUNCH, ExitCode.OK),
    Scene(
        "A GPU on the first day",
        "Nothing is created where the quota is known to be too small.",
        (*LAUNCH, "--device", "T4"),
        ExitCode.REFUSED,
    ),
)


@pytest.fixture
def new(aws: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Double:
    at_a_desk(aws, tmp_path, monkeypatch)
    aws.reset(**FIRST_DAY)
    (tmp_path / "examples").mkdir()
    (tmp_path / JOB).write_text((ROOT / JOB).read_text(encoding="utf-8"), encoding="utf-8")
    return aws


def test_from_the_doctor_to_the_receipt_on_the_first_day(new: Double, golden: Golden) -> None:
    page = TITLE
    for scene in SCENES:
        said = plan(*scene.words)
        assert said.code == scene.code, (said.out, said.err)
        page += f"\n## {scene.heading}\n{scene.text}\n\n```\n{transcript(scene.words, said)}```\n"
    (machine,) = machines(new)
    assert machine["type"].endswith((".large", ".xlarge"))
    assert FIRST_DAY_VCPUS == 5.0
    assert "VcpuLimitExceeded" not in new.ask("refusals")
    assert "MaxSpotInstanceCountExceeded" not in new.ask("refusals")
    assert new.ask("unmet"), "what was just created was asked for too soon at least once"
    assert new.remaining() == []
    assert new.ask("unpermitted") == []
    golden.check(PAGE, page)


def transcript(words: tuple[str, ...], result: CommandResult) -> str:
    """What was typed and printed, without what differs each time."""
    text = f"$ plan {' '.join(words)}\n{result.err}{result.out}"
    for pattern, instead in (
        (r" *epoch \d+/\d+, step [^\n]*\n", ""),  # how often a client looks hangs on the machine it runs on
        (r"\d{6}-[0-9a-f]{8}", "261121-0badcafe"),
        (r"i-[0-9a-f]{17}", "i-0123456789abcdef0"),
        (r"vpc-[0-9a-f]{17}", "vpc-0123456789abcdef0"),
        (r"/\S+/(?=digits-vgg-)", "~/"),
        (r"\d[\d.]* [kM]B stored", "0.4 MB stored"),  # the agent's own size is in it
        (r"[ \t]+\n", "\n"),
    ):
        text = re.sub(pattern, instead, text)
    return text
