"""A machine that is not there, with an attempt to be made on it; and its clock and its store alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.providers.agent.machine import FakeClock, MemoryStore, Rented


@pytest.fixture
def rented(tmp_path: Path) -> Rented:
    return Rented(tmp_path)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(clock)
