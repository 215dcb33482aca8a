"""Pilots in the fault harness: a launch made a pilot, within a cap that the double's ledger is held to."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from tests.builders import a_throughput
from trainplan.planner.forecast.pilots import Choice
from trainplan.planner.runs.pilot import pilot_of
from trainplan.planner.runs.proposal.agreed import Agreed, agreed_to
from trainplan.planner.runs.proposal.pilots import PilotPlacement, limit_within
from trainplan.planner.runs.proposal.proposal import Proposal

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Run
    from trainplan.planner.runs.targets import Target

CAP_USD = Decimal("2.00")
SECONDS = 900.0
"""What a pilot is expected to take: its limit is twice as long, longer than any pause between two commands."""
STEPS = 300
OTHER_DEVICE = "L4"
RATE, FANCIFUL = 1000.0, 1e10
"""Images/s: less than machines of any double train at, and more than any machine could."""


def as_pilot(
    draft: Run, cap_usd: Decimal = CAP_USD, seconds: float = SECONDS, *, try_settings: bool = False
) -> Run | None:
    """The draft as a pilot in the zones of its first placement; None where the cap is too small for one."""
    first = draft.targets[0].offer
    zones = tuple(target for target in draft.targets if target.offer == first)
    placement = replace(_placement(zones, seconds), try_settings=try_settings)
    limit = limit_within(placement, cap_usd)
    return None if limit is None else pilot_of(_there(draft, zones), placement, limit)


def as_comparing(draft: Run, *, leaves: bool) -> tuple[Run, Agreed]:
    """The draft as the run that follows pilots, and the limits that were agreed to for it.

    The machines of the first region are told to have another device than the others. Where the run `leaves`, they are
    said to train a million times as fast as they do.
    """
    targets = tuple(_estimated(target, draft.targets[0], leaves=leaves) for target in draft.targets)
    draft = replace(draft, targets=targets, measures_first=True)
    agreed = agreed_to(Proposal(targets=targets, record={}, slow_end=None, text=""), draft)
    return agreed.limited(draft), agreed


def _estimated(target: Target, first: Target, *, leaves: bool) -> Target:
    is_first = target.offer.region == first.offer.region
    rate = FANCIFUL if is_first and leaves else RATE
    if not is_first:
        target = replace(target, offer=replace(target.offer, device=OTHER_DEVICE))
    return replace(target, images_per_second=rate)


def _there(draft: Run, zones: tuple[Target, ...]) -> Run:
    return replace(draft, targets=zones)


def _placement(zones: tuple[Target, ...], seconds: float) -> PilotPlacement:
    zero = Decimal(0)
    return PilotPlacement(
        rank=1, targets=zones, choice=Choice(1.0, 0.0, 0.3, 0.1), throughput=a_throughput(), usd=(zero, zero, zero),
        seconds=seconds, pilot_usd=zero, steps=STEPS,
    )  # fmt: skip
