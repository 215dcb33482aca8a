"""Prices that were read and are held back, since they cannot be true (pricing/plausible.py), and the check that holds
them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pricing.entries import Entry, PriceKey
from pricing.grades import Market
from pricing.plausible import Dated, Medians, reason_to_hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pricing.sources.reading import PriceFound
    from pricing.tables import InstanceType, OfferRow


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPrice:
    """A price that was read and is not used, since it cannot be true (pricing/plausible.py), and why.

    `known_usd_per_hour` is the last known price, which stays in use (None: there is none).
    """

    provider: str
    place: PriceKey
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
        place = self.place
        parts = (self.provider, place.region, place.instance_type, place.market.value, place.zone)
        return "/".join(part for part in parts if part)

    def to_json(self) -> dict[str, Any]:
        """The held price but for its provider, for the file of refreshed prices."""
        return {
            "place": list(self.place),
            "usd_per_hour": str(self.usd_per_hour),
            "as_of": self.as_of.isoformat() if self.as_of else None,
            "source": self.source,
            "why": self.why,
            "known_usd_per_hour": None if self.known_usd_per_hour is None else str(self.known_usd_per_hour),
        }

    @classmethod
    def from_json(cls, provider: str, row: Mapping[str, Any]) -> HeldPrice:
        """What `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        region, instance_type, market, zone = row["place"]
        item = row["known_usd_per_hour"]
        return cls(
            provider=provider,
            place=PriceKey(region, instance_type, Market(market), zone),
            usd_per_hour=Decimal(row["usd_per_hour"]),
            as_of=date.fromisoformat(row["as_of"]) if row["as_of"] else None,
            source=row["source"],
            why=row["why"],
            known_usd_per_hour=None if item is None else Decimal(item),
        )


class Check:
    """Holds prices back that cannot be true, and keeps them in `held_prices`."""

    def __init__(
        self,
        provider: str,
        offers: Sequence[OfferRow],
        read: Iterable[PriceFound],
        type_of: Callable[[str], InstanceType | None],
    ) -> None:
        """`offers` are what was known before, `read` all prices that were read, `type_of` knows machine types."""
        self.held_prices: list[HeldPrice] = []
        self._provider = provider
        self._type_of = type_of
        # A family that was not known before is held against itself.
        new = ((kind, one.market, one.usd_per_hour) for one in read if (kind := type_of(one.instance_type)))
        # Medians of known prices first: those of a misread list would let the list itself through.
        self._medians = Medians.of(_priced(offers)).over(Medians.of(new))

    def passes(self, place: PriceKey, one: PriceFound, last: Entry | None) -> bool:
        """Whether a price may be used; `last` is the last known price of its place."""
        kind = self._type_of(place.instance_type)
        assert kind is not None, "only prices of known types are checked"
        price = last.price if last is not None else None
        why = reason_to_hold(
            Dated(one.usd_per_hour, one.as_of, one.since),
            Dated(price.usd_per_hour, price.as_of) if price is not None else None,
            self._medians.usd_per_hour(kind, place.market),
        )
        if why:
            self.held_prices.append(
                HeldPrice(
                    provider=self._provider,
                    place=place,
                    usd_per_hour=one.usd_per_hour,
                    as_of=one.as_of,
                    source=one.source,
                    why=why,
                    known_usd_per_hour=price.usd_per_hour if price is not None else None,
                )
            )
        return not why


def _priced(offers: Iterable[OfferRow]) -> Iterator[tuple[InstanceType, Market, Decimal]]:
    for row in offers:
        for market, price in ((Market.ON_DEMAND, row.on_demand), (Market.SPOT, row.spot)):
            if price is not None:
                yield row.type, market, price.usd_per_hour
