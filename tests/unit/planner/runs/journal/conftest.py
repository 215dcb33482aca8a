"""An empty journal, and where it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from trainplan.planner.runs.journal.journal import Journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.sqlite"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal.open(path) as made:
        yield made
