"""Placements that an account cannot use, since their region is closed to it or their quota is known to be too small for
one machine, or the account's plan with its vendor does not allow them: they are left out before anything is created.
What the vendor may refuse stays, and is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from trainplan.planner.errors import RefusedError
from trainplan.providers.abilities import DoubtTeller, QuotaTeller, RegionTeller

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Plan
    from trainplan.pricing.offers import Offer
    from trainplan.providers.base import Provider


def within_quotas(plan: Plan, provider_of: Callable[[str], Provider], say: Callable[[str], None]) -> Plan:
    """The plan without them; `say` gets one line of each kind for each provider that has any, what may be refused too.

    Raises RefusedError where none is left, with the region or the quota of the first placement.
    """
    # First: nobody need be asked about the quotas of a region that is closed.
    plan = _in_open_regions(plan, provider_of, say)
    short: dict[Offer, str] = {}
    for name in dict.fromkeys(ranked.offer.provider for ranked in plan.candidates):
        provider = provider_of(name)
        offers = list(dict.fromkeys(ranked.offer for ranked in plan.candidates if ranked.offer.provider == name))
        reply = provider.shortfalls(offers) if isinstance(provider, QuotaTeller) else [""] * len(offers)
        too_small = {offer: why for offer, why in zip(offers, reply, strict=True) if why}
        if too_small:
            say(_left_out(name, list(too_small.values())))
        short |= too_small
        if isinstance(provider, DoubtTeller):
            for why, count in Counter(provider.doubts([one for one in offers if one not in short])).items():
                if why:
                    say(f"{name}: {_placements(count)} may be refused: {why}")
    candidates = tuple(ranked for ranked in plan.candidates if ranked.offer not in short)
    if short and not candidates:
        first = plan.candidates[0].offer
        hint = (
            f"plan doctor {first.provider} names the limits, where to ask for more, and what can be launched meanwhile"
        )
        raise RefusedError(f"this account can launch none of the placements: {short[first]}", hint)
    return plan._replace(candidates=candidates)


def _in_open_regions(plan: Plan, provider_of: Callable[[str], Provider], say: Callable[[str], None]) -> Plan:
    closed: dict[tuple[str, str], str] = {}
    for name in dict.fromkeys(ranked.offer.provider for ranked in plan.candidates):
        provider = provider_of(name)
        offers = [ranked.offer for ranked in plan.candidates if ranked.offer.provider == name]
        regions = list(dict.fromkeys(offer.region for offer in offers))
        reply = provider.closed_regions(regions) if isinstance(provider, RegionTeller) else {}
        if reply:
            count = sum(offer.region in reply for offer in offers)
            why = next(iter(reply.values()))
            say(f"{name}: left out {count} placements in regions that are closed to the account ({len(reply)}): {why}")
        closed |= {(name, region): why for region, why in reply.items()}
    candidates = tuple(one for one in plan.candidates if (one.offer.provider, one.offer.region) not in closed)
    if closed and not candidates:
        first = plan.candidates[0].offer
        hint = f"plan doctor {first.provider} lists what each region answers"
        raise RefusedError(
            "no placement of the plan is in a region that is open to this account: "
            f"{closed[first.provider, first.region]}",
            hint,
        )
    return plan._replace(candidates=candidates)


def _left_out(name: str, reasons: list[str]) -> str:
    kinds = list(dict.fromkeys(reasons))
    others = f" and {len(kinds) - 1} more" if len(kinds) > 1 else ""
    left_out = f"left out {_placements(len(reasons))} that the account's quotas or its plan do not allow"
    return f"{name}: {left_out}: {kinds[0]}{others}; plan doctor {name} names them"


def _placements(count: int) -> str:
    return f"{count} placement{'s' if count > 1 else ''}"
