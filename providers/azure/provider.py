"""The seam over Azure: a resource group for each attempt, and in it one machine that deletes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from trainplan.pricing.current import offers_of
from trainplan.providers.azure import listing
from trainplan.providers.azure.account import AzureAccount
from trainplan.providers.azure.alarm import AzureAlarm
from trainplan.providers.azure.api import ArmClient, Call, recorded
from trainplan.providers.azure.deadline import end_of, timer_of
from trainplan.providers.azure.invoice import AzureInvoice
from trainplan.providers.azure.launch import VIEW, Launcher, Pace
from trainplan.providers.azure.names import ACTIVITY, API, PROVIDER, attempt_of, group_of, machine_path
from trainplan.providers.azure.obtainability import PlacementScores
from trainplan.providers.azure.preflight import checks
from trainplan.providers.azure.quotas import closed, doubts, shortfalls
from trainplan.providers.azure.reply import deleted_at, instance, ref_of, was_made
from trainplan.providers.azure.request import MachineSetup, launch_calls
from trainplan.providers.azure.resolution import AzureResolution, resolve
from trainplan.providers.azure.settings import AzureSettings, with_account
from trainplan.providers.base import (
    Check,
    Instance,
    InstanceRef,
    LaunchRequest,
    OwnedResource,
    Preflight,
    ProviderSettings,
    RunId,
    RunStore,
    Timers,
    VendorRequest,
)
from trainplan.providers.cloud.data_files import finder
from trainplan.providers.cloud.launch import Rented, mirrors_of, resolution_of
from trainplan.providers.cloud.server_time import ServerClock
from trainplan.providers.errors import InstanceNotFoundError

if TYPE_CHECKING:
    from trainplan.pricing.obtainability import MachinePlacement, Obtainability
    from trainplan.pricing.offers import Offer, OfferQuery
    from trainplan.providers.abilities import SetupStep
    from trainplan.providers.azure.setup import AzureSetUp
    from trainplan.providers.cloud.alarm import Alarm
    from trainplan.providers.cloud.invoice import Invoice
    from trainplan.providers.stores.store import ObjectStore

LISTING_LAG = timedelta(seconds=30)
"""Resource Manager's lists are replicated; nobody publishes a bound (assumed)."""
ATTACHED_OUTLAST = timedelta(minutes=10)
"""From the end of a machine to that of its disk and address: a group is deleted in minutes (assumed)."""
TOKEN_MEMORY = timedelta(hours=1)
"""Azure has no tokens: a PUT of what is gone makes it anew at once, so that `launch` looks first whether the machine is
there, or has left word in the run directory. After an hour (ours to choose) nothing that was recorded is sent."""
ACTIVITY_IS_KEPT = timedelta(days=89)
"""Azure keeps its activity log for 90 days, and refuses to be asked for more
(https://learn.microsoft.com/azure/azure-monitor/platform/activity-log)."""
ACTIVITY_LAG = timedelta(hours=1)
"""After which what was done is in the activity log: 3 to 20 minutes, says its page."""
_LOG_LINES = 1000


def make(settings: ProviderSettings) -> AzureProvider:
    """Azure with these settings (docs/clouds/azure.md); nobody is asked anything before the first call.

    Raises BadRequestError for an option that is wrong.
    """
    azure_settings = AzureSettings.of(settings)
    clock = ServerClock(settings.now)
    arm = ArmClient(azure_settings, clock=clock)
    account = AzureAccount(azure_settings, arm)
    rented = Rented(
        cloud=PROVIDER,
        service="blob",
        store=cache(lambda run_id: _store(settings, account, run_id)),
        region=lambda: azure_settings.region or "",
        now=clock.now,
        mirrors=mirrors_of(settings),
        endpoints=azure_settings.machine_endpoints,
        own_image=azure_settings.image,
        files=finder(PROVIDER, settings),
    )
    name = settings.options.get("account") or settings.environment.get("AZURE_STORAGE_ACCOUNT", "")
    return AzureProvider(
        account=account,
        rented=rented,
        now=settings.now,
        storage=name,
        container=settings.options.get("bucket", ""),
        clock=clock,
    )


def _store(settings: ProviderSettings, account: AzureAccount, run_id: RunId) -> ObjectStore:
    from trainplan.providers.stores.registry import run_directory

    return run_directory(PROVIDER, with_account(settings, account.subscription), run_id)


def new_public_key() -> str:
    """An RSA public key whose private half is forgotten at once."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=3072).public_key()
    form = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{key.public_bytes(*form).decode()} nobody"


@dataclass(frozen=True)
class AzureProvider:
    """`account` asks Azure, `rented` is all of a launch but Azure's part; `pace` is how long is waited for what.

    `storage` and `container` are the storage account and the container that the person names, "" for our own.
    """

    account: AzureAccount
    rented: Rented
    now: Callable[[], datetime]
    pace: Pace = field(default_factory=Pace)
    public_key: Callable[[], str] = new_public_key
    storage: str = ""
    container: str = ""
    clock: ServerClock | None = None

    @property
    def name(self) -> str:
        return PROVIDER

    @property
    def listing_lag(self) -> timedelta:
        return LISTING_LAG

    @property
    def token_memory(self) -> timedelta:
        return TOKEN_MEMORY

    def server_time_offset(self) -> timedelta | None:
        """Return the offset by the `Date` header of the newest reply (trainplan.providers.abilities.ServerTime)."""
        return self.clock.offset if self.clock else None

    def offers(self, query: OfferQuery) -> Sequence[Offer]:
        return offers_of(PROVIDER, query, self.account.settings.home, self.now().date())

    def refine(self, offers: Sequence[Offer]) -> Sequence[Offer]:
        """Spot at its price of today (trainplan.providers.abilities.Refiner)."""
        from trainplan.providers.azure.prices import Live

        return Live(self.account, self.now).refined(offers)

    def obtainability(self, offers: Sequence[Offer]) -> Mapping[MachinePlacement, Obtainability]:
        """Return obtainability by spot placement scores (trainplan.providers.abilities.ObtainabilityTeller)."""
        return PlacementScores(self.account, self.now).of(offers)

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        """Return shortfalls by the subscription's own quotas (trainplan.providers.abilities.QuotaTeller)."""
        return shortfalls(self.account, offers)

    def doubts(self, offers: Sequence[Offer]) -> Sequence[str]:
        """Spot on a subscription that may not get it (trainplan.providers.abilities.DoubtTeller)."""
        return doubts(self.account, offers)

    def closed_regions(self, regions: Sequence[str]) -> Mapping[str, str]:
        """Return regions that the subscription's policies deny (trainplan.providers.abilities.RegionTeller)."""
        return closed(self.account, regions)

    def preflight(self, offer: Offer) -> Preflight:
        return Preflight(checks=tuple(checks(self.account, offer)))

    def doctor(self) -> Sequence[Check]:
        """Looks at the account (trainplan.providers.abilities.Doctor)."""
        from trainplan.providers.azure.doctor import examine

        return examine(self.account, self.rented, self._set_up().machines_may_write, self.alarm)

    def lacking(self) -> Sequence[SetupStep]:
        """What launches need and the account lacks (trainplan.providers.abilities.SetUp)."""
        return self._set_up().lacking()

    def removable(self) -> Sequence[SetupStep]:
        return self._set_up().removable()

    def alarm(self) -> Alarm | None:
        """The monthly alarm (trainplan.providers.cloud.alarm.Alarms)."""
        return AzureAlarm(self.account, self.now).found()

    def alarm_steps(self, wanted: Alarm | None) -> Sequence[SetupStep]:
        return AzureAlarm(self.account, self.now).steps(wanted)

    def asking_costs(self) -> str:
        return ""

    def invoice(self, begin: date, end: date) -> Invoice:
        """What was billed (trainplan.providers.cloud.invoice.Invoices)."""
        return AzureInvoice(self.account).told(begin, end, self.now())

    def carry_out(self, step: SetupStep, report: Callable[[str], None]) -> None:
        self._set_up().carry_out(step, report)

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        """Looks up image, identity and what may be granted (trainplan.providers.abilities.Resolver)."""
        request = self.rented.with_data(request)
        resolution = resolve(
            request,
            self.rented,
            self.account,
            check_right=self._set_up().check_machines_right,
            public_key=self.public_key,
        )
        return replace(request, resolution=resolution)

    def resolution_type(self, offer: Offer) -> type[AzureResolution]:
        del offer
        return AzureResolution

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        resolution = resolution_of(request, AzureResolution)
        part = self.rented.machine(request, end_of(request), resolution.identity)
        least = self.rented.launchable(request).host.least_disk_gib
        machine = MachineSetup(user_data=part.user_data, least_disk_gib=least)
        calls = launch_calls(request, machine, cloud_timer=self.account.settings.cloud_timer)
        return [*self.rented.puts(part), *map(recorded, calls)]

    def timers(self, request: LaunchRequest) -> Timers:
        """The machine deletes its group; Azure deallocates it where it does not."""
        if not self.account.settings.cloud_timer:
            return Timers(machine=request.deadline, cloud=None)
        return Timers(
            machine=request.deadline,
            cloud=timer_of(request),
            gap="from the create until Azure has allocated the machine and taken the schedule of its end",
        )

    def launch(self, request: LaunchRequest) -> Instance:
        calls = request.calls or self.requests(request if request.resolution else self.resolve(request))
        launcher = Launcher(self.account, self.rented, self.now, self.pace)
        return launcher.launch(request, group_of(request.run_id, request.attempt), calls)

    def get(self, ref: InstanceRef) -> Instance:
        return instance(self.account.get(self._path(ref), "compute", **VIEW), self.now())

    def deleted_at(self, ref: InstanceRef) -> datetime | None:
        """By the activity log (trainplan.providers.abilities.DeletionTeller)."""
        return deleted_at(self._activity(ref))

    def was_made(self, run_id: RunId, attempt: int, region: str, asked_at: datetime) -> bool | None:
        """By the activity log (trainplan.providers.abilities.CreationTeller)."""
        age = self._activity_now() - asked_at
        if not ACTIVITY_LAG < age < ACTIVITY_IS_KEPT:
            return None
        return was_made(self._activity(ref_of(group_of(run_id, attempt), region)))

    def _activity_now(self) -> datetime:
        return self.clock.now() if self.clock else self.now()

    def _activity(self, ref: InstanceRef) -> Iterable[Mapping[str, Any]]:
        """What the activity log has of a machine."""
        now = self._activity_now()
        path, begin = self._path(ref), now - ACTIVITY_IS_KEPT
        # Azure takes this form alone (Azure/azure-rest-api-specs, activityLogs_API.json of 2015-04-01).
        wanted = (
            f"eventTimestamp ge '{begin:%Y-%m-%dT%H:%M:%SZ}' and eventTimestamp le '{now:%Y-%m-%dT%H:%M:%SZ}' "
            f"and resourceUri eq '{path}'"
        )
        return self.account.pages(f"{self.account.home}/{ACTIVITY}", "activity", **{"$filter": wanted})

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        return listing.list_owned(self.account, run_id)

    def attached_outlast(self, ref: InstanceRef) -> timedelta:
        """Disk, interface and address are made with `deleteOption: Delete`, and go with their machine or its group
        (trainplan.providers.abilities.AttachedDeleter)."""
        del ref
        return ATTACHED_OUTLAST

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        listing.delete(self.account, ref)

    def stop(self, ref: InstanceRef) -> None:
        whose = attempt_of(ref.id)
        if whose is not None:
            self.rented.ask_to_stop(RunId(whose[0]))

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        """The serial console, as boot diagnostics keep it; nothing where there is none."""
        path = f"{self._path(ref)}/retrieveBootDiagnosticsData"
        try:
            reply = self.account.ask(Call(method="POST", path=path, api=API["compute"])).body
        except InstanceNotFoundError:
            return
        url = (reply or {}).get("serialConsoleLogBlobUri")
        if url:
            text = self.account.arm.fetch(url).decode(errors="replace")
            yield from text.splitlines()[-_LOG_LINES:]

    def store(self, run_id: RunId) -> RunStore:
        return self.rented.store(run_id)

    def _set_up(self) -> AzureSetUp:
        from trainplan.providers.azure.setup import AzureSetUp

        return AzureSetUp(self.account, self.rented, self.now, self.pace, self.storage, self.container)

    def _path(self, ref: InstanceRef) -> str:
        if attempt_of(ref.id) is None:
            raise InstanceNotFoundError(f"{ref.id!r} is nothing that this program makes at Azure")
        return machine_path(self.account.subscription, ref.id)
