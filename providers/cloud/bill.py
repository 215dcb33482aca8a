"""Everything in an account that bills by the hour or the month, ours and others': the values of `plan burn`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from trainplan.pricing.catalog import Catalog, CatalogError
from trainplan.pricing.current import current_catalog
from trainplan.pricing.money import HOURS_PER_MONTH
from trainplan.pricing.side_rates import HOUR
from trainplan.providers.base import LABEL_RUN

if TYPE_CHECKING:
    from trainplan.pricing.cost import ProviderRates

RUN_DIRECTORIES = "run directories"
NO_PRICE = "no price is known"
MACHINE, DISK, ADDRESS, SNAPSHOT, BUCKET = "machine", "disk", "address", "snapshot", "bucket"
LOAD_BALANCER, GATEWAY, REQUEST, TPU = "load balancer", "NAT gateway", "queued request", "TPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledThing:
    """Something that bills.

    `what` says its type and size in words. `whose` is `run NAME` for what is labelled with a run, `run directories`
    for their bucket, "" for what is not ours. `usd_per_month` is at list prices for 730 hours, None where no price is
    known; `ground` says where it comes from, or why there is none. `since` is when it was made, None where the
    provider does not tell.
    """

    provider: str
    region: str
    kind: str
    id: str
    what: str = ""
    whose: str = ""
    since: datetime | None = None
    usd_per_month: Decimal | None = None
    ground: str = NO_PRICE


@dataclass(frozen=True, slots=True)
class Bill:
    """`unread` are the lists that could not be read, in words, each with its reason."""

    things: Sequence[BilledThing]
    unread: Sequence[str] = ()


@runtime_checkable
class BillTeller(Protocol):
    """What providers with accounts can do besides."""

    def list_billed(self) -> Bill:
        """Everything in the account that bills. Reads only. Raises CredentialsError and MachineError."""
        ...


def whose(labels: Mapping[str, str]) -> str:
    """Return the owner of a resource by its labels."""
    run = labels.get(LABEL_RUN)
    return f"run {run}" if run is not None else ""


class MonthlyPrice(NamedTuple):
    """What a thing costs a month; None and the reason where nobody knows."""

    usd_per_month: Decimal | None = None
    ground: str = NO_PRICE


def hourly(usd_per_hour: Decimal | None, ground: str) -> MonthlyPrice:
    """A price for each hour, for a month of 730 hours."""
    return MonthlyPrice() if usd_per_hour is None else MonthlyPrice(usd_per_hour * HOURS_PER_MONTH, ground)


class Tariff(NamedTuple):
    """The rates of one provider, as the catalog of the state folder has them (`home` None: the shipped one)."""

    provider: str
    home: Path | None = None

    def price(self, kind: str, region: str, amount: Decimal | int | float = 1) -> MonthlyPrice:
        """`amount` gigabytes (or pieces) of something in a region, at the catalog's rate of that kind."""
        rates = _rates(self.home).get(self.provider)
        rate = rates.side.rate(kind, region) if rates else None
        if rate is None:
            return MonthlyPrice()
        hours = HOURS_PER_MONTH if rate.per == HOUR else 1
        return MonthlyPrice(
            rate.usd * Decimal(str(amount)) * hours, f"{kind}: {rate.usd} USD per {rate.per}; {rate.ground}"
        )


@cache
def _rates(home: Path | None) -> Mapping[str, ProviderRates]:
    """Return the rates by provider; none where the catalog cannot be read, because a list without prices is better than
    none.
    """
    try:
        with Catalog.open(current_catalog(home)) as catalog:
            return catalog.rates
    except CatalogError:
        return {}
