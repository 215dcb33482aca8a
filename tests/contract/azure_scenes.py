"""The table of providers/cloud/propagation.py at Azure: how the double's subscription begins for each pair."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tests.contract.azure_command import HOME, at_a_desk, machines_asked_for
from tests.desk import TINY

if TYPE_CHECKING:
    import pytest

    from tests.doubles.azure.client import Double
    from trainplan.providers.cloud.propagation import Pair

_AT_A_LAUNCH = frozenset(
    {
        ("resource group", "PUT networkSecurityGroups"),
        ("resource group", "PUT virtualNetworks"),
        ("resource group", "PUT roleAssignments"),
        ("resource group", "PUT virtualMachines"),
        ("security group", "GET networkSecurityGroups"),
        ("security group", "PUT virtualNetworks"),
        ("network", "GET virtualNetworks"),
        ("network", "PUT virtualMachines"),
        ("identity", "PUT virtualMachines"),
        ("machine", "POST virtualMachinesSubmitDeallocate"),
    }
)
"""Pairs that a launch meets. All others are a set-up's, of a new subscription."""
_LAUNCH = (
    "launch", "job.yaml", "--provider", "azure", "--device", "T4", "--market", "on_demand",
    "--region", HOME, "--region", "westeurope", "--yes", "--max-cost", "2",
)  # fmt: skip


class AzureScene:
    def __init__(self, double: Double, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._double = double
        at_a_desk(double, home, monkeypatch)
        (home / "job.yaml").write_text(TINY)

    def begin(self, pair: Pair, seconds: float | None) -> None:
        rule = {"resource": pair.resource, "needed_by": pair.needed_by, "seconds": seconds}
        # A machine that is not ended by Azure's timer has to train for longer than that is waited for.
        slow = {"throughput_factor": 0.0001} if pair.resource == "machine" else {}
        self._double.control("reset", first_day=not self._is_a_launch(pair), unknown=[rule], **slow)

    def command(self, pair: Pair) -> Sequence[str]:
        return _LAUNCH if self._is_a_launch(pair) else ("setup", "azure", "--yes")

    def now(self) -> datetime:
        return self._double.now()

    def refused_at(self) -> Sequence[datetime]:
        return [datetime.fromisoformat(text) for text in self._double.control("unmet")]

    def placements_asked(self) -> Sequence[str]:
        return [create["location"] for create in machines_asked_for(self._double)]

    def remaining(self) -> Sequence[str]:
        return [row["kind"] for row in self._double.control("ledger") if row["left"]]

    def _is_a_launch(self, pair: Pair) -> bool:
        return (pair.resource, pair.needed_by) in _AT_A_LAUNCH
