"""The doubles that programs are tried on, as the contract suite starts them."""

from __future__ import annotations

from tests.contract.conftest import aws, azure

__all__ = ["aws", "azure"]
