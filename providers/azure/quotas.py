"""The quotas of a subscription: cores of a family and of all, by region; spot has one of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from trainplan.pricing.offers import Market, Offer
from trainplan.providers.azure.names import group_path
from trainplan.providers.base import Check, PreflightState
from trainplan.providers.cloud.checks import ok, unknown
from trainplan.providers.errors import CredentialsError, InstanceNotFoundError, ProviderError
from trainplan.workloads.wording import Option, Text

if TYPE_CHECKING:
    from trainplan.providers.azure.account import AzureAccount, Quota


SPOT_CORES, CORES = "lowprioritycores", "cores"
"""Azure's names, in small letters: of all spot cores of a region, and of all others."""
QUOTAS_PAGE = "https://portal.azure.com/#view/Microsoft_Azure_Capacity/QuotaMenuBlade/~/myQuotas"
_ACCELERATED = "standardn"
"""How Azure's names of families with accelerators begin, in small letters: the N series."""
_LEAST_CORES = 2
"""Of the smallest machine in the catalog."""
_NAME_A_REGION = "set `region` in the table [azure] of the settings"
_THREADS = 8
LOCATIONS = "listofallowedlocations"
"""The parameter, in small letters, of Azure's own policies that limit locations: "Allowed locations" (github
Azure/azure-policy, AllowedLocations_Deny.json), and `sys.regionrestriction` of subscriptions for students, which users
report to allow five regions and to refuse all others with `RequestDisallowedByAzure`."""
_NOT_ENFORCED = "donotenforce"
_REGION_THREADS = 16
_MOST_NAMES = 6
_CORES = " cores"
_NOT_READ = "plan setup azure registers Microsoft.Compute; else ask for cores in the region of your choice"
_RAISE = Text(Option.REGION, ", or a `region` in the table [azure] of the settings, has to be one of these")


def quota_names(offer: Offer, family: str) -> Sequence[str]:
    """Which quotas count for an offer. All spot counts as one; on demand counts by family and altogether. `family` is
    Azure's name of the size's family, "" where nobody told."""
    if offer.market is Market.SPOT:
        return (SPOT_CORES,)
    return (*((family.lower(),) if family else ()), CORES)


def quotas_line(account: AzureAccount) -> Check:
    """What may be launched as it is in the region of the settings, else of what set-up made, and where to ask for more.

    Raises ProviderError.
    """
    region = account.settings.region or _region_of_set_up(account)
    if region is None:
        detail = "quotas go by region, and the settings name none"
        return unknown("quotas", detail, _NAME_A_REGION)
    quotas = account.quotas(region)
    devices = {name: quota for name, quota in quotas.items() if name.startswith(_ACCELERATED)}
    closed = [quota.name for quota in devices.values() if quota.limit == 0]
    cores, spot = quotas.get(CORES), quotas.get(SPOT_CORES)
    lines = [f"{quota.limit} {words}" for quota, words in ((cores, "cores in all"), (spot, "on spot")) if quota]
    lines += [f"{quota.limit} of {quota.name}" for quota in devices.values() if quota.limit]
    detail = f"{region}: {', '.join(lines)}; none of {', '.join(closed)}" if closed else f"{region}: {', '.join(lines)}"
    if not closed and cores is not None and cores.limit:
        return ok("quotas", detail)
    return unknown("quotas", detail, _more(account, cores))


def _region_of_set_up(account: AzureAccount) -> str | None:
    try:
        return str(account.get(group_path(account.subscription, account.settings.group), "resources")["location"])
    except InstanceNotFoundError:
        return None


def _more(account: AzureAccount, cores: Quota | None) -> str:
    most = cores.limit if cores is not None else 0
    small = f"; meanwhile machines without accelerator can be launched, up to {most} cores: {Option.DEVICE('cpu')}"
    ask = account.raising(f"{QUOTAS_PAGE} takes requests for a family (minutes to days, and may be refused)")
    return f"{ask}{small if most >= _LEAST_CORES else ''}"


def shortfalls(account: AzureAccount, offers: Sequence[Offer]) -> Sequence[str]:
    """`trainplan.providers.abilities.QuotaTeller.shortfalls`: one look-up for each region, several at a time."""
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


def _families(account: AzureAccount, offers: Sequence[Offer]) -> Mapping[str, str]:
    """Return the quota family by size, on demand only. A size has the same family everywhere, so that the sizes of one
    region are looked up, and of another one where a size is not there.
    """
    pairs = list(dict.fromkeys((one.instance_type, one.region) for one in offers if one.market is not Market.SPOT))
    entries: dict[str, str] = {}
    while pairs:
        _, region = pairs[0]
        sizes = _sizes(account, region, [size for size, _ in pairs])
        if sizes is None:
            break
        entries |= sizes
        pairs = [(size, location) for size, location in pairs if size not in entries and location != region]
    return entries


def _sizes(account: AzureAccount, region: str, names: Sequence[str]) -> Mapping[str, str] | None:
    """The families of those sizes that the region has; None where nobody tells."""
    try:
        return {name: size.family for name in names if (size := account.size(region, name)) is not None}
    except ProviderError:
        return None


def _quotas(account: AzureAccount, region: str) -> Mapping[str, Quota]:
    try:
        return account.quotas(region)
    except ProviderError:
        return {}


def allowed(account: AzureAccount) -> frozenset[str] | None:
    """The regions in which the subscription's policies let resources be created; None where no policy limits them, or
    the sign-in may not read policies. Raises CredentialsError, TransientError, ThrottledError."""
    return account.once("allowed regions", partial(_allowed, account))


def closed(account: AzureAccount, regions: Sequence[str]) -> Mapping[str, str]:
    """Return those of the regions in which nothing can be created, each with the reason
    (trainplan.providers.abilities.RegionTeller).
    """
    try:
        open_ones = allowed(account)
    except ProviderError:
        return {}
    if open_ones is None:
        return {}
    why = f"a policy of the subscription allows {_joined_names(sorted(open_ones))} alone"
    return {region: why for region in regions if region not in open_ones}


def regions_line(account: AzureAccount) -> Check:
    """Every region's answer in one line: how many cores it gives the subscription, or why it gives none. Regions that
    the setting `regions` leaves out are not asked.

    Raises ProviderError where the list of regions cannot be read.
    """
    regions = account.regions_of("Microsoft.Compute", "virtualMachines")
    found_names = account.settings.regions
    regions = [region for region in regions if not found_names or region in found_names]
    shut = closed(account, regions)
    labels = [region for region in regions if region not in shut]
    answers: defaultdict[str, list[str]] = defaultdict(list)
    with ThreadPoolExecutor(_REGION_THREADS) as threads:
        for region, answer in zip(labels, threads.map(partial(_answer, account), labels), strict=True):
            answers[answer].append(region)
    lines = [
        f"{answer}: {_joined_names(names)}" for answer, names in sorted(answers.items(), key=lambda one: -len(one[1]))
    ]
    if shut:
        lines.append(f"closed: {len(shut)} others ({next(iter(shut.values()))})")
    usable = any(answer.endswith(_CORES) and answer != f"0{_CORES}" for answer in answers)
    state = PreflightState.OK if usable else PreflightState.UNKNOWN
    fix = str(_RAISE) if shut else "" if usable else _NOT_READ
    return Check(name="regions", state=state, detail="; ".join(lines) or "Azure lists none", fix=fix)


def _allowed(account: AzureAccount) -> frozenset[str] | None:
    path = f"{account.home}/providers/Microsoft.Authorization/policyAssignments"
    try:
        rows = list(account.pages(path, "policy", **{"$filter": "atScope()"}))
    except CredentialsError:
        raise
    except ProviderError as error:
        if error.code in ("AuthorizationFailed", "LinkedAuthorizationFailed"):
            return None
        raise
    limits = list(_limits(rows))
    return frozenset.intersection(*limits) if limits else None


def _limits(rows: Sequence[Mapping[str, Any]]) -> Iterator[frozenset[str]]:
    """The locations that each assignment allows."""
    for row in rows:
        properties = row.get("properties") or {}
        if str(properties.get("enforcementMode", "")).lower() == _NOT_ENFORCED:
            continue
        for name, text_value in (properties.get("parameters") or {}).items():
            value = (text_value or {}).get("value")
            if name.lower() == LOCATIONS and isinstance(value, list):
                yield frozenset(str(location).replace(" ", "").lower() for location in value)


def _answer(account: AzureAccount, region: str) -> str:
    """`10 cores`, or the code of the refusal."""
    try:
        cores = account.quotas(region).get(CORES)
    except ProviderError as error:
        return error.code or type(error).__name__
    return "no quota told" if cores is None else f"{cores.limit}{_CORES}"


def _joined_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def doubts(account: AzureAccount, offers: Sequence[Offer]) -> Sequence[str]:
    """`trainplan.providers.abilities.DoubtTeller.doubts`: spot, by the kind of the subscription."""
    why = account.no_spot() if any(offer.market is Market.SPOT for offer in offers) else ""
    told = f"{why}; {Option.MARKET('on_demand')} leaves spot out" if why else ""
    return [told if offer.market is Market.SPOT else "" for offer in offers]
