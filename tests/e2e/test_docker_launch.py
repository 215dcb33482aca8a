"""`plan launch examples/digits-vgg.yaml` over Docker, from the build of the trainer image to the receipt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.contract.conftest import docker
from tests.contract.local import DOCKER_HOST, DOCKER_PROGRAM
from trainplan.providers.local.engine import CliEngine

__all__ = ["docker"]  # the fixture
pytestmark = [pytest.mark.container, pytest.mark.e2e]


def plan(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of somebody whose only engine is the Docker of the tests."""
    programs = home / "programs"
    programs.mkdir(exist_ok=True)
    if not (programs / "docker").exists():
        (programs / "docker").symlink_to(DOCKER_PROGRAM)
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PLAN_HOME": str(home / "plan"),
        "PLAN_ENGINE": "docker",
        "PLAN_BUILD_FLAGS": "--network=host",
        "DOCKER_HOST": DOCKER_HOST,
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-P", "-c", "from trainplan.planner.cli.main import main; main()", *words]
    return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)


def test_a_whole_launch_over_docker_ends_with_a_model_and_nothing_left(docker: CliEngine, tmp_path: Path) -> None:
    done = plan(tmp_path, "launch", str(ROOT / "examples/digits-vgg.yaml"), "--provider", "local", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout)
    assert receipt["outcome"] == "succeeded"
    assert receipt["steps"] == 1320
    assert list(docker.containers("trainplan-run")) == []
    left = plan(tmp_path, "cleanup", "--provider", "local", "--dry-run", "--json")
    assert (left.returncode, json.loads(left.stdout)) == (0, [])
