"""Whoever is signed in to AWS's double, as in the contract suite; nobody stays so."""

from __future__ import annotations

from tests.contract.conftest import aws
from tests.faults.conftest import environment

__all__ = ["aws", "environment"]
