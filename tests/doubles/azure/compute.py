"""Machines of the double: their create with all that comes with it, what they look like, their timer, their console."""

from __future__ import annotations

import json
import os
import uuid
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conftest import ROOT, SHARED_VARIABLE
from tests.doubles.azure.life import start_up_of
from tests.doubles.azure.rules import CONTROLLERS, FIRST_GENERATION, GENERATIONS, ON_A_CREDIT, SIZES, SUBSCRIPTION
from tests.doubles.azure.values import Answer, ArmError, Group, Request, Thing, Timer
from tests.doubles.azure.wire import SdkModels, Types
from tests.doubles.azure.world import VM, World, thing_of
from tests.faults.harness import EndedBy
from trainplan.providers.sim.values import Why

if TYPE_CHECKING:
    from tests.doubles.azure.arm import Arm, Take

TYPES_FILE = "oracles/azure-compute-2026-04-01-types.json"
_USD = {"machine": 0.526, "disk": 0.013, "address": 0.005}
_PARTS = (
    ("disk", "Microsoft.Compute/disks"),
    ("interface", "Microsoft.Network/networkInterfaces"),
    ("address", "Microsoft.Network/publicIPAddresses"),
)
_CODES = {"sync": "SkuNotAvailable", "lro": "AllocationFailed"}


def routes(group: str, home: str) -> list[tuple[str, str, Take]]:
    machine = group + r"/providers/Microsoft\.Compute/virtualMachines/(?P<name>[^/]+)"
    place = home + r"/providers/Microsoft\.Compute(Schedule)?/locations/(?P<region>[^/]+)"
    return [
        ("PUT", machine, _put),
        ("GET", machine, _get),
        ("POST", machine + "/retrieveBootDiagnosticsData", _console),
        ("POST", machine + "/simulateEviction", _evict),
        ("POST", machine + "/deallocate", _deallocate),
        ("GET", place + "/operations/(?P<id>[^/]+)", _operation),
        ("POST", place + "/virtualMachinesSubmitDeallocate", _schedule),
    ]


def types_file() -> Path | None:
    """Microsoft's own description of the API, where it is."""
    found = ROOT / os.environ.get(SHARED_VARIABLE, "../shared") / TYPES_FILE
    return found if found.is_file() else None


@cache
def _oracles() -> tuple[SdkModels | Types, ...]:
    models = SdkModels("azure.mgmt.compute", "VirtualMachine")
    file = types_file()
    return (models,) if file is None else (models, Types(file, VM))


def _put(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    world, body = arm.world, request.body
    group = world.open_group(parameters["group"])
    for oracle in _oracles():
        oracle.check(body)
    known = world.things.get(request.path.lower())
    if known is not None:
        if json.dumps(known.body, sort_keys=True) != json.dumps(body, sort_keys=True):
            raise ArmError(409, "PropertyChangeNotAllowed", "Changing property 'customData' is not allowed.")
        return Answer(200, view(world, known))
    _check_references(world, body)
    _check_quota(world, body)
    error = _refused(world, body)
    made = _create(world, group, request, error)
    return Answer(201, view(world, made), arm.operation(made.location, made.ready_at, error))


def _check_references(world: World, body: dict[str, Any]) -> None:
    properties = body["properties"]
    for path in body.get("identity", {}).get("userAssignedIdentities", {}):
        if path.lower() not in world.things:
            raise ArmError(400, "FailedIdentityOperation", f"Identity {path} was not found")
    interface = properties["networkProfile"]["networkInterfaceConfigurations"][0]["properties"]
    subnet = interface["ipConfigurations"][0]["properties"]["subnet"]["id"]
    for path in (subnet.rpartition("/subnets/")[0], interface["networkSecurityGroup"]["id"]):
        found = world.things.get(path.lower())
        if found is None:
            raise ArmError(400, "InvalidResourceReference", f"Resource {path} was not found.")
        if found.state(world.now) != "Succeeded":
            raise ArmError(429, "ReferencedResourceNotProvisioned", f"{path} is in {found.state(world.now)} state")
    size, sku = properties["hardwareProfile"]["vmSize"], properties["storageProfile"]["imageReference"].get("sku", "")
    generation = "V1" if sku in FIRST_GENERATION else "V2"
    if sku and generation not in GENERATIONS.get(size, "V1,V2"):
        raise ArmError(400, "BadRequest", f"The selected VM size '{size}' cannot boot Hypervisor {generation}.")
    _check_controller(size, properties["storageProfile"].get("diskControllerType", "SCSI"))
    if not properties["osProfile"]["linuxConfiguration"]["ssh"]["publicKeys"]:
        raise ArmError(400, "InvalidParameter", "Authentication using either SSH or by user name and password")


def _check_controller(size: str, controller: str) -> None:
    """A create that names none gets SCSI; the words are those of a reported refusal (FederalAVD issue 20)."""
    if controller not in CONTROLLERS.get(size, "SCSI"):
        raise ArmError(
            400,
            "InvalidParameter",
            f"The VM size '{size}' cannot boot with DiskControllerType '{controller}'. Please check that the disk "
            f"controller type provided is one of the supported disk controller types for the VM size '{size}'.",
        )


def _check_quota(world: World, body: dict[str, Any]) -> None:
    size, region = body["properties"]["hardwareProfile"]["vmSize"], body["location"]
    family, cores = SIZES[size]
    spot = body["properties"].get("priority") == "Spot"
    if spot and world.rules.quota_id.startswith(ON_A_CREDIT):
        message = "Subscription not enabled with Azure Spot Virtual Machine feature."
        raise ArmError(409, "AzureSpotFeatureNotEnabledForSubscription", message)
    for name, said in ((("lowPriorityCores", "Total Regional Low Priority Cores"),) if spot else (
        (family, f"{family} Cores"), ("cores", "Total Regional Cores"))):  # fmt: skip
        limit, used = limit_of(world, region, name), used_of(world, region, name)
        if used + cores > limit:
            message = (
                f"Operation could not be completed as it results in exceeding approved {said} quota. Additional "
                f"details - Deployment Model: Resource Manager, Location: {region}, Current Limit: {limit}, Current "
                f"Usage: {used}, Additional Required: {cores}, (Minimum) New Limit Required: {used + cores}."
            )
            raise ArmError(409, "OperationNotAllowed", message)


def limit_of(world: World, region: str, name: str) -> int:
    return world.rules.limits.get((region, name), world.rules.limits.get(("*", name), 1000))


def used_of(world: World, region: str, name: str) -> int:
    """Cores of machines that are allocated."""
    used = 0
    for thing in world.machines():
        properties = thing.body["properties"]
        family, cores = SIZES[properties["hardwareProfile"]["vmSize"]]
        spot = properties.get("priority") == "Spot"
        counts = name == "lowPriorityCores" if spot else name in (family, "cores")
        if thing.location == region and thing.stopped_at is None and not thing.error and counts:
            used += cores
    return used


def _refused(world: World, body: dict[str, Any]) -> dict[str, str] | None:
    """Why there is no room, told by the operation; raised as ArmError where it is told at once."""
    properties = body["properties"]
    market = "spot" if properties.get("priority") == "Spot" else "on_demand"
    asked = (body["location"], properties["hardwareProfile"]["vmSize"], market)
    if not any(all(rule in ("*", value) for rule, value in zip(row, asked, strict=True)) for row in world.rules.full):
        return None
    code = _CODES[world.rules.refuses]
    message = f"{code}: no capacity for {asked[1]} in {asked[0]}."
    if world.rules.refuses == "sync":
        raise ArmError(409, code, message)
    return {"code": code, "message": message}


def _create(world: World, group: Group, request: Request, error: dict[str, str] | None) -> Thing:
    body = request.body
    made = Thing(
        id=request.path, type=VM, name=request.path.rpartition("/")[2], group=group.name, location=body["location"],
        body=body, tags=body.get("tags") or {}, created_at=world.now, usd_per_hour=_USD["machine"], error=error,
    )  # fmt: skip
    if error is None and world.rules.real:
        start_up_of(body)
        made.power, made.ready_at = "starting", world.now
    elif error is None:
        try:
            life = world.life.begin(f"{made.name} {len(world.past)}", body)
        except ValueError as trouble:
            raise ArmError(400, "InvalidParameter", str(trouble)) from trouble
        made.life, made.ready_at = life.id, life.boots_at
    else:
        made.ready_at = world.now + world.rules.network
        made.stops(world.now, EndedBy.PROVIDER, error["code"])
    world.add(made)
    for kind, type_name in _PARTS:
        path = f"{group.id}/providers/{type_name}/{made.name}-{kind}"
        part = Thing(
            id=path, type=type_name, name=f"{made.name}-{kind}", group=group.name, location=made.location,
            body=_part(kind, body, world.now.isoformat()), tags=_tags(kind, body), created_at=world.now,
            usd_per_hour=_USD.get(kind, 0.0),
        )  # fmt: skip
        world.add(part)
        if _delete_option(body, kind):
            made.parts.append(part.id.lower())
    return made


def _part(kind: str, body: dict[str, Any], now: str) -> dict[str, Any]:
    """What Azure makes with a machine, as it lists it."""
    if kind == "disk":
        disk = body["properties"]["storageProfile"]["osDisk"]
        properties = {"diskSizeGB": disk.get("diskSizeGB", 30), "diskState": "Attached", "timeCreated": now}
        return {"sku": {"name": disk["managedDisk"]["storageAccountType"]}, "properties": properties}
    if kind == "address":
        properties = {"publicIPAllocationMethod": "Static", "ipConfiguration": {"id": "an interface"}}
        return {"sku": {"name": "Standard"}, "properties": properties}
    return {}


def _tags(kind: str, body: dict[str, Any]) -> dict[str, str]:
    """A disk takes the tags of the machine that it is made with, an interface and an address have their own."""
    return dict((body if kind == "disk" else _configuration(kind, body)).get("tags") or {})


def _delete_option(body: dict[str, Any], kind: str) -> bool:
    """Whether the part goes with its machine."""
    disk = body["properties"]["storageProfile"]["osDisk"]
    row = disk if kind == "disk" else _configuration(kind, body)["properties"]
    return bool(row.get("deleteOption") == "Delete")


def _configuration(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """What a create says of the interface or of its address."""
    interface: dict[str, Any] = body["properties"]["networkProfile"]["networkInterfaceConfigurations"][0]
    address: dict[str, Any] = interface["properties"]["ipConfigurations"][0]["properties"][
        "publicIPAddressConfiguration"
    ]
    return interface if kind == "interface" else address


def view(world: World, vm: Thing) -> dict[str, Any]:
    """As Azure shows it: no custom data, the interface by its id."""
    body = json.loads(json.dumps(vm.body))
    properties = body["properties"]
    properties["osProfile"].pop("customData", None)
    properties["networkProfile"] = {"networkInterfaces": [{"id": path} for path in vm.parts if "interface" in path]}
    properties |= {
        "provisioningState": vm.state(world.now),
        "vmId": vm.life or "",
        "timeCreated": vm.created_at.isoformat(),
    }
    return {**body, "id": vm.id, "name": vm.name, "type": vm.type}


def shown_with_view(world: World, vm: Thing) -> dict[str, Any]:
    """With its power state."""
    told = view(world, vm)
    told["properties"]["instanceView"] = _view(world, vm)
    return told


def _view(world: World, vm: Thing) -> dict[str, Any]:
    state = vm.state(world.now).lower()
    first: dict[str, Any] = {"code": f"ProvisioningState/{state}", "level": "Info"}
    if vm.error and state == "failed":
        first = {
            "code": f"ProvisioningState/failed/{vm.error['code']}",
            "level": "Error",
            "message": vm.error["message"],
        }
    power = [{"code": f"PowerState/{vm.power}", "level": "Info"}] if vm.power else []
    return {"statuses": [first, *power]}


def _machine(arm: Arm, request: Request, suffix: str = "") -> Thing:
    return thing_of(arm.world, request.path.removesuffix(suffix))


def _get(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    vm = _machine(arm, request)
    viewed = request.query.get("$expand", "").lower() == "instanceview"
    return Answer(200, (shown_with_view if viewed else view)(arm.world, vm))


def _console(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    vm = _machine(arm, request, "/retrieveBootDiagnosticsData")
    return Answer(200, {"serialConsoleLogBlobUri": f"{arm.base}/signed/{vm.life}?sig=1"})


def _evict(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    vm = _machine(arm, request, "/simulateEviction")
    vm.evicted = True
    if vm.life is not None:
        arm.world.life.end(vm.life, Why.RECLAIMED)
        arm.world.advance(arm.world.now)
    return Answer(204)


def _deallocate(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    vm = _machine(arm, request, "/deallocate")
    arm.world.timers.append(Timer(arm.world.now, vm.id.lower(), "now", EndedBy.COMMAND))
    arm.world.advance(arm.world.now)
    return Answer(202)


def _operation(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    known = arm.world.operations[parameters["id"]]
    over = arm.world.now >= known.ready_at
    state = "InProgress" if not over else "Failed" if known.error else "Succeeded"
    return Answer(200, {"name": known.id, "status": state, **({"error": known.error} if over and known.error else {})})


def _schedule(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    """Status 200 also where no timer was set: each machine has a result of its own, with an error or an operation."""
    body = request.body
    if parameters["region"] in arm.world.rules.no_timers_in:
        raise ArmError(
            400,
            "NoRegisteredProviderFound",
            f"No registered resource provider found for location '{parameters['region']}' and API version '2025-05-01' "
            "for type 'locations'.",
        )
    SdkModels("azure.mgmt.computeschedule", "SubmitDeallocateRequest").check(body)
    rows = [_scheduled(arm.world, body, path) for path in body["resources"]["ids"]]
    return Answer(
        200, {"description": "Deallocate", "type": "virtualMachines", "location": parameters["region"], "results": rows}
    )


def _scheduled(world: World, body: dict[str, Any], path: str) -> dict[str, Any]:
    """What becomes of one machine's timer: a machine that is not allocated is not known there yet."""
    vm, refused = world.things.get(path.lower()), world.rules.timer_error
    known = vm is not None and vm.state(world.now) == "Succeeded"
    if not known or (vm is not None and vm.ready_at is not None and world.now < vm.ready_at + world.rules.timer_lag):
        refused = "ResourceNotFound"
    words = world.unmet.meets("POST virtualMachinesSubmitDeallocate", path, world.now)
    refused = words.code if words else refused
    if refused:
        return {"resourceId": path, "errorCode": refused, "errorDetails": f"no deallocate was scheduled for {path}"}
    schedule, correlation = body["schedule"], body["correlationid"]
    if not any(timer.correlation == correlation for timer in world.timers):
        at = datetime.fromisoformat(schedule["deadLine"])
        world.timers.append(Timer(at, path.lower(), correlation, EndedBy.CLOUD_TIMER))
    operation = {
        "operationId": str(uuid.uuid5(uuid.NAMESPACE_URL, correlation)), "resourceId": path, "opType": "Deallocate",
        "subscriptionId": SUBSCRIPTION, "deadline": schedule["deadLine"], "deadlineType": schedule["deadlineType"],
        "state": "PendingScheduling", "timezone": schedule["timeZone"], "resourceOperationError": None,
    }  # fmt: skip
    return {"resourceId": path, "errorCode": None, "errorDetails": None, "operation": operation}
