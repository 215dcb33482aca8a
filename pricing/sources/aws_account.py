"""AWS with an account: prices by query, the history of spot prices by zone, and which zones offer a machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from trainplan.pricing.grades import Market
from trainplan.pricing.money import to_micro
from trainplan.pricing.sources.reading import (
    Count,
    Offered,
    Parsed,
    PriceFound,
    PricePart,
    SourceError,
    UnreachableError,
    day_of,
    hours_in,
    in_turn,
    inside,
    is_name,
    items,
    json_object,
    usd,
)
from trainplan.pricing.tables import SpotHistory

QUERY_ID, HISTORY_ID = "aws-price-query", "aws-spot-history"
SOURCES = (
    (QUERY_ID, "listed", "AWS Price List Query API (AmazonEC2, Linux, shared tenancy)"),
    (HISTORY_ID, "observed", "EC2 DescribeSpotPriceHistory (Linux/UNIX), by zone, over seven days"),
)
# A run of hours meets the week before, not the moment in which its price is read (ADR 16).
HISTORY = timedelta(days=7)
QUERY_REGION = "us-east-1"
"""One of the three places that answer price queries."""
_FILTERS = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
    "tenancy": "Shared",
    "productFamily": "Compute Instance",
}
_SYSTEMS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


class AwsClients(NamedTuple):
    """`client(service, region)` makes a client of the vendor's library; `errors` are what its calls raise, of them
    `unreachable` where nobody answers."""

    client: Callable[[str, str], Any]
    errors: tuple[type[Exception], ...]
    unreachable: tuple[type[Exception], ...] = ()

    def error_of(self, what: str, error: Exception) -> SourceError:
        """The vendor's error as ours."""
        return (UnreachableError if isinstance(error, self.unreachable) else SourceError)(f"{what}: {error}")

    @classmethod
    def find(cls, endpoint_url: str | None = None) -> AwsClients | None:
        """The account of this computer's environment; None without the library or without credentials.

        `endpoint_url`: where to ask in the place of AWS.
        """
        try:
            import boto3
            import botocore.exceptions
            from botocore.config import Config
            from botocore.parsers import ResponseParserError
        except ImportError:
            return None
        session = boto3.Session()
        if session.get_credentials() is None:
            return None
        patient = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=20, read_timeout=60)

        def client(service: str, region: str) -> Any:
            return session.client(service, region_name=region, endpoint_url=endpoint_url, config=patient)

        errors = botocore.exceptions
        return cls(client, (errors.BotoCoreError, errors.ClientError, ResponseParserError), (errors.HTTPClientError,))


def read_prices(account: AwsClients, regions: Collection[str]) -> Iterator[PricePart]:
    """On-demand prices by query, a part for each region."""
    return in_turn(
        (
            PricePart(name=region, markets=frozenset({Market.ON_DEMAND}), regions=frozenset({region})),
            partial(_prices, account, region),
        )
        for region in sorted(regions)
    )


def read_history(account: AwsClients, regions: Collection[str], now: datetime) -> Iterator[PricePart]:
    """Spot prices of each zone with what they were in the week before `now`, a part for each region."""
    return in_turn(
        (
            PricePart(name=f"{region} spot", markets=frozenset({Market.SPOT}), regions=frozenset({region})),
            partial(_history, account, region, now),
        )
        for region in sorted(regions)
    )


def read_offered(account: AwsClients, regions: Collection[str], now: datetime) -> Offered:
    """Which zones offer which machine types. Regions that this account has not enabled are not in it."""
    zones: dict[tuple[str, str], tuple[str, ...]] = {}
    names: set[str] = set()
    for region in sorted(regions):
        try:
            pages = account.client("ec2", region).get_paginator("describe_instance_type_offerings")
            entries = parse_offered(pages.paginate(LocationType="availability-zone"))
        except account.errors as error:
            # A region that is not enabled refuses; where nobody answers, the next region would take as long.
            if isinstance(error, account.unreachable):
                break
            continue
        names.add(region)
        zones |= {(region, name): zone_names for name, zone_names in entries.items()}
    return Offered(frozenset(names), zones, now.date())


def parse_products(texts: Iterable[object], region: str) -> Parsed:
    """Prices out of the query's `PriceList`: a list of JSON texts, one product each."""
    parsed = Parsed()
    prices: dict[str, PriceFound] = {}
    for text in texts:
        outcome = _product(text, region)
        if isinstance(outcome, Count):
            parsed.skipped[outcome] += 1
            continue
        before = prices.setdefault(outcome.instance_type, outcome)
        if before.usd_per_hour != outcome.usd_per_hour:
            parsed.skipped[Count.TWO_PRICES] += 1
            prices[outcome.instance_type] = max(before, outcome, key=lambda one: one.usd_per_hour)
    parsed.prices = list(prices.values())
    return parsed


def parse_history(entries: Iterable[object], region: str, now: datetime) -> Parsed:
    """The current spot price of each zone, and its mean over time, lowest and highest in the week before `now`.

    The reply has no date of its own: the newest change in it is taken for that.
    """
    parsed = Parsed()
    changes: dict[tuple[str, str], list[tuple[datetime, Decimal]]] = {}
    for entry in entries:
        outcome = _change(entry, region, now)
        if isinstance(outcome, Count):
            parsed.skipped[outcome] += 1
        else:
            name, zone, since, price = outcome
            changes.setdefault((name, zone), []).append((since, price))
    newest = max((since.date() for prices in changes.values() for since, _ in prices), default=None)
    for (name, zone), prices in sorted(changes.items()):
        prices.sort()
        since, usd_per_hour = prices[-1]
        price_found = PriceFound(
            region, name, Market.SPOT, usd_per_hour, HISTORY_ID, (zone,), _week(prices, now),
            as_of=newest, since=since.date(),
        )  # fmt: skip
        parsed.prices.append(price_found)
    return parsed


def parse_offered(pages: Iterable[object]) -> dict[str, tuple[str, ...]]:
    """Zones by machine type."""
    zones: dict[str, set[str]] = {}
    for page in pages:
        for entry in items(inside(page, "InstanceTypeOfferings")):
            name, zone = entry.get("InstanceType"), entry.get("Location")
            if is_name(name) and is_name(zone):
                zones.setdefault(str(name), set()).add(str(zone))
    return {name: tuple(sorted(zone_names)) for name, zone_names in zones.items()}


def _prices(account: AwsClients, region: str) -> Parsed:
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in _FILTERS.items()]
    filters.append({"Type": "TERM_MATCH", "Field": "regionCode", "Value": region})
    try:
        pages = account.client("pricing", QUERY_REGION).get_paginator("get_products")
        answers = pages.paginate(ServiceCode="AmazonEC2", FormatVersion="aws_v1", Filters=filters)
        parsed = parse_products((text for page in answers for text in page.get("PriceList", ())), region)
    except account.errors as error:
        raise account.error_of("AWS Price List", error) from None
    if not parsed.prices:
        raise SourceError(f"the AWS Price List has no prices for {region}")
    return parsed


def _product(text: object, region: str) -> PriceFound | Count:
    try:
        product = json_object(str(text).encode("utf-8", "replace"), "a product")
    except SourceError:
        return Count.INCOMPLETE
    name, region_code = (inside(product, "product", "attributes", key) for key in ("instanceType", "regionCode"))
    if not is_name(name):
        return Count.INCOMPLETE
    if region_code != region:
        return Count.OTHER_PLACEMENT
    terms = inside(product, "terms", "OnDemand")
    dimensions = [dimension for term in _values(terms) for dimension in _values(inside(term, "priceDimensions"))]
    if len(dimensions) != 1:
        return Count.TIERS if dimensions else Count.NO_PRICE
    item = _dimension(dimensions[0], name, region)
    if isinstance(item, Count):
        return item
    since = max((day for term in _values(terms) if (day := day_of(inside(term, "effectiveDate")))), default=None)
    return item._replace(as_of=day_of(product.get("publicationDate")), since=since)


def _values(value: object) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _dimension(dimension: object, name: str, region: str) -> PriceFound | Count:
    hours, prices = hours_in(inside(dimension, "unit")), inside(dimension, "pricePerUnit")
    if hours is None:
        return Count.OTHER_UNIT
    if not isinstance(prices, dict) or "USD" not in prices:
        return Count.OTHER_CURRENCY if prices else Count.NO_PRICE
    price = usd(prices["USD"])
    return Count.NO_PRICE if price is None else PriceFound(region, name, Market.ON_DEMAND, price * hours, QUERY_ID)


def _history(account: AwsClients, region: str, now: datetime) -> Parsed:
    try:
        pages = account.client("ec2", region).get_paginator("describe_spot_price_history")
        answers = pages.paginate(StartTime=now - HISTORY, EndTime=now, ProductDescriptions=list(_SYSTEMS))
        return parse_history((entry for page in answers for entry in items(page.get("SpotPriceHistory"))), region, now)
    except account.errors as error:
        raise account.error_of("EC2 spot price history", error) from None


def _change(entry: object, region: str, now: datetime) -> tuple[str, str, datetime, Decimal] | Count:
    name, zone, since = (inside(entry, key) for key in ("InstanceType", "AvailabilityZone", "Timestamp"))
    if inside(entry, "ProductDescription") not in _SYSTEMS:
        return Count.OTHER_PRODUCT
    if not is_name(name) or not is_name(zone) or not isinstance(since, datetime) or since.tzinfo is None:
        return Count.INCOMPLETE
    if not zone.startswith(region):
        return Count.OTHER_PLACEMENT
    price = usd(inside(entry, "SpotPrice"))
    if price is None:
        return Count.NO_PRICE
    return Count.NOT_NOW if since > now else (name, zone, since, price)


def _week(prices: list[tuple[datetime, Decimal]], now: datetime) -> SpotHistory:
    """A price holds until the next one; what held when the week began counts from there."""
    begin = now - HISTORY
    ends = [*(since for since, _ in prices[1:]), now]
    weighed = [
        (price, max((end - max(since, begin)).total_seconds(), 0.0))
        for (since, price), end in zip(prices, ends, strict=True)
    ]
    lasting = [(price, Decimal(seconds)) for price, seconds in weighed if seconds > 0] or [(prices[-1][1], Decimal(1))]
    mean = sum((price * seconds for price, seconds in lasting), start=Decimal(0)) / sum(s for _, s in lasting)
    low, high = min(price for price, _ in lasting), max(price for price, _ in lasting)
    rounded = Decimal(to_micro(mean)) / 1_000_000
    return SpotHistory(min(max(rounded, low), high), low, high)
