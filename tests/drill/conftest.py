"""The doubles that the command is tried on, as the contract suite starts them; nobody stays signed in to one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.contract.conftest import aws, azure, google

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["aws", "azure", "google"]


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """A double signs its whole process in (tests/doubles/aws/remote.py)."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
