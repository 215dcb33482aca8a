"""How the double behaves: how long things take, what it has and lets one have, what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.doubles.clock import NOON
from trainplan.providers.sim.scenario import Scenario

SUBSCRIPTION = "00000000-1111-2222-3333-444444444444"
PRINCIPAL = "99999999-0000-0000-0000-000000000001"
"""Of the machines' identity."""
PERSON = "99999999-0000-0000-0000-0000000000aa"
REGION_NAMES = {
    name.replace(" ", "").lower(): name
    for name in (
        "East US", "East US 2", "Central US", "North Central US", "South Central US", "West Central US", "West US",
        "West US 2", "West US 3", "Canada Central", "Canada East", "Brazil South", "Brazil Southeast", "Chile Central",
        "Mexico Central", "North Europe", "West Europe", "UK South", "UK West", "France Central", "France South",
        "Germany West Central", "Germany North", "Switzerland North", "Switzerland West", "Norway East", "Norway West",
        "Sweden Central", "Sweden South", "Poland Central", "Italy North", "Spain Central", "Austria East",
        "Israel Central", "Qatar Central", "UAE North", "UAE Central", "South Africa North", "South Africa West",
        "Central India", "South India", "West India", "Jio India Central", "Jio India West", "East Asia",
        "Southeast Asia", "Indonesia Central", "Malaysia West", "Japan East", "Japan West", "Korea Central",
        "Korea South", "Australia East", "Australia Southeast", "Australia Central", "Australia Central 2",
        "New Zealand North",
    )
}  # fmt: skip
"""Of every region in the price tables: by its name in paths, as Resource Manager's list of providers names it."""
REGIONS = tuple(REGION_NAMES)
SIZES = {
    **{
        f"Standard_D{cores}{series}": (family, cores)
        for series, family in (
            ("as_v5", "standardDASv5Family"),
            ("s_v3", "standardDSv3Family"),
            ("s_v5", "standardDSv5Family"),
            ("s_v6", "standardDSv6Family"),
        )
        for cores in (2, 4, 8)
    },
    "Standard_E8s_v5": ("standardESv5Family", 8),
    "Standard_F8s_v2": ("standardFSv2Family", 8),
    "Standard_NC4as_T4_v3": ("standardNCASv3_T4Family", 4),
    "Standard_NC8as_T4_v3": ("standardNCASv3_T4Family", 8),
    "Standard_NC24ads_A100_v4": ("StandardNCADSA100v4Family", 24),
    "Standard_NC40ads_H100_v5": ("StandardNCadsH100v5Family", 40),
    "Standard_NC6s_v3": ("standardNCSv3Family", 6),
    "Standard_NC6s_v2": ("standardNCSv2Family", 6),
    "Standard_NC6": ("standardNCFamily", 6),
    "Standard_NC6_Promo": ("standardNCPromoFamily", 6),
}
"""Family, and cores."""
GENERATIONS = {"Standard_NC6": "V1", "Standard_NC6_Promo": "V1"}
"""Of virtual hardware that a size has; all others have both."""
CONTROLLERS = {f"Standard_D{cores}s_v6": "NVMe" for cores in (2, 4, 8)}
"""Types of disk controllers (`DiskControllerTypes`) of sizes that say so; all others have SCSI and do not say so."""
UNTRUSTED = ("Standard_NC6", "Standard_NC6_Promo", "Standard_NC6s_v2", "Standard_NC6s_v3")
"""Sizes without trusted launch."""
FIRST_GENERATION = ("22_04-lts",)
"""Names (SKUs) of images of the first generation; all others are of the second."""
PHYSICS: dict[str, Any] = {
    "boot": (timedelta(seconds=10), timedelta(seconds=20)),
    "deletion": (timedelta(seconds=2), timedelta(seconds=4)),
    "reclaims_per_hour": 0.0,
    "standing_reaper": False,
    "cloud_timer_works": False,
    "stock": 1000,
    "quota": 1000,
    "listing_lag": timedelta(0),
}


NAMESPACES = (
    "Microsoft.Compute", "Microsoft.Network", "Microsoft.Storage", "Microsoft.ManagedIdentity",
    "Microsoft.ComputeSchedule",
)  # fmt: skip
FIRST_DAY: dict[str, Any] = {
    "set_up": False,
    "regions": REGIONS,
    "unregistered": NAMESPACES,
    "limits": {
        ("*", "cores"): 10,
        ("*", "lowPriorityCores"): 0,
        **{("*", family): 0 if family.lower().startswith("standardn") else 10 for family, _ in SIZES.values()},
    },
}
"""A new pay-as-you-go subscription: 10 cores in a region, none with accelerators, no resource provider registered
(Microsoft's page on limits and quotas; none for spot: assumed, the harder case)."""


STUDENTS = "AzureForStudents_2018-01-01"
ON_A_CREDIT = ("FreeTrial_", "AzureForStudents_")
"""How kinds of subscriptions begin that are refused spot (MicrosoftDocs/azure-docs issue 55435), the harder case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """`full` has (region, size, market), "*" for any, where there is no room; `refuses` says how that is told: at once
    ("sync", as spot is) or by the operation ("lro"). `limits` are cores by (region, name of a quota); else there are
    plenty. `stuck` groups stay for so long after their deletion was accepted. `forgets_delete_option` leaves disk
    and address of a machine that goes by itself. `role_holds_after` is how long a new right takes to count.
    """

    start: datetime = NOON
    real: bool = False
    """Machines are somebody else's to boot and to end, in the time that really passes."""
    machine_token: str = ""
    """Whoever shows it is a machine, and may do what its identity was granted, and no more."""
    listing_lag: timedelta = timedelta(seconds=5)
    network: timedelta = timedelta(seconds=2)
    deletion: timedelta = timedelta(seconds=6)
    stuck: timedelta = timedelta(0)
    role_holds_after: timedelta = timedelta(seconds=20)
    group_lag: timedelta = timedelta(0)
    """From the create of a group to when calls within it find it."""
    page_size: int = 2
    full: tuple[tuple[str, str, str], ...] = ()
    refuses: str = "lro"
    limits: dict[tuple[str, str], int] = field(default_factory=dict)
    forgets_delete_option: bool = False
    leaves_rights: bool = False
    machine_timer_works: bool = True
    cloud_timer_works: bool = True
    image_controllers: str = "SCSI, NVMe"
    """Disk controllers that images say they boot from, but those of the first generation, which say nothing."""
    timer_lag: timedelta = timedelta(0)
    """From when a machine is allocated to when ComputeSchedule knows it."""
    timer_error: str = ""
    """The code by which ComputeSchedule refuses every machine, "" where it takes them."""
    granted: tuple[dict[str, Any], ...] = ({"actions": ["*"], "notActions": []},)
    no_timers_in: tuple[str, ...] = ()
    """Regions without ComputeSchedule."""
    unregistered: tuple[str, ...] = ()
    """Resource providers that the subscription had not registered when the world began."""
    registration: timedelta = timedelta(seconds=90)
    """How long a resource provider is `Registering` once that was asked for, and is refused all the same."""
    regions: tuple[str, ...] = ("eastus", "westus3", "northeurope", "westeurope", "australiacentral")
    """That have machines."""
    allowed_regions: tuple[str, ...] = ()
    """The only ones in which a policy lets resources be created; empty where no policy limits them."""
    spot_scores: dict[str, str] = field(default_factory=dict)
    """Azure's word for how likely spot is allocated, by `region/size`; High where it is not named."""
    restricted: tuple[tuple[str, str], ...] = ()
    others: tuple[dict[str, Any], ...] = ()
    """What somebody else made in the subscription: rows as Azure lists them, with id, name, type and location."""
    state: str = "Enabled"
    quota_id: str = "PayAsYouGo_2014-09-01"
    """The kind of the subscription. On a free trial, and for students, spot is refused and a limit is on."""
    set_up: bool = True
    unknown: tuple[dict[str, Any], ...] = ()
    """What is not known right after its create (tests.doubles.azure.unknown.Unmet)."""
    faults: tuple[dict[str, Any], ...] = ()
    incidents: tuple[dict[str, Any], ...] = ()
    notice: timedelta = timedelta(seconds=15)
    throughput_factor: float = 1.0
    """How fast machines train, as a part of what was measured."""

    def physics(self) -> Scenario:
        """What the machines live by: the simulated cloud's, without its own timers."""
        return Scenario.model_validate(
            {
                **PHYSICS,
                "machine_timer_works": self.machine_timer_works,
                "notice": self.notice,
                "throughput_factor": self.throughput_factor,
                "incidents": list(self.incidents),
                "faults": list(self.faults),
            }
        )
