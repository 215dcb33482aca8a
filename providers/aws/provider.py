"""Amazon EC2 as a provider: one machine for each attempt, on demand or spot, in any region of the account."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pricing.current import offers_of
from providers.aws import translate
from providers.aws.account import Account
from providers.aws.api import CONNECTIONS, Api, SdkApi
from providers.aws.checks import checks
from providers.aws.doctor import examine
from providers.aws.errors import CONFLICT, DUPLICATE_GROUP, NO_SUCH_THING
from providers.aws.listing import Listing
from providers.aws.live import Live
from providers.aws.quotas import closed_regions, quota_text, shortfalls
from providers.aws.settings import PROVIDER, SCHEDULE_GROUP, SCHEDULE_ROLE, AwsSettings
from providers.aws.settling import NO_GROUP, Settling
from providers.aws.setup import AwsSetUp
from providers.aws.standing import Standing
from providers.aws.translate import (
    BY_SCHEDULE,
    GROUP_ID,
    INSTANCE_ID,
    REAPER_EVERY,
    SCHEDULE,
    SCHEDULE_GRACE,
    STANDING,
    filled,
)
from providers.base import (
    Instance,
    InstanceRef,
    InstanceState,
    OwnedResource,
    Preflight,
    ProviderSettings,
    RunId,
    Timers,
)
from providers.data_files import finder
from providers.errors import (
    BadRequestError,
    CapacityError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    TransientError,
)
from providers.rented import Rented, mirrors_of
from providers.server_time import ServerClock
from providers.stores.patience import Patience
from providers.stores.settings import StoreSettings

if TYPE_CHECKING:
    from pricing.offers import Offer, OfferQuery
    from providers.base import Check, LaunchRequest, RunStore, SetupStep, VendorRequest

LISTING_LAG = timedelta(minutes=2)
"""How long after a create EC2 may not show it: "a few minutes" at most, says its page on eventual consistency."""
_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")
_DELETES: Mapping[str, tuple[str, str]] = {
    "vol-": ("DeleteVolume", "VolumeId"),
    "eni-": ("DeleteNetworkInterface", "NetworkInterfaceId"),
}
_IN_USE = ("VolumeInUse", "InvalidNetworkInterface.InUse", "InvalidParameterValue", "IncorrectState")
"""It goes with the machine that still uses it; the next look tells."""
_LOG_LINES = 1000
_UNCLEAR = (TransientError,)
_JUST_NOW = timedelta(seconds=3)
"""The answer to a create that was not sent before names an instance that is no older."""
TOKEN_MEMORY = timedelta(hours=24)
"""EC2 remembers the token of RunInstances at least so long after the instance was terminated: Run_Instance_Idempotency
of its API reference, edition of 2016; the newer page states no time."""
_GAP = "from the create to the call that makes the schedule, a second or two (plan setup aws: none)"


def make(settings: ProviderSettings) -> AwsProvider:
    """AWS with these settings (docs/clouds/aws.md); nobody is asked anything before the first call.

    Raises BadRequestError for an option that is wrong.
    """
    from providers.aws.store import make as make_bucket
    from providers.stores.store import run_store
    from providers.stores.unfinished import Unfinished

    given = AwsSettings.of(settings)
    clock = ServerClock(settings.now)
    api = SdkApi(given.region, given.endpoint, clock)
    bucket = cache(lambda: make_bucket(settings))
    unfinished = Unfinished(settings.home / "uploads")
    rented = Rented(
        cloud=PROVIDER,
        service="s3",
        store=cache(lambda run_id: run_store(bucket(), run_id, unfinished=unfinished)),
        region=lambda: api.home,
        now=clock.now,
        mirrors=mirrors_of(settings),
        endpoints={"s3": given.machine_endpoint} if given.machine_endpoint else {},
        own_image=given.image,
        files=finder(PROVIDER, settings),
    )
    account = Account(api, given, clock.now)
    return AwsProvider(
        api=api,
        account=account,
        rented=rented,
        now_of=settings.now,
        standing=Standing(account, StoreSettings.of(settings, PROVIDER)),
        let_go=lambda: bucket().close() if bucket.cache_info().currsize else None,
        clock=clock,
    )


@dataclass(frozen=True)
class AwsProvider:
    """`account` looks up, `rented` has what every rented launch has around its own create, `standing` is what stands
    in the account, `let_go` closes the store, `threads` is how many lists are asked at once.

    `patience` is for calls that make no machine: were each lost reply a try of the engine's, of which a create has
    five, an unsteady line would cost machines that are there.
    """

    api: Api
    account: Account
    rented: Rented
    now_of: Callable[[], datetime]
    standing: Standing
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
        """By the `Date` of the newest answer (providers.server_time.ServerTime)."""
        return self.clock.offset if self.clock else None

    def offers(self, query: OfferQuery) -> Sequence[Offer]:
        return offers_of(PROVIDER, query, self.account.settings.home, self.now_of().date())

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        """By the account's own quotas (providers.quota_teller.QuotaTeller)."""
        return shortfalls(self.account, offers)

    def closed_regions(self, regions: Sequence[str]) -> Mapping[str, str]:
        """Not open, closed by the organisation, without a default network (providers.quota_teller.RegionTeller)."""
        return closed_regions(self.account, regions)

    def preflight(self, offer: Offer) -> Preflight:
        return Preflight(checks=tuple(checks(self.standing, offer)))

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        """Looks up zone, network, image and what stands in the account (providers.base.Resolver)."""
        request = self.rented.with_data(request)
        known = self.rented.resolved(request)
        region, part = request.offer.region, self.rented.launchable(request)
        network = self.account.network(region)
        zone = self._zone(request, network.subnets)
        image = self.account.image(region, part.host.image)
        found = {
            translate.ZONE: zone,
            translate.SUBNET: network.subnets[zone],
            translate.VPC: network.vpc,
            translate.GROUP: network.security_group,
            translate.IMAGE: image.id,
            translate.IMAGE_FROM: image.how,
            translate.ROOT_DEVICE: image.root_device,
            translate.ROOT_GIB: str(max(image.root_gib, part.host.least_disk_gib) + _data_gib(request)),
            **self._standing(region),
        }
        return replace(request, resolved={**known, **found})

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        if translate.SUBNET not in request.resolved:
            raise BadRequestError(f"run {request.run_id}: its place was not looked up", hint="launch it anew")
        part = self.rented.machine(request, {"kind": "power_off"})
        calls = list(self.rented.puts(part))
        if not request.resolved[translate.GROUP]:
            calls.append(translate.create_security_group(request))
        create = translate.run_instances(request, part.user_data)
        if request.resolved[translate.REAPER] == STANDING:
            return (*calls, create)
        group, schedule = translate.schedule_calls(request)
        return (*calls, *([group] if group else []), create, schedule)

    def timers(self, request: LaunchRequest) -> Timers:
        known = request.resolved.get(translate.REAPER)
        if known == STANDING:
            return Timers(machine=request.deadline, cloud=request.deadline + REAPER_EVERY)
        gap = _GAP if known else f"where no standing reaper is installed: {_GAP}"
        later = SCHEDULE_GRACE if known else REAPER_EVERY
        return Timers(machine=request.deadline, cloud=request.deadline + later, gap=gap)

    def launch(self, request: LaunchRequest) -> Instance:
        calls = request.calls or self.requests(request if request.resolved else self.resolve(request))
        made: Instance | None = None
        found: dict[str, str] = {}
        for call in calls:
            if self.rented.is_put(call):
                self.rented.put(request.run_id, call)
            elif made is not None and made.state in (InstanceState.ENDED, InstanceState.STOPPING):
                break  # a dead machine came back for its token: there is nothing left to end
            else:
                told = self._sent(call, found, request.offer)
                if call.operation == "RunInstances":
                    made = self._as_it_stands(translate.instance(told["Instances"][0], request.offer.region))
                    found[INSTANCE_ID] = made.ref.id
        if made is None:
            raise BadRequestError(f"the calls of {request.run_id} make no instance", hint="launch it anew")
        return made

    def get(self, ref: InstanceRef) -> Instance:
        made = translate.instance(self._described(ref), ref.region)
        if made.state is InstanceState.RUNNING and ref.id in self._asked_to_stop:
            return replace(made, state=InstanceState.STOPPING)
        return made

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        return Listing(self.account, self.threads).owned(run_id)

    def refine(self, offers: Sequence[Offer]) -> Sequence[Offer]:
        """Zones and live spot prices (providers.base.Refiner)."""
        return Live(self.account, self.now_of).refined(offers)

    def has_spot(self, offer: Offer, zone: str | None) -> bool | None:
        """What AWS's placement score hints (providers.base.SpotScout)."""
        return Live(self.account, self.now_of).has_spot(offer, zone)

    def stop(self, ref: InstanceRef) -> None:
        with contextlib.suppress(InstanceNotFoundError):
            made = translate.instance(self._described(ref), ref.region)
            if made.state is InstanceState.ENDED:
                return
            self.rented.ask_to_stop(made.run_id)
            self._asked_to_stop.add(ref.id)

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        with contextlib.suppress(InstanceNotFoundError):
            try:
                self._delete(ref.region, ref.id)
            except ProviderError as error:
                if error.code not in (*_IN_USE, NO_SUCH_THING):
                    raise

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        _known(ref)
        told = self._ec2(ref.region, "GetConsoleOutput", {"InstanceId": ref.id})
        yield from str(told.get("Output", "")).splitlines()[-_LOG_LINES:]

    def store(self, run_id: RunId) -> RunStore:
        return self.rented.store(run_id)

    def doctor(self) -> Sequence[Check]:
        """The account, whatever the offer (providers.base.Doctor)."""
        return examine(self.standing)

    def lacking(self) -> Sequence[SetupStep]:
        """What a set-up would make (providers.base.SetUp)."""
        return AwsSetUp(self.standing).lacking()

    def removable(self) -> Sequence[SetupStep]:
        return AwsSetUp(self.standing).removable()

    def carry_out(self, step: SetupStep, report: Callable[[str], None]) -> None:
        AwsSetUp(self.standing, self.patience.sleep).carry_out(step, report)

    def close(self) -> None:
        """Let go of the connections."""
        self.let_go()
        if isinstance(self.api, SdkApi):
            self.api.close()

    def _ec2(self, region: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return self.api.call("ec2", region, operation, parameters)

    def _described(self, ref: InstanceRef) -> Mapping[str, Any]:
        _known(ref)
        told = self._ec2(ref.region, "DescribeInstances", {"InstanceIds": [ref.id]})
        for reservation in told["Reservations"]:
            for row in reservation["Instances"]:
                return dict(row)
        raise InstanceNotFoundError(f"EC2 knows no {ref.id} in {ref.region}")

    def _as_it_stands(self, made: Instance) -> Instance:
        """A create that was sent before is answered as it was then: what it made may have died since."""
        if made.launched_at is None or self.now_of() - made.launched_at < _JUST_NOW:
            return made
        try:
            return self.patience(lambda: self.get(made.ref), on=_UNCLEAR)
        except InstanceNotFoundError:
            return made  # not shown yet, or no more: the next look tells

    def _zone(self, request: LaunchRequest, subnets: Mapping[str, str]) -> str:
        """The request's zone, or the first that has the machine. Raises CapacityError where none has."""
        offer = request.offer
        zones = self.account.zones(offer.region, offer.instance_type)
        wanted = [request.zone] if request.zone else zones
        for zone in wanted:
            if zone in zones and zone in subnets:
                return zone
        raise CapacityError(
            f"{request.zone or offer.region} does not have {offer.instance_type}",
            elsewhere=tuple(zone for zone in zones if zone in subnets),
            hint=f"use {offer.lifecycle.successor}" if offer.lifecycle.successor else "choose another place or machine",
        )

    def _standing(self, region: str) -> dict[str, str]:
        """The instance profile, and who ends a machine that hangs. Raises PermissionDeniedError where nobody would."""
        settings = self.account.settings
        if self.account.has_instance_profile() is False:
            raise PermissionDeniedError(
                f"there is no instance profile {settings.instance_profile} for the machines", hint="plan setup aws"
            )
        if lacks := self.standing.machine_role_lacks():
            raise PermissionDeniedError(lacks, hint="plan setup aws")
        known = {translate.PROFILE: settings.instance_profile, translate.REAPER: STANDING}
        if self.account.has_reaper():
            return known
        if self.account.has_schedule_role() is False:
            raise PermissionDeniedError("nothing stands ready to end a machine that hangs", hint="plan setup aws")
        who = self.account.identity()
        return {
            **known,
            translate.REAPER: BY_SCHEDULE,
            translate.ROLE_ARN: f"arn:{who.partition}:iam::{who.account}:role/{SCHEDULE_ROLE}",
            translate.GROUP_OF_SCHEDULES: SCHEDULE_GROUP if self.account.has_schedule_group(region) else "",
        }

    def _sent(self, call: VendorRequest, found: dict[str, str], offer: Offer) -> Mapping[str, Any]:
        """One call of a launch; what it repeats is no error. `found` gets what later calls need."""
        service, _, region = call.service.partition(".")
        send = partial(self.api.call, service, region, call.operation, filled(call.parameters, found))
        settle = Settling(self.patience.sleep, self.account.has_instance_profile)
        try:
            once = call.operation == "RunInstances"
            told = settle(call.operation, send if once else lambda: self.patience(send, on=_UNCLEAR))
        except QuotaError as error:
            raise QuotaError(error.message, quota=quota_text(offer), hint=error.hint, code=error.code) from error
        except ProviderError as error:
            if error.code not in (DUPLICATE_GROUP, CONFLICT):
                raise
            told = {}
        if call.operation == "CreateSecurityGroup":
            look = partial(self._group, region, call)
            found[GROUP_ID] = str(told.get("GroupId") or settle("DescribeSecurityGroups", look))
        return told

    def _group(self, region: str, call: VendorRequest) -> str:
        asked = {
            "Filters": [
                {"Name": "vpc-id", "Values": [call.parameters["VpcId"]]},
                {"Name": "group-name", "Values": [call.parameters["GroupName"]]},
            ]
        }
        rows = self.account.pages(region, "DescribeSecurityGroups", asked, "SecurityGroups")
        if not rows:
            raise BadRequestError(f"{region}: EC2 does not show its group trainplan", hint="try again", code=NO_GROUP)
        return str(rows[0]["GroupId"])

    def _delete(self, region: str, name: str) -> None:
        if _INSTANCE.fullmatch(name):
            self._ec2(region, "TerminateInstances", {"InstanceIds": [name]})
        elif name.startswith("sir-"):
            self._ec2(region, "CancelSpotInstanceRequests", {"SpotInstanceRequestIds": [name]})
        elif name.startswith(SCHEDULE):
            gone = {"GroupName": SCHEDULE_GROUP, "Name": name.removeprefix(SCHEDULE)}
            self.api.call("scheduler", region, "DeleteSchedule", gone)
        for prefix, (operation, key) in _DELETES.items():
            if name.startswith(prefix):
                self._ec2(region, operation, {key: name})


def _known(ref: InstanceRef) -> None:
    if not _INSTANCE.fullmatch(ref.id):
        raise InstanceNotFoundError(f"{ref.id!r} is no name that EC2 gives to instances")


def _data_gib(request: LaunchRequest) -> int:
    """Twice the data set, packed and unpacked."""
    return -(-2 * sum(file.size_bytes for file in request.data) // 1024**3)
