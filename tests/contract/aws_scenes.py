"""The table of providers/cloud/propagation.py at AWS: how the double's account begins for each pair."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.aws import HOME, sdk
from tests.contract.aws_command import at_a_desk
from tests.desk import TINY
from trainplan.providers.aws.request import create_security_group
from trainplan.providers.cloud.propagation import PAIRS, Pair

if TYPE_CHECKING:
    import pytest

    from tests.doubles.aws.remote import Double

_AT_A_LAUNCH = {
    ("default network", "CreateSecurityGroup"): "reaper",
    ("default network", "RunInstances"): "reaper",
    ("security group", "RunInstances"): "reaper",
    ("security group", "DescribeSecurityGroups"): "reaper",
    ("instance profile", "RunInstances"): "reaper",
    ("schedule group", "CreateSchedule"): "schedule",
    ("bucket", "PutObject"): "reaper",
    ("role policy", "the machine's GetObject"): "reaper",
}
"""Pairs that a launch meets, and what stands in the account before it. All others are a set-up's, of a bare account."""
_STOOD = ("default network", "instance profile", "role policy")
"""What a set-up made just before the launch."""
POLICIES = ["client", "setup", "alarm"]
"""All that the person may do; the double refuses a call that neither allows."""
FIRST_DAY = {
    "first_day": True,
    "plan": "FREE",
    "setup": "none",
    "policies": POLICIES,
    "unknown": [
        {"resource": row.resource, "needed_by": row.needed_by, "seconds": 15.0}
        for row in PAIRS
        if row.provider == "aws"
    ],
}
"""A new account: on the free plan, EC2's default quotas, no default network, nothing set up, and nothing known right
after its create."""
_LAUNCH = (
    "launch", "job.yaml", "--provider", "aws", "--device", "T4", "--market", "on_demand",
    "--region", HOME, "--region", "eu-west-1", "--yes",
)  # fmt: skip


class AwsScene:
    def __init__(self, double: Double, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._double = double
        at_a_desk(double, home, monkeypatch)
        (home / "job.yaml").write_text(TINY)

    def begin(self, pair: Pair, seconds: float | None) -> None:
        key = pair.resource, pair.needed_by
        rule: dict[str, Any] = {"resource": pair.resource, "needed_by": pair.needed_by, "seconds": seconds}
        rule["from_start"] = pair.resource in _STOOD and key in _AT_A_LAUNCH
        self._double.reset(setup=_AT_A_LAUNCH.get(key, "none"), unknown=[rule], policies=POLICIES)
        if pair.needed_by == "DescribeSecurityGroups":
            self._another_launch_makes_the_group()

    def command(self, pair: Pair) -> Sequence[str]:
        if (pair.resource, pair.needed_by) in _AT_A_LAUNCH:
            return _LAUNCH
        alarm = ("--alarm", "20", "--email", "me@example.com", "--stop")
        return ("setup", "aws", "--yes", *(alarm if pair.needed_by == "CreateBudgetAction" else ()))

    def now(self) -> datetime:
        return self._double.now()

    def refused_at(self) -> Sequence[datetime]:
        return [datetime.fromisoformat(text) for text in self._double.ask("unmet")]

    def placements_asked(self) -> Sequence[str]:
        return [call["region"] for call in self._double.ask("calls") if call["operation"] == "RunInstances"]

    def remaining(self) -> Sequence[str]:
        return self._double.remaining()

    def _another_launch_makes_the_group(self) -> None:
        api = sdk(self._double.url)
        asked = {"Filters": [{"Name": "is-default", "Values": ["true"]}]}
        vpc = api.call("ec2", HOME, "DescribeVpcs", asked)["Vpcs"][0]["VpcId"]
        group = create_security_group(HOME, vpc)
        api.call("ec2", HOME, group.operation, group.parameters)
