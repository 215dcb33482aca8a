"""Ask a vendor for everything that this computer may ask it: prices, spot, interruptions, and what is offered where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from itertools import groupby
from typing import cast

from trainplan.pricing.grades import Market
from trainplan.pricing.merge import KnownPrices, News
from trainplan.pricing.sources import KEY_VARIABLES, READERS, aws, aws_account, azure, gcp, offerings, tokens
from trainplan.pricing.sources.http import Http
from trainplan.pricing.sources.reading import Offered, PricePart, SourceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """Finds who asks, each only when it is needed; None: nobody."""

    aws: Callable[[], aws_account.AwsClients | None] = aws_account.AwsClients.find
    google: Callable[[Mapping[str, str]], offerings.BearerToken | None] = tokens.google_account
    azure: Callable[[Mapping[str, str]], offerings.BearerToken | None] = tokens.azure_account


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How to ask: `regions` empty means all that are known; `say` hears of each step as it comes.

    `environment` may name mirrors: PLAN_AWS_PRICES_URL, PLAN_AWS_ADVISOR_URL, PLAN_GCP_PRICES_URL,
    PLAN_GCP_OFFERINGS_URL, PLAN_AZURE_PRICES_URL, PLAN_AZURE_OFFERINGS_URL.
    """

    http: Http
    environment: Mapping[str, str]
    now: datetime
    say: Callable[[str], None]
    regions: frozenset[str] = frozenset()
    accounts: Accounts = Accounts()


def news_of(catalog_state: KnownPrices, asking: Asking) -> News:
    """What a provider says today. Raises SourceError where nothing can be asked at all."""
    module, _, name = READERS[catalog_state.provider].partition(":")
    return cast("News", getattr(import_module(module), name)(catalog_state, asking))


def read_aws(catalog_state: KnownPrices, asking: Asking) -> News:
    """AWS: the list of each region or the account's own prices, and the Spot Advisor. Raises SourceError."""
    account, regions = asking.accounts.aws(), _regions(catalog_state, asking)
    parts: list[PricePart] = []
    endpoints = aws.Endpoints(
        asking.environment.get("PLAN_AWS_PRICES_URL") or aws.Endpoints().prices,
        asking.environment.get("PLAN_AWS_ADVISOR_URL") or aws.Endpoints().advisor,
    )
    if account is None:
        asking.say("no AWS account is known here: the list of each region is read whole, hundreds of MB each")
        parts += _parts_read(aws.read(asking.http, endpoints, asking.regions or None), asking)
    else:
        parts += _parts_read(aws_account.read_prices(account, regions), asking)
        parts += _parts_read(aws_account.read_history(account, regions, asking.now), asking)
    try:
        advice = aws.read_advisor(asking.http, endpoints)
        parts.append(_empty_part("Spot Advisor"))
    except SourceError as error:
        advice = None
        parts.append(_empty_part("Spot Advisor", error.message))
    offered = None if account is None else aws_account.read_offered(account, regions, asking.now)
    return News(parts=parts, advice=advice, offered=offered, on=asking.now.date())


def read_gcp(catalog_state: KnownPrices, asking: Asking) -> News:
    """Google: its catalog of SKUs. Raises SourceError where there is neither a key nor an account."""
    endpoints = gcp.Endpoints(asking.environment.get("PLAN_GCP_PRICES_URL") or gcp.Endpoints().prices)
    key = next((asking.environment[name] for name in KEY_VARIABLES if asking.environment.get(name)), None)
    account = asking.accounts.google(asking.environment)
    if key is None and account is None:
        raise SourceError(
            "Google tells its prices only to somebody it knows",
            "set PLAN_GCP_API_KEY to an API key (a free one will do), or run gcloud auth application-default login",
        )
    headers = {"X-Goog-Api-Key": key} if key else {"Authorization": f"Bearer {account.token if account else ''}"}
    types = [kind for (provider, _), kind in sorted(catalog_state.types.items()) if provider == catalog_state.provider]
    parts = _parts_read(gcp.read(asking.http, endpoints, headers, types, asking.regions), asking)
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


def read_azure(catalog_state: KnownPrices, asking: Asking) -> News:
    """Azure: its retail prices. Raises SourceError."""
    endpoints = azure.Endpoints(asking.environment.get("PLAN_AZURE_PRICES_URL") or azure.Endpoints().prices)
    regions = _regions(catalog_state, asking)
    parts = _parts_read(azure.read(asking.http, endpoints, regions, asking.now.date()), asking)
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


def _parts_read(parts: Iterable[PricePart], asking: Asking) -> list[PricePart]:
    """The parts, each told as it comes; those in a row that fail for one reason are told as one."""
    answers: list[PricePart] = []
    for error, group in groupby(parts, key=lambda part: part.error):
        if error:
            same = list(group)
            others = f" and {len(same) - 1:,} more" if len(same) > 1 else ""
            asking.say(f"{same[0].name}{others}: {error}")
            answers += same
            continue
        for part in group:
            asking.say(f"{part.name}: {len(part.parsed.prices):,} prices")
            answers.append(part)
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
