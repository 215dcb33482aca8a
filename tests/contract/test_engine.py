"""The container engine as the local provider needs it: the double and a real one hold to the same."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.contract.harness import Ask, request
from tests.contract.local import EngineDoubleHarness, RealEngineHarness
from trainplan.providers.base import LABEL_RUN
from trainplan.providers.errors import MachineError
from trainplan.providers.local.api import ContainerSpec, ContainerStatus, Engine
from trainplan.providers.local.containers import ContainerHost


@pytest.fixture(params=["double", *(pytest.param(name, marks=pytest.mark.container) for name in ("engine", "docker"))])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> EngineDoubleHarness | RealEngineHarness:
    if request.param == "double":
        return EngineDoubleHarness(tmp_path)
    return RealEngineHarness(tmp_path, request.getfixturevalue(request.param))


@pytest.fixture
def engine_and_spec(world: EngineDoubleHarness | RealEngineHarness) -> Iterator[tuple[Engine, ContainerSpec]]:
    """An engine, and a container of a trainer that waits."""
    provider = world.provider()
    run = request(provider, Ask(run_id=f"contract-{uuid.uuid4().hex[:8]}"))
    provider.here.make_room(run, run.job)
    spec = cast("ContainerHost", provider._hosts()[0])._spec(run)
    made = cast("Engine", world.engine)
    yield made, spec
    made.remove(spec.name)


def test_a_name_is_given_once(engine_and_spec: tuple[Engine, ContainerSpec]) -> None:
    engine, spec = engine_and_spec
    engine.create(spec)
    with pytest.raises(MachineError):
        engine.create(spec)


def test_what_was_made_is_listed_before_it_starts(engine_and_spec: tuple[Engine, ContainerSpec]) -> None:
    engine, spec = engine_and_spec
    engine.create(spec)
    found = {known.name: known.status for known in engine.containers(LABEL_RUN)}
    assert found[spec.name] is ContainerStatus.CREATED


def test_starting_what_already_runs_is_no_error(engine_and_spec: tuple[Engine, ContainerSpec]) -> None:
    engine, spec = engine_and_spec
    engine.create(spec)
    engine.start(spec.name)
    engine.start(spec.name)
    known = engine.container(spec.name)
    assert known is not None
    assert known.status is ContainerStatus.RUNNING


def test_removing_what_runs_or_is_not_there_is_no_error(engine_and_spec: tuple[Engine, ContainerSpec]) -> None:
    engine, spec = engine_and_spec
    engine.create(spec)
    engine.start(spec.name)
    engine.remove(spec.name)
    engine.remove(spec.name)
    assert engine.container(spec.name) is None
