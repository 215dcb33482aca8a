"""What the tests of the fault harness share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """A double signs its whole process in (tests/doubles/aws/remote.py): the tests that follow are not signed in."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
