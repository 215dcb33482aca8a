"""What a person sets for Google Cloud."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.providers.cloud.launch import known_options
from trainplan.providers.cloud.regions import regions_of
from trainplan.providers.stores.settings import StoreSettings, text_option

if TYPE_CHECKING:
    from trainplan.providers.base import ProviderSettings
from datetime import timedelta

PROVIDER = "gcp"


TOKEN_MEMORY = timedelta(minutes=60)
"""How long Google is taken to remember a requestId. Compute Engine's and Cloud TPU's references state no time; where
other references of Google's do, it is at least 60 minutes since the first request (https://google.aip.dev/155)."""


OPTIONS = (
    "project",
    "region",
    "bucket",
    "keep_days",
    "network",
    "subnetwork",
    "service_account",
    "mirrors",
    "endpoint",
    "machine_endpoint",
    "billing_export",
)
MACHINE_ACCOUNT = "trainplan-machine"
"""The service account that machines have, in the project, where the person names none: `plan setup gcp` makes it."""
NETWORK = "trainplan"
"""The network of machines where the person names none: `plan setup gcp` makes it. A project's `default` lets SSH in."""
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_TABLE = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]\.[A-Za-z0-9_]{1,1024}\.[A-Za-z0-9_]{1,1024}")
_EMAIL = re.compile(r"[a-z0-9][a-z0-9.-]*@[a-z0-9.-]+\.gserviceaccount\.com")


@dataclass(frozen=True, slots=True, kw_only=True)
class GcpSettings:
    """`project` None is that of the sign-in. `subnetwork` "": the one that the network has in each region (of the Cloud
    TPU API: the one with the network's name).

    `service_account` "": `trainplan-machine` of the project. `regions` are those in which machines may be rented, none:
    any. `endpoint`: where something answers that speaks like all
    of Google (a test double), None for Google; `machine_endpoint` is where machines find it, None for the same.
    `home` is the state folder, where refreshed prices are, None for the shipped ones. `billing_export` is the table
    PROJECT.DATASET.TABLE that the billing account is exported to, "" for none.
    """

    project: str | None = None
    network: str = NETWORK
    subnetwork: str = ""
    service_account: str = ""
    regions: frozenset[str] = frozenset()
    endpoint: str | None = None
    machine_endpoint: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    home: Path | None = None
    billing_export: str = ""

    @classmethod
    def of(cls, settings: ProviderSettings) -> GcpSettings:
        """Out of a provider's options. Raises BadRequestError naming the one that is wrong."""
        options = known_options(settings, PROVIDER, OPTIONS)
        store = StoreSettings.of(settings, PROVIDER)
        return cls(
            project=store.project or settings.environment.get("GOOGLE_CLOUD_PROJECT") or None,
            network=text_option(PROVIDER, options, "network", _NAME, "the name of a network") or NETWORK,
            subnetwork=text_option(PROVIDER, options, "subnetwork", _NAME, "the name of a subnetwork"),
            service_account=text_option(
                PROVIDER, options, "service_account", _EMAIL, "NAME@PROJECT.iam.gserviceaccount.com"
            ),
            regions=regions_of(options, PROVIDER),
            endpoint=store.endpoint,
            machine_endpoint=options.get("machine_endpoint") or store.endpoint,
            environment=settings.environment,
            home=settings.home,
            billing_export=text_option(PROVIDER, options, "billing_export", _TABLE, "PROJECT.DATASET.TABLE"),
        )
