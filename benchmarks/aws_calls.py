"""How many calls a plain launch costs at AWS, from the estimate to the receipt, counted at the double.

`python -m benchmarks.aws_calls [--most 25]` prints the EC2 calls in the run's region, those of polling and of cleanups
over all regions apart, and ends with 1 where there are more than that.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.contract import aws_command
from tests.doubles.aws.remote import Double, sign_in
from trainplan.planner.cli.main import run
from trainplan.providers import registry

JOB = """\
name: tiny
model: {layers: [8, M, 16, M], dense: [16]}
data: {name: digits}
epochs: 2
global_batch_size: 32
"""
REGION = "us-east-1"
LISTS = ("DescribeVolumes", "DescribeNetworkInterfaces", "DescribeSpotInstanceRequests", "ListSchedules")
"""Beside the list of instances, one of each in every region makes a cleanup."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aws_calls", description=__doc__)
    parser.add_argument("--most", type=int, default=25)
    options = parser.parse_args(arguments)
    sign_in()
    with tempfile.TemporaryDirectory() as home, Double() as double:
        calls = launched(double, Path(home))
    own, polls, cleanups, others = sorted_out(calls)
    sys.stdout.write(
        f"EC2 in the run's region: {sum(own.values())} calls ({_text(own)})\n"
        f"polling: {polls}\ncleanups over {cleanups[1]} regions: {cleanups[0]} calls in all\n"
        f"other services: {_text(others)}\n"
    )
    return 0 if sum(own.values()) <= options.most else 1


def launched(double: Double, home: Path) -> list[dict[str, str]]:
    """Every call of one launch that nothing disturbs."""
    (home / "job.yaml").write_text(JOB, encoding="utf-8")
    os.environ |= {
        "PLAN_HOME": str(home / "plan"), "HOME": str(home), "PLAN_AWS_REGION": REGION,
        "PLAN_AWS_ENDPOINT": double.url, "PLAN_AWS_MIRRORS": double.mirror,
    }  # fmt: skip
    registry.FACTORIES["aws"] = aws_command.FACTORY
    aws_command.DOUBLES.append(double)
    words = ["launch", str(home / "job.yaml"), "--provider", "aws", "--device", "T4", "--market", "on_demand"]
    output = io.StringIO()
    with contextlib.chdir(home), contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
        code = run([*words, "--region", REGION, "--yes"])
    if code:
        sys.stderr.write(output.getvalue())
        raise SystemExit(code)
    calls: list[dict[str, str]] = double.ask("calls")
    return calls


def sorted_out(calls: list[dict[str, str]]) -> tuple[Counter[str], int, tuple[int, int], Counter[str]]:
    """EC2's calls in the run's region, looks at the one machine, calls and regions of cleanups, and other services'."""
    cleaned = [call for call in calls if call["operation"] in LISTS]
    regions = {call["region"] for call in cleaned}
    times = sum(call["operation"] == LISTS[0] and call["region"] == REGION for call in cleaned)
    instances = [call for call in calls if call["operation"] == "DescribeInstances"]
    ec2: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for call in calls:
        if call["operation"] in LISTS or call["operation"] == "DescribeInstances":
            continue
        if call["service"] == "ec2" and call["region"] == REGION:
            ec2[call["operation"]] += 1
        elif call["service"] != "ec2":
            others[call["service"]] += 1
    return ec2, len(instances) - times * len(regions), (len(cleaned) + times * len(regions), len(regions)), others


def _text(counted: Counter[Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counted.items()))


if __name__ == "__main__":
    sys.exit(main())
