"""Compute Engine's methods, by their ids in Google's description."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from tests.doubles.google.machines import Disk, Machine, Operation, table_of
from tests.doubles.google.world import Call, RefusedError, World
from tests.faults.harness import EndedBy

HOST = "https://www.googleapis.com/compute/v1"
_LETTERS = {"us-central1": "abcf", "us-east1": "bcd", "europe-west1": "bcd"}
_REGIONS = """
us-central1 us-east1 us-east4 us-east5 us-south1 us-west1 us-west2 us-west3 us-west4
northamerica-northeast1 northamerica-northeast2 northamerica-south1 southamerica-east1 southamerica-west1
europe-central2 europe-north1 europe-north2 europe-southwest1 europe-west1 europe-west2 europe-west3 europe-west4
europe-west6 europe-west8 europe-west9 europe-west10 europe-west12
asia-east1 asia-east2 asia-northeast1 asia-northeast2 asia-northeast3 asia-south1 asia-south2 asia-southeast1
asia-southeast2 australia-southeast1 australia-southeast2 me-central1 me-central2 me-west1 africa-south1
"""
ZONES: Mapping[str, str] = {name: _LETTERS.get(name, "abc") for name in _REGIONS.split()}
"""Regions, and the letters of their zones (https://cloud.google.com/compute/docs/regions-zones)."""
_MACHINES = re.compile(
    r"(n1|n2|n2d|e2|c2|c3)-standard-\d+|g2-standard-\d+|a2-(high|ultra|mega)gpu-\d+g|a3-(high|mega|ultra)gpu-\d+g"
    r"|g4-standard-\d+|ct5p-hightpu-[124]t|ct6e-standard-[148]t"
)
_ACCELERATORS = frozenset({"nvidia-tesla-t4", "nvidia-tesla-v100", "nvidia-tesla-p4", "nvidia-tesla-p100"})
_WITH_OWN_DEVICES = ("g2-", "a2-", "a3-", "g4-", "ct5p-", "ct6e-")
"""Machine types that bring their accelerator."""
_METRICS: Mapping[str, str] = {
    "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
    "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
    "nvidia-tesla-p4": "NVIDIA_P4_GPUS",
    "nvidia-tesla-p100": "NVIDIA_P100_GPUS",
}
_HYPERDISK_ONLY = ("ct6e-", "a3-ultragpu-", "g4-")
_ONE_OF = {
    "instances": "instance",
    "disks": "disk",
    "addresses": "address",
    "forwardingRules": "forwardingRule",
    "machineTypes": "machineType",
    "acceleratorTypes": "acceleratorType",
}
_MANY = 1000.0
_CONDITION = re.compile(r'(?P<field>[\w.-]+)\s*(?P<how>=|eq)\s*"?(?P<value>[^"]*)"?')


def insert(world: World, call: Call) -> dict[str, Any]:
    table, zone, token = table_of(world), call.path["zone"], call.query.get("requestId", "")
    known = table.tokens.get(token)
    if known is not None and _age(world, known) < world.scenario.token_seconds:
        return known.body
    check_placement(world, zone)
    check_policy(world, call)
    _check_machine(world, call)
    if table.machine(zone, call.body["name"]) is not None:
        raise RefusedError(409, "alreadyExists", f"The resource '{_path(call)}/{call.body['name']}' already exists")
    machine = _asked_for(world, call)
    operation = table.record(zone, "insert", machine)
    if token:
        operation.body["clientOperationId"] = token
        table.tokens[token] = operation
    short = _no_quota(world, machine) or _no_quota_anywhere(world, machine)
    refused = _no_room(world, machine) or short or _by_fault(world)
    if refused is not None:
        operation.error, operation.http = refused
        machine.refused = True
        operation.happens = lambda: table.forget(machine)
    else:
        operation.happens = lambda: table.start(machine) if machine.gone_at is None else None
    table.machines.append(machine)
    table.disks.append(machine.disk)
    return operation.body


def get(world: World, call: Call) -> dict[str, Any]:
    return _there(world, call).body


def delete(world: World, call: Call) -> dict[str, Any]:
    machine = _there(world, call)
    return table_of(world).delete(machine, EndedBy.COMMAND).body


def console(world: World, call: Call) -> dict[str, Any]:
    machine = _there(world, call)
    text = machine.guest.console if machine.guest is not None else ""
    return {"kind": "compute#serialPortOutput", "contents": text, "start": "0", "next": str(len(text))}


def wait(world: World, call: Call) -> dict[str, Any]:
    """Time passes until it is done, but for two minutes at most."""
    operation = _operation(world, call)
    world.pass_to(min(max(operation.done_at, world.now), world.now + timedelta(minutes=2)))
    return operation.body


def get_operation(world: World, call: Call) -> dict[str, Any]:
    return _operation(world, call).body


OPERATIONS_ARE_KEPT = timedelta(days=14)
"""Of operations that are done (docs/maintainers/fidelity.md)."""


def list_operations(world: World, call: Call) -> dict[str, Any]:
    kept = [known for known in table_of(world).operations if world.now - known.done_at <= OPERATIONS_ARE_KEPT]
    rows = [known.body for known in reversed(kept) if known.zone == call.path["zone"]]
    found = [row for row in rows if _matches(row, call.query.get("filter", ""))]
    return {"kind": "compute#operationList", "id": "operations", "items": found, "selfLink": HOST}


def list_instances(world: World, call: Call) -> dict[str, Any]:
    there = [known for known in table_of(world).machines if not known.is_gone and known.shown_from <= world.now]
    return aggregated(world, call, "instances", [(f"zones/{known.zone}", known.body) for known in there])


def list_addresses(world: World, call: Call) -> dict[str, Any]:
    """We never reserve one: machines have ephemeral ones, which are no resources."""
    return aggregated(world, call, "addresses", of_others(world, "addresses"))


def list_rules(world: World, call: Call) -> dict[str, Any]:
    return aggregated(world, call, "forwardingRules", of_others(world, "forwardingRules"))


def list_snapshots(world: World, call: Call) -> dict[str, Any]:
    rows = [dict(row) for _, row in of_others(world, "snapshots")]
    return {"kind": "compute#snapshotList", "id": "snapshots", "items": rows, "selfLink": HOST}


def of_others(world: World, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """What somebody else made in the project: (scope, row)."""
    return [(str(row["scope"]), dict(row["row"])) for row in world.scenario.others.get(kind, ())]


def list_machine_types(world: World, call: Call) -> dict[str, Any]:
    name = _name_in(call)
    rows = [(f"zones/{zone}", {"name": name, "zone": zone}) for zone in _zones(world) if _MACHINES.fullmatch(name)]
    return aggregated(world, call, "machineTypes", rows)


def list_accelerator_types(world: World, call: Call) -> dict[str, Any]:
    name = _name_in(call)
    rows = [(f"zones/{zone}", {"name": name, "zone": zone}) for zone in _zones(world) if name in _ACCELERATORS]
    return aggregated(world, call, "acceleratorTypes", rows)


def image(world: World, call: Call) -> dict[str, Any]:
    name = f"{call.path['family']}-v20261101"
    return {
        "kind": "compute#image",
        "name": name,
        "family": call.path["family"],
        "diskSizeGb": "50",
        "status": "READY",
        "selfLink": f"{HOST}/projects/{call.path['project']}/global/images/{name}",
    }


def project(world: World, call: Call) -> dict[str, Any]:
    limits = {"GPUS_ALL_REGIONS": _MANY, **world.scenario.quotas.get("global", {})}
    return {"kind": "compute#project", "name": call.path["project"], "quotas": _quotas(limits, {})}


def region(world: World, call: Call) -> dict[str, Any]:
    name = call.path["region"]
    if name not in ZONES:
        raise not_found(f"regions/{name}")
    every = dict.fromkeys(
        ("CPUS", "N2_CPUS", "A2_CPUS", "SSD_TOTAL_GB", "NVIDIA_A100_GPUS", "NVIDIA_L4_GPUS", *_METRICS.values()), _MANY
    )
    every |= {f"PREEMPTIBLE_{metric}": _MANY for metric in every if metric.endswith("_GPUS")}
    limits = every | limits_of(world, name)
    return {"kind": "compute#region", "name": name, "quotas": _quotas(limits, used(world, name))}


def list_regions(world: World, call: Call) -> dict[str, Any]:
    rows = [{"kind": "compute#region", "name": name, "status": "UP"} for name in ZONES]
    return {"kind": "compute#regionList", "id": "regions", "items": rows, "selfLink": HOST}


def network(world: World, call: Call) -> dict[str, Any]:
    if call.path["network"] not in world.scenario.networks:
        raise not_found(f"networks/{call.path['network']}")
    return shown_network(world, call)


def shown_network(world: World, call: Call) -> dict[str, Any]:
    """A network in auto mode."""
    name = call.path["network"]
    home = f"{HOST}/projects/{call.path['project']}"
    there = [f"{home}/regions/{region}/subnetworks/{name}" for region in ZONES if has_subnetwork(world, region, name)]
    link = f"{home}/global/networks/{name}"
    return {
        "kind": "compute#network",
        "name": name,
        "autoCreateSubnetworks": True,
        "subnetworks": there,
        "selfLink": link,
    }


def has_subnetwork(world: World, region: str, network: str) -> bool:
    """Whether the network has its subnetwork in the region. All are in auto mode: subnetworks have their name."""
    return network in world.scenario.networks and region not in world.scenario.regions_without_subnetwork


def billing(world: World, call: Call) -> dict[str, Any]:
    paid = world.scenario.billing
    account = {"billingAccountName": "billingAccounts/000000-111111-222222"} if paid else {}
    return {"name": "projects/p/billingInfo", "projectId": "p", "billingEnabled": paid, **account}


HANDLERS: dict[str, Callable[[World, Call], dict[str, Any]]] = {
    "compute.instances.insert": insert,
    "compute.instances.get": get,
    "compute.instances.delete": delete,
    "compute.instances.getSerialPortOutput": console,
    "compute.instances.aggregatedList": list_instances,
    "compute.addresses.aggregatedList": list_addresses,
    "compute.forwardingRules.aggregatedList": list_rules,
    "compute.snapshots.list": list_snapshots,
    "compute.machineTypes.aggregatedList": list_machine_types,
    "compute.acceleratorTypes.aggregatedList": list_accelerator_types,
    "compute.zoneOperations.wait": wait,
    "compute.zoneOperations.get": get_operation,
    "compute.zoneOperations.list": list_operations,
    "compute.images.getFromFamily": image,
    "compute.projects.get": project,
    "compute.regions.get": region,
    "compute.regions.list": list_regions,
    "compute.networks.get": network,
    "cloudbilling.projects.getBillingInfo": billing,
}


def _asked_for(world: World, call: Call) -> Machine:
    """The instance and its disk as they are shown from now on."""
    zone, body = call.path["zone"], dict(call.body)
    address, number = f"{HOST}/{_path(call)}", world.number()
    wanted = body["disks"][0]["initializeParams"]
    disk_link = f"{HOST}/projects/{call.path['project']}/zones/{zone}/disks/{body['name']}"
    disk = {
        "kind": "compute#disk",
        "id": world.number(),
        "name": body["name"],
        "sizeGb": wanted["diskSizeGb"],
        "type": f"{HOST}/projects/{call.path['project']}/{wanted['diskType']}" if "diskType" in wanted else "",
        "labels": wanted.get("labels", {}),
        "status": "READY",
        "creationTimestamp": world.stamp(),
        "selfLink": disk_link,
    }
    made = Disk(zone=zone, body=disk, created_at=world.now)
    shown = {
        **body,
        "disks": [{"boot": True, "autoDelete": body["disks"][0].get("autoDelete", False), "source": disk_link}],
        "kind": "compute#instance",
        "id": number,
        "status": "PROVISIONING",
        "creationTimestamp": world.stamp(),
        "zone": f"{HOST}/projects/{call.path['project']}/zones/{zone}",
        "machineType": f"{HOST}/projects/{call.path['project']}/{body['machineType']}",
        "selfLink": f"{address}/{body['name']}",
    }
    shown_from = world.now + timedelta(seconds=world.scenario.lag_seconds)
    return Machine(zone=zone, body=shown, disk=made, created_at=world.now, shown_from=shown_from)


def check_placement(world: World, zone: str) -> None:
    if zone not in _zones(world):
        raise RefusedError(403, "forbidden", f"Permission denied on 'locations/{zone}' (or it may not exist).")


def check_policy(world: World, call: Call) -> None:
    zone = call.path["zone"]
    if zone.rpartition("-")[0] in world.scenario.closed_regions:
        words = f"Location ZONE:{zone} violates constraint constraints/gcp.resourceLocations on the resource"
        raise RefusedError(412, "conditionNotMet", f"{words} {_path(call)}/{call.body['name']}.")


def _check_machine(world: World, call: Call) -> None:
    """What Google's description does not tell: which parts fit together."""
    body, zone = call.body, call.path["zone"]
    name = str(body["machineType"]).rpartition("/")[2]
    scheduling = body.get("scheduling", {})
    attached = [str(row["acceleratorType"]).rpartition("/")[2] for row in body.get("guestAccelerators", ())]
    disk = str(body["disks"][0]["initializeParams"].get("diskType", "")).rpartition("/")[2]
    spot = scheduling.get("provisioningModel") == "SPOT"
    fixed = bool(attached) or name.startswith(_WITH_OWN_DEVICES) or spot
    wrong = {
        f"Machine type with name '{name}' does not exist in zone '{zone}'.": not _MACHINES.fullmatch(name),
        f"Machine type {name} takes no accelerators": bool(attached) and not name.startswith("n1-"),
        "Instances with guest accelerators do not support live migration.": fixed
        and scheduling.get("onHostMaintenance") != "TERMINATE",
        "Spot instances cannot be restarted automatically": spot and scheduling.get("automaticRestart") is not False,
        "instanceTerminationAction is needed with maxRunDuration": "maxRunDuration" in scheduling
        and not scheduling.get("instanceTerminationAction"),
        f"[{disk}] features are not compatible for creating instance.": disk == "pd-balanced"
        and name.startswith(_HYPERDISK_ONLY),
        "maxRunDuration is out of its range": not int(scheduling.get("maxRunDuration", {}).get("seconds", 30)) >= 30,
    }
    for message, is_so in wrong.items():
        if is_so:
            raise RefusedError(400, "invalid", f"Invalid value for field 'resource': {message}")
    used = str(body["networkInterfaces"][0].get("network", "")).rpartition("/")[2]
    if used not in world.scenario.networks:
        raise not_found(f"networks/{used}")


Refusal = tuple[dict[str, Any], tuple[int, str]]


def _no_room(world: World, machine: Machine) -> Refusal | None:
    """By zone, else by region; where there is room elsewhere in the region, it is named."""
    if not _is_full(world, machine.zone):
        return None
    near = machine.zone.rpartition("-")[0]
    others = [f"{near}-{letter}" for letter in ZONES[near] if not _is_full(world, f"{near}-{letter}")]
    told = {"zone": machine.zone, "zonesAvailable": ",".join(others)}
    info = {"reason": "resource_availability", "domain": "compute.googleapis.com", "metadatas": told}
    message = f"The zone '{machine.zone}' does not have enough resources available to fulfill the request."
    code = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
    row = {"code": code, "message": message, "errorDetails": [{"errorInfo": info}]}
    return {"errors": [row]}, (503, "SERVICE UNAVAILABLE")


def _is_full(world: World, zone: str) -> bool:
    stock, near = world.scenario.stock, zone.rpartition("-")[0]
    placement = zone if zone in stock else near
    if placement not in stock:
        return False
    live = [known for known in table_of(world).machines if _holds(known) and known.zone.startswith(placement)]
    return len(live) >= stock[placement]


def _no_quota(world: World, machine: Machine) -> Refusal | None:
    near = machine.zone.rpartition("-")[0]
    limits = limits_of(world, near)
    taken = used(world, near)
    for metric, count in _counted(machine).items():
        if metric in limits and taken.get(metric, 0) + count > limits[metric]:
            message = f"Quota '{metric}' exceeded.  Limit: {limits[metric]} in region {near}."
            info = {"metricName": f"compute.googleapis.com/{metric.lower()}", "limitName": metric}
            row = {"code": "QUOTA_EXCEEDED", "message": message, "errorDetails": [{"quotaInfo": info}]}
            return {"errors": [row]}, (403, "FORBIDDEN")
    return None


def _no_quota_anywhere(world: World, machine: Machine) -> Refusal | None:
    """By the quotas of all regions together, which are unlimited where the scenario names none. Spot counts too."""
    limits = world.scenario.quotas.get("global", {})
    live = [known for known in table_of(world).machines if _holds(known)]
    for metric in limits:
        words = ("_GPUS",) if metric == "GPUS_ALL_REGIONS" else ("CPUS",)
        used = sum(_of_kind(known, words) for known in live)
        if used + _of_kind(machine, words) > limits[metric]:
            message = f"Quota '{metric}' exceeded.  Limit: {limits[metric]} globally."
            return {"errors": [{"code": "QUOTA_EXCEEDED", "message": message}]}, (403, "FORBIDDEN")
    return None


def limits_of(world: World, region: str) -> dict[str, float]:
    """The quotas that the scenario sets in a region."""
    return world.scenario.quotas.get("*", {}) | world.scenario.quotas.get(region, {})


def _of_kind(machine: Machine, endings: tuple[str, ...]) -> int:
    return sum(count for metric, count in _counted(machine).items() if metric.endswith(endings))


def _by_fault(world: World) -> Refusal | None:
    rule = world.fault("compute.instances.insert", "operation_error")
    if rule is None:
        return None
    return {"errors": [{"code": rule.code, "message": rule.message}]}, (rule.status, "AS THE TEST WANTS IT")


def _counted(machine: Machine) -> dict[str, int]:
    counted = {}
    for row in machine.body.get("guestAccelerators", ()):
        metric = _METRICS[str(row["acceleratorType"]).rpartition("/")[2]]
        counted[f"PREEMPTIBLE_{metric}" if machine.spot else metric] = int(row["acceleratorCount"])
    name = str(machine.body["machineType"]).rpartition("/")[2]
    for metric, count in _own_devices(name).items():
        counted[f"PREEMPTIBLE_{metric}" if machine.spot else metric] = count
    series, kind, size = (*name.split("-"), "", "")[:3]
    if kind in ("standard", "highmem", "highcpu") and series in _CPUS and size.isdecimal():
        counted[_CPUS[series]] = int(size)
    disk = machine.disk.body
    if str(disk.get("type", "")).rpartition("/")[2] in ("pd-balanced", "pd-ssd"):
        counted["SSD_TOTAL_GB"] = int(disk["sizeGb"])
    counted["IN_USE_ADDRESSES"] = sum(len(row.get("accessConfigs", ())) for row in machine.body["networkInterfaces"])
    return counted


def _own_devices(name: str) -> dict[str, int]:
    """The GPUs that come with a machine type and that the region's table counts."""
    if name.startswith("g2-standard-"):
        return {"NVIDIA_L4_GPUS": {"24": 2, "48": 4, "96": 8}.get(name.rpartition("-")[2], 1)}
    found = re.fullmatch(r"(a2-highgpu|a2-ultragpu|a3-highgpu)-(\d+)g", name)
    metrics = {
        "a2-highgpu": "NVIDIA_A100_GPUS",
        "a2-ultragpu": "NVIDIA_A100_80GB_GPUS",
        "a3-highgpu": "NVIDIA_H100_GPUS",
    }
    return {metrics[found[1]]: int(found[2])} if found else {}


_CPUS = {"e2": "CPUS", "n1": "CPUS", "n2": "N2_CPUS", "n2d": "N2D_CPUS", "c2": "C2_CPUS", "c3": "C3_CPUS"}
"""Series -> the quota that counts its vCPUs (https://cloud.google.com/compute/resource-usage)."""


def used(world: World, near: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for machine in table_of(world).machines:
        if _holds(machine) and machine.zone.startswith(near):
            for metric, count in _counted(machine).items():
                found[metric] = found.get(metric, 0) + count
    blank = [known for known in table_of(world).disks if known.is_blank and known.ended_at is None]
    for disk in blank:
        if disk.zone.startswith(near) and str(disk.body["type"]).rpartition("/")[2] in ("pd-balanced", "pd-ssd"):
            found["SSD_TOTAL_GB"] = found.get("SSD_TOTAL_GB", 0) + int(disk.body["sizeGb"])
    return found


def _holds(machine: Machine) -> bool:
    """Whether it takes room and quota; one that was stopped has given both back."""
    return not machine.is_gone and machine.stopped_at is None


def _quotas(limits: Mapping[str, float], used: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        {"metric": metric, "limit": float(limit), "usage": float(used.get(metric, 0))}
        for metric, limit in limits.items()
    ]


def aggregated(world: World, call: Call, kind: str, rows: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """A page of what the filter matches, by scope; a fault of kind `warning` leaves a placement out."""
    missing = world.fault(call.method, "warning")
    found = [(scope, row) for scope, row in rows if _matches(row, call.query.get("filter", ""))]
    start = int(call.query.get("pageToken") or 0)
    most = 500 if kind in ("machineTypes", "acceleratorTypes") else world.scenario.page_size
    items: dict[str, Any] = {f"zones/{zone}": _nothing(zone) for zone in _zones(world)[:1]} if start == 0 else {}
    for scope, row in found[start : start + most]:
        if missing is None or missing.placement not in scope:
            scoped = items.setdefault(scope, {})
            scoped.pop("warning", None)
            scoped.setdefault(kind, []).append(row)
    if missing is not None:
        scope = f"zones/{missing.placement or _zones(world)[0]}"
        warning = {"code": "UNREACHABLE", "message": f"The scope {scope} could not be reached."}
        items[scope] = {"warning": warning}
    page: dict[str, Any] = {"kind": f"compute#{_ONE_OF[kind]}AggregatedList", "id": kind, "items": items}
    page["selfLink"] = HOST
    if start + most < len(found):
        page["nextPageToken"] = str(start + most)
    return page


def _nothing(zone: str) -> dict[str, Any]:
    return {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": f"There are no results for scope 'zones/{zone}'."}}


def _matches(row: Mapping[str, Any], filter_text: str) -> bool:
    """`field="value"` or `field eq "expression"` on a field or a label."""
    if not filter_text:
        return True
    found = _CONDITION.fullmatch(filter_text.strip())
    if found is None:
        raise RefusedError(400, "invalid", f"Invalid value for field 'filter': '{filter_text}'. Invalid list filter")
    value: Any = row
    for part in found["field"].split(".", 1):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return False
    return bool(re.fullmatch(found["value"], str(value))) if found["how"] == "eq" else str(value) == found["value"]


def _name_in(call: Call) -> str:
    found = _CONDITION.fullmatch(call.query.get("filter", ""))
    return found["value"] if found and found["field"] == "name" else ""


def _there(world: World, call: Call) -> Machine:
    machine = table_of(world).machine(call.path["zone"], call.path["instance"])
    if machine is None:
        raise not_found(f"zones/{call.path['zone']}/instances/{call.path['instance']}")
    return machine


def _operation(world: World, call: Call) -> Operation:
    for known in table_of(world).operations:
        if known.body["name"] == call.path["operation"]:
            return known
    raise not_found(f"operations/{call.path['operation']}")


def not_found(what: str) -> RefusedError:
    return RefusedError(404, "notFound", f"The resource '{what}' was not found")


def _zones(world: World) -> list[str]:
    every = [f"{near}-{letter}" for near, letters in ZONES.items() for letter in letters]
    return [zone for zone in every if zone not in world.scenario.closed_zones]


def _path(call: Call) -> str:
    return f"projects/{call.path['project']}/zones/{call.path['zone']}/instances"


def _age(world: World, operation: Operation) -> float:
    asked = operation.done_at - timedelta(seconds=world.scenario.operation_seconds)
    return (world.now - asked).total_seconds()
