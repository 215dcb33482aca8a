"""moto's gaps, closed one by one: each function is put in the place of moto's own, and has a canary of its name.

Only the double's own process is patched (tests/unit/providers/aws/test_moto_canaries.py shows moto without it).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.doubles.aws import backends, births
from tests.doubles.aws.budgets import Actions, RefusedError
from tests.doubles.aws.scenario import last_that_fits

if TYPE_CHECKING:
    from tests.doubles.aws.world import World

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

    def run_instances(b: Any, image_id: str, count: int, user_data: Any, groups: Any, **parameters: Any) -> Any:
        w = world()
        region, zone = b.region_name, births.zone(b, parameters)
        token = str(parameters.get("client_token") or "")
        key, print_ = (region, zone, token), hashlib.sha256(w.request).hexdigest()
        if key in w.tokens and not births.has_forgotten(w, w.tokens[key][1]):
            if w.tokens[key][0] != print_:
                raise births.refused(
                    "IdempotentParameterMismatch",
                    "The client token you have provided is associated with a resource that is already deleted "
                    "or has other parameters.",
                )
            return w.tokens[key][1]
        market = "spot" if parameters.get("instance_market_options") else "on-demand"
        births.let_in(w, region, zone, parameters["instance_type"], market, user_data)
        made = real(b, image_id, count, user_data, groups, **parameters)
        w.tokens[key] = (print_, made)
        births.born(w, b, made.instances[0], parameters, market)
        return made

    InstanceBackend.run_instances = run_instances


@patch
def a_replay_associates_nothing_anew(world: Callable[[], World]) -> None:
    from moto.ec2.models.iam_instance_profile import IamInstanceProfileAssociationBackend

    real = IamInstanceProfileAssociationBackend.associate_iam_instance_profile

    def associate(b: Any, instance_id: str, **parameters: Any) -> Any:
        known = b.iam_instance_profile_associations.get(instance_id)
        machine = world().machines.get(instance_id)
        if known is not None or (machine is not None and machine.ended_at is not None):
            return known
        return real(b, instance_id, **parameters)

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
            assert w.caller is not None, f"nobody is known who ends {machine.id}"
            w.note_termination(machine)
            w.end(machine, text, f"{text}: User initiated shutdown", w.caller)
        return ended

    InstanceBackend.terminate_instances = terminate_instances


@patch
def an_interface_in_use_cannot_be_deleted(world: Callable[[], World]) -> None:
    from moto.ec2.models.elastic_network_interfaces import NetworkInterfaceBackend

    real = NetworkInterfaceBackend.delete_network_interface

    def delete_network_interface(b: Any, eni_id: str) -> None:
        found = b.enis.get(eni_id)
        machine = world().machines.get(found.instance.id) if found is not None and found.instance else None
        if machine is not None and not machine.is_gone:
            raise births.refused("InvalidParameterValue", f"Network interface '{eni_id}' is currently in use.")
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
            raise births.refused(
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
                usual = 0.04 * births.vcpus_of(region, kind) + 0.01 * (ord(row["Location"][-1]) - ord("a"))
                price = w.spot_price(region, row["Location"], kind) or f"{usual:.4f}"
                if price == "none":
                    continue
                told = {"InstanceType": kind, "ProductDescription": "Linux/UNIX", "AvailabilityZone": row["Location"]}
                rows.append({**told, "SpotPrice": price, "Timestamp": w.now})
        return ActionResult({"SpotPriceHistory": rows})

    def get_spot_placement_scores(self: Any) -> Any:
        from moto.ec2.models import ec2_backends

        w, by_zone = world(), self._get_param("SingleAvailabilityZone", False)
        kinds = self._get_param("InstanceTypes", [])
        rows = []
        for region in self._get_param("RegionNames", []) or [self.ec2_backend.region_name]:
            scores = {}
            for zone in ec2_backends[self.current_account][region].describe_availability_zones():
                where = {"region": region, "zone": zone.name, "instance_type": kinds[0], "market": "spot"}
                score = last_that_fits(w.scenario.placements, "score", **where)
                full = w.stock(region, zone.name, kinds[0], "spot") <= 0
                scores[zone.zone_id] = score if score is not None else (1 if full else 9)
                if len(set(kinds)) < 3:
                    scores[zone.zone_id] = 1
            told = [{"Region": region, "AvailabilityZoneId": zone, "Score": scores[zone]} for zone in scores]
            rows += told if by_zone else [{"Region": region, "Score": max(scores.values())}]
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

    def create_schedule(b: Any, **parameters: Any) -> Any:
        if parameters["group_name"] not in b.schedule_groups:
            raise ScheduleGroupNotFound(parameters["group_name"])
        made = create(b, **parameters)
        made.creation_date = world().now.timestamp()
        births.scheduled(world(), b.region_name, made)
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


def _this_month(w: World) -> dict[str, float]:
    """The period that AWS takes where a budget names no begin."""
    begin = w.now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return {"Start": begin.timestamp(), "End": 3706473600}


@patch
def budgets_begin_with_their_month(world: Callable[[], World]) -> None:
    from moto.budgets.models import BudgetsBackend

    real = BudgetsBackend.create_budget

    def create_budget(b: Any, account_id: str, budget: dict[str, Any], notifications: Any) -> None:
        real(b, account_id, {"TimePeriod": _this_month(world()), **budget}, notifications)

    BudgetsBackend.create_budget = create_budget


@patch
def budgets_have_actions(world: Callable[[], World]) -> None:
    from moto.budgets.responses import BudgetsResponse
    from moto.core.exceptions import JsonRESTError

    def answered(answer: Callable[[Actions, dict[str, Any]], dict[str, Any]]) -> Callable[[Any], str]:
        def respond(self: Any) -> str:
            try:
                return json.dumps(answer(world().actions, json.loads(self.body)))
            except RefusedError as error:
                raise JsonRESTError(*error.args) from error

        return respond

    BudgetsResponse.create_budget_action = answered(lambda actions, given: actions.create(given))
    BudgetsResponse.delete_budget_action = answered(
        lambda actions, given: actions.delete(given["BudgetName"], given["ActionId"])
    )
    BudgetsResponse.describe_budget_actions_for_budget = answered(
        lambda actions, given: {"Actions": actions.of(given["BudgetName"])}
    )


@patch
def budgets_tell_who_is_notified(world: Callable[[], World]) -> None:
    """moto keeps the subscribers of a notification, and has no operation that lists or changes them, nor a budget's
    amount."""
    from moto.budgets.exceptions import DuplicateRecordException, NotFoundException
    from moto.budgets.responses import BudgetsResponse

    def rule(self: Any) -> Any:
        name = self._get_param("BudgetName")
        self.backend.describe_budget(self.current_account, name)  # refuses one that is not there as AWS does
        rules = self.backend.budgets[self.current_account][name].notifications
        found = [one for one in rules if one.details == self._get_param("Notification")]
        if not found:
            raise NotFoundException(f"Unable to get notification of {name} - it doesn't exist.")
        return found[0]

    def update(self: Any) -> str:
        given = self._get_param("NewBudget")
        self.backend.describe_budget(self.current_account, given["BudgetName"])
        budget = self.backend.budgets[self.current_account][given["BudgetName"]]
        budget.budget = {"TimePeriod": _this_month(world()), **given}  # its notifications stay
        return "{}"

    def create_subscriber(self: Any) -> str:
        people, new = rule(self).subscribers, self._get_param("Subscriber")
        if new in people:
            raise DuplicateRecordException(record_type="subscriber", record_name=new["Address"])
        people.append(new)
        return "{}"

    def delete_subscriber(self: Any) -> str:
        found, old = rule(self), self._get_param("Subscriber")
        if old not in found.subscribers:
            raise NotFoundException("Unable to delete subscriber - it doesn't exist.")
        found.subscribers.remove(old)
        if not found.subscribers:  # "Deleting the last subscriber to a notification also deletes the notification."
            name = self._get_param("BudgetName")
            self.backend.budgets[self.current_account][name].delete_notification(found.details)
        return "{}"

    BudgetsResponse.describe_subscribers_for_notification = lambda self: json.dumps(
        {"Subscribers": rule(self).subscribers}
    )
    BudgetsResponse.update_budget = update
    BudgetsResponse.create_subscriber = create_subscriber
    BudgetsResponse.delete_subscriber = delete_subscriber
