"""Exported files before the engines that read them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.unit.planner.cli.command import plan

JOB = """\
name: two
model: {preset: vgg11, classes: 10, image_size: 32}
data: {name: cifar10}
epochs: 1
global_batch_size: 64
framework: jax
nodes: 2
constraints: {deadline: 8h, providers: [aws], regions: [us-east-1]}
"""


@pytest.mark.e2e
def test_skypilots_own_parser_takes_the_task(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(JOB, encoding="utf-8")
    assert plan("export", job, "--to", "skypilot", "--out", tmp_path / "out", "--device", "V100").code == 0
    command = [ROOT / "scripts" / "skypilot_check.sh", tmp_path / "out" / "task.yaml"]
    parsed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert parsed.stdout == "two 2 ['/run-dir']\n", parsed.stderr[-2000:]
