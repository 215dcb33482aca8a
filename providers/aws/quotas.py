"""Which of EC2's quotas a machine counts in: they are in vCPUs, by group of families and by market."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pricing.offers import Market

if TYPE_CHECKING:
    from pricing.offers import Offer


class Quota(NamedTuple):
    code: str
    name: str

    def link(self, region: str) -> str:
        """Where a person asks for more."""
        return f"https://console.aws.amazon.com/servicequotas/home/services/ec2/quotas/{self.code}?region={region}"


_ON_DEMAND = {
    "p": Quota("L-417A185B", "Running On-Demand P instances"),
    "g": Quota("L-DB2E81BA", "Running On-Demand G and VT instances"),
    "standard": Quota("L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"),
}
_SPOT = {
    "p": Quota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
    "p5": Quota("L-C4BD4855", "All P5 Spot Instance Requests"),
    "g": Quota("L-3819A6DF", "All G and VT Spot Instance Requests"),
    "standard": Quota("L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"),
}
_STANDARD = frozenset("acdhimrtz")
_FAMILY = re.compile(r"[a-z]+")


def quota_of(instance_type: str, market: Market) -> Quota | None:
    """The quota, None where it is not known: P6's own on spot, and other letters'.

    Names: EC2's pages on its quotas; on demand all of P shares one, on spot P5 (P5e and P5en too) has one of its own.
    Codes: public lists of accounts' quotas, read on 2026-11-21. AWS's page names none on spot for P6.
    """
    family = instance_type.partition(".")[0]
    found = _FAMILY.match(family)
    letters = found.group() if found else ""
    if market is not Market.SPOT:
        return _ON_DEMAND.get(_group(letters, family))
    if newest := re.match(r"p[5-9]", family):
        return _SPOT.get(newest.group())
    return _SPOT.get(_group(letters, family))


def quota_text(offer: Offer) -> str:
    """How a quota is named to a person who was refused by it."""
    found = quota_of(offer.instance_type, offer.market)
    need = f"{offer.vcpus or '?'} vCPUs for {offer.instance_type} in {offer.region}"
    if found is None:
        return f"{offer.family or offer.instance_type} on {offer.market.replace('_', ' ')}: {need}"
    return f"{found.code} ({found.name}): {need}"


def _group(letters: str, family: str) -> str:
    if letters in ("g", "gr", "vt") or family.startswith(("g", "vt")):
        return "g"
    if letters[:1] == "p":
        return "p"
    return "standard" if letters[:1] in _STANDARD and letters[:3] != "inf" and letters[:2] != "hp" else ""
