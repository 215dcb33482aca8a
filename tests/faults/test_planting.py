"""Planted defects still fit the code that they change."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

_PLANTS_ALL = """
from tests.faults.clouds import NAMES
from tests.faults.planted import defects_of

planted = set()
for provider in NAMES:
    for defect in defects_of(provider):
        if defect.name not in planted:
            planted.add(defect.name)
            try:
                defect.plant()
            except Exception as error:
                print(f"{defect.name}: {type(error).__name__} {error}")
print(len(planted), "planted")
"""


@pytest.mark.sample
def test_every_defect_can_be_planted() -> None:
    """In a process of its own, as what is planted stays."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-c", _PLANTS_ALL]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    *wrong, last = ran.stdout.splitlines()
    assert wrong == []
    assert int(last.split()[0]) > 100
