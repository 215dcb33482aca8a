"""moto's gaps, closed one by one: each function is put in the place of moto's own, and has a canary of its name.

Only the double's own process is patched (tests/unit/providers/aws/test_moto_canaries.py shows moto without it).
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from tests.doubles.aws import backends
from tests.doubles.aws.machines import Machine
from tests.doubles.aws.scenario import last_that_fits
from tests.doubles.aws.world import Thing, World, code_of

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_USER_DATA = 16 * 1024
OLD_TYPES = {"p2.xlarge": 4, "p2.8xlarge": 32, "p2.16xlarge": 64, "p3.2xlarge": 8, "p3.8xlarge": 32, "p3.16xlarge": 64}
"""Of which moto knows nothing any more, and their vCPUs."""
_LABEL, _CLIENT, _ATTEMPT = "trainplan-run", "trainplan-client", "trainplan-attempt"
PATCHES: dict[str, Callable[[Callable[[], World]], None]] = {}


def patch(install: Callable[[Callable[[], World]], None]) -> Callable[[Callable[[], World]], None]:
    PATCHES[install.__name__] = install
    return install


def install(world: Callable[[], World]) -> None:
    """All of them, in this process, for good."""
    for one in PATCHES.values():
        one(world)


@patch
def create_keeps_to_token_stock_and_quota(world: Callable[[], World]) -> None:
    from moto.ec2.models.instances import InstanceBackend

    real = InstanceBackend.run_instances

    def run_instances(b: Any, image_id: str, count: int, user_data: Any, groups: Any, **given: Any) -> Any:
        w = world()
        region, zone = b.region_name, _zone(b, given)
        token = str(given.get("client_token") or "")
        key, print_ = (region, zone, token), hashlib.sha256(w.request).hexdigest()
        if key in w.tokens:
            if w.tokens[key][0] != print_:
                raise _refused(
                    "IdempotentParameterMismatch",
                    "The client token you have provided is associated with a resource that is already deleted "
                    "or has other parameters.",
                )
            return w.tokens[key][1]
        market = "spot" if given.get("instance_market_options") else "on-demand"
        _let_in(w, region, zone, given["instance_type"], market, user_data)
        made = real(b, image_id, count, user_data, groups, **given)
        w.tokens[key] = (print_, made)
        _born(w, b, made.instances[0], given, market)
        return made

    InstanceBackend.run_instances = run_instances


@patch
def a_replay_associates_nothing_anew(world: Callable[[], World]) -> None:
    from moto.ec2.models.iam_instance_profile import IamInstanceProfileAssociationBackend

    real = IamInstanceProfileAssociationBackend.associate_iam_instance_profile

    def associate(b: Any, instance_id: str, **given: Any) -> Any:
        known = b.iam_instance_profile_associations.get(instance_id)
        machine = world().machines.get(instance_id)
        if known is not None or (machine is not None and machine.ended_at is not None):
            return known
        return real(b, instance_id, **given)

    IamInstanceProfileAssociationBackend.associate_iam_instance_profile = associate


@patch
def terminate_takes_its_time(world: Callable[[], World]) -> None:
    from moto.ec2.models.instances import InstanceBackend

    real = InstanceBackend.terminate_instances

    def terminate_instances(b: Any, names: list[str]) -> Any:
        w = world()
        if any(name not in w.machines for name in names):
            return real(b, names)
        ended = []
        for found in b.get_multi_instances_by_id(names):
            machine = w.machines[found.id]
            ended.append((found, {"Name": found.state, "Code": found.state_code}))
            text = "Client.UserInitiatedShutdown"
            w.end(machine, text, f"{text}: User initiated shutdown")
        return ended

    InstanceBackend.terminate_instances = terminate_instances


@patch
def an_interface_in_use_cannot_be_deleted(world: Callable[[], World]) -> None:
    from moto.ec2.models.elastic_network_interfaces import NetworkInterfaceBackend

    real = NetworkInterfaceBackend.delete_network_interface

    def delete_network_interface(b: Any, eni_id: str) -> None:
        found = b.enis.get(eni_id)
        machine = world().machines.get(found.instance.id) if found is not None and found.instance else None
        if machine is not None and not machine.gone:
            raise _refused("InvalidParameterValue", f"Network interface '{eni_id}' is currently in use.")
        real(b, eni_id)

    NetworkInterfaceBackend.delete_network_interface = delete_network_interface


@patch
def new_things_are_not_shown_at_once(world: Callable[[], World]) -> None:
    from moto.ec2.exceptions import InvalidInstanceIdError
    from moto.ec2.models.elastic_block_store import EBSBackend
    from moto.ec2.models.elastic_network_interfaces import NetworkInterfaceBackend
    from moto.ec2.models.instances import InstanceBackend

    lists, one = InstanceBackend.all_reservations, InstanceBackend.get_reservations_by_instance_ids
    volumes, interfaces = EBSBackend.describe_volumes, NetworkInterfaceBackend.get_all_network_interfaces

    def all_reservations(b: Any, filters: Any = None) -> Any:
        found = lists(b, filters)
        return [row for row in found if not any(world().hidden(known.id) for known in row.instances)]

    def get_reservations_by_instance_ids(b: Any, names: list[str], filters: Any = None) -> Any:
        if any(world().hidden(name) for name in names):
            raise InvalidInstanceIdError(names)
        return one(b, names, filters)

    def describe_instances(b: Any, filters: Any = None) -> Any:
        return all_reservations(b, filters)

    def describe_volumes(b: Any, volume_ids: Any = None, filters: Any = None) -> Any:
        found = volumes(b, volume_ids, filters)
        return found if volume_ids else [row for row in found if not world().hidden(row.id)]

    def get_all_network_interfaces(b: Any, eni_ids: Any = None, filters: Any = None) -> Any:
        return [row for row in interfaces(b, eni_ids, filters) if not world().hidden(row.id)]

    InstanceBackend.describe_instances = describe_instances
    InstanceBackend.get_reservations_by_instance_ids = get_reservations_by_instance_ids
    EBSBackend.describe_volumes = describe_volumes
    NetworkInterfaceBackend.get_all_network_interfaces = get_all_network_interfaces


@patch
def spot_requests_are_shown_and_cancelled(world: Callable[[], World]) -> None:
    from moto.ec2.models.spot_requests import SpotRequestBackend

    real = SpotRequestBackend.describe_spot_instance_requests

    def describe(b: Any, filters: Any = None, spot_instance_ids: Any = None) -> Any:
        return [row for row in real(b, filters, spot_instance_ids) if not world().hidden(row.id)]

    def cancel(b: Any, request_ids: list[str]) -> Any:
        missing = [name for name in request_ids if name not in b.spot_instance_requests]
        if missing:
            raise _refused(
                "InvalidSpotInstanceRequestID.NotFound", f"The spot request ID '{missing[0]}' does not exist"
            )
        for name in request_ids:
            b.spot_instance_requests[name].state = "cancelled"
        return [b.spot_instance_requests[name] for name in request_ids]

    SpotRequestBackend.describe_spot_instance_requests = describe
    SpotRequestBackend.cancel_spot_instance_requests = cancel


@patch
def regions_are_those_of_the_account(world: Callable[[], World]) -> None:
    from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

    real = RegionsAndZonesBackend.describe_regions

    def describe_regions(b: Any, region_names: Any = None) -> Any:
        return [row for row in real(b, region_names) if row.name in world().scenario.regions]

    RegionsAndZonesBackend.describe_regions = describe_regions


@patch
def old_types_are_offered_where_the_account_has_them(world: Callable[[], World]) -> None:
    from moto.ec2.models.instance_types import InstanceTypeOfferingBackend

    real = InstanceTypeOfferingBackend.describe_instance_type_offerings

    def offerings(b: Any, location_type: Any = None, filters: Any = None) -> Any:
        found = real(b, location_type, filters)
        wanted = (filters or {}).get("instance-type", [])
        for name in world().scenario.retired:
            if location_type == "availability-zone" and (not wanted or name in wanted):
                zones = [zone.name for zone in b.describe_availability_zones()][:2]
                found = [*found, *({"InstanceType": name, "Location": zone} for zone in zones)]
        return found

    InstanceTypeOfferingBackend.describe_instance_type_offerings = offerings


@patch
def spot_has_prices_and_scores(world: Callable[[], World]) -> None:
    from moto.core.responses import ActionResult
    from moto.ec2.responses.spot_instances import SpotInstances

    def describe_spot_price_history(self: Any) -> Any:
        w, region = world(), self.ec2_backend.region_name
        rows = []
        for kind in self._get_param("InstanceTypes", []):
            asked = {"instance-type": [kind]}
            for row in self.ec2_backend.describe_instance_type_offerings("availability-zone", asked):
                usual = 0.04 * vcpus_of(region, kind) + 0.01 * (ord(row["Location"][-1]) - ord("a"))
                price = w.spot_price(region, row["Location"], kind) or f"{usual:.4f}"
                if price == "none":
                    continue
                told = {"InstanceType": kind, "ProductDescription": "Linux/UNIX", "AvailabilityZone": row["Location"]}
                rows.append({**told, "SpotPrice": price, "Timestamp": w.now})
        return ActionResult({"SpotPriceHistory": rows})

    def get_spot_placement_scores(self: Any) -> Any:
        w, region = world(), self.ec2_backend.region_name
        kinds = self._get_param("InstanceTypes", [])
        rows = []
        for zone in self.ec2_backend.describe_availability_zones():
            where = {"region": region, "zone": zone.name, "instance_type": kinds[0], "market": "spot"}
            score = last_that_fits(w.scenario.places, "score", **where)
            full = w.stock(region, zone.name, kinds[0], "spot") <= 0
            told = {"Region": region, "AvailabilityZoneId": zone.zone_id}
            rows.append({**told, "Score": score if score is not None else (1 if full else 9)})
        return ActionResult({"SpotPlacementScores": rows})

    SpotInstances.describe_spot_price_history = describe_spot_price_history
    SpotInstances.get_spot_placement_scores = get_spot_placement_scores


@patch
def ec2_has_quotas(world: Callable[[], World]) -> None:
    from moto.servicequotas.models import ServiceQuotasBackend

    def get_service_quota(b: Any, service_code: str, quota_code: str) -> Any:
        value = world().vcpus_allowed(b.region_name, quota_code)
        names = {"QuotaCode": quota_code, "QuotaName": quota_code, "ServiceCode": service_code}
        return {**names, "Value": value, "Adjustable": True, "GlobalQuota": False}

    ServiceQuotasBackend.get_service_quota = get_service_quota


@patch
def schedules_need_their_group(world: Callable[[], World]) -> None:
    from moto.scheduler.exceptions import ScheduleGroupNotFound
    from moto.scheduler.models import EventBridgeSchedulerBackend, ScheduleExists

    create, group, rows = (
        EventBridgeSchedulerBackend.create_schedule,
        EventBridgeSchedulerBackend.create_schedule_group,
        EventBridgeSchedulerBackend.list_schedules,
    )

    def create_schedule(b: Any, **given: Any) -> Any:
        if given["group_name"] not in b.schedule_groups:
            raise ScheduleGroupNotFound(given["group_name"])
        made = create(b, **given)
        made.creation_date = world().now.timestamp()
        _scheduled(world(), b.region_name, made)
        return made

    def create_schedule_group(b: Any, name: str, tags: Any) -> Any:
        if name in b.schedule_groups:
            raise ScheduleExists(name)
        return group(b, name, tags)

    def list_schedules(b: Any, group_names: Any = None, state: Any = None, name_prefix: Any = None, **page: Any) -> Any:
        missing = [name for name in group_names or () if name not in b.schedule_groups]
        if missing:
            raise ScheduleGroupNotFound(missing[0])
        return rows(b, group_names, state, name_prefix, **page)

    EventBridgeSchedulerBackend.create_schedule = create_schedule
    EventBridgeSchedulerBackend.create_schedule_group = create_schedule_group
    EventBridgeSchedulerBackend.list_schedules = list_schedules


@patch
def the_console_is_the_machines_own(world: Callable[[], World]) -> None:
    from moto.core.responses import ActionResult
    from moto.core.types import Base64EncodedString
    from moto.ec2.responses.general import General

    def get_console_output(self: Any) -> Any:
        name = self._get_param("InstanceId")
        found = self.ec2_backend.get_instance(name)
        machine = world().machines.get(found.id)
        text = machine.console.decode() if machine else ""
        told = {"InstanceId": found.id, "Timestamp": world().now, "Output": Base64EncodedString.from_raw_string(text)}
        return ActionResult(told)

    General.get_console_output = get_console_output


@patch
def public_parameters_name_images(world: Callable[[], World]) -> None:
    from moto.ssm.models import Parameter, SimpleSystemManagerBackend

    real = SimpleSystemManagerBackend.get_parameter

    def get_parameter(b: Any, name: str) -> Any:
        if name not in backends.PUBLIC:
            return real(b, name)
        return Parameter(
            account_id=b.account_id, name=name, value=backends.PUBLIC[name][0], parameter_type="String", description="",
            allowed_pattern=None, keyid=None, last_modified_date=0, version=1, data_type="text", labels=[],
            source_result=None,
        )  # fmt: skip

    SimpleSystemManagerBackend.get_parameter = get_parameter


def _let_in(w: World, region: str, zone: str, kind: str, market: str, user_data: Any) -> None:
    if user_data is not None and len(_raw(user_data)) > MOST_USER_DATA:
        raise _refused("InvalidParameterValue", "User data is limited to 16384 bytes")
    offered = backends.ec2(region).describe_instance_type_offerings("availability-zone", {"instance-type": [kind]})
    zones = [row["Location"] for row in offered]
    if zone not in zones:
        others = ", ".join(zones)
        raise _refused(
            "Unsupported",
            f"Your requested instance type ({kind}) is not supported in your requested Availability Zone ({zone}). "
            f"Please retry your request by not specifying an Availability Zone or choosing {others}.",
        )
    code = code_of(kind, market)
    allowed = w.vcpus_allowed(region, code)
    if w.vcpus_used(region, code) + vcpus_of(region, kind) > allowed:
        name = "MaxSpotInstanceCountExceeded" if market == "spot" else "VcpuLimitExceeded"
        text = f"You have requested more vCPU capacity than your current vCPU limit of {allowed:.0f} allows"
        raise _refused(name, f"{text} for the instance bucket that the specified instance type belongs to.")
    if w.stock(region, zone, kind, market) <= 0:
        full = f"We currently do not have sufficient {kind} capacity in the Availability Zone you requested ({zone})."
        others = [other for other in zones if other != zone and w.stock(region, other, kind, market) > 0]
        where = f" or choosing {', '.join(others)}" if others else ""
        more = f" You can currently get {kind} capacity by not specifying an Availability Zone in your request{where}."
        raise _refused("InsufficientInstanceCapacity", full + (more if others else ""))


def _born(w: World, b: Any, made: Any, given: dict[str, Any], market: str) -> None:
    """The new machine, and what it brings: disks, interfaces, on spot a request; each with its tags and its time."""
    tags = given.get("tags") or {}
    labels = {tag["key"]: tag["value"] for tag in made.get_tags()}
    made.launch_time = w.now
    made._state.name, made._state.code = "pending", 0
    region, run, client = b.region_name, labels.get(_LABEL), labels.get(_CLIENT)
    things = []
    for _, device in made.get_block_device_mapping:
        volume = b.volumes[device.volume_id]
        volume.create_time = w.now
        things.append(Thing(volume.id, "volume", region, run, client, w.now))
    for interface in made.nics.values():
        interface.add_tags(tags.get("network-interface", {}))
        things.append(Thing(interface.id, "network interface", region, run, client, w.now))
    if market == "spot":
        request = _spot_request(b, made, tags.get("spot-instances-request", {}))
        things.append(Thing(request.id, "spot request", region, run, client, w.now))
    machine = Machine(
        id=made.id, region=region, zone=made.placement.zone, instance_type=made.instance_type, market=market,
        vcpus=vcpus_of(region, made.instance_type), run=run, client=client,
        attempt=int(labels[_ATTEMPT]) if _ATTEMPT in labels else None,
        user_data=_raw(made.user_data).decode() if made.user_data else "",
        has_profile=bool(given.get("iam_instance_profile_name")),
    )  # fmt: skip
    w.born(machine, things)


def _spot_request(b: Any, made: Any, tags: dict[str, str]) -> Any:
    """moto's own class would launch a second machine."""
    from moto.ec2.models.spot_requests import LaunchSpecification, SpotInstanceRequest
    from moto.ec2.utils import random_spot_request_id

    request = object.__new__(SpotInstanceRequest)
    request.ec2_backend, request.id = b, random_spot_request_id()
    request.launch_specification = LaunchSpecification(
        kernel_id=None, ramdisk_id=None, image_id=made.image_id, key_name=None, instance_type=made.instance_type,
        placement=made.placement.zone, monitored=False, subnet_id=made.subnet_id,
    )  # fmt: skip
    request.state, request._status_code, request.status_message = "active", "fulfilled", ""
    request.price, request.type = "1.0", "one-time"
    request.valid_from = request.valid_until = request.launch_group = request.availability_zone_group = None
    request.instance_interruption_behaviour, request.user_data, request.spot_fleet_id = "terminate", None, None
    request.instance = made
    b.spot_instance_requests[request.id] = request
    request.add_tags(tags)
    return request


def _scheduled(w: World, region: str, made: Any) -> None:
    run, _, rest = made.name.partition(".")
    if not rest:
        return
    client = made.name.rpartition(".")[2]
    w.things[made.name] = Thing(made.name, "schedule", region, run, client, w.now)


def _zone(b: Any, given: dict[str, Any]) -> str:
    named = given.get("subnet_id") or next((nic["SubnetId"] for nic in given["nics"] if "SubnetId" in nic), None)
    if named:
        return str(b.get_subnet(named).availability_zone)
    return str(given.get("placement") or f"{b.region_name}a")


def vcpus_of(region: str, kind: str) -> float:
    """What the machine counts for in its quota."""
    if kind in OLD_TYPES:
        return OLD_TYPES[kind]
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    known = INSTANCE_TYPES.get(kind)
    if known is None:
        found = re.search(r"(\d*)xlarge", kind)
        return 4.0 * int(found.group(1) or 1) if found else 2.0
    return float(known["VCpuInfo"]["DefaultVCpus"])


def _raw(user_data: Any) -> bytes:
    return bytes(user_data.decode().encode())


def _refused(code: str, message: str) -> Exception:
    from moto.ec2.exceptions import EC2ClientError

    return EC2ClientError(code, message)
