"""A machine on which a script finds the programs that a test lets it find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.providers.cloud.booted import Machine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
