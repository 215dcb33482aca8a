"""Estimating imports nothing of the SDK: boto3 and its client of EC2 take half a second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

# Whoever imports anything of the SDK fails.
_CODE = """
import sys
sys.modules["boto3"] = sys.modules["botocore"] = None
from trainplan.planner.cli.main import main
main()
"""
_WORDS = ("--model", "vgg16", "--dataset", "cifar10", "--epochs", "1", "--provider", "aws", "--json")


def test_an_estimate_for_aws_imports_none_of_its_sdk(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PLAN_HOME": str(tmp_path)}
    command = [sys.executable, "-c", _CODE, "estimate", *_WORDS]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert {row["provider"] for row in json.loads(ran.stdout)["candidates"]} == {"aws"}
