"""Pilots in the fault harness: a launch made a pilot, within a cap that the double's ledger is held to."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from planner.forecast.pilots import Choice
from planner.runs.pilot import pilot_of
from planner.runs.proposal.pilots import PilotPlacement, limit_within
from tests.builders import a_throughput

if TYPE_CHECKING:
    from planner.runs.run import Run
    from planner.runs.targets import Target

CAP_USD = Decimal("2.00")
SECONDS = 900.0
"""What a pilot is expected to take: its limit is twice as long, longer than any pause between two commands."""
STEPS = 300


def as_pilot(
    draft: Run, cap_usd: Decimal = CAP_USD, seconds: float = SECONDS, *, try_settings: bool = False
) -> Run | None:
    """The draft as a pilot in the zones of its first placement; None where the cap is too small for one."""
    first = draft.targets[0].offer
    zones = tuple(target for target in draft.targets if target.offer == first)
    placement = replace(_placement(zones, seconds), try_settings=try_settings)
    limit = limit_within(placement, cap_usd)
    return None if limit is None else pilot_of(_there(draft, zones), placement, limit)


def _there(draft: Run, zones: tuple[Target, ...]) -> Run:
    return replace(draft, targets=zones)


def _placement(zones: tuple[Target, ...], seconds: float) -> PilotPlacement:
    zero = Decimal(0)
    return PilotPlacement(
        rank=1, targets=zones, choice=Choice(1.0, 0.0, 0.3, 0.1), throughput=a_throughput(), usd=(zero, zero, zero),
        seconds=seconds, pilot_usd=zero, steps=STEPS,
    )  # fmt: skip
