"""What a person sets for AWS, and the names of what stands in an account between runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.providers.cloud.launch import known_options
from trainplan.providers.cloud.regions import regions_of
from trainplan.providers.stores.regions import DEFAULT_REGIONS
from trainplan.providers.stores.settings import StoreSettings, text_option

if TYPE_CHECKING:
    from trainplan.providers.base import ProviderSettings

PROVIDER = "aws"
FALLBACK_REGION = DEFAULT_REGIONS[PROVIDER]
OPTIONS = ("region", "bucket", "keep_days", "image", "instance_profile", "mirrors", "endpoint", "machine_endpoint")

INSTANCE_PROFILE = "trainplan-machine"
"""The instance profile, and the role in it, that machines have."""
SCHEDULE_ROLE = "trainplan-schedule"
"""The role with which a one-time schedule ends a machine."""
SCHEDULE_GROUP = "trainplan"
"""The group of schedules, in each region where there is or was one."""
REAPER = "trainplan-reaper"
"""The standing reaper: its function, its role, and its schedule in the group of the home region."""
ALARM_ROLE = "trainplan-alarm"
"""The role with which AWS Budgets tells the reaper to end what runs."""
STOP_POLICY = "trainplan-stop"
"""While it is attached to the reaper's role, the reaper ends everything of ours."""
REAPER_LOG = f"/aws/lambda/{REAPER}"
"""The log group of its function, by the name that Lambda gives it."""
SECURITY_GROUP = "trainplan"
"""The security group without ingress, one in each region's default network."""

_IMAGE = re.compile(r"ami-[0-9a-f]{8,17}|[A-Za-z0-9()\[\] ./'@_*?-]{3,128}")
_PROFILE = re.compile(r"[A-Za-z0-9+=,.@_-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSettings:
    """`region` is where run directories and what stands in the account are (the home region), None: as the SDK's own
    configuration says. `image` is an AMI of the person's own, by id or by name, "" for the documented ones.
    `regions` are those in which machines may be rented, none: any that is open.
    `endpoint` is where something answers that speaks like all of AWS, None for AWS; `machine_endpoint` is where
    machines find its S3, where that is another address. `home` is the state folder, where refreshed prices are, None
    for the shipped ones.
    """

    region: str | None = None
    image: str = ""
    instance_profile: str = INSTANCE_PROFILE
    endpoint: str | None = None
    machine_endpoint: str | None = None
    regions: frozenset[str] = frozenset()
    home: Path | None = None

    @classmethod
    def of(cls, settings: ProviderSettings) -> AwsSettings:
        """Out of a provider's options. Raises BadRequestError naming the one that is wrong."""
        options = known_options(settings, PROVIDER, OPTIONS)
        store = StoreSettings.of(settings, PROVIDER)
        return cls(
            region=store.region,
            image=text_option(PROVIDER, options, "image", _IMAGE, "ami-… or the name of an image of yours"),
            instance_profile=text_option(
                PROVIDER, options, "instance_profile", _PROFILE, "the name of an instance profile"
            )
            or INSTANCE_PROFILE,
            endpoint=store.endpoint,
            machine_endpoint=options.get("machine_endpoint") or store.endpoint,
            regions=regions_of(options, PROVIDER),
            home=settings.home,
        )
