"""How long `plan doctor aws` takes where every call to AWS takes its time: whole processes, the longest of some runs.

`python -m benchmarks.aws_doctor [--latency 0.15] [--runs 3] [--most 10]` asks AWS's double about a bare account, one
that is set up, and one that is set up and has no quota; it ends with 1 where one of them takes longer than that.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.doubles.aws.remote import Double, sign_in

PLAN = Path(sys.executable).parent / "plan"
REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-west-1", "eu-central-1", "ap-northeast-1", "ap-south-1")
ACCOUNTS: dict[str, dict[str, Any]] = {
    "bare": {"setup": "none"},
    "set up": {"setup": "reaper"},
    "set up, no quota": {"setup": "reaper", "vcpus": 0},
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aws_doctor", description=__doc__)
    parser.add_argument("--latency", type=float, default=0.15, help="seconds that each call takes beside the double's")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--most", type=float, default=10.0, help="seconds")
    options = parser.parse_args(arguments)
    sign_in()
    longest = 0.0
    with tempfile.TemporaryDirectory() as home, Double() as double:
        for name, account in ACCOUNTS.items():
            double.reset(regions=REGIONS, latency=options.latency, **account)
            took = max(seconds(double, Path(home)) for _ in range(options.runs))
            calls = Counter(row["service"] for row in double.ask("calls"))
            each = ", ".join(f"{service} {count // options.runs}" for service, count in sorted(calls.items()))
            sys.stdout.write(f"{name}: {took:.1f} s, {calls.total() // options.runs} calls ({each})\n")
            longest = max(longest, took)
    return 0 if longest <= options.most else 1


def seconds(double: Double, home: Path) -> float:
    """From the start of the process to its end, which is 0 (something can be launched) or 4 (it is refused)."""
    environment = {**os.environ, "PLAN_HOME": str(home), "PLAN_AWS_ENDPOINT": double.url, "PLAN_AWS_REGION": REGIONS[0]}
    began = time.monotonic()
    result = subprocess.run([PLAN, "doctor", "aws"], env=environment, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    if result.returncode not in (0, 4):
        raise SystemExit(result.stderr)
    sys.stderr.write(f"{result.stdout}\n")
    return took


if __name__ == "__main__":
    sys.exit(main())
