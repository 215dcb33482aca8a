"""Whoever is signed in to AWS's double, as in the contract suite."""

from __future__ import annotations

from tests.contract.conftest import aws

__all__ = ["aws"]
