"""Azure Retail Prices: public, paged, and full of meters that look like machines on demand and are not.

The list is asked for one machine type after the other, in all regions: a region has thousands of meters, few of them of
machines that are known here. It is the list of the moment, so that the day of reading is the day of its prices.
"""

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
    at_once,
    day_of,
    hours_in,
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
MOST_PAGES = 50
_OF_TYPE = "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and armSkuName eq '{name}'"
_IN_REGION = " and armRegionName eq '{region}'"
_THREADS = 8
_PAGE_ROWS = 100
"""A page has 100 rows or a multiple of them; on 2023-03-10 full ones came without the address of the next (question
1188465 of Microsoft Q&A)."""
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


def read(
    http: Http, endpoints: Endpoints, names: Collection[str], regions: Collection[str], today: date
) -> Iterator[PricePart]:
    """Both markets of machine types (`names`) in `regions`, a part for each type."""
    return at_once(
        (
            (
                PricePart(name=name, markets=frozenset(Market), regions=frozenset(regions), types=frozenset({name})),
                partial(_type, http, endpoints, name, regions, today),
            )
            for name in sorted(names)
        ),
        _THREADS,
    )


def _type(http: Http, endpoints: Endpoints, name: str, regions: Collection[str], today: date) -> Parsed:
    parsed = _all_pages(http.get, endpoints, _OF_TYPE.format(name=name), (name, regions), today)
    if not parsed.prices:
        raise SourceError("Azure lists no price of this machine type with Linux")
    return parsed


def of_machine(
    get: Callable[[str], bytes], endpoints: Endpoints, machine: tuple[str, str], today: date
) -> list[PriceFound]:
    """Both markets of one machine type in one region (`machine`: type, region) as listed today; empty where none is.

    Raises SourceError, and whatever `get` raises.
    """
    name, region = machine
    question = _OF_TYPE.format(name=name) + _IN_REGION.format(region=region)
    return _all_pages(get, endpoints, question, (name, {region}), today).prices


def _all_pages(
    get: Callable[[str], bytes],
    endpoints: Endpoints,
    question: str,
    wanted: tuple[str, Collection[str]],
    today: date,
) -> Parsed:
    """Read all pages of a query."""
    version = {"api-version": "2023-01-01-preview", "currencyCode": "USD"}
    begin = url = f"{endpoints.prices}?{urlencode({**version, '$filter': question}, quote_via=quote)}"
    rows: list[Row] = []
    parsed = Parsed()
    count = 0
    for _ in range(MOST_PAGES):
        page = parse_page(get(url), wanted, today)
        rows += page.rows
        parsed.skipped += page.parsed.skipped
        count += page.row_count
        if not page.next_url and (page.row_count == 0 or page.row_count % _PAGE_ROWS):
            parsed.prices = settled(rows, parsed, today)
            return parsed
        # The link comes with the reply: it must not lead to another server.
        if page.next_url and _origin(page.next_url) != _origin(endpoints.prices):
            raise SourceError(f"the next page of prices is said to be at {_origin(page.next_url)[1]}, somewhere else")
        url = page.next_url or f"{begin}&$skip={count}"
    raise SourceError(f"Azure's list of {wanted[0]} has no end (more than {MOST_PAGES} pages)")


class Page(NamedTuple):
    """What one page says; the prices are not settled among each other yet."""

    rows: list[Row]
    parsed: Parsed
    next_url: str
    row_count: int


def parse_page(content: bytes, wanted: tuple[str, Collection[str]], today: date) -> Page:
    """Parse one page of a machine type in some regions (`wanted`). Raises SourceError where it is no page of prices in
    USD."""
    page = json_object(content, "Azure Retail Prices")
    listing, following = page.get("Items"), page.get("NextPageLink")
    if not isinstance(listing, list):
        raise SourceError("Azure Retail Prices: a page without items came")
    if page.get("BillingCurrency") != "USD":
        raise SourceError(f"Azure Retail Prices come in {str(page.get('BillingCurrency'))[:20]!r}, not in USD")
    parsed = Parsed()
    rows: list[Row] = []
    for item in listing:
        outcome = _row(item, wanted, today)
        if isinstance(outcome, Count):
            parsed.skipped[outcome] += 1
        else:
            rows.append(outcome)
    return Page(rows, parsed, following if isinstance(following, str) else "", len(listing))


def _row(item: Any, wanted: tuple[str, Collection[str]], today: date) -> Row | Count:
    names = (
        [item.get(key) for key in ("armSkuName", "productName", "skuName", "meterName")]
        if isinstance(item, dict)
        else []
    )
    if not names or not all(isinstance(name, str) and name for name in names) or not is_name(names[0]):
        return Count.INCOMPLETE
    name, regions = wanted
    if names[0] != name:
        return Count.OTHER_PRODUCT
    region = item.get("armRegionName")
    if not isinstance(region, str) or region not in regions:
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


def settled(rows: list[Row], parsed: Parsed, today: date) -> list[PriceFound]:
    """Return one price for each machine, region and market: the primary meter's, then the newest, then the dearer."""
    best: dict[tuple[str, str, Market], Row] = {}
    for row in rows:
        key = (row.price.region, row.price.instance_type, row.price.market)
        before = best.setdefault(key, row)
        if before.price.usd_per_hour != row.price.usd_per_hour:
            parsed.skipped[Count.TWO_PRICES] += 1
        best[key] = max(before, row, key=lambda one: one.order)
    return [_doubted(row.price, best)._replace(as_of=today) for row in best.values()]


def _doubted(price_found: PriceFound, best: dict[tuple[str, str, Market], Row]) -> PriceFound:
    """A spot price of exactly a tenth is what scrapers knew as the floor: an estimate at best."""
    if price_found.market is Market.ON_DEMAND:
        return price_found
    on_demand = best.get((price_found.region, price_found.instance_type, Market.ON_DEMAND))
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
