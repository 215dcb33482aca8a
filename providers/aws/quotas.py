"""Which of EC2's quotas a machine counts in: they are in vCPUs, by group of families and by market."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from trainplan.pricing.offers import Market, Offer
from trainplan.providers.aws.plan import closed_by_plan, is_free
from trainplan.providers.base import Check, PreflightState
from trainplan.providers.errors import CapacityError, ProviderError
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.providers.aws.account import AwsAccount

_THREADS = 8
"""Look-ups of quotas at once."""


class Quota(NamedTuple):
    """A quota of Service Quotas, by its code."""

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
_KINDS = {"standard": "processors", "g": "G and VT", "p": "P"}
_LEAST_VCPUS = 2
"""Of the smallest machine in the catalog."""
_ANSWER = "an answer takes hours to days, and may be a no"
"""AWS Support decides on larger increases (https://docs.aws.amazon.com/servicequotas/latest/userguide/request-quota-increase.html);
how long that takes is what its users report."""
_STANDARD = frozenset("acdhimrtz")
_FAMILY = re.compile(r"[a-z]+")


def quota_of(instance_type: str, market: Market) -> Quota | None:
    """The quota, None where it is not known: P6's own on spot, and other letters'.

    Names: EC2's pages on its quotas; on demand all of P shares one, on spot P5 (P5e and P5en too) has one of its own.
    Codes: public lists of accounts' quotas, read on 2026-11-21. AWS's page names none on spot for P6.
    """
    family = instance_type.partition(".")[0]
    match = _FAMILY.match(family)
    letters = match.group() if match else ""
    if market is not Market.SPOT:
        return _ON_DEMAND.get(_group(letters, family))
    if newest := re.match(r"p[5-9]", family):
        return _SPOT.get(newest.group())
    return _SPOT.get(_group(letters, family))


def shortfalls(account: AwsAccount, offers: Sequence[Offer]) -> Sequence[str]:
    """`trainplan.providers.abilities.QuotaTeller.shortfalls`: each quota of a region is looked up once, several at a
    time. What the account's plan keeps out comes first: no larger quota lets it in."""
    tuples = [(offer.region, quota_of(offer.instance_type, offer.market)) for offer in offers]
    pools = dict.fromkeys((region, quota) for region, quota in tuples if quota is not None)
    with ThreadPoolExecutor(_THREADS) as threads:
        values = dict(zip(pools, threads.map(lambda pool: _value(account, *pool), pools), strict=True))
    lines = []
    for offer, (region, quota) in zip(offers, tuples, strict=True):
        value = values.get((region, quota)) if quota is not None else None
        short = value is not None and offer.vcpus is not None and value < offer.vcpus
        small = f"{quota.code} {quota.name} in {region}: {value:.0f} vCPUs" if short and quota else ""
        lines.append(closed_by_plan(account, offer) or small)
    return lines


def closed_regions(account: AwsAccount, regions: Sequence[str]) -> Mapping[str, str]:
    """`trainplan.providers.abilities.RegionTeller.closed_regions`: one look-up for each region, several at a time."""
    with ThreadPoolExecutor(_THREADS) as threads:
        answers = zip(regions, threads.map(lambda region: _closed(account, region), regions), strict=True)
        return {region: why for region, why in answers if why}


def _closed(account: AwsAccount, region: str) -> str:
    try:
        if region not in account.regions():
            return f"{region} is not open to this account"
        account.default_vpc(region)
    except CapacityError as error:
        return error.message
    except ProviderError:
        return ""
    return ""


def _value(account: AwsAccount, region: str, quota: Quota) -> float | None:
    """The quota in vCPUs, None where nobody tells."""
    try:
        return account.quota(region, quota.code)
    except ProviderError:
        return None


def quota_check(account: AwsAccount, region: str) -> Check:
    """A line of a doctor: the account's quotas in a region, where to ask for more, and what can be launched meanwhile.

    Raises ProviderError where AWS does not tell them. UNKNOWN where no machine fits in any:
    another region has quotas of its own.
    """
    pools = [(kind, _ON_DEMAND[kind], _SPOT[kind]) for kind in ("standard", "g", "p")]
    quotas = [quota for _, *both in pools for quota in both]
    with ThreadPoolExecutor(len(quotas)) as threads:
        values = dict(zip(quotas, threads.map(lambda quota: account.quota(region, quota.code), quotas), strict=True))
    text = (
        f"{_KINDS[kind]} {values[here]:.0f} ({here.code}) / {values[spot]:.0f} ({spot.code})"
        for kind, here, spot in pools
    )
    detail = f"in {region}, vCPUs on demand / on spot: {', '.join(text)}"
    standard = values[_ON_DEMAND["standard"]]
    lacking = next((here for kind, here, _ in pools if kind != "standard" and not values[here]), None)
    code = _ON_DEMAND["standard"] if standard < _LEAST_VCPUS else lacking
    fix = f"ask for more at {code.link(region)}; {_ANSWER}" if code else ""
    if standard >= _LEAST_VCPUS and code is not None:
        fix += f"; meanwhile machines without accelerators can be launched, up to {standard:.0f} vCPUs ("
        fix += f"{Option.DEVICE('cpu')})"
        fix += ", those that the line `plan` names" if is_free(account) else ""
    nothing = max(values.values()) < _LEAST_VCPUS
    state = PreflightState.UNKNOWN if nothing else PreflightState.OK
    return Check(name="quotas", state=state, detail=detail, fix=fix)


def quota_text(offer: Offer) -> str:
    """The quota that limits this offer, by its code and name, and how many vCPUs the offer needs of it."""
    quota = quota_of(offer.instance_type, offer.market)
    need = f"{offer.vcpus or '?'} vCPUs for {offer.instance_type} in {offer.region}"
    if quota is None:
        return f"{offer.family or offer.instance_type} on {offer.market.replace('_', ' ')}: {need}"
    return f"{quota.code} ({quota.name}): {need}"


def _group(letters: str, family: str) -> str:
    if letters in ("g", "gr", "vt") or family.startswith(("g", "vt")):
        return "g"
    if letters[:1] == "p":
        return "p"
    return "standard" if letters[:1] in _STANDARD and letters[:3] != "inf" and letters[:2] != "hp" else ""
