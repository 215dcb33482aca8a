"""Prices that were read and are held back, since they cannot be true (pricing/plausible.py and list_checks.py), and the
check that holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trainplan.pricing.entries import Entry, PriceKey
from trainplan.pricing.grades import Market
from trainplan.pricing.list_checks import ListedPrice, failures_against, listed_prices
from trainplan.pricing.plausible import Dated, Medians, reason_to_disbelieve, reason_to_hold

if TYPE_CHECKING:
    from trainplan.pricing.sources.reading import PriceFound
    from trainplan.pricing.table_text import Source
    from trainplan.pricing.tables import InstanceType, OfferRow


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPrice:
    """A price that was read and is not used, since it cannot be true, and why.

    `known_usd_per_hour` is the last known price, which stays in use (None: there is none).
    """

    provider: str
    key: PriceKey
    usd_per_hour: Decimal
    as_of: date | None
    source: str
    why: str
    known_usd_per_hour: Decimal | None

    @property
    def name(self) -> str:
        """The name by which a person accepts the price: `aws/us-east-1/g5.xlarge/spot`, a zone behind it where it has
        one.
        """
        return key_text(self.provider, self.key)

    def to_json(self) -> dict[str, Any]:
        """The held price but for its provider, for the file of refreshed prices."""
        return {
            "placement": list(self.key),
            "usd_per_hour": str(self.usd_per_hour),
            "as_of": self.as_of.isoformat() if self.as_of else None,
            "source": self.source,
            "why": self.why,
            "known_usd_per_hour": None if self.known_usd_per_hour is None else str(self.known_usd_per_hour),
        }

    @classmethod
    def from_json(cls, provider: str, row: Mapping[str, Any]) -> HeldPrice:
        """What `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        region, instance_type, market, zone = row["placement"]
        item = row["known_usd_per_hour"]
        return cls(
            provider=provider,
            key=PriceKey(region, instance_type, Market(market), zone),
            usd_per_hour=Decimal(row["usd_per_hour"]),
            as_of=date.fromisoformat(row["as_of"]) if row["as_of"] else None,
            source=row["source"],
            why=row["why"],
            known_usd_per_hour=None if item is None else Decimal(item),
        )


_MOST_LOOKS = 5


class Check:
    """Holds prices back that cannot be true, and keeps them in `held_prices`."""

    def __init__(
        self,
        provider: str,
        offers: Sequence[OfferRow],
        read: Sequence[PriceFound],
        type_of: Callable[[str], InstanceType | None],
        sources: Mapping[str, Source],
    ) -> None:
        """`offers` are what was known before, `read` all prices that were read, `type_of` knows machine types."""
        self.held_prices: list[HeldPrice] = []
        self._provider = provider
        self._type_of = type_of
        new = [
            ListedPrice(kind, one.region, one.market, one.usd_per_hour, one.as_of, sources[one.source].kind, one.zone)
            for one in read
            if (kind := type_of(one.instance_type)) is not None
        ]
        known = list(listed_prices(offers))
        # Medians of known prices first: those of a misread list would let the list itself through. A family that was
        # not known before is held against itself.
        self._medians = _medians(known).over(_medians(new))
        believed = self._believed(new, known)
        self._failed: dict[str, str] = {}
        # What one wrong price hides, a second look finds once the known price stands in its place.
        for _ in range(_MOST_LOOKS):
            failed = {one.price.name: one.reason for one in failures_against(believed, known)}
            self._failed |= failed
            believed = [price for price in believed if price.name not in failed]
            if not failed:
                break

    def _believed(self, new: Iterable[ListedPrice], known: Iterable[ListedPrice]) -> list[ListedPrice]:
        """The prices that may speak for or against others of their list: a price that is absurd by itself may not."""
        before = {price.name: price.usd_per_hour for price in known}
        return [
            price
            for price in new
            if not reason_to_disbelieve(
                price.usd_per_hour, before.get(price.name), self._medians.usd_per_hour(price.type, price.market)
            )
        ]

    def passes(self, key: PriceKey, one: PriceFound, last: Entry | None) -> bool:
        """Whether a price may be used; `last` is the last known price of its placement."""
        kind = self._type_of(key.instance_type)
        assert kind is not None, "only prices of known types are checked"
        price = last.price if last is not None else None
        why = reason_to_hold(
            Dated(one.usd_per_hour, one.as_of, one.since),
            Dated(price.usd_per_hour, price.as_of) if price is not None else None,
            self._medians.usd_per_hour(kind, key.market),
            self._failed.get(key_text(self._provider, key), ""),
        )
        if why:
            self.held_prices.append(
                HeldPrice(
                    provider=self._provider,
                    key=key,
                    usd_per_hour=one.usd_per_hour,
                    as_of=one.as_of,
                    source=one.source,
                    why=why,
                    known_usd_per_hour=price.usd_per_hour if price is not None else None,
                )
            )
        return not why


def _medians(prices: Iterable[ListedPrice]) -> Medians:
    return Medians.of((price.type, price.market, price.usd_per_hour) for price in prices)


def key_text(provider: str, key: PriceKey) -> str:
    """`aws/us-east-1/g5.xlarge/spot`, a zone behind it where it has one."""
    parts = (provider, key.region, key.instance_type, key.market.value, key.zone)
    return "/".join(part for part in parts if part)
