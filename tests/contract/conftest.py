"""Every provider in every world it has a harness for, under one name: `harness`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.aws import AwsHarness
from tests.contract.azure import AzureHarness
from tests.contract.gcp import GcpHarness
from tests.contract.local import (
    DockerOfTests,
    EngineDoubleHarness,
    ProcessHarness,
    RealEngineHarness,
    build_tiny_image,
)
from tests.contract.sim import SimHarness
from tests.contract.slurm import SlurmHarness
from tests.contract.tpu import TpuHarness
from tests.doubles.aws import remote
from trainplan.providers.local.api import EngineName
from trainplan.providers.local.command import SystemRunner
from trainplan.providers.local.engine import CliEngine
from trainplan.providers.local.provider import engines_of

if TYPE_CHECKING:
    from tests.contract.harness import Harness

HARNESSES = {
    "local-process": ProcessHarness,
    "local-engine-double": EngineDoubleHarness,
    "local-engine": RealEngineHarness,
    "local-docker": RealEngineHarness,
    "sim": SimHarness,
    "aws": AwsHarness,
    "gcp": GcpHarness,
    "gcp-tpu": TpuHarness,
    "azure": AzureHarness,
    "slurm": SlurmHarness,
}
NEEDS = {
    "local-engine": "engine",
    "local-docker": "docker",
    "aws": "aws",
    "gcp": "google",
    "gcp-tpu": "google",
    "azure": "azure",
}
"""Harnesses that are made with what a fixture starts once."""
ENGINES = ("engine", "docker")


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> CliEngine:
    """A container engine with the tiny image. Without one: a failure when CI=true, else a skip."""
    find = engines_of(SystemRunner())
    found = next((known for known in map(find, EngineName) if known is not None), None)
    if not isinstance(found, CliEngine):
        if os.environ.get("CI") == "true":
            pytest.fail("no container engine answers here; make engine sets one up")
        pytest.skip("no container engine answers here")
    build_tiny_image(found, tmp_path_factory.mktemp("tiny"))
    return found


@pytest.fixture(scope="session")
def docker(tmp_path_factory: pytest.TempPathFactory) -> CliEngine:
    """Docker with the tiny image, as scripts/docker.sh starts it. Without it: a failure when CI=true, else a skip."""
    found = engines_of(DockerOfTests(SystemRunner()))(EngineName.DOCKER)
    if not isinstance(found, CliEngine):
        if os.environ.get("CI") == "true":
            pytest.fail("the Docker of the tests does not answer; make docker starts it")
        pytest.skip("the Docker of the tests does not answer; make docker starts it")
    build_tiny_image(found, tmp_path_factory.mktemp("tiny"))
    return found


@pytest.fixture(scope="session")
def aws(aws_process: remote.Double) -> Iterator[remote.Double]:
    """AWS's double, and somebody who is signed in."""
    with remote.signed_in():
        yield aws_process


def _marks(name: str) -> list[pytest.MarkDecorator]:
    """In make check Docker has the contract of an engine (test_engine.py) and the launches of an ordinary person."""
    if NEEDS.get(name) not in ENGINES:
        return []
    return [pytest.mark.container, *([pytest.mark.e2e] if name == "local-docker" else [])]


@pytest.fixture(params=[pytest.param(name, marks=_marks(name)) for name in HARNESSES])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    kind: Any = HARNESSES[request.param]
    needed = [request.getfixturevalue(NEEDS[request.param])] if request.param in NEEDS else []
    made: Harness = kind(tmp_path, *needed)
    yield made
    made.clean()
