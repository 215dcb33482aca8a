"""Amazon EC2 as a provider: one machine for each attempt, on demand or spot, in any region of the account."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from trainplan.pricing.current import offers_of
from trainplan.pricing.offers import Market, Offer, OfferQuery
from trainplan.providers.aws import reply
from trainplan.providers.aws import request as ec2_request
from trainplan.providers.aws.account import AwsAccount
from trainplan.providers.aws.alarm import AwsAlarm
from trainplan.providers.aws.api import CONNECTIONS, Api, SdkApi
from trainplan.providers.aws.doctor import examine
from trainplan.providers.aws.errors import CONFLICT, DUPLICATE_GROUP, NO_GROUP, NO_SUCH_THING, Settling
from trainplan.providers.aws.invoice import ASKING_COSTS, AwsInvoice
from trainplan.providers.aws.listing import Listing
from trainplan.providers.aws.obtainability import PlacementScores
from trainplan.providers.aws.preflight import checks, denial
from trainplan.providers.aws.prices import Live
from trainplan.providers.aws.quotas import closed_regions, quota_text, shortfalls
from trainplan.providers.aws.reply import SCHEDULE
from trainplan.providers.aws.request import GROUP_ID, INSTANCE_ID, REAPER_EVERY, SCHEDULE_GRACE, filled
from trainplan.providers.aws.resolution import AwsResolution, Reaper, resolve
from trainplan.providers.aws.settings import PROVIDER, SCHEDULE_GROUP, STOP_POLICY, AwsSettings
from trainplan.providers.aws.setup import AwsSetUp
from trainplan.providers.aws.setup_steps import StandingResources
from trainplan.providers.aws.stop import ENDS, stop_check
from trainplan.providers.aws.trail import ended_at, was_evicted
from trainplan.providers.base import (
    Check,
    Instance,
    InstanceRef,
    InstanceState,
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
from trainplan.providers.errors import (
    BadRequestError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    TransientError,
)
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.settings import StoreSettings

if TYPE_CHECKING:
    from trainplan.pricing.obtainability import MachinePlacement, Obtainability
    from trainplan.providers.abilities import SetupStep
    from trainplan.providers.cloud.alarm import Alarm
    from trainplan.providers.cloud.invoice import Invoice

ATTACHED_OUTLAST = timedelta(minutes=1)
"""From the end of an instance to that of its volume and interface (assumed)."""
OFF_WITHIN = timedelta(minutes=2)
"""A power-off is ordered at once, and forced after a minute (providers/agent/end.py)."""
LISTING_LAG = timedelta(minutes=2)
"""How long after a create EC2 may not show it: "a few minutes" at most, says its page on eventual consistency."""
_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")
_DELETES: Mapping[str, tuple[str, str]] = {
    "vol-": ("DeleteVolume", "VolumeId"),
    "eni-": ("DeleteNetworkInterface", "NetworkInterfaceId"),
}
_IN_USE = ("VolumeInUse", "InvalidNetworkInterface.InUse", "InvalidParameterValue", "IncorrectState")
"""The resource is still attached to its machine and is deleted with it; the next list shows whether it was."""
_LOG_LINES = 1000
_UNCLEAR = (TransientError,)
_JUST_NOW = timedelta(seconds=3)
"""If a create returns an instance older than this, an earlier send of the same request created it."""
TOKEN_MEMORY = timedelta(hours=24)
"""EC2 remembers the token of RunInstances at least so long after the instance was terminated: Run_Instance_Idempotency
of its API reference, edition of 2016; the newer page states no time."""
_GAP = "from the create to the call that makes the schedule, a second or two (plan setup aws: none)"


def make(settings: ProviderSettings) -> AwsProvider:
    """Create the AWS provider from its settings (docs/clouds/aws.md), without any call to AWS.

    Raises BadRequestError for an option that is wrong.
    """
    from trainplan.providers.aws.store import make as make_bucket
    from trainplan.providers.stores.pending_uploads import Unfinished
    from trainplan.providers.stores.store import run_store

    aws_settings = AwsSettings.of(settings)
    clock = ServerClock(settings.now)
    api = SdkApi(aws_settings.region, aws_settings.endpoint, clock)
    bucket = cache(lambda: make_bucket(settings))
    unfinished = Unfinished(settings.home / "uploads")
    rented = Rented(
        cloud=PROVIDER,
        service="s3",
        store=cache(lambda run_id: run_store(bucket(), run_id, unfinished=unfinished)),
        region=lambda: api.home,
        now=clock.now,
        mirrors=mirrors_of(settings),
        endpoints={"s3": aws_settings.machine_endpoint} if aws_settings.machine_endpoint else {},
        own_image=aws_settings.image,
        files=finder(PROVIDER, settings),
    )
    account = AwsAccount(api, aws_settings, clock.now)
    return AwsProvider(
        api=api,
        account=account,
        rented=rented,
        now_of=settings.now,
        standing_resources=StandingResources(account, StoreSettings.of(settings, PROVIDER)),
        let_go=lambda: bucket().close() if bucket.cache_info().currsize else None,
        clock=clock,
    )


@dataclass(frozen=True)
class AwsProvider:
    """`trainplan.providers.base.Provider` for EC2.

    `account` reads the account, `rented` has the parts of a launch that all clouds share, `standing_resources` are
    those of `plan setup aws`, `let_go` closes the store, `threads` is the number of lists that are read at once.

    `patience` repeats calls that create no machine: the executor allows five tries of a create, and if each lost reply
    cost one of them, an unsteady network would end launches whose machine exists.
    """

    api: Api
    account: AwsAccount
    rented: Rented
    now_of: Callable[[], datetime]
    standing_resources: StandingResources
    let_go: Callable[[], None]
    threads: int = CONNECTIONS
    patience: Patience = field(default_factory=lambda: Patience(attempts=4, first_seconds=2.0))
    clock: ServerClock | None = None
    _asked_to_stop: set[str] = field(default_factory=set)

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
        return offers_of(PROVIDER, query, self.account.settings.home, self.now_of().date())

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        """Return shortfalls by the account's own quotas (trainplan.providers.abilities.QuotaTeller)."""
        return shortfalls(self.account, offers)

    def closed_regions(self, regions: Sequence[str]) -> Mapping[str, str]:
        """Return regions that are not enabled, denied by the organisation, or without a default network
        (trainplan.providers.abilities.RegionTeller).
        """
        return closed_regions(self.account, regions)

    def preflight(self, offer: Offer) -> Preflight:
        return Preflight(checks=tuple(checks(self.standing_resources, offer)))

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        """Looks up zone, network, image and what stands in the account (trainplan.providers.abilities.Resolver).

        Raises PermissionDeniedError while the account's alarm ends what runs.
        """
        if stopped := stop_check("alarm", is_stopped=self.account.is_stopped()):
            raise PermissionDeniedError(stopped.detail, hint=stopped.fix, code=STOP_POLICY)
        request = self.rented.with_data(request)
        return replace(request, resolution=resolve(request, self.rented, self.account, self.standing_resources))

    def resolution_type(self, offer: Offer) -> type[AwsResolution]:
        del offer
        return AwsResolution

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        resolution = resolution_of(request, AwsResolution)
        part = self.rented.machine(request, {"kind": "power_off"})
        calls = list(self.rented.puts(part))
        if not resolution.security_group:
            calls.append(ec2_request.create_security_group(request.offer.region, resolution.vpc))
        create = ec2_request.run_instances(request, part.user_data)
        if resolution.reaper is Reaper.STANDING:
            return (*calls, create)
        group, schedule = ec2_request.schedule_calls(request)
        return (*calls, *([group] if group else []), create, schedule)

    def timers(self, request: LaunchRequest) -> Timers:
        resolution = request.resolution if isinstance(request.resolution, AwsResolution) else None
        if resolution is not None and resolution.reaper is Reaper.STANDING:
            return Timers(machine=request.deadline, cloud=request.deadline + REAPER_EVERY)
        gap = _GAP if resolution else f"where no standing reaper is installed: {_GAP}"
        later = SCHEDULE_GRACE if resolution else REAPER_EVERY
        return Timers(machine=request.deadline, cloud=request.deadline + later, gap=gap)

    def launch(self, request: LaunchRequest) -> Instance:
        calls = request.calls or self.requests(request if request.resolution else self.resolve(request))
        instance: Instance | None = None
        entries: dict[str, str] = {}
        for call in calls:
            if self.rented.is_put(call):
                self.rented.put(request.run_id, call)
            elif instance is not None and instance.state in (InstanceState.ENDED, InstanceState.STOPPING):
                break  # EC2 returned a dead machine for its token: no schedule has to end it
            else:
                reply_body = self._sent(call, entries, request.offer)
                if call.operation == "RunInstances":
                    instance = self._as_it_stands(reply.instance(reply_body["Instances"][0], request.offer.region))
                    entries[INSTANCE_ID] = instance.ref.id
        if instance is None:
            raise BadRequestError(
                f"the recorded calls of {request.run_id} create no instance", hint="launch the job again"
            )
        return instance

    def get(self, ref: InstanceRef) -> Instance:
        instance = reply.instance(self._described(ref), ref.region)
        # EC2 knows nothing of a stop, which is a file in the run directory: only this process remembers it.
        if instance.state is InstanceState.RUNNING and ref.id in self._asked_to_stop:
            return replace(instance, state=InstanceState.STOPPING)
        return instance

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        return Listing(self.account, self.threads).owned(run_id)

    def ended_at(self, ref: InstanceRef) -> datetime | None:
        """By CloudTrail's history of events (trainplan.providers.abilities.EndTeller)."""
        return ended_at(self.api, ref.region, ref.id, self.now_of())

    def was_taken_back(self, ref: InstanceRef) -> bool:
        """By CloudTrail's history of events (trainplan.providers.abilities.ReclaimTeller)."""
        return was_evicted(self.api, ref.region, ref.id, self.now_of())

    def off_within(self) -> timedelta:
        """A machine ends itself by powering off (trainplan.providers.abilities.PromptEnder)."""
        return OFF_WITHIN

    def attached_outlast(self, ref: InstanceRef) -> timedelta:
        """Volumes and network interfaces are made with `DeleteOnTermination`, and a public address goes with its
        interface (trainplan.providers.abilities.AttachedDeleter)."""
        del ref
        return ATTACHED_OUTLAST

    def refine(self, offers: Sequence[Offer]) -> Sequence[Offer]:
        """Zones and live spot prices (trainplan.providers.abilities.Refiner)."""
        return Live(self.account, self.now_of).refined(offers)

    def has_spot(self, offer: Offer, zone: str | None) -> bool | None:
        """What AWS's placement score hints (trainplan.providers.abilities.SpotScout)."""
        return self._placement_scores().has_spot(offer, zone)

    def obtainability(self, offers: Sequence[Offer]) -> Mapping[MachinePlacement, Obtainability]:
        """Return obtainability by placement scores (trainplan.providers.abilities.ObtainabilityTeller)."""
        return self._placement_scores().of(offers)

    def stop(self, ref: InstanceRef) -> None:
        with contextlib.suppress(InstanceNotFoundError):
            instance = reply.instance(self._described(ref), ref.region)
            if instance.state is InstanceState.ENDED:
                return
            self.rented.ask_to_stop(instance.run_id)
            self._asked_to_stop.add(ref.id)

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        with contextlib.suppress(InstanceNotFoundError):
            try:
                self._delete(ref.region, ref.id)
            except ProviderError as error:
                if error.code not in (*_IN_USE, NO_SUCH_THING):
                    raise

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        _check_ref(ref)
        reply_body = self._ec2(ref.region, "GetConsoleOutput", {"InstanceId": ref.id})
        yield from str(reply_body.get("Output", "")).splitlines()[-_LOG_LINES:]

    def store(self, run_id: RunId) -> RunStore:
        return self.rented.store(run_id)

    def doctor(self) -> Sequence[Check]:
        """The account, whatever the offer (trainplan.providers.abilities.Doctor)."""
        return examine(self.standing_resources)

    def probes(self) -> Mapping[str, Callable[[], Check]]:
        return {"denial": lambda: denial(self.account)}

    def lacking(self) -> Sequence[SetupStep]:
        """What a set-up would make (trainplan.providers.abilities.SetUp)."""
        return AwsSetUp(self.standing_resources).lacking()

    def removable(self) -> Sequence[SetupStep]:
        return AwsSetUp(self.standing_resources).removable()

    def alarm(self) -> Alarm | None:
        """The monthly alarm (trainplan.providers.cloud.alarm.Alarms)."""
        return AwsAlarm(self.standing_resources).found()

    def alarm_ends(self) -> str:
        """See trainplan.providers.cloud.alarm.Stops."""
        return ENDS

    def alarm_steps(self, wanted: Alarm | None) -> Sequence[SetupStep]:
        return AwsAlarm(self.standing_resources).steps(wanted)

    def asking_costs(self) -> str:
        return ASKING_COSTS

    def invoice(self, begin: date, end: date) -> Invoice:
        """What was billed (trainplan.providers.cloud.invoice.Invoices)."""
        return AwsInvoice(self.account).told(begin, end)

    def carry_out(self, step: SetupStep, report: Callable[[str], None]) -> None:
        AwsSetUp(self.standing_resources, self.patience.sleep).carry_out(step, report)

    def close(self) -> None:
        """Let go of the connections."""
        self.let_go()
        if isinstance(self.api, SdkApi):
            self.api.close()

    def _placement_scores(self) -> PlacementScores:
        query, today = OfferQuery(markets=frozenset({Market.SPOT})), self.now_of().date()
        spot_offers = partial(offers_of, PROVIDER, query, self.account.settings.home, today)
        return PlacementScores(self.account, self.now_of, spot_offers)

    def _ec2(self, region: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return self.api.call("ec2", region, operation, parameters)

    def _described(self, ref: InstanceRef) -> Mapping[str, Any]:
        _check_ref(ref)
        reply_body = self._ec2(ref.region, "DescribeInstances", {"InstanceIds": [ref.id]})
        for reservation in reply_body["Reservations"]:
            for row in reservation["Instances"]:
                return dict(row)
        raise InstanceNotFoundError(f"EC2 knows no {ref.id} in {ref.region}")

    def _as_it_stands(self, instance: Instance) -> Instance:
        """The current state of the instance. EC2 answers a repeated create as the first time (assumed,
        docs/maintainers/fidelity.md)."""
        if instance.launched_at is None or self.now_of() - instance.launched_at < _JUST_NOW:
            return instance
        try:
            return self.patience(lambda: self.get(instance.ref), on=_UNCLEAR)
        except InstanceNotFoundError:
            return instance  # EC2 does not show it yet, or no longer; the next look finds out

    def _sent(self, call: VendorRequest, entries: dict[str, str], offer: Offer) -> Mapping[str, Any]:
        """Send one call of a launch; one that repeats an earlier call is no error. `entries` receives what later calls
        need.
        """
        service, _, region = call.service.partition(".")
        send = partial(self.api.call, service, region, call.operation, filled(call.parameters, entries))
        settle = Settling(self.patience.sleep, self.account.has_instance_profile)
        try:
            # RunInstances is not repeated here: the executor repeats it, and then looks what its token made.
            once = call.operation == "RunInstances"
            reply_body = settle(call.operation, send if once else lambda: self.patience(send, on=_UNCLEAR))
        except QuotaError as error:
            raise QuotaError(error.message, quota=quota_text(offer), hint=error.hint, code=error.code) from error
        except ProviderError as error:
            # An earlier send, or another launch in this region, has created the group or the schedule.
            if error.code not in (DUPLICATE_GROUP, CONFLICT):
                raise
            reply_body = {}
        if call.operation == "CreateSecurityGroup":
            look = partial(self._group, region, call)
            entries[GROUP_ID] = str(reply_body.get("GroupId") or settle("DescribeSecurityGroups", look))
        return reply_body

    def _group(self, region: str, call: VendorRequest) -> str:
        request = {
            "Filters": [
                {"Name": "vpc-id", "Values": [call.parameters["VpcId"]]},
                {"Name": "group-name", "Values": [call.parameters["GroupName"]]},
            ]
        }
        rows = self.account.pages(region, "DescribeSecurityGroups", request, "SecurityGroups")
        if not rows:
            raise BadRequestError(
                f"{region}: EC2 does not show the security group trainplan", hint="try again", code=NO_GROUP
            )
        return str(rows[0]["GroupId"])

    def _delete(self, region: str, name: str) -> None:
        if _INSTANCE.fullmatch(name):
            self._ec2(region, "TerminateInstances", {"InstanceIds": [name]})
        elif name.startswith("sir-"):
            self._ec2(region, "CancelSpotInstanceRequests", {"SpotInstanceRequestIds": [name]})
        elif name.startswith(SCHEDULE):
            schedule_key = {"GroupName": SCHEDULE_GROUP, "Name": name.removeprefix(SCHEDULE)}
            self.api.call("scheduler", region, "DeleteSchedule", schedule_key)
        for prefix, (operation, key) in _DELETES.items():
            if name.startswith(prefix):
                self._ec2(region, operation, {key: name})


def _check_ref(ref: InstanceRef) -> None:
    if not _INSTANCE.fullmatch(ref.id):
        raise InstanceNotFoundError(f"{ref.id!r} is no name that EC2 gives to instances")
