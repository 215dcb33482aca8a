"""On JAX a network of a person's own is trained too, and goes on where it was stopped."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.unit.workloads.trainer.builders import attempt, final_state, quick_jax, stopped_in_epoch_2
from tests.unit.workloads.trainer.own_networks import MOBILE, own_job


def compare(folder: Path) -> None:
    """In a process of its own: one process trains on one framework."""
    job = own_job(MOBILE, framework="jax", global_batch_size=512)
    attempt(job, folder / "whole")
    stopped_in_epoch_2(job, folder / "cut")
    attempt(job, folder / "cut", 2)
    for gone_on, undisturbed in zip(final_state(folder / "cut"), final_state(folder / "whole"), strict=True):
        np.testing.assert_array_equal(gone_on, undisturbed)


@pytest.mark.slow
def test_it_goes_on_bit_for_bit(tmp_path: Path) -> None:
    for needed in ("jax", "keras", "sklearn"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "jax", **quick_jax(tmp_path)}
    call = f"from {__name__} import compare; from pathlib import Path; compare(Path({str(tmp_path)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", call], capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
