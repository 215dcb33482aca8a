"""How the provider `gcp` is put together: a bucket, what every rented launch needs, and the two ways to a machine."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from providers.data_files import finder
from providers.gcp import store
from providers.gcp.api import GoogleApi
from providers.gcp.machines import Machines
from providers.gcp.part import PROVIDER
from providers.gcp.provider import GcpProvider
from providers.gcp.standing import Home, Standing
from providers.gcp.tpu import provider as tpu
from providers.rented import Rented, mirrors_of
from providers.stores.settings import StoreSettings
from providers.stores.store import run_store
from providers.stores.unfinished import Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from providers.base import ProviderSettings, RunId
    from providers.gcp.account import Account
    from providers.stores.store import ObjectStore

STORE = "storage"
REGION = "us-central1"
"""Where run directories are unless the setting `region` says otherwise."""


def made(settings: ProviderSettings, account: Account) -> GcpProvider:
    """Nobody is asked anything. Where `endpoint` is set, machines are sent there too."""
    stores = stores_of(settings)
    rented = rented_of(settings, stores, endpoints_of(account.settings.machine_endpoint))
    if account.clock is not None:
        rented = replace(rented, now=account.clock.now)
    parts = (Machines(GoogleApi(account), account, rented), tpu.made(account, rented))
    return GcpProvider(account, parts, stores, settings.now, standing_of(settings, account))


def standing_of(settings: ProviderSettings, account: Account) -> Standing:
    """What set-up makes and the doctor looks at; the bucket's name is the project's, which is asked for when needed."""
    given = StoreSettings.of(settings, PROVIDER)

    def home() -> Home:
        return Home(
            name=store.bucket_name(given, account.project),
            location=store.location_of(given),
            ours=given.bucket is None,
            settings=store.bucket_settings(given.keep_days),
        )

    return Standing(account, home)


def stores_of(settings: ProviderSettings) -> Callable[[RunId], ObjectStore]:
    """Run directories in one bucket, which is opened with the first of them."""
    bucket = cache(lambda: store.make(settings))
    unfinished = Unfinished(settings.home / "uploads")
    return cache(lambda run_id: run_store(bucket(), run_id, unfinished=unfinished))


def rented_of(
    settings: ProviderSettings, stores: Callable[[RunId], ObjectStore], endpoints: Mapping[str, str]
) -> Rented:
    return Rented(
        cloud=PROVIDER,
        service=STORE,
        store=stores,
        region=lambda: settings.options.get("region") or REGION,
        now=settings.now,
        mirrors=mirrors_of(settings),
        endpoints=endpoints,
        files=finder(PROVIDER, settings),
    )


def endpoints_of(endpoint: str | None) -> Mapping[str, str]:
    """What a machine asks in Google's place (providers.bootstrap.Boot)."""
    if endpoint is None:
        return {}
    return {name: endpoint.rstrip("/") for name in ("gcs", "compute", "tpu")}
