"""The seam over the simulated cloud."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.providers.base import (
    LABEL_RUN,
    Check,
    Instance,
    InstanceRef,
    LaunchRequest,
    OwnedResource,
    Preflight,
    PreflightState,
    ProviderSettings,
    RunId,
    RunStore,
    Timers,
    VendorRequest,
)
from trainplan.providers.cloud.labels import labels_of
from trainplan.providers.errors import (
    BadRequestError,
    CredentialsError,
    IncompleteListingError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    TransientError,
)
from trainplan.providers.sim.api import Api, RefusedError
from trainplan.providers.sim.catalogue import PROVIDER, TYPES, ZONES, offers
from trainplan.providers.sim.cloud import Setup, SimCloud
from trainplan.providers.sim.invoice import invoice_of
from trainplan.providers.sim.operations import delete_operation, list_operation
from trainplan.providers.sim.scenario import Scenario, read_scenario
from trainplan.providers.sim.store import SimStore, put_object
from trainplan.providers.sim.translate import SimResolution, instance, owned, run_instance, token_of, translated
from trainplan.providers.sim.values import Code, Kind, MachineState

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer, OfferQuery
    from trainplan.providers.cloud.invoice import Invoice

DEFAULT_SPEED = 60.0
IMAGE = "trainer"
_LOG_LINES = 1000


def make(settings: ProviderSettings) -> SimProvider:
    """The simulated cloud of this home folder; its file is made by the first call.

    Raises BadRequestError for an option that is wrong.
    """
    setup = parse_options(settings.options)
    return SimProvider(setup.scenario, SimCloud(settings.home / PROVIDER, setup, settings.now))


def parse_options(options: Mapping[str, str]) -> Setup:
    """`sim_speed` and `sim_scenario` as the person wrote them; other options are other providers'.

    Raises BadRequestError.
    """
    scenario = read_scenario(Path(options["sim_scenario"])) if options.get("sim_scenario") else Scenario()
    text = options.get("sim_speed") or str(DEFAULT_SPEED)
    try:
        speed = float(text)
    except ValueError:
        speed = -1.0
    if not 0 <= speed <= 1_000_000:
        raise BadRequestError(
            f"sim_speed {text!r} is not a number of seconds", hint="60 makes an hour a minute; 0 stops the time"
        )
    return Setup(scenario=scenario, speed=speed)


@dataclass(frozen=True)
class SimProvider:
    """`scenario` is what the world follows; `api` calls it, and tells its time."""

    scenario: Scenario
    api: Api

    @property
    def name(self) -> str:
        return PROVIDER

    @property
    def listing_lag(self) -> timedelta:
        return self.scenario.listing_lag

    @property
    def token_memory(self) -> timedelta:
        return self.scenario.token_memory

    def now(self) -> datetime:
        """The time in the simulated cloud (trainplan.providers.abilities.Timekeeper)."""
        with translated():
            return self.api.now()

    def sleep(self, seconds: float) -> None:
        with translated():
            self.api.sleep(seconds)

    def offers(self, query: OfferQuery) -> Sequence[Offer]:
        return [offer for offer in offers() if query.wants(offer)]

    def preflight(self, offer: Offer) -> Preflight:
        return Preflight(checks=(self._identity(), self._quota(offer)))

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        """Looks up the image of the region (trainplan.providers.abilities.Resolver)."""
        entries = self._call("GetImage", {"region": request.offer.region, "name": IMAGE})
        return replace(request, resolution=SimResolution(image=str(entries["image"])))

    def resolution_type(self, offer: Offer) -> type[SimResolution]:
        del offer
        return SimResolution

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        calls = [put_object(request.run_id, "job.json", request.job.to_json().encode()), run_instance(request)]
        if not self.scenario.standing_reaper:
            calls.append(self._schedule(request))
        return calls

    def timers(self, request: LaunchRequest) -> Timers:
        gap = "" if self.scenario.standing_reaper else "from the create to the schedule's own call"
        return Timers(machine=request.deadline, cloud=request.deadline + self.scenario.timer_grace, gap=gap)

    def launch(self, request: LaunchRequest) -> Instance:
        calls = request.calls or self.requests(request if request.resolution else self.resolve(request))
        machine: Instance | None = None
        for call in calls:
            if call.operation == "CreateSchedule" and machine is not None and not _lives(machine):
                break  # a dead machine came back for its token: there is nothing left to end
            reply = self._call(call.operation, call.parameters)
            machine = instance(reply) if call.operation == "RunInstance" else machine
        if machine is None:
            raise BadRequestError(
                f"the recorded calls of {request.run_id} create no instance", hint="launch the job again"
            )
        return machine

    def get(self, ref: InstanceRef) -> Instance:
        return instance(self._call("DescribeInstance", {"region": ref.region, "id": ref.id}))

    def ended_at(self, ref: InstanceRef) -> datetime | None:
        """By the cloud's record of ends (trainplan.providers.abilities.EndTeller)."""
        at = self._call("GetRecord", {"region": ref.region, "id": ref.id})["endedAt"]
        return datetime.fromisoformat(str(at)) if at else None

    def attached_outlast(self, ref: InstanceRef) -> timedelta:
        """See trainplan.providers.abilities.AttachedDeleter."""
        del ref
        return self.scenario.deletion[1] + self.scenario.clean_up[1]

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        resources: list[OwnedResource] = []
        unanswered: list[str] = []
        for region in ZONES:
            for kind in (None, *Kind):
                try:
                    resources += self._pages_of(region, kind, run_id)
                except CredentialsError:
                    raise
                except ProviderError as error:
                    unanswered.append(f"{region}: {error.message}")
        if unanswered:
            raise IncompleteListingError(
                f"{len(unanswered)} lists of the simulated cloud did not come whole: {unanswered[0]}",
                resources=tuple(resources),
                unanswered=tuple(unanswered),
                hint="look again when they answer",
            )
        return resources

    def has_spot(self, offer: Offer, zone: str | None) -> bool | None:
        """What the cloud hints of spot (trainplan.providers.abilities.SpotScout)."""
        request = {"region": offer.region, "zone": zone, "instanceType": offer.instance_type}
        return bool(self._call("GetSpotPlacement", request)["likely"])

    def stop(self, ref: InstanceRef) -> None:
        with contextlib.suppress(InstanceNotFoundError):
            self._call("StopTraining", {"region": ref.region, "id": ref.id})

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        with contextlib.suppress(InstanceNotFoundError):
            self._delete(ref)

    def asking_costs(self) -> str:
        """Nothing (trainplan.providers.cloud.invoice.Invoices)."""
        return ""

    def invoice(self, begin: date, end: date) -> Invoice:
        return invoice_of(self._call("GetCosts", {}), begin, end)

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        output = self._call("GetConsole", {"region": ref.region, "id": ref.id})["output"]
        yield from output.splitlines()[-_LOG_LINES:]

    def store(self, run_id: RunId) -> RunStore:
        return SimStore(self.api, run_id)

    def _call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        with translated():
            return self.api.call(operation, parameters)

    def _identity(self) -> Check:
        try:
            account = self._call("GetIdentity", {})["account"]
        except (CredentialsError, PermissionDeniedError) as error:
            return Check(name="identity", state=PreflightState.REFUSED, detail=error.message, fix=error.hint)
        except ProviderError as error:
            return Check(name="identity", state=PreflightState.UNKNOWN, detail=error.message, fix=error.hint)
        return Check(name="identity", state=PreflightState.OK, detail=f"account {account}, simulated")

    def _quota(self, offer: Offer) -> Check:
        request = {"region": offer.region, "family": TYPES[offer.instance_type].family, "market": str(offer.market)}
        try:
            reply = self._call("GetQuota", request)
        except ProviderError as error:
            return Check(name="quota", state=PreflightState.UNKNOWN, detail=error.message, fix=error.hint)
        detail = f"{reply['used']} of {reply['devices']} in use: {reply['quota']}"
        if int(reply["used"]) + offer.device_count > int(reply["devices"]):
            fix = "raise it in the scenario, or choose another region"
            return Check(name="quota", state=PreflightState.REFUSED, detail=detail, fix=fix)
        return Check(name="quota", state=PreflightState.OK, detail=detail)

    def _schedule(self, request: LaunchRequest) -> VendorRequest:
        parameters: dict[str, object] = {
            "region": request.offer.region,
            "instanceToken": token_of(request),
            "at": (request.deadline + self.scenario.timer_grace).isoformat(),
            "labels": labels_of(request),
        }
        return VendorRequest(service=PROVIDER, operation="CreateSchedule", parameters=parameters)

    def _pages_of(self, region: str, kind: Kind | None, run_id: RunId | None) -> Iterator[OwnedResource]:
        """Every page of one list; `kind` None: instances. Raises ProviderError where one is missing or not whole."""
        operation = "ListInstances" if kind is None else list_operation(kind)
        page: str | None = None
        while True:
            request = {"region": region, "labels": {LABEL_RUN: run_id}, "pageToken": page}
            reply = self._call(operation, request)
            if reply["warnings"]:
                raise TransientError(f"{operation}: {'; '.join(reply['warnings'])}")
            for item in reply["items"]:
                if kind is not None or item["state"] != MachineState.TERMINATED:
                    yield owned(kind or "instance", item, is_instance=kind is None)
            page = reply["nextPageToken"]
            if page is None:
                return

    def _delete(self, ref: InstanceRef | OwnedResource) -> None:
        kind = next((kind for kind in Kind if ref.id.startswith(f"{kind}-")), None)
        operation = "DeleteInstance" if kind is None else delete_operation(kind)
        with translated():
            try:
                self.api.call(operation, {"region": ref.region, "id": ref.id})
            except RefusedError as error:
                # It goes with the machine that still uses it; the next look tells.
                if error.code != Code.IN_USE:
                    raise


def _lives(machine: Instance) -> bool:
    return machine.end is None
