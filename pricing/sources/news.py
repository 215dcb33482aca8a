"""Ask a vendor for everything that this computer may ask it: prices, spot, interruptions, and what is offered where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from importlib import import_module
from typing import TYPE_CHECKING, cast

from trainplan.pricing.grades import Market
from trainplan.pricing.merge import KnownPrices, News
from trainplan.pricing.sources import KEY_VARIABLES, READERS, aws, aws_account, azure, gcp, gcp_copy, offerings, tokens
from trainplan.pricing.sources.http import Http
from trainplan.pricing.sources.reading import Offered, PricePart, SourceError, UnreachableError

if TYPE_CHECKING:
    from trainplan.pricing.tables import InstanceType


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """Finds who asks, each only when it is needed; None: nobody."""

    aws: Callable[[], aws_account.AwsClients | None] = aws_account.AwsClients.find
    google: Callable[[Mapping[str, str]], offerings.BearerToken | None] = tokens.google_account
    azure: Callable[[Mapping[str, str]], offerings.BearerToken | None] = tokens.azure_account


def _ignore(done: int, of: int) -> None:
    """Show no progress."""
    del done, of


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How to ask: `regions` empty means all that are known; `say` hears what came of each kind of list, `progress` how
    many lists of how many of a kind have come.

    `environment` may name mirrors: PLAN_AWS_PRICES_URL, PLAN_AWS_SPOT_URL, PLAN_AWS_ADVISOR_URL, PLAN_GCP_PRICES_URL,
    PLAN_GCP_COPY_URL, PLAN_GCP_COPY_CHANGES_URL, PLAN_GCP_OFFERINGS_URL, PLAN_AZURE_PRICES_URL,
    PLAN_AZURE_OFFERINGS_URL.
    """

    http: Http
    environment: Mapping[str, str]
    now: datetime
    say: Callable[[str], None]
    progress: Callable[[int, int], None] = _ignore
    regions: frozenset[str] = frozenset()
    accounts: Accounts = Accounts()


def news_of(catalog_state: KnownPrices, asking: Asking) -> News:
    """What a provider says today. Raises SourceError where nothing can be asked at all."""
    module, _, name = READERS[catalog_state.provider].partition(":")
    return cast("News", getattr(import_module(module), name)(catalog_state, asking))


def read_aws(catalog_state: KnownPrices, asking: Asking) -> News:
    """AWS: the lists of its price pages and the Spot Advisor; with an account its own prices first, by zone on spot.

    Raises SourceError."""
    account, regions = asking.accounts.aws(), _regions(catalog_state, asking)
    today, url = asking.now.date(), asking.environment.get
    endpoints = aws.Endpoints(
        url("PLAN_AWS_PRICES_URL") or aws.Endpoints().on_demand,
        url("PLAN_AWS_SPOT_URL") or aws.Endpoints().spot,
        url("PLAN_AWS_ADVISOR_URL") or aws.Endpoints().advisor,
    )
    parts, left = list[PricePart](), regions
    if account is not None:
        parts += _parts_read(aws_account.read_prices(account, regions), asking, "on demand", len(regions))
        left = frozenset(name for part in parts if part.error for name in part.regions or ())
        parts = [part for part in parts if not part.error]
    if left:
        parts += _parts_read(_on_demand_of_aws(asking.http, endpoints, left, today), asking, "on demand", len(left))
    # The regions' prices come first: those of zones take their place.
    parts += _parts_read([aws.read_spot(asking.http, endpoints, regions, today)], asking, aws.SPOT_PART)
    if account is not None:
        history = aws_account.read_history(account, regions, asking.now)
        parts += _parts_read(history, asking, "spot by zone", len(regions))
    try:
        advice = aws.read_advisor(asking.http, endpoints)
        parts.append(_empty_part("Spot Advisor"))
    except SourceError as error:
        advice = None
        parts.append(_empty_part("Spot Advisor", error.message))
    offered = None if account is None else aws_account.read_offered(account, regions, asking.now)
    return News(parts=parts, advice=advice, offered=offered, on=today)


def _on_demand_of_aws(
    http: Http, endpoints: aws.Endpoints, regions: frozenset[str], today: date
) -> Iterable[PricePart]:
    """The on-demand prices of regions; without the names of the regions none, and the other lists are still read."""
    try:
        return aws.read_on_demand(http, endpoints, regions, today)
    except SourceError as error:
        part = PricePart(name="on demand", markets=frozenset({Market.ON_DEMAND}), regions=regions, error=error.message)
        return [replace(part, unreachable=isinstance(error, UnreachableError))]


def read_gcp(catalog_state: KnownPrices, asking: Asking) -> News:
    """Google: its catalog of SKUs; without a key and an account another project's copy of it. Raises SourceError."""
    endpoints = gcp.Endpoints(asking.environment.get("PLAN_GCP_PRICES_URL") or gcp.Endpoints().prices)
    key = next((asking.environment[name] for name in KEY_VARIABLES if asking.environment.get(name)), None)
    account = asking.accounts.google(asking.environment)
    types = [kind for (provider, _), kind in sorted(catalog_state.types.items()) if provider == catalog_state.provider]
    if key is None and account is None:
        return _copy_of_google(types, asking)
    headers = {"X-Goog-Api-Key": key} if key else {"Authorization": f"Bearer {account.token if account else ''}"}
    parts = _parts_read(gcp.read(asking.http, endpoints, headers, types, asking.regions), asking, "Billing Catalog")
    offered = None
    # Without a project there is no list of offerings that could be read.
    if account is not None and account.scope:
        offered_at = offerings.Endpoints()._replace(
            google=asking.environment.get("PLAN_GCP_OFFERINGS_URL") or offerings.Endpoints().google
        )
        offered = _offered(
            parts, lambda: offerings.read_google(asking.http, offered_at, account, types, asking.now.date())
        )
    return News(parts=parts, offered=offered, on=asking.now.date())


def _copy_of_google(types: Iterable[InstanceType], asking: Asking) -> News:
    endpoints = gcp_copy.Endpoints(
        asking.environment.get("PLAN_GCP_COPY_URL") or gcp_copy.Endpoints().copy,
        asking.environment.get("PLAN_GCP_COPY_CHANGES_URL") or gcp_copy.Endpoints().changes,
    )
    today = asking.now.date()
    part = gcp_copy.read(asking.http, endpoints, types, asking.regions, today)
    return News(parts=_parts_read([part], asking, gcp_copy.COPY_PART), on=today)


def read_azure(catalog_state: KnownPrices, asking: Asking) -> News:
    """Azure: its retail prices. Raises SourceError."""
    endpoints = azure.Endpoints(asking.environment.get("PLAN_AZURE_PRICES_URL") or azure.Endpoints().prices)
    regions = _regions(catalog_state, asking)
    names = frozenset(row.type.name for row in catalog_state.offers)
    lists = azure.read(asking.http, endpoints, names, regions, asking.now.date())
    parts = _parts_read(lists, asking, "machine types", len(names))
    account = asking.accounts.azure(asking.environment)
    offered = None
    if account is not None:
        offered_at = offerings.Endpoints()._replace(
            azure=asking.environment.get("PLAN_AZURE_OFFERINGS_URL") or offerings.Endpoints().azure
        )
        offered = _offered(
            parts, lambda: offerings.read_azure(asking.http, offered_at, account, regions, asking.now.date())
        )
    return News(parts=parts, offered=offered, on=asking.now.date())


def _regions(catalog_state: KnownPrices, asking: Asking) -> frozenset[str]:
    return asking.regions or frozenset(row.region for row in catalog_state.offers)


def _parts_read(parts: Iterable[PricePart], asking: Asking, kind: str, of: int = 1) -> list[PricePart]:
    """The parts of one kind, counted as they come and told in a line; those that fail for one reason in another."""
    answers: list[PricePart] = []
    for part in parts:
        answers.append(part)
        asking.progress(len(answers), of)
    read = [part for part in answers if not part.error]
    if read:
        lists = f"{len(read):,} lists, " if of > 1 else ""
        asking.say(f"{kind}: {lists}{sum(len(part.parsed.prices) for part in read):,} prices")
    for error in dict.fromkeys(part.error for part in answers if part.error):
        first, *others = (part.name for part in answers if part.error == error)
        asking.say(f"{first}{f' and {len(others):,} more' if others else ''}: {error}")
    return answers


def _empty_part(name: str, error: str = "") -> PricePart:
    """A part without prices of its own."""
    return PricePart(name=name, markets=frozenset[Market](), regions=frozenset(), error=error)


def _offered(parts: list[PricePart], ask: Callable[[], Offered]) -> Offered | None:
    try:
        offered = ask()
    except SourceError as error:
        parts.append(_empty_part("offerings", error.message))
        return None
    parts.append(_empty_part("offerings"))
    return offered
