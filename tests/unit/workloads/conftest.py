"""Fixtures for every test of a workload."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _sigterm_ends_the_process() -> Iterator[None]:
    """Each test begins as a new process does, whichever test ran before it."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)
