"""The seam over Google Cloud: one provider, two ways to a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from trainplan.pricing.current import offers_of
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
from trainplan.providers.cloud.launch import Rented, mirrors_of
from trainplan.providers.cloud.listing import ListedResources, whole
from trainplan.providers.cloud.server_time import ServerClock
from trainplan.providers.errors import BadRequestError, IncompleteListingError, InstanceNotFoundError
from trainplan.providers.gcp import quotas, store
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.alarm import GoogleAlarm
from trainplan.providers.gcp.api import GoogleApi
from trainplan.providers.gcp.compute import Machines
from trainplan.providers.gcp.doctor import custom_role, examine
from trainplan.providers.gcp.invoice import GoogleInvoice
from trainplan.providers.gcp.listing import LISTS
from trainplan.providers.gcp.obtainability import CapacityAdvice
from trainplan.providers.gcp.part import GcpPart
from trainplan.providers.gcp.preflight import checks
from trainplan.providers.gcp.reply import parts_of
from trainplan.providers.gcp.settings import PROVIDER, GcpSettings
from trainplan.providers.gcp.setup import GcpSetUp
from trainplan.providers.gcp.setup_steps import Home, StandingResources
from trainplan.providers.gcp.tpu import provider as tpu
from trainplan.providers.stores.pending_uploads import Unfinished
from trainplan.providers.stores.settings import StoreSettings
from trainplan.providers.stores.store import ObjectStore, run_store

if TYPE_CHECKING:
    from trainplan.pricing.obtainability import MachinePlacement, Obtainability
    from trainplan.pricing.offers import Offer, OfferQuery
    from trainplan.providers.abilities import SetupStep
    from trainplan.providers.cloud.alarm import Alarm
    from trainplan.providers.cloud.invoice import Invoice
    from trainplan.providers.gcp.request import GoogleResolution


STORE = "storage"
ATTACHED_OUTLAST = timedelta(minutes=1)
"""From the end of the operation that deletes a machine to that of its disk (assumed)."""
REGION = "us-central1"
"""Where run directories are unless the setting `region` says otherwise."""


def make(settings: ProviderSettings) -> GcpProvider:
    """Google Cloud with these settings (docs/clouds/gcp.md); nobody is asked anything before the first call.

    Raises BadRequestError for an option that is wrong.
    """
    return make_provider(settings, GcpAccount(GcpSettings.of(settings), ServerClock(settings.now)))


@dataclass(frozen=True)
class GcpProvider:
    """`parts` are asked in order which of them an offer or an id belongs to; `account` is whose they all are."""

    account: GcpAccount
    parts: Sequence[GcpPart]
    stores: Callable[[RunId], RunStore]
    now: Callable[[], datetime]
    standing_resources: StandingResources | None = None
    """What set-up makes and the doctor looks at; without it there are neither."""

    @property
    def name(self) -> str:
        return PROVIDER

    @property
    def listing_lag(self) -> timedelta:
        return max(part.listing_lag for part in self.parts)

    @property
    def token_memory(self) -> timedelta:
        return min(part.token_memory for part in self.parts)

    def server_time_offset(self) -> timedelta | None:
        """Return the offset by the `Date` header of the newest reply (trainplan.providers.abilities.ServerTime)."""
        return self.account.clock.offset if self.account.clock else None

    def offers(self, query: OfferQuery) -> Sequence[Offer]:
        return offers_of(PROVIDER, query, self.account.settings.home, self.now().date())

    def preflight(self, offer: Offer) -> Preflight:
        return Preflight(checks=tuple(checks(self.account, self._for(offer), offer)))

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        """Return shortfalls by the quotas of project and regions (trainplan.providers.abilities.QuotaTeller)."""
        by_offer: dict[Offer, str] = {}
        for part in self.parts:
            mine = [offer for offer in offers if part.takes(offer)]
            by_offer |= dict(zip(mine, part.shortfalls(mine), strict=True))
        return [by_offer.get(offer, "") for offer in offers]

    def doubts(self, offers: Sequence[Offer]) -> Sequence[str]:
        """TPUs where no GPU is let in (trainplan.providers.abilities.DoubtTeller)."""
        tpus = [offer.device.startswith(quotas.TPU) for offer in offers]
        why = quotas.doubt(self.account) if any(tpus) else ""
        return [why if is_tpu else "" for is_tpu in tpus]

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        """Looks up zone, image and network (trainplan.providers.abilities.Resolver)."""
        return self._for(request.offer).resolve(request)

    def resolution_type(self, offer: Offer) -> type[GoogleResolution]:
        return self._for(offer).resolution_type()

    def refine(self, offers: Sequence[Offer]) -> Sequence[Offer]:
        """Each with the zones that have it (trainplan.providers.abilities.Refiner); prices stay those of the
        catalog."""
        with_zones = [(offer, tuple(self._for(offer).zones(offer))) for offer in offers]
        return [replace(offer, zones=zones) for offer, zones in with_zones if zones]

    def obtainability(self, offers: Sequence[Offer]) -> Mapping[MachinePlacement, Obtainability]:
        """Return obtainability by Google's advice on capacity (trainplan.providers.abilities.ObtainabilityTeller)."""
        return CapacityAdvice(self.account, self.now).of(offers)

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        return self._for(request.offer).requests(request)

    def timers(self, request: LaunchRequest) -> Timers:
        return self._for(request.offer).timers(request)

    def launch(self, request: LaunchRequest) -> Instance:
        return self._for(request.offer).launch(request)

    def get(self, ref: InstanceRef) -> Instance:
        part = self._of(ref.id)
        if part is None:
            raise InstanceNotFoundError(f"{ref.id!r} is nothing that Google Cloud gave")
        return part.get(ref)

    def ended_at(self, ref: InstanceRef) -> datetime | None:
        """By the operations on it (trainplan.providers.abilities.EndTeller)."""
        part = self._of(ref.id)
        return None if part is None else part.ended_at(ref)

    def deleted_at(self, ref: InstanceRef) -> datetime | None:
        """By the operations on a TPU (trainplan.providers.abilities.DeletionTeller)."""
        part = self._of(ref.id)
        return None if part is None else part.deleted_at(ref)

    def attached_outlast(self, ref: InstanceRef) -> timedelta | None:
        """Disks are made with `autoDelete`, addresses are ephemeral; data disks of TPUs are deleted by themselves
        (trainplan.providers.abilities.AttachedDeleter)."""
        return ATTACHED_OUTLAST if parts_of(ref.id) is not None else None

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        return whole((_resources_of(part, run_id) for part in self.parts), LISTS)

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        part = self._of(ref.id)
        if part is not None:
            part.delete(ref)

    def stop(self, ref: InstanceRef) -> None:
        part = self._of(ref.id)
        if part is not None:
            part.stop(ref)

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        part = self._of(ref.id)
        return iter(()) if part is None else part.logs(ref)

    def store(self, run_id: RunId) -> RunStore:
        return self.stores(run_id)

    def doctor(self) -> Sequence[Check]:
        """The project's lines (trainplan.providers.abilities.Doctor)."""
        return examine(self._stands())

    def probes(self) -> Mapping[str, Callable[[], Check]]:
        return {
            "custom-role": lambda: custom_role(self.account),
            "tpu-quotas": lambda: quotas.tpu_probe(self.account),
        }

    def lacking(self) -> Sequence[SetupStep]:
        return self._set_up().lacking()

    def removable(self) -> Sequence[SetupStep]:
        return self._set_up().removable()

    def alarm(self) -> Alarm | None:
        """The monthly alarm (trainplan.providers.cloud.alarm.Alarms)."""
        return GoogleAlarm(self._stands()).found()

    def alarm_steps(self, wanted: Alarm | None) -> Sequence[SetupStep]:
        return GoogleAlarm(self._stands()).steps(wanted)

    def asking_costs(self) -> str:
        return ""

    def invoice(self, begin: date, end: date) -> Invoice:
        """What was billed (trainplan.providers.cloud.invoice.Invoices)."""
        return GoogleInvoice(self.account, self.account.settings.billing_export).told(begin, end, self.now())

    def carry_out(self, step: SetupStep, report: Callable[[str], None]) -> None:
        self._set_up().carry_out(step, report)

    def _set_up(self) -> GcpSetUp:
        return GcpSetUp(self._stands(), self.list_owned)

    def _stands(self) -> StandingResources:
        if self.standing_resources is None:
            raise BadRequestError("this provider was made for launches alone", hint="this is a mistake of the program")
        return self.standing_resources

    def _for(self, offer: Offer) -> GcpPart:
        for part in self.parts:
            if part.takes(offer):
                return part
        raise BadRequestError(
            f"{offer.instance_type}: nothing here launches it", hint="choose another offer; plan estimate shows some"
        )

    def _of(self, identity: str) -> GcpPart | None:
        return next((part for part in self.parts if part.owns(identity)), None)


def _resources_of(part: GcpPart, run_id: RunId | None) -> ListedResources:
    try:
        return ListedResources(tuple(part.list_owned(run_id)))
    except IncompleteListingError as error:
        return ListedResources(error.resources, error.unanswered)


def make_provider(settings: ProviderSettings, account: GcpAccount) -> GcpProvider:
    """Create the provider without a call. Where `endpoint` is set, machines use it too."""
    stores = stores_of(settings)
    rented = rented_of(settings, stores, endpoints_of(account.settings.machine_endpoint))
    if account.clock is not None:
        rented = replace(rented, now=account.clock.now)
    api = GoogleApi(account)
    parts = (Machines(api, account, rented), tpu.make_tpu_machines(account, rented, api))
    return GcpProvider(account, parts, stores, settings.now, standing_of(settings, account))


def standing_of(settings: ProviderSettings, account: GcpAccount) -> StandingResources:
    """What set-up makes and the doctor looks at; the bucket's name is the project's, which is asked for when needed."""
    store_settings = StoreSettings.of(settings, PROVIDER)

    def home() -> Home:
        return Home(
            name=store.bucket_name(store_settings, account.project),
            location=store.location_of(store_settings),
            ours=store_settings.bucket is None,
            settings=store.bucket_settings(store_settings.keep_days),
        )

    return StandingResources(account, home)


def stores_of(settings: ProviderSettings) -> Callable[[RunId], ObjectStore]:
    """Run directories in one bucket, which is opened with the first of them."""
    bucket = cache(lambda: store.make(settings))
    unfinished = Unfinished(settings.home / "uploads")
    return cache(lambda run_id: run_store(bucket(), run_id, unfinished=unfinished))


def rented_of(
    settings: ProviderSettings, stores: Callable[[RunId], ObjectStore], endpoints: Mapping[str, str]
) -> Rented:
    """What the shared part of a launch needs to know of Google."""
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
    """What a machine asks in Google's place (trainplan.providers.cloud.bootstrap.Boot)."""
    if endpoint is None:
        return {}
    return {name: endpoint.rstrip("/") for name in ("gcs", "compute", "tpu")}
