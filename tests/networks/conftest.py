"""Skips what needs the train extra where it is missing, as the trainer's tests do."""

from __future__ import annotations

from tests.unit.workloads.trainer.conftest import pytest_collection_modifyitems

__all__ = ["pytest_collection_modifyitems"]
