"""The person's own rates: what they really pay, by contract or commitment, in the place of list prices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NamedTuple

from trainplan.pricing.catalog import Placements, RentalPlacements
from trainplan.pricing.grades import Market
from trainplan.pricing.money import from_micro, to_micro
from trainplan.workloads.nearest import nearest_names

if TYPE_CHECKING:
    from trainplan.pricing.cost import ProviderRates
    from trainplan.pricing.devices import DeviceTable
    from trainplan.pricing.offer_source import OfferSource
    from trainplan.pricing.offers import Offer, OfferQuery, Placement, Quote, Rental

_TEXTS = ("region", "instance_type", "family", "account", "note")
_KEYS = (
    *("provider", "region", "instance_type", "family", "market", "usd_per_hour", "discount_percent"),
    *("account", "until", "hours_left", "as_of", "note"),
)
# As for prices of lists (sources/reading.py): what the compiled format can hold ends a little above.
_MOST_USD = 2000
_MOST_HOURS = 10_000_000
_HINT = 'for example {provider = "aws", family = "p5", discount_percent = 30, note = "our contract of 2026"}'


class OwnRateError(ValueError):
    """An entry of `prices` in the settings that cannot be; `hint` says how one looks."""

    def __init__(self, message: str, hint: str = _HINT) -> None:
        self.hint = hint
        super().__init__(message)


class OwnRate(NamedTuple):
    """One rate and what it is for; a field that is not given matches anything. Either an hour's price or a discount off
    the planning price.

    Without a market it is for on demand only: discounts seldom hold for spot. `account` is the account that has the
    rate, as trainplan.providers.registry.account_in_use names it; `until` the last day on which it holds (UTC).
    `hours_left` are the machine hours that were left of it at the beginning of the day `as_of`.
    """

    provider: str
    market: str
    region: str = ""
    instance_type: str = ""
    family: str = ""
    usd_per_hour: Decimal | None = None
    discount_percent: Decimal = Decimal(0)
    note: str = ""
    account: str = ""
    until: date | None = None
    hours_left: Decimal | None = None
    as_of: date | None = None

    @property
    def text(self) -> str:
        """`aws p5, on demand: 30 % off (our contract of 2026)`."""
        what = " ".join(part for part in (self.provider, self.region, self.instance_type or self.family) if part)
        rate = f"{self.discount_percent.normalize():f} % off"
        if self.usd_per_hour is not None:
            rate = f"${self.usd_per_hour}/h"
        limits = f", until {self.until}" if self.until is not None else ""
        if self.hours_left is not None:
            limits += f", {hours_text(self.hours_left)} left"
        return f"{what}, {self.market.replace('_', ' ')}: {rate}{limits}{f' ({self.note})' if self.note else ''}"

    def holds_for(self, rental: Rental) -> bool:
        """Whether it is for the machine, wherever that is."""
        return (
            rental.provider == self.provider
            and rental.market == self.market
            and self.instance_type in ("", rental.instance_type)
            and self.family in ("", rental.family)
        )

    def micro(self, planning_micro: int) -> int:
        """The rate in the place of a planning price, in millionths of a dollar per hour."""
        if self.usd_per_hour is not None:
            return to_micro(self.usd_per_hour)
        return to_micro(from_micro(planning_micro) * (100 - self.discount_percent) / 100)


def hours_text(hours: Decimal) -> str:
    """`12.5 h`."""
    return f"{hours:,.1f}".removesuffix(".0") + " h"


class CurrentRates(NamedTuple):
    """The rates that hold now, with the hours that are left of each, and a line for each that no longer does.

    `other_accounts` has a line for each rate of an account that is not in use.
    """

    rates: tuple[OwnRate, ...] = ()
    lines: tuple[str, ...] = ()
    other_accounts: tuple[str, ...] = ()


def current_rates(
    rates: Iterable[OwnRate],
    today: date,
    accounts: Mapping[str, str],
    hours_used: Callable[[OwnRate], Decimal] = lambda _: Decimal(0),
) -> CurrentRates:
    """The rates of the accounts in use (by provider) that have not ended, less the hours that were used since `as_of`.

    One for another account is no news: somebody with two accounts has rates for both.
    """
    holding: list[OwnRate] = []
    lines: list[str] = []
    other_accounts: list[str] = []
    for rate in rates:
        account = accounts.get(rate.provider, "")
        if rate.account and rate.account != account:
            in_use = f"{account} is in use" if account else "nothing tells which account is in use"
            other_accounts.append(f"own rate not used: {rate.text}: it is for account {rate.account}, and {in_use}")
            continue
        if rate.until is not None and rate.until < today:
            lines.append(f"own rate no longer used: {rate.text}: it ended on {rate.until}")
            continue
        if rate.hours_left is None:
            holding.append(rate)
            continue
        used = hours_used(rate)
        if used >= rate.hours_left:
            lines.append(
                f"own rate no longer used: {rate.text}: runs of this home have used {hours_text(used)} since "
                f"{rate.as_of}"
            )
        else:
            holding.append(rate._replace(hours_left=rate.hours_left - used))
    return CurrentRates(tuple(holding), tuple(lines), tuple(other_accounts))


def parse_own_rates(table: object) -> tuple[OwnRate, ...]:
    """`override` in the table `prices` of the settings: a list of tables. Raises OwnRateError naming the entry."""
    if not isinstance(table, Mapping) or table.keys() - {"override", "credit", "refresh"}:
        raise OwnRateError("prices: what can be set is prices.override, prices.credit and prices.refresh")
    listing = table.get("override", [])
    if not isinstance(listing, list):
        raise OwnRateError("prices.override is a list of tables")
    return tuple(_rate(entry, f"prices.override {number}") for number, entry in enumerate(listing, start=1))


def _rate(entry: object, name: str) -> OwnRate:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("provider"), str):
        raise OwnRateError(f"{name}: needs at least a provider")
    for key in entry:
        if key not in _KEYS:
            raise OwnRateError(f"{name}: there is no {key!r}; known: {', '.join(_KEYS)}")
    if ("usd_per_hour" in entry) == ("discount_percent" in entry):
        raise OwnRateError(f"{name}: needs usd_per_hour or discount_percent, one of the two")
    market = str(entry.get("market", Market.ON_DEMAND)).replace("-", "_")
    if market not in set(Market):
        raise OwnRateError(f"{name}: market {market!r} is not on_demand or spot")
    price, percent = entry.get("usd_per_hour"), entry.get("discount_percent", 0)
    if 0 < parse_number(percent, f"{name}: discount_percent", Decimal(0), 99) < 1:
        raise OwnRateError(
            f"{name}: discount_percent {percent} is less than 1 % off",
            f"write {Decimal(str(percent)) * 100:f} for a discount of {Decimal(str(percent)):%}, or usd_per_hour",
        )
    hours = entry.get("hours_left")
    if (hours is None) != ("as_of" not in entry):
        raise OwnRateError(f"{name}: hours_left and as_of, the day on which that many were left, go together")
    return OwnRate(
        provider=entry["provider"],
        market=market,
        usd_per_hour=None
        if price is None
        else parse_number(price, f"{name}: usd_per_hour", Decimal("0.000001"), _MOST_USD),
        discount_percent=parse_number(percent, f"{name}: discount_percent", Decimal(0), 99),
        hours_left=None if hours is None else parse_number(hours, f"{name}: hours_left", Decimal(0), _MOST_HOURS),
        until=parse_day(entry, "until", name),
        as_of=parse_day(entry, "as_of", name),
        **{key: str(entry[key]) for key in _TEXTS if key in entry},
    )


def check_names(rates: Iterable[OwnRate], rented: Callable[[str], Collection[tuple[str, str, str]]]) -> None:
    """Raises OwnRateError for a rate that nothing could ever be priced at: a slip in its type, family or region.

    `rented` gives what a provider rents (type, family, region); nothing for one that is not in the price lists.
    """
    for rate in rates:
        rows = rented(rate.provider)
        wanted = (rate.instance_type, rate.family, rate.region)
        if not rows or any(all(name in ("", there) for name, there in zip(wanted, row, strict=True)) for row in rows):
            continue
        for column, (name, kind) in enumerate(zip(wanted, ("machine type", "family", "region"), strict=True)):
            known = {row[column] for row in rows}
            if name and name not in known:
                near = nearest_names(name, sorted(known), 3)
                hint = (
                    f"did you mean {' or '.join(near)}?" if near else f"plan prices show {rate.provider} lists prices"
                )
                raise OwnRateError(f"prices.override: {rate.text}: {rate.provider} has no {kind} {name!r}", hint)
        text = f"prices.override: {rate.text}: {rate.provider} rents no such machine there"
        raise OwnRateError(text, "leave out the type, the family or the region")


def parse_day(entry: Mapping[str, object], key: str, name: str) -> date | None:
    """A day, as TOML has it or as text; None where there is none. Raises OwnRateError."""
    value = entry.get(key)
    if value is None:
        return None
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise OwnRateError(f"{name}: {key} {value!r} is not a day, for example 2026-12-31") from None


def parse_number(value: object, name: str, least: Decimal, most: int) -> Decimal:
    """A number between two ends, as TOML has it or as text. Raises OwnRateError."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal(-1)
    if isinstance(value, bool) or not number.is_finite() or not least <= number <= most:
        raise OwnRateError(f"{name}: {value!r} is not a number from {least} to {most}")
    return number


class WithOwnRates:
    """A catalog in which the person's rates stand in the place of planning prices. The last one that fits holds."""

    def __init__(self, catalog: OfferSource, rates: Sequence[OwnRate]) -> None:
        self._catalog = catalog
        self._own = rates
        self._limited: dict[int, _LimitedPrice] = {}
        """The placements whose rate has hours left, as far as `rentals` has been asked for them."""

    @property
    def devices(self) -> DeviceTable:
        return self._catalog.devices

    @property
    def rates(self) -> Mapping[str, ProviderRates]:
        return self._catalog.rates

    @property
    def regions(self) -> frozenset[str]:
        return self._catalog.regions

    def rentals(self, query: OfferQuery, today: date) -> list[RentalPlacements]:
        return [self._priced(row) for row in self._catalog.rentals(query, today)]

    def offers(self, item: OfferQuery | Iterable[int], today: date) -> list[Offer]:
        return [self._own_offer(offer) for offer in self._catalog.offers(item, today)]

    def quotes(self, query: OfferQuery, today: date) -> dict[int, Quote]:
        """List prices stay what they are; the stamp names the rate."""
        entries = self._catalog.quotes(query, today)
        for rental, placements in self._catalog.rentals(query, today):
            own = [rate for rate in self._own if rate.holds_for(rental)]
            for placement in placements if own else ():
                rate = _for_region(own, placement.region)
                if rate is not None and placement.row_id in entries:
                    quote = entries[placement.row_id]
                    entries[placement.row_id] = quote._replace(stamp=quote.stamp._replace(own_rate=rate.text))
        return entries

    def _priced(self, row: RentalPlacements) -> RentalPlacements:
        own = [rate for rate in self._own if rate.holds_for(row.rental)]
        if not own or not len(row.placements):
            return row
        # Sorted anew: a rate for one region changes the order, and Placements have the cheapest first.
        placements = sorted(self._own_placement(placement, own) for placement in row.placements)
        return RentalPlacements(
            row.rental, Placements(placements[0], len(placements), row.placements.unrankable, lambda: placements)
        )

    def _own_offer(self, offer: Offer) -> Offer:
        rate = _for_region([rate for rate in self._own if rate.holds_for(offer.rental)], offer.region)
        planning = offer.planning_usd_per_hour
        if rate is None or planning is None:
            return offer
        usd_per_hour = from_micro(rate.micro(to_micro(planning)))
        return replace(
            offer,
            planning_usd_per_hour=usd_per_hour,
            own_rate=rate.text,
            own_usd_per_hour=usd_per_hour,
            own_hours=rate.hours_left,
        )

    def _own_placement(self, placement: Placement, own: Sequence[OwnRate]) -> Placement:
        rate = _for_region(own, placement.region)
        if rate is None:
            return placement
        list_micro = placement.planning_micro_usd_per_hour
        if rate.hours_left is not None:
            self._limited[placement.row_id] = _LimitedPrice(rate.hours_left, rate.micro(list_micro), list_micro)
        return placement._replace(planning_micro_usd_per_hour=rate.micro(list_micro))

    def within_hours(self, placements: Sequence[Placement], billed_seconds: int) -> Sequence[Placement]:
        """Placements of one rental as a run that bills so many seconds pays them: what is longer than the hours that
        are left of a rate costs the planning price for the rest. Cheapest first."""
        if not self._limited or not any(placement.row_id in self._limited for placement in placements):
            return placements
        return sorted(
            placement._replace(planning_micro_usd_per_hour=self._limited[placement.row_id].micro(billed_seconds))
            if placement.row_id in self._limited
            else placement
            for placement in placements
        )


class _LimitedPrice(NamedTuple):
    """A rate of which `hours` are left, and the planning price without it, in millionths of a dollar per hour."""

    hours: Decimal
    own_micro: int
    list_micro: int

    def micro(self, billed_seconds: int) -> int:
        """The mean price of an hour."""
        at_own = min(billed_seconds, int(self.hours * 3600))
        if at_own >= billed_seconds:
            return self.own_micro
        return (self.own_micro * at_own + self.list_micro * (billed_seconds - at_own)) // billed_seconds


def _for_region(own: Sequence[OwnRate], region: str) -> OwnRate | None:
    return next((rate for rate in reversed(own) if rate.region in ("", region)), None)
