"""What the planner's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import signed_out
from tests.doubles.desk import Desk


@pytest.fixture(autouse=True)
def nobody_is_signed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment of the tests says: a test that wants somebody signed in says so itself."""
    signed_out(monkeypatch)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()
