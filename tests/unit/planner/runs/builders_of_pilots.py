"""A placement for a pilot, for tests: one zone at a price, expected to take ten minutes."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.builders import a_target, a_throughput
from trainplan.planner.forecast.pilots import Choice
from trainplan.planner.runs.proposal.pilots import PilotPlacement

if TYPE_CHECKING:
    from trainplan.planner.runs.targets import Target


def a_placement(usd_per_hour: str = "0.36", seconds: float = 600.0, **changes: Any) -> PilotPlacement:
    return placement_at(a_target(usd_per_hour, **changes), seconds)


def placement_at(target: Target, seconds: float) -> PilotPlacement:
    return PilotPlacement(
        rank=1, targets=(target,), choice=Choice(1, 0, 0.2, 0.1), throughput=a_throughput(),
        usd=(Decimal(1), Decimal(1), Decimal(1)), seconds=seconds, pilot_usd=Decimal("0.1"), steps=100,
    )  # fmt: skip
