"""The doubles that the command is tried on, as the contract suite starts them; nobody stays signed in to one."""

from __future__ import annotations

from tests.contract.conftest import aws, azure, google
from tests.faults.conftest import environment

__all__ = ["aws", "azure", "environment", "google"]
