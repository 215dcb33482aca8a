"""Whether a launch at Compute Engine would be let in: offered here, quotas, network. Looked up once each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainplan.pricing.offers import LifecycleState, Market, Offer
from trainplan.providers.base import Check, PreflightState
from trainplan.providers.cloud.checks import LIMIT, Limit, Look, check_lines, ok, refused, unknown
from trainplan.providers.errors import InstanceNotFoundError, ProviderError
from trainplan.providers.gcp import quotas
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.kinds import ALL_CPUS, ALL_GPUS, counted_elsewhere, is_gpu, kind_of, needs
from trainplan.providers.gcp.listing import Lists
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from trainplan.providers.gcp.part import GcpPart

_PAGE = "https://console.cloud.google.com/iam-admin/quotas"
_PREEMPTIBLE = "PREEMPTIBLE_"
_THREADS = 8
"""Look-ups of regions at once."""


def checks(account: GcpAccount, part: GcpPart, offer: Offer, limit: Limit = LIMIT) -> Sequence[Check]:
    """Identity, billing, and what the offer's way to a machine looks up: in parallel, each line by itself."""
    looks: dict[str, Look] = {"identity": account.identity, "billing": account.billing, **part.looks(offer)}
    return check_lines(looks, limit=limit)


@dataclass(frozen=True)
class Quotas:
    """The part of a preflight that hangs on the offer; the account's is trainplan.providers.gcp.account's."""

    account: GcpAccount
    lists: Lists

    def looks(self, offer: Offer) -> Mapping[str, Look]:
        """The look-ups of a preflight for this offer, by the name of their line."""
        looks: dict[str, Look] = {
            "offered": lambda: self._offered(offer),
            "quota": lambda: self._quotas(offer),
            "network": self._network,
        }
        if offer.lifecycle.state is LifecycleState.RETIRED:
            detail = f"Google has ended it{f' on {offer.lifecycle.date}' if offer.lifecycle.date else ''}"
            fix = f"rent {offer.lifecycle.successor}" if offer.lifecycle.successor else "choose another offer"
            looks["lifecycle"] = lambda: unknown("lifecycle", detail, fix)
        return looks

    def _offered(self, offer: Offer) -> Check:
        zones = self.lists.zones(offer)
        if not zones:
            what = kind_of(offer).machine_type
            fix = f"choose another region; {Command('estimate', Option.ALL)} shows them"
            detail = f"no zone of {offer.region} has {what}, or not to this project"
            return refused("offered", detail, fix)
        return ok("offered", f"in {', '.join(zones)}")

    def _quotas(self, offer: Offer) -> list[Check]:
        region = self.account.once(f"region/{offer.region}", lambda: self._ask(f"/regions/{offer.region}"))
        here, everywhere = _table(region), _table(self.account.described())
        rows = [self._regional(offer, metric, count, here) for metric, count in needs(offer).items()]
        if counted_elsewhere(offer):
            rows.append(self._of_its_family(offer))
        if _is_gpu(offer):
            rows.append(self._global(offer, everywhere))
        elif offer.device.startswith(quotas.TPU):
            rows += quotas.tpus_at_all(self.account)
        if ALL_CPUS in everywhere and offer.vcpus is not None and offer.market is not Market.SPOT:
            rows.append(self._enough("all regions", [ALL_CPUS], offer.vcpus, everywhere))
        return rows

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        """`trainplan.providers.abilities.QuotaTeller.shortfalls`: each region's table is looked up once, several at a
        time."""
        regions = list(dict.fromkeys(offer.region for offer in offers))
        with ThreadPoolExecutor(_THREADS) as threads:
            tables = dict(zip(regions, threads.map(self._limits_of, regions), strict=True))
        everywhere = self._limits_of("")
        lines = [_too_small(offer, tables[offer.region], everywhere) for offer in offers]
        return [why or self._too_few(offer) for why, offer in zip(lines, offers, strict=True)]

    def _too_few(self, offer: Offer) -> str:
        """The quota of its family that is too small for it, "" where none is known to be."""
        if not counted_elsewhere(offer):
            return ""
        check = self._of_its_family(offer)
        return check.detail if check.state is PreflightState.REFUSED else ""

    def _limits_of(self, region: str) -> dict[str, tuple[float, float]]:
        """Return the limits of a region, "" for the project; empty where Google does not tell."""
        try:
            if not region:
                return _table(self.account.described())
            return _table(self.account.once(f"region/{region}", lambda: self._ask(f"/regions/{region}")))
        except ProviderError:
            return {}

    def _of_its_family(self, offer: Offer) -> Check:
        quota = quotas.of_compute(offer)
        if quota is not None:
            return quotas.check(self.account, quota)
        detail = f"which quota counts {offer.device} is not known"
        return unknown("quota", detail, self._page())

    def _regional(self, offer: Offer, metric: str, count: int, table: dict[str, tuple[float, float]]) -> Check:
        """Spot counts in a quota of its own where the project has one, and a machine that Google deletes within a
        week may use that too (docs, limit-vm-runtime)."""
        names = _counting(offer, metric, table)
        if not names:
            detail = f"the quota {metric} of {offer.region} is not shown"
            return unknown("quota", detail, self._page())
        return self._enough(f"{offer.region}", names, count, table)

    def _global(self, offer: Offer, table: dict[str, tuple[float, float]]) -> Check:
        """Spot counts there too: users of spot alone report that a limit of 0 let them have none (gcloudrig/gcloudrig
        issue 44; fastai/course-v3 pull request 165, whose guide makes spot machines)."""
        if ALL_GPUS not in table:
            detail = f"the quota {ALL_GPUS} is not shown"
            return unknown("quota", detail, self._page())
        found = self._enough("all regions", [ALL_GPUS], offer.device_count, table)
        limit, _ = table[ALL_GPUS]
        return found if limit else replace(found, fix=f"{quotas.TRIAL_FIRST}; then {found.fix}")

    def _enough(self, where: str, names: Sequence[str], count: int, table: dict[str, tuple[float, float]]) -> Check:
        for name in names:
            limit, used = table[name]
            if used + count <= limit:
                detail = f"{name}: {used:g} of {limit:g} in use in {where}"
                return ok("quota", detail)
        limit, used = table[names[0]]
        detail = f"{names[0]}: {used:g} of {limit:g} in use in {where}, {count} more are needed"
        fix = f"ask for at least {used + count:g} {names[0]} for {where}: {self._page()}"
        return refused("quota", detail, fix)

    def _network(self) -> Check:
        name = self.account.settings.network
        try:
            self.account.once(f"network/{name}", lambda: self._ask(f"/global/networks/{name}"))
        except InstanceNotFoundError:
            detail = f"the project has no network {name!r}"
            fix = "plan setup gcp makes one; or name one of yours in the setting `network`"
            return refused("network", detail, fix)
        return ok("network", name)

    def _ask(self, path: str) -> dict[str, Any]:
        return self.account.ask("GET", "compute", f"/compute/v1/projects/{self.account.project}{path}")

    def _page(self) -> str:
        return f"{_PAGE}?project={self.account.project}"


def _counting(offer: Offer, metric: str, table: Mapping[str, tuple[float, float]]) -> list[str]:
    """The quotas of a region that the offer may count in, the first one first; none where none is shown."""
    spot = f"{_PREEMPTIBLE}{metric}"
    preferred = (spot, metric) if offer.market is Market.SPOT else (metric, spot)
    names = [name for name in preferred if name in table]
    if names and offer.market is Market.SPOT and table[names[0]][0] > 0:
        return names[:1]  # only a quota of 0 lets spot draw on the other
    return names


def _is_gpu(offer: Offer) -> bool:
    return any(map(is_gpu, needs(offer))) or offer.device in quotas.GPUS


def _too_small(
    offer: Offer, here: Mapping[str, tuple[float, float]], everywhere: Mapping[str, tuple[float, float]]
) -> str:
    """Which quota is too small for one such machine with nothing in use, "" where none is known to be. Whether the
    vCPUs of spot count in those of all regions is said nowhere that was read: there the create tells."""
    for metric, count in needs(offer).items():
        names = _counting(offer, metric, here)
        if names and all(here[name][0] < count for name in names):
            return f"{names[0]} in {offer.region}: {here[names[0]][0]:g}, {count} are needed"
    spot = offer.market is Market.SPOT
    counts = {ALL_GPUS: offer.device_count if _is_gpu(offer) else 0, ALL_CPUS: 0 if spot else offer.vcpus or 0}
    for name, count in counts.items():
        if name in everywhere and everywhere[name][0] < count:
            return f"{name}: {everywhere[name][0]:g}, {count} are needed"
    return ""


def _table(reply: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Limit and usage by metric."""
    return {
        str(row["metric"]): (float(row.get("limit", 0)), float(row.get("usage", 0))) for row in reply.get("quotas", ())
    }
