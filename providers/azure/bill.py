"""What bills in an Azure subscription, whoever made it: machines, disks, addresses, snapshots, gateways, accounts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from trainplan.pricing.catalog import Catalog, CatalogError
from trainplan.pricing.current import current_catalog
from trainplan.pricing.offers import Market
from trainplan.providers.azure.account import AzureAccount
from trainplan.providers.azure.api import ArmClient, Call
from trainplan.providers.azure.names import API, PROVIDER, attempt_of
from trainplan.providers.azure.reply import power_of
from trainplan.providers.azure.settings import AzureSettings, with_account
from trainplan.providers.base import LABEL_RUN, ProviderSettings
from trainplan.providers.cloud.bill import (
    ADDRESS,
    BUCKET,
    DISK,
    GATEWAY,
    LOAD_BALANCER,
    MACHINE,
    RUN_DIRECTORIES,
    SNAPSHOT,
    Bill,
    BilledThing,
    MonthlyPrice,
    Tariff,
    hourly,
)
from trainplan.providers.cloud.server_time import ServerClock
from trainplan.providers.errors import CredentialsError, MachineError, ProviderError

_NO_SIZE = "the size of a storage account is told by Azure Monitor alone, which is not asked"
_DEALLOCATED = "deallocated"
_VIEWED = {"$expand": "instanceView"}
_DISKS_API = "2024-03-02"


class _Cells(NamedTuple):
    kind: str
    what: str
    price: MonthlyPrice


class _List(NamedTuple):
    """A list of the whole subscription: its name for people, its path below the subscription, how a row is shown."""

    name: str
    path: str
    api: str
    cells: Callable[[Mapping[str, Any]], _Cells]
    query: Mapping[str, str] = {}


def make(settings: ProviderSettings) -> Billed:
    """Azure with these settings; nobody is asked anything. Raises BadRequestError for an option that is wrong."""
    azure_settings = AzureSettings.of(settings)
    account = AzureAccount(azure_settings, ArmClient(azure_settings, clock=ServerClock(settings.now)))
    return Billed(account, settings)


@dataclass(frozen=True)
class Billed:
    """What bills in a subscription."""

    account: AzureAccount
    settings: ProviderSettings
    threads: int = 8

    def list_billed(self) -> Bill:
        """See trainplan.providers.cloud.bill.BillTeller."""
        lists = (
            _List("machines", "Microsoft.Compute/virtualMachines", "compute", self._machine, _VIEWED),
            _List("disks", "Microsoft.Compute/disks", "compute", self._rated(_disk)),
            _List("snapshots", "Microsoft.Compute/snapshots", "compute", self._rated(_snapshot)),
            _List("public addresses", "Microsoft.Network/publicIPAddresses", "network", self._rated(_address)),
            _List("load balancers", "Microsoft.Network/loadBalancers", "network", self._rated(_balancer)),
            _List("NAT gateways", "Microsoft.Network/natGateways", "network", self._rated(_gateway)),
            _List("storage accounts", "Microsoft.Storage/storageAccounts", "storage", _storage),
        )
        home = self.account.home
        ours = str(with_account(self.settings, self.account.subscription).options.get("account", ""))
        with ThreadPoolExecutor(self.threads) as pool:
            answers = list(pool.map(lambda one: self._try_list(home, one), lists))
        things: list[BilledThing] = []
        unread: list[str] = []
        for one, answer in zip(lists, answers, strict=True):
            if isinstance(answer, CredentialsError | MachineError):
                raise answer
            if isinstance(answer, ProviderError):
                unread.append(f"{one.name}: {answer.message}")
            else:
                things += [_thing(one.cells(row), row, ours) for row in answer]
        return Bill(things, unread)

    def _try_list(self, home: str, one: _List) -> list[Mapping[str, Any]] | ProviderError:
        try:
            return list(self._rows(home, one))
        except ProviderError as error:
            return error

    def _rows(self, home: str, one: _List) -> Iterator[Mapping[str, Any]]:
        """Disks and snapshots have versions of their own."""
        version = _DISKS_API if one.path.endswith(("/disks", "/snapshots")) else API[one.api]
        call: Call | None = Call(method="GET", path=f"{home}/providers/{one.path}", api=version, query=one.query)
        while call is not None:
            body = self.account.ask(call).body or {}
            yield from body.get("value", ())
            more = body.get("nextLink")
            call = Call(method="GET", path=more) if more else None

    def _rated(self, show: Callable[[Mapping[str, Any], Tariff], _Cells]) -> Callable[[Mapping[str, Any]], _Cells]:
        tariff = Tariff(PROVIDER, self.settings.home)
        return lambda row: show(row, tariff)

    def _machine(self, row: Mapping[str, Any]) -> _Cells:
        properties = row.get("properties") or {}
        size = str((properties.get("hardwareProfile") or {}).get("vmSize", ""))
        spot = properties.get("priority") == "Spot"
        power = power_of(row)
        what = f"{size} {'spot' if spot else 'on demand'}, {power or 'state not told'}"
        if power == _DEALLOCATED:
            return _Cells(
                MACHINE, what, MonthlyPrice(Decimal(0), "a deallocated machine bills no hours; its disk does")
            )
        region = _region(row)
        return _Cells(MACHINE, what, hourly(_usd_per_hour(size, region, self.settings.home, spot=spot), "catalog"))


def _disk(row: Mapping[str, Any], tariff: Tariff) -> _Cells:
    kind, size = _sku(row), _gigabytes(row)
    state = "attached to nothing" if _properties(row).get("diskState") == "Unattached" else "in use"
    return _Cells(DISK, f"{kind} {size} GiB, {state}", tariff.price(kind, _region(row), size))


def _snapshot(row: Mapping[str, Any], tariff: Tariff) -> _Cells:
    size = _gigabytes(row)
    return _Cells(SNAPSHOT, f"of {size} GiB", tariff.price(SNAPSHOT, _region(row), size))


def _address(row: Mapping[str, Any], tariff: Tariff) -> _Cells:
    used = "in use" if _properties(row).get("ipConfiguration") else "reserved and unused"
    return _Cells(ADDRESS, f"{_sku(row)}, {used}", tariff.price(ADDRESS, _region(row)))


def _balancer(row: Mapping[str, Any], tariff: Tariff) -> _Cells:
    kind = _sku(row)
    free = MonthlyPrice(Decimal(0), "a Basic load balancer has no price")
    return _Cells(LOAD_BALANCER, kind, free if kind == "Basic" else tariff.price(LOAD_BALANCER, _region(row)))


def _gateway(row: Mapping[str, Any], tariff: Tariff) -> _Cells:
    return _Cells(GATEWAY, _sku(row), tariff.price(GATEWAY, _region(row)))


def _storage(row: Mapping[str, Any]) -> _Cells:
    return _Cells(BUCKET, f"storage account {_sku(row)}, size not told", MonthlyPrice(None, _NO_SIZE))


def _region(row: Mapping[str, Any]) -> str:
    return str(row.get("location", ""))


def _thing(describe: _Cells, row: Mapping[str, Any], ours: str) -> BilledThing:
    """The machine's group tells whose a thing is, where its own tags do not."""
    run = (row.get("tags") or {}).get(LABEL_RUN) or next(iter(attempt_of(_group_of(str(row["id"]))) or ()), None)
    whose = f"run {run}" if run else ""
    if describe.kind == BUCKET and str(row["name"]) == ours:
        whose = RUN_DIRECTORIES
    since = _properties(row).get("timeCreated") or _properties(row).get("creationTime")
    return BilledThing(
        provider=PROVIDER,
        region=_region(row),
        kind=describe.kind,
        id=str(row["name"]),
        what=describe.what,
        whose=whose,
        since=datetime.fromisoformat(since) if since else None,
        usd_per_month=describe.price.usd_per_month,
        ground=describe.price.ground,
    )


def _usd_per_hour(size: str, region: str, home: Path, *, spot: bool) -> Decimal | None:
    with contextlib.suppress(CatalogError), Catalog.open(current_catalog(home)) as catalog:
        return catalog.usd_per_hour(PROVIDER, region, size, Market.SPOT if spot else Market.ON_DEMAND)
    return None


def _group_of(path: str) -> str:
    parts = path.split("/")
    at = next((number for number, part in enumerate(parts) if part.lower() == "resourcegroups"), len(parts))
    return parts[at + 1] if at + 1 < len(parts) else ""


def _properties(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return row.get("properties") or {}


def _sku(row: Mapping[str, Any]) -> str:
    return str((row.get("sku") or {}).get("name", ""))


def _gigabytes(row: Mapping[str, Any]) -> int:
    return int(_properties(row).get("diskSizeGB") or 0)
