"""The last TensorFlow that knows a K80, on this machine's processor: in an environment of its own, when asked for."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.conftest import ROOT

VARIABLE = "TRAINPLAN_SLOW_ENV"


@pytest.mark.slow_env
@pytest.mark.skipif(os.environ.get(VARIABLE) != "1", reason=f"needs {VARIABLE}=1, as make k80 sets it")
def test_the_trainer_trains_with_the_last_tensorflow_for_a_k80() -> None:
    ran = subprocess.run([ROOT / "scripts" / "k80_check.sh"], capture_output=True, text=True, timeout=3000, check=False)
    assert ran.returncode == 0, f"{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    assert "tensorflow 2.14.1" in ran.stdout
