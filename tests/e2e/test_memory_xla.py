"""The table of XLA's memory figures is what its script writes; compiles two small steps where jax is installed."""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.util
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = ("vgg11 32 128 fp32 sgd", "vgg13 32 64 fp32 adam")
SIZES = ("argument_bytes", "output_bytes", "alias_bytes", "temp_bytes")


@pytest.mark.train
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")
def test_the_script_writes_the_table() -> None:
    """The arguments are arithmetic and equal everywhere; the plan of another jax may differ, within a tenth."""
    compiled = {_case(row): row for row in csv.DictReader(io.StringIO(_script()))}
    table = ROOT / "tests" / "data" / "xla_memory.csv"
    with table.open(encoding="utf-8", newline="") as text:
        written = {_case(row): row for row in csv.DictReader(text)}
    assert set(compiled) == set(CASES)
    for case, row in compiled.items():
        exact = importlib.metadata.version("jax") == written[case]["jax"]
        assert row["argument_bytes"] == written[case]["argument_bytes"]
        for size in SIZES:
            assert int(row[size]) == pytest.approx(int(written[case][size]), rel=0.001 if exact else 0.1)


def _case(row: dict[str, str]) -> str:
    return " ".join(row[key] for key in ("net", "image_size", "batch", "precision", "optimizer"))


def _script() -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "memory_xla.py"), *CASES],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
