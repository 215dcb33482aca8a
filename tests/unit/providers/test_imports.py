"""Estimating imports nothing of a vendor's SDK, of which each takes half a second or more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

# Whoever imports one of them fails.
_CODE = """
import sys
sys.modules.update(dict.fromkeys({modules!r}))
from trainplan.planner.cli.main import main
from trainplan.providers.{provider} import doctor, provider, setup
main()
"""
_WORDS = ("--model", "vgg16", "--dataset", "cifar10", "--epochs", "1", "--json", "--provider")
SDKS = {
    "aws": ("boto3", "botocore"),
    "gcp": ("google",),
    "azure": ("azure", "msal", "requests", "cryptography"),
}


@pytest.mark.parametrize("provider", SDKS)
def test_an_estimate_imports_none_of_the_sdk(tmp_path: Path, provider: str) -> None:
    code = _CODE.format(modules=SDKS[provider], provider=provider)
    ran = subprocess.run(
        [sys.executable, "-c", code, "estimate", *_WORDS, provider], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PLAN_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert {row["provider"] for row in json.loads(ran.stdout)["candidates"]} == {provider}
