"""Which rows of an estimate this account could launch: each provider is asked, all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.cli import build
from planner.doctoring import IDENTITY, Judged, judge
from providers.base import Check, Preflight, PreflightState
from providers.registry import names
from providers.sign_ins import how_to_sign_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.plan import RankedOffer
    from planner.settings import Settings
    from pricing.offers import Offer

MOST_CHECKED = 200
"""Rows that are asked about; the others are left open."""


def checked(rows: Sequence[RankedOffer], settings: Settings) -> dict[int, Judged]:
    """What became of the rows, by rank: let in, refused with the reason, or unknown. Creates nothing."""
    asked = list(rows[:MOST_CHECKED])
    beforehand = {ranked.rank: _beforehand(ranked.offer, settings) for ranked in asked}
    found = {rank: known for rank, known in beforehand.items() if known is not None}
    open_yet = [ranked for ranked in asked if ranked.rank not in found]
    judged = judge([ranked.offer for ranked in open_yet], build.providers(settings))
    found |= {ranked.rank: known for ranked, known in zip(open_yet, judged, strict=True)}
    return found


def _beforehand(offer: Offer, settings: Settings) -> Judged | None:
    """What is known without asking; None where the provider has to be asked."""
    name = offer.provider
    if name not in names():
        detail = f"{name} cannot be launched on"
        return _judged(offer, Check(name="provider", state=PreflightState.UNKNOWN, detail=detail))
    if not build.is_used(name, settings):
        detail, fix = f"nobody is signed in to {name} here", how_to_sign_in(name)
        return _judged(offer, Check(name=IDENTITY, state=PreflightState.REFUSED, detail=detail, fix=fix))
    return None


def _judged(offer: Offer, check: Check) -> Judged:
    return Judged(offer=offer, preflight=Preflight(checks=(check,)))
