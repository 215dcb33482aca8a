"""Which regions a subscription may use: what its policies allow, and what each region answers."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from providers.azure.quotas import CORES
from providers.base import Check, PreflightState
from providers.errors import CredentialsError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from providers.azure.account import Account

LOCATIONS = "listofallowedlocations"
"""The parameter, in small letters, of Azure's own policies that limit locations: "Allowed locations" (github
Azure/azure-policy, AllowedLocations_Deny.json), and `sys.regionrestriction` of subscriptions for students, which users
report to allow five regions and to refuse all others with `RequestDisallowedByAzure`."""
_NOT_ENFORCED = "donotenforce"
_THREADS = 16
_SHOWN = 6
_CORES = " cores"
_NOT_READ = "plan setup azure registers Microsoft.Compute; else ask for cores in the region of your choice"
_RAISE = "--region, or a `region` in the table [azure] of the settings, has to be one of these"


def allowed(account: Account) -> frozenset[str] | None:
    """The regions in which the subscription's policies let resources be created; None where no policy limits them, or
    the sign-in may not read policies. Raises CredentialsError, TransientError, ThrottledError."""
    return account.once("allowed regions", partial(_allowed, account))


def closed(account: Account, regions: Sequence[str]) -> Mapping[str, str]:
    """Of these regions those in which nothing can be created, each with the reason
    (providers.quota_teller.RegionTeller)."""
    try:
        open_ones = allowed(account)
    except ProviderError:
        return {}
    if open_ones is None:
        return {}
    why = f"a policy of the subscription allows {_listed(sorted(open_ones))} alone"
    return {region: why for region in regions if region not in open_ones}


def regions_line(account: Account) -> Check:
    """Every region's answer in one line: how many cores it gives the subscription, or why it gives none. Regions that
    the setting `regions` leaves out are not asked.

    Raises ProviderError where the list of regions cannot be read.
    """
    regions = account.regions_of("Microsoft.Compute", "virtualMachines")
    wanted = account.settings.regions
    regions = [region for region in regions if not wanted or region in wanted]
    shut = closed(account, regions)
    asked = [region for region in regions if region not in shut]
    answers: defaultdict[str, list[str]] = defaultdict(list)
    with ThreadPoolExecutor(_THREADS) as threads:
        for region, answer in zip(asked, threads.map(partial(_answer, account), asked), strict=True):
            answers[answer].append(region)
    told = [f"{answer}: {_listed(names)}" for answer, names in sorted(answers.items(), key=lambda one: -len(one[1]))]
    if shut:
        told.append(f"closed: {len(shut)} others ({next(iter(shut.values()))})")
    usable = any(answer.endswith(_CORES) and answer != f"0{_CORES}" for answer in answers)
    state = PreflightState.OK if usable else PreflightState.UNKNOWN
    fix = _RAISE if shut else "" if usable else _NOT_READ
    return Check(name="regions", state=state, detail="; ".join(told) or "Azure lists none", fix=fix)


def _allowed(account: Account) -> frozenset[str] | None:
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
        for name, given in (properties.get("parameters") or {}).items():
            value = (given or {}).get("value")
            if name.lower() == LOCATIONS and isinstance(value, list):
                yield frozenset(str(place).replace(" ", "").lower() for place in value)


def _answer(account: Account, region: str) -> str:
    """`10 cores`, or the code of the refusal."""
    try:
        cores = account.quotas(region).get(CORES)
    except ProviderError as error:
        return error.code or type(error).__name__
    return "no quota told" if cores is None else f"{cores.limit}{_CORES}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
