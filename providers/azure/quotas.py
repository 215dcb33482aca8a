"""The quotas of a subscription: cores of a family and of all, by region; spot has one of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from pricing.offers import Market
from providers.azure.names import group_path
from providers.base import Check, PreflightState
from providers.errors import InstanceNotFoundError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pricing.offers import Offer
    from providers.azure.account import Account, Quota

SPOT_CORES, CORES = "lowprioritycores", "cores"
"""Azure's names, in small letters: of all spot cores of a region, and of all others."""
QUOTAS_PAGE = "https://portal.azure.com/#view/Microsoft_Azure_Capacity/QuotaMenuBlade/~/myQuotas"
_ACCELERATED = "standardn"
"""How Azure's names of families with accelerators begin, in small letters: the N series."""
_LEAST_CORES = 2
"""Of the smallest machine in the catalog."""
_NAME_A_REGION = "set `region` in the table [azure] of the settings"
_THREADS = 8


def quota_names(offer: Offer, family: str) -> Sequence[str]:
    """Which quotas count for an offer. All spot counts as one; on demand counts by family and altogether. `family` is
    Azure's name of the size's family, "" where nobody told."""
    if offer.market is Market.SPOT:
        return (SPOT_CORES,)
    return (*((family.lower(),) if family else ()), CORES)


def quotas_line(account: Account) -> Check:
    """What may be launched as it is in the region of the settings, else of what set-up made, and where to ask for more.

    Raises ProviderError.
    """
    region = account.settings.region or _region_of_set_up(account)
    if region is None:
        detail = "quotas go by region, and the settings name none"
        return Check(name="quotas", state=PreflightState.UNKNOWN, detail=detail, fix=_NAME_A_REGION)
    quotas = account.quotas(region)
    devices = {name: quota for name, quota in quotas.items() if name.startswith(_ACCELERATED)}
    closed = [quota.name for quota in devices.values() if quota.limit == 0]
    cores, spot = quotas.get(CORES), quotas.get(SPOT_CORES)
    told = [f"{quota.limit} {words}" for quota, words in ((cores, "cores in all"), (spot, "on spot")) if quota]
    told += [f"{quota.limit} of {quota.name}" for quota in devices.values() if quota.limit]
    detail = f"{region}: {', '.join(told)}; none of {', '.join(closed)}" if closed else f"{region}: {', '.join(told)}"
    if not closed and cores is not None and cores.limit:
        return Check(name="quotas", state=PreflightState.OK, detail=detail)
    return Check(name="quotas", state=PreflightState.UNKNOWN, detail=detail, fix=_more(cores))


def _region_of_set_up(account: Account) -> str | None:
    try:
        return str(account.get(group_path(account.subscription, account.settings.group), "resources")["location"])
    except InstanceNotFoundError:
        return None


def _more(cores: Quota | None) -> str:
    most = cores.limit if cores is not None else 0
    small = f"meanwhile machines without accelerator can be launched, up to {most} cores: --device cpu"
    return f"{QUOTAS_PAGE} takes requests for a family (minutes to days, and may be refused)" + (
        f"; {small}" if most >= _LEAST_CORES else ""
    )


def shortfalls(account: Account, offers: Sequence[Offer]) -> Sequence[str]:
    """`providers.quota_teller.QuotaTeller.shortfalls`: one look-up for each region, several at a time."""
    regions = list(dict.fromkeys(offer.region for offer in offers))
    with ThreadPoolExecutor(_THREADS) as threads:
        quotas = dict(zip(regions, threads.map(partial(_quotas, account), regions), strict=True))
    families = _families(account, offers)
    return [_shortfall(offer, quotas[offer.region], families.get(offer.instance_type, "")) for offer in offers]


def _shortfall(offer: Offer, quotas: Mapping[str, Quota], family: str) -> str:
    for name in quota_names(offer, family):
        quota = quotas.get(name)
        if quota is not None and offer.vcpus is not None and quota.limit < offer.vcpus:
            return f"{quota.name} in {offer.region}: {quota.limit} cores"
    return ""


def _families(account: Account, offers: Sequence[Offer]) -> Mapping[str, str]:
    """By size, on demand alone. A size has the same family everywhere, so that the sizes of one region are looked up,
    and of another one where a size is not there."""
    left = list(dict.fromkeys((one.instance_type, one.region) for one in offers if one.market is not Market.SPOT))
    found: dict[str, str] = {}
    while left:
        _, region = left[0]
        sizes = _sizes(account, region, [size for size, _ in left])
        if sizes is None:
            break
        found |= sizes
        left = [(size, place) for size, place in left if size not in found and place != region]
    return found


def _sizes(account: Account, region: str, names: Sequence[str]) -> Mapping[str, str] | None:
    """The families of those sizes that the region has; None where nobody tells."""
    try:
        return {name: size.family for name in names if (size := account.size(region, name)) is not None}
    except ProviderError:
        return None


def _quotas(account: Account, region: str) -> Mapping[str, Quota]:
    try:
        return account.quotas(region)
    except ProviderError:
        return {}
