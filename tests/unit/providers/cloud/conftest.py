"""A machine on which a script finds the programs that a test lets it find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.providers.cloud.booted import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
