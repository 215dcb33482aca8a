"""Every provider in every world it has a harness for, under one name: `harness`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from providers.local.api import EngineName
from providers.local.command import SystemRunner
from providers.local.engine import CliEngine
from providers.local.provider import engines_of
from tests.contract.local import EngineDoubleHarness, ProcessHarness, RealEngineHarness, build_tiny_image
from tests.contract.sim import SimHarness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.contract.harness import Harness

HARNESSES = {
    "local-process": ProcessHarness,
    "local-engine-double": EngineDoubleHarness,
    "local-engine": RealEngineHarness,
    "sim": SimHarness,
}


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


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.container] if name == "local-engine" else []) for name in HARNESSES]
)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    kind = HARNESSES[request.param]
    made: Harness
    if kind is RealEngineHarness:
        made = RealEngineHarness(tmp_path, request.getfixturevalue("engine"))
    else:
        made = kind(tmp_path)
    yield made
    made.clean()
