"""Azure Retail Prices: public, paged, and full of meters that look like machines on demand and are not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import date
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from trainplan.pricing.grades import Market
from trainplan.pricing.sources.reading import (
    Count,
    Parsed,
    PriceFound,
    PricePart,
    SourceError,
    day_of,
    hours_in,
    in_turn,
    is_name,
    json_object,
    usd,
)

if TYPE_CHECKING:
    from trainplan.pricing.sources.http import Http

LIST_ID, FLOOR_ID = "azure-retail-prices", "azure-retail-spot-floor"
SOURCES = (
    (LIST_ID, "listed", "Azure Retail Prices API (Virtual Machines, Consumption)"),
    (FLOOR_ID, "estimated", "Azure Retail Prices API: exactly a tenth of on demand, which may be a floor and no price"),
)
# A list whose pages lead in a circle has to end.
MOST_PAGES = 500
_IN_REGION = "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and armRegionName eq '{region}'"
_FLOOR = Decimal("0.1")
# Words in a product's name that make it another product than a plain Linux machine.
_OTHER_PRODUCTS = ("windows", " win", "cloud services", "cloudservices", "dedicated host")
_OTHER_METERS = ("low priority", "dedicated", "expired", "reservation")


class Endpoints(NamedTuple):
    """Where Azure publishes prices; the public cloud's only."""

    prices: str = "https://prices.azure.com/api/retail/prices"


class Row(NamedTuple):
    """A price with what decides between two of the same thing."""

    price: PriceFound
    primary: bool

    @property
    def order(self) -> tuple[bool, date, Decimal]:
        """The greatest counts: of the primary meter, then the newest, then the dearer."""
        return self.primary, self.price.since or date.min, self.price.usd_per_hour


def read(http: Http, endpoints: Endpoints, regions: Collection[str], today: date) -> Iterator[PricePart]:
    """Both markets, a part for each region: paging over all regions at once loses rows."""
    return in_turn(
        (
            PricePart(name=region, markets=frozenset(Market), regions=frozenset({region})),
            partial(_region, http, endpoints, region, today),
        )
        for region in sorted(regions)
    )


def _region(http: Http, endpoints: Endpoints, region: str, today: date) -> Parsed:
    parsed = _all_pages(http.get, endpoints, _IN_REGION.format(region=region), region, today)
    if not parsed.prices:
        raise SourceError(f"Azure lists no prices of Linux machines for {region}")
    return parsed


def of_machine(
    get: Callable[[str], bytes], endpoints: Endpoints, machine: tuple[str, str], today: date
) -> list[PriceFound]:
    """Both markets of one machine type in one region (`machine`: type, region) as listed today; empty where none is.

    Raises SourceError, and whatever `get` raises.
    """
    name, region = machine
    question = f"armSkuName eq '{name}' and {_IN_REGION.format(region=region)}"
    price_founds = _all_pages(get, endpoints, question, region, today).prices
    return [price for price in price_founds if price.instance_type == name]


def _all_pages(get: Callable[[str], bytes], endpoints: Endpoints, question: str, region: str, today: date) -> Parsed:
    """Read all pages of a query."""
    version = {"api-version": "2023-01-01-preview", "currencyCode": "USD"}
    url = f"{endpoints.prices}?{urlencode({**version, '$filter': question}, quote_via=quote)}"
    rows: list[Row] = []
    parsed = Parsed()
    for _ in range(MOST_PAGES):
        page = parse_page(get(url), region, today)
        rows += page.rows
        parsed.skipped += page.parsed.skipped
        if not page.next_url:
            parsed.prices = settled(rows, parsed)
            return parsed
        # The link comes with the reply: it must not lead to another server.
        if _origin(page.next_url) != _origin(endpoints.prices):
            raise SourceError(f"the next page of prices is said to be at {_origin(page.next_url)[1]}, somewhere else")
        url = page.next_url
    raise SourceError(f"Azure's list for {region} has no end (more than {MOST_PAGES} pages)")


class Page(NamedTuple):
    """What one page says; the prices are not settled among each other yet."""

    rows: list[Row]
    parsed: Parsed
    next_url: str


def parse_page(content: bytes, region: str, today: date) -> Page:
    """Parse one page of a region. Raises SourceError where it is no page of prices in USD."""
    page = json_object(content, "Azure Retail Prices")
    listing, following = page.get("Items"), page.get("NextPageLink")
    if not isinstance(listing, list):
        raise SourceError("Azure Retail Prices: a page without items came")
    if page.get("BillingCurrency") != "USD":
        raise SourceError(f"Azure Retail Prices come in {str(page.get('BillingCurrency'))[:20]!r}, not in USD")
    parsed = Parsed()
    rows: list[Row] = []
    for item in listing:
        outcome = _row(item, region, today)
        if isinstance(outcome, Count):
            parsed.skipped[outcome] += 1
        else:
            rows.append(outcome)
    return Page(rows, parsed, following if isinstance(following, str) else "")


def _row(item: Any, region: str, today: date) -> Row | Count:
    names = (
        [item.get(key) for key in ("armSkuName", "productName", "skuName", "meterName")]
        if isinstance(item, dict)
        else []
    )
    if not names or not all(isinstance(name, str) and name for name in names) or not is_name(names[0]):
        return Count.INCOMPLETE
    if item.get("armRegionName") != region:
        return Count.OTHER_PLACEMENT
    return _other(item, today) or _priced(item, region)


def _other(item: dict[str, Any], today: date) -> Count | None:
    """Why the meter is not a plain Linux machine's price of today."""
    product, meters = item["productName"].lower(), f"{item['skuName']} / {item['meterName']}".lower()
    if item.get("type", "Consumption") != "Consumption" or item.get("serviceName") != "Virtual Machines":
        return Count.OTHER_PRODUCT
    if any(word in product for word in _OTHER_PRODUCTS) or any(word in meters for word in _OTHER_METERS):
        return Count.OTHER_PRODUCT
    if item.get("currencyCode") != "USD":
        return Count.OTHER_CURRENCY
    if item.get("tierMinimumUnits") not in (None, 0):
        return Count.TIERS
    if not _valid(item, today):
        return Count.NOT_NOW
    return None


def _valid(item: dict[str, Any], today: date) -> bool:
    """Prices of tomorrow are listed beside those of today."""
    begin, end = item.get("effectiveStartDate"), item.get("effectiveEndDate")
    started = not isinstance(begin, str) or begin[:10] <= today.isoformat()
    return started and (not isinstance(end, str) or end[:10] > today.isoformat())


def _priced(item: dict[str, Any], region: str) -> Row | Count:
    price, hours = usd(item.get("retailPrice")), hours_in(item.get("unitOfMeasure"))
    if hours is None:
        return Count.OTHER_UNIT
    if price is None:
        return Count.NO_PRICE
    spot = item["skuName"].lower().endswith(" spot") or item["meterName"].lower().endswith(" spot")
    market = Market.SPOT if spot else Market.ON_DEMAND
    since = day_of(item.get("effectiveStartDate"))
    price_found = PriceFound(region, item["armSkuName"], market, price * hours, LIST_ID, since=since)
    return Row(price_found, item.get("isPrimaryMeterRegion") is True)


def settled(rows: list[Row], parsed: Parsed) -> list[PriceFound]:
    """Return one price for each machine and market: the primary meter's, then the newest, then the dearer.

    The list has no date of its own: the newest day from which one of its prices holds is taken for that.
    """
    best: dict[tuple[str, Market], Row] = {}
    for row in rows:
        key = (row.price.instance_type, row.price.market)
        before = best.setdefault(key, row)
        if before.price.usd_per_hour != row.price.usd_per_hour:
            parsed.skipped[Count.TWO_PRICES] += 1
        best[key] = max(before, row, key=lambda one: one.order)
    as_of = max((row.price.since for row in rows if row.price.since is not None), default=None)
    return [_doubted(row.price, best)._replace(as_of=as_of) for row in best.values()]


def _doubted(price_found: PriceFound, best: dict[tuple[str, Market], Row]) -> PriceFound:
    """A spot price of exactly a tenth is what scrapers knew as the floor: an estimate at best."""
    if price_found.market is Market.ON_DEMAND:
        return price_found
    on_demand = best.get((price_found.instance_type, Market.ON_DEMAND))
    at_floor = on_demand is not None and price_found.usd_per_hour == on_demand.price.usd_per_hour * _FLOOR
    return price_found._replace(source=FLOOR_ID) if at_floor else price_found


def _origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port; the API writes its standard port out."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return "", url[:60], None
    return parts.scheme, parts.hostname or "", port
