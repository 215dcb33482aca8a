"""What a person sets for Azure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.pricing.sources.azure import Endpoints
from trainplan.providers.azure.names import PROVIDER, STANDING_GROUP, account_of
from trainplan.providers.cloud.launch import known_options
from trainplan.providers.cloud.regions import regions_of
from trainplan.providers.errors import BadRequestError
from trainplan.providers.stores.settings import StoreSettings, text_option

if TYPE_CHECKING:
    from trainplan.providers.base import ProviderSettings

OPTIONS = (
    "subscription",
    "region",
    "account",
    "bucket",
    "keep_days",
    "group",
    "cloud_timer",
    "image",
    "mirrors",
    "endpoint",
    "arm_endpoint",
    "authority",
    "machine_endpoints",
)
ARM = "https://management.azure.com"
_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_GROUP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.()-]{0,88}")
_URL = re.compile(r"https://[^\s/]+")
_IMAGE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+:[\w.-]+|/subscriptions/\S+")
_TIMER = re.compile(r"deallocate|none")


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureSettings:
    """`subscription` None: the only one that the sign-in may use. `region` is where `plan setup` puts what stands.

    `regions` are those in which machines may be rented, empty for any. `group` has what stands. `cloud_timer` False: no
    scheduled deallocate. `image` is a machine image of the person's own. `arm_endpoint` and `authority` are Azure's own
    but for a test double; `machine_endpoints` are addresses that machines use instead of Azure's.
    `home` is the state folder, where refreshed prices are, None for the shipped ones.
    """

    subscription: str | None = None
    region: str | None = None
    regions: frozenset[str] = frozenset()
    group: str = STANDING_GROUP
    cloud_timer: bool = True
    image: str = ""
    keep_days: int = 90
    arm_endpoint: str = ARM
    authority: str | None = None
    machine_endpoints: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    home: Path | None = None

    @property
    def price_list(self) -> str:
        """Where prices are listed; "" for somewhere else than Azure where nobody has named one."""
        own = Endpoints().prices if self.arm_endpoint == ARM else ""
        return self.environment.get("PLAN_AZURE_PRICES_URL") or own

    @classmethod
    def of(cls, settings: ProviderSettings) -> AzureSettings:
        """Out of a provider's options and environment. Raises BadRequestError naming the one that is wrong."""
        options = known_options(settings, PROVIDER, OPTIONS)
        store = StoreSettings.of(settings, PROVIDER)
        return cls(
            subscription=subscription_of(settings),
            region=store.region,
            regions=regions_of(options, PROVIDER),
            group=text_option(PROVIDER, options, "group", _GROUP, "the name of a resource group") or STANDING_GROUP,
            cloud_timer=text_option(PROVIDER, options, "cloud_timer", _TIMER, "deallocate or none") != "none",
            image=text_option(PROVIDER, options, "image", _IMAGE, "publisher:offer:sku:version, or the id of an image"),
            keep_days=store.keep_days,
            arm_endpoint=text_option(PROVIDER, options, "arm_endpoint", _URL, "https:// and a host") or ARM,
            authority=text_option(PROVIDER, options, "authority", _URL, "https:// and a host") or None,
            machine_endpoints=_endpoints(options.get("machine_endpoints", "")),
            environment=settings.environment,
            home=settings.home,
        )


def subscription_of(settings: ProviderSettings) -> str | None:
    """The id of the subscription that is named. Raises BadRequestError for what is none."""
    value = settings.options.get("subscription") or settings.environment.get("AZURE_SUBSCRIPTION_ID") or None
    if value is not None and not _GUID.fullmatch(value):
        raise BadRequestError(
            f"{PROVIDER}: subscription {value!r} is no id of one", hint="az account list shows ids of 36 characters"
        )
    return value


def with_account(settings: ProviderSettings, subscription: str) -> ProviderSettings:
    """The same settings, naming the storage account that set-up makes where the person names none."""
    if settings.options.get("account") or settings.environment.get("AZURE_STORAGE_ACCOUNT"):
        return settings
    return replace(settings, options={**settings.options, "account": account_of(subscription)})


def _endpoints(text: str) -> dict[str, str]:
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    if any(not name or not url for name, _, url in pairs):
        raise BadRequestError(
            f"{PROVIDER}: machine_endpoints = {text!r} is not a list of addresses",
            hint="write it as name=address,name=address",
        )
    return {name: url for name, _, url in pairs}
