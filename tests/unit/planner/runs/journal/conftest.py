"""An empty journal, and where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.runs.journal.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.sqlite"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal.open(path) as made:
        yield made
