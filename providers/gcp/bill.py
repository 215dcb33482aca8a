"""What bills in a Google Cloud project, whoever made it: machines, TPUs, disks, addresses, snapshots, buckets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from trainplan.pricing.catalog import Catalog, CatalogError
from trainplan.pricing.current import current_catalog
from trainplan.pricing.offers import Market
from trainplan.providers.cloud.bill import (
    ADDRESS,
    BUCKET,
    DISK,
    LOAD_BALANCER,
    MACHINE,
    REQUEST,
    RUN_DIRECTORIES,
    SNAPSHOT,
    TPU,
    Bill,
    BilledThing,
    MonthlyPrice,
    Tariff,
    hourly,
    whose,
)
from trainplan.providers.cloud.labels import instant
from trainplan.providers.cloud.server_time import ServerClock
from trainplan.providers.errors import BadRequestError, CredentialsError, MachineError, ProviderError
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.errors import OFF
from trainplan.providers.gcp.prices import usd_per_hour_of
from trainplan.providers.gcp.reply import last_of, region_in, region_of
from trainplan.providers.gcp.settings import PROVIDER, GcpSettings
from trainplan.providers.gcp.store import bucket_name
from trainplan.providers.stores.settings import StoreSettings

if TYPE_CHECKING:
    from trainplan.providers.base import ProviderSettings

Look = Callable[[], Iterator[BilledThing]]
_NO_SIZE = "the size of a bucket is told by Cloud Monitoring alone, which is not asked"
_GLOBAL = "global"


def make(settings: ProviderSettings) -> Billed:
    """Google Cloud with these settings; nobody is asked anything. Raises BadRequestError for a wrong option."""
    account = GcpAccount(GcpSettings.of(settings), ServerClock(settings.now))
    return Billed(account, StoreSettings.of(settings, PROVIDER))


@dataclass(frozen=True)
class Billed:
    """What bills in a project."""

    account: GcpAccount
    store: StoreSettings
    threads: int = 16

    @property
    def _tariff(self) -> Tariff:
        return Tariff(PROVIDER, self.account.settings.home)

    def list_billed(self) -> Bill:
        """See trainplan.providers.cloud.bill.BillTeller."""
        project = self.account.project
        looks: list[tuple[str, Look]] = [
            ("machines", lambda: self._everywhere(project, "instances", self._machine)),
            ("disks", lambda: self._everywhere(project, "disks", partial(_disk, self._tariff))),
            ("addresses", lambda: self._everywhere(project, "addresses", partial(_address, self._tariff))),
            ("forwarding rules", lambda: self._everywhere(project, "forwardingRules", partial(_rule, self._tariff))),
            ("snapshots", lambda: self._snapshots(project)),
            ("buckets", lambda: self._buckets(project)),
        ]
        unread: list[str] = []
        looks += self._in_locations(project, unread)
        with ThreadPoolExecutor(self.threads) as pool:
            answers = list(pool.map(lambda look: _try_look(look[1]), looks))
        things: list[BilledThing] = []
        for (name, _), answer in zip(looks, answers, strict=True):
            if isinstance(answer, CredentialsError | MachineError):
                raise answer
            if not isinstance(answer, ProviderError):
                things += answer
            elif answer.code not in OFF:  # an API that the project has never used has nothing that bills
                unread.append(f"{name}: {answer.message}")
        return Bill(things, unread)

    def _everywhere(
        self, project: str, kind: str, show: Callable[[str, Mapping[str, Any]], Iterator[BilledThing]]
    ) -> Iterator[BilledThing]:
        """Raises BadRequestError where the list says that a placement is missing from it."""
        for reply in self.account.pages("compute", f"/compute/v1/projects/{project}/aggregated/{kind}"):
            for scope, rows in (reply.get("items") or {}).items():
                for row in rows.get(kind) or ():
                    yield from show(last_of(scope), row)
                warning = rows.get("warning") or {}
                if warning.get("code") not in (None, "NO_RESULTS_ON_PAGE"):
                    raise BadRequestError(f"{last_of(scope)} is missing: {warning.get('message', '')}", hint="")

    def _machine(self, zone: str, row: Mapping[str, Any]) -> Iterator[BilledThing]:
        """The machine, and the public addresses that it was given."""
        spot = (row.get("scheduling") or {}).get("provisioningModel") == "SPOT"
        market = "spot" if spot else "on demand"
        price = hourly(usd_per_hour_of("instances", zone, row, self.account.settings.home), f"catalog, {market}")
        what = f"{last_of(str(row.get('machineType', '')))} {market}, {row.get('status')}"
        yield _thing(MACHINE, zone, row, what, price)
        for interface in row.get("networkInterfaces") or ():
            for access in interface.get("accessConfigs") or ():
                if access.get("natIP"):
                    what, price = f"of {row['name']}, in use", self._tariff.price("address in use", region_of(zone))
                    yield _thing(ADDRESS, zone, {**row, "name": access["natIP"]}, what, price)

    def _snapshots(self, project: str) -> Iterator[BilledThing]:
        for reply in self.account.pages("compute", f"/compute/v1/projects/{project}/global/snapshots"):
            for row in reply.get("items") or ():
                size = int(row.get("storageBytes") or 0) / 1024**3
                price = self._tariff.price(SNAPSHOT, "", size)
                yield _thing(SNAPSHOT, _GLOBAL, row, f"{size:.1f} GiB stored of {row.get('diskSizeGb')} GiB", price)

    def _buckets(self, project: str) -> Iterator[BilledThing]:
        ours = bucket_name(self.store, project)
        for reply in self.account.pages("storage", "/storage/v1/b", {"project": project}):
            for row in reply.get("items") or ():
                yield BilledThing(
                    provider=PROVIDER,
                    region=str(row.get("location", _GLOBAL)).lower(),
                    kind=BUCKET,
                    id=str(row["name"]),
                    what="size not told",
                    whose=RUN_DIRECTORIES if row["name"] == ours else "",
                    since=instant(row.get("timeCreated")),
                    ground=_NO_SIZE,
                )

    def _in_locations(self, project: str, unread: list[str]) -> list[tuple[str, Look]]:
        """What the Cloud TPU API has, location by location: nodes, and what waits in a queue."""
        try:
            locations = [
                str(row["locationId"])
                for reply in self.account.pages("tpu", f"/v2/projects/{project}/locations")
                for row in reply.get("locations") or ()
            ]
        except (CredentialsError, MachineError):
            raise
        except ProviderError as error:
            if error.code not in OFF:
                unread.append(f"TPUs: {error.message}")
            return []
        return [(f"TPUs in {location}", lambda at=location: self._tpus(project, at)) for location in locations]  # type: ignore[misc]

    def _tpus(self, project: str, location: str) -> Iterator[BilledThing]:
        home = f"/v2/projects/{project}/locations/{location}"
        for reply in self.account.pages("tpu", f"{home}/nodes"):
            for row in reply.get("nodes") or ():
                spot = (row.get("schedulingConfig") or {}).get("spot") is True
                kind = str(row.get("acceleratorType", ""))
                price = hourly(self._tpu_usd_per_hour(kind, location, spot=spot), "catalog")
                what = f"{kind} {'spot' if spot else 'on demand'}, {row.get('state')}"
                document = {**row, "name": last_of(str(row["name"])), "creationTimestamp": row.get("createTime")}
                yield _thing(TPU, location, document, what, price)
        for reply in self.account.pages("tpu", f"{home}/queuedResources"):
            for row in reply.get("queuedResources") or ():
                state = str((row.get("state") or {}).get("state", ""))
                nodes = ((row.get("tpu") or {}).get("nodeSpec") or [{}])[0].get("node") or {}
                document = {
                    "name": last_of(str(row["name"])), "creationTimestamp": row.get("createTime"),
                    "labels": nodes.get("labels") or {},
                }  # fmt: skip
                free = MonthlyPrice(Decimal(0), "a queued request bills nothing until its node is there")
                yield _thing(REQUEST, location, document, f"{nodes.get('acceleratorType', 'TPU')}, {state}", free)

    def _tpu_usd_per_hour(self, kind: str, location: str, *, spot: bool) -> Decimal | None:
        market = Market.SPOT if spot else Market.ON_DEMAND
        with contextlib.suppress(CatalogError), Catalog.open(current_catalog(self.account.settings.home)) as catalog:
            return catalog.usd_per_hour(PROVIDER, region_of(location), f"tpu-{kind}", market)
        return None


def _disk(tariff: Tariff, zone: str, row: Mapping[str, Any]) -> Iterator[BilledThing]:
    kind, size = last_of(str(row.get("type", ""))) or "disk", int(row.get("sizeGb") or 0)
    state = "in use" if row.get("users") else "attached to nothing"
    yield _thing(DISK, zone, row, f"{kind} {size} GiB, {state}", tariff.price(kind, region_in(zone), size))


def _address(tariff: Tariff, location: str, row: Mapping[str, Any]) -> Iterator[BilledThing]:
    """Reserved ones; inside networks they are free."""
    if row.get("addressType") == "INTERNAL":
        return
    used = row.get("status") == "IN_USE"
    if not used:  # one in use is shown with its machine
        yield _thing(ADDRESS, location, row, "reserved and unused", tariff.price(ADDRESS, region_in(location)))


def _rule(tariff: Tariff, location: str, row: Mapping[str, Any]) -> Iterator[BilledThing]:
    yield _thing(LOAD_BALANCER, location, row, "forwarding rule", tariff.price(LOAD_BALANCER, region_in(location)))


def _thing(kind: str, location: str, row: Mapping[str, Any], what: str, price: MonthlyPrice) -> BilledThing:
    return BilledThing(
        provider=PROVIDER,
        region=location,
        kind=kind,
        id=str(row["name"]),
        what=what,
        whose=whose(row.get("labels") or {}),
        since=instant(row.get("creationTimestamp")),
        usd_per_month=price.usd_per_month,
        ground=price.ground,
    )


def _try_look(look: Look) -> list[BilledThing] | ProviderError:
    try:
        return list(look())
    except ProviderError as error:
        return error
