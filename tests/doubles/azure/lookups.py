"""What the double says of the account: subscription, permissions, sizes, quotas, images, identities, roles, storage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.doubles.azure import budgets, compute
from tests.doubles.azure.compute import limit_of, used_of
from tests.doubles.azure.rules import (
    CONTROLLERS,
    FIRST_GENERATION,
    GENERATIONS,
    ON_A_CREDIT,
    PRINCIPAL,
    REGION_NAMES,
    SIZES,
    SUBSCRIPTION,
    UNTRUSTED,
)
from tests.doubles.azure.values import Answer, ArmError, Request, Thing
from trainplan.providers.sim.values import Why

if TYPE_CHECKING:
    from tests.doubles.azure.arm import Arm, Take

BUILT_IN = ("ba92f5b4-2d11-453d-a403-e96b0029c9fe",)


LISTED_TYPES = (
    r"Microsoft\.Compute/virtualMachines", r"Microsoft\.Compute/disks", r"Microsoft\.Compute/snapshots",
    r"Microsoft\.Network/publicIPAddresses", r"Microsoft\.Network/loadBalancers", r"Microsoft\.Network/natGateways",
    r"Microsoft\.Storage/storageAccounts",
)  # fmt: skip
"""Kinds that are listed for a whole subscription."""
KINDS = {
    "Microsoft.Compute": ("virtualMachines", "disks"),
    "Microsoft.ComputeSchedule": ("locations", "scheduledActions"),
}
"""Types of two resource providers, each with the regions that have it."""


def routes(group: str, home: str) -> list[tuple[str, str, Take]]:
    compute = home + r"/providers/Microsoft\.Compute"
    identity = group + r"/providers/Microsoft\.ManagedIdentity/userAssignedIdentities/(?P<name>[^/]+)"
    account = group + r"/providers/Microsoft\.Storage/storageAccounts/(?P<name>[^/]+)"
    role = r"/.*providers/Microsoft\.Authorization/roleDefinitions/(?P<role>[^/]+)"
    versions = r"/locations/(?P<region>[^/]+)/publishers/[^/]+/artifacttypes/vmimage/offers/[^/]+/skus/(?P<sku>[^/]+)"
    return [
        ("GET", "/subscriptions", _subscriptions),
        ("GET", home, _subscription),
        ("GET", home + r"/providers/Microsoft\.Authorization/permissions", _permissions),
        ("GET", home + r"/providers/Microsoft\.Authorization/policyAssignments", _policies),
        ("GET", home + r"/providers/(?P<namespace>[^/]+)", _provider),
        ("POST", home + r"/providers/(?P<namespace>[^/]+)/register", _register),
        ("GET", compute + "/skus", _sizes),
        ("GET", compute + "/locations/(?P<region>[^/]+)/usages", _usages),
        ("POST", compute + "/locations/(?P<region>[^/]+)/placementScores/spot/generate", _spot_scores),
        ("GET", compute + versions + "/versions", _versions),
        ("GET", compute + versions + "/versions/(?P<version>[^/]+)", _version),
        ("PUT", identity, _put_identity),
        ("GET", role, _get_role),
        ("PUT", role, _put_role),
        ("DELETE", role, _delete_role),
        ("GET", home + rf"/providers/(?P<kind>{'|'.join(LISTED_TYPES)})", _page),
        ("PUT", account + "(?P<inner>/.+)?", _put_storage),
        ("GET", home + r"/providers/Microsoft\.Insights/eventtypes/management/values", _activity),
        *budgets.routes(home),
    ]


ACTIVITY_LAG, ACTIVITY_KEPT = timedelta(minutes=20), timedelta(days=90)
"""Until when an event may not be there yet, and for how long it is (docs/maintainers/fidelity.md)."""
_BY_THE_PLATFORM = ("eviction", Why.RECLAIMED, Why.MAINTENANCE, Why.HOST_FAILED)
_TIME = r"'(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)'"
_WANTED = re.compile(rf"eventTimestamp ge {_TIME} and eventTimestamp le {_TIME} and resourceUri eq '([^']+)'")


def _activity(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    """What was done to one resource. What the platform does by itself (an eviction, maintenance) is not in it."""
    world, wanted = arm.world, _WANTED.fullmatch(request.query.get("$filter", ""))
    if wanted is None:
        raise ArmError(400, "BadRequest", "The filter is not one of the patterns that are allowed.")
    begin, until = (datetime.fromisoformat(wanted[number]) for number in (1, 2))
    if begin < world.now - ACTIVITY_KEPT or until < begin:
        raise ArmError(400, "BadRequest", "The start time cannot be more than 90 days in the past.")
    until = min(until, world.now - ACTIVITY_LAG)
    events = [event for thing in world.past if thing.id.lower() == wanted[3].lower() for event in _events(thing)]
    rows = [event for event in events if begin <= datetime.fromisoformat(event["eventTimestamp"]) <= until]
    return arm.paged(request, sorted(rows, key=lambda event: str(event["eventTimestamp"]), reverse=True))


def _events(thing: Thing) -> Iterator[dict[str, Any]]:
    done = [("write", thing.created_at, thing.ready_at)]
    is_deallocated = thing.power == "deallocated"
    if thing.stopped_at is not None and thing.why not in _BY_THE_PLATFORM:
        done.append(("deallocate/action" if is_deallocated else "delete", thing.stopped_at, thing.ended_at))
    elif thing.ended_at is not None and thing.why != "eviction":
        done.append(("delete", thing.goes_at or thing.ended_at, thing.ended_at))
    for number, (verb, began_at, ended_at) in enumerate(done):
        if is_deallocated and verb != "write":
            ended_at = began_at
        ended = "Failed" if verb == "write" and thing.error else "Succeeded"
        for status, at in (("Started", began_at), (ended, ended_at)):
            if at is not None:
                yield {
                    "eventTimestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}0Z",
                    "operationName": {"value": f"{thing.type}/{verb}", "localizedValue": ""},
                    "status": {"value": status, "localizedValue": status},
                    "correlationId": f"{thing.id}-{number}",
                    "resourceId": thing.id,
                }


def is_built_in(properties: dict[str, Any]) -> bool:
    return str(properties["roleDefinitionId"]).rpartition("/")[2] in BUILT_IN


def _subscriptions(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    return arm.paged(request, [_shown_subscription(arm)])


def _subscription(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    return Answer(200, _shown_subscription(arm))


def _shown_subscription(arm: Arm) -> dict[str, Any]:
    rules = arm.world.rules
    policies = {
        "locationPlacementId": "Public_2014-09-01",
        "quotaId": rules.quota_id,
        "spendingLimit": "On" if rules.quota_id.startswith(ON_A_CREDIT) else "Off",
    }
    return {
        "subscriptionId": SUBSCRIPTION, "displayName": "tests", "state": rules.state, "subscriptionPolicies": policies
    }  # fmt: skip


def _permissions(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    return Answer(200, {"value": list(arm.world.rules.granted)})


def _policies(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    if request.query.get("$filter") != "atScope()":
        raise ArmError(400, "InvalidFilterInQueryString", "the filter of policy assignments is atScope()")
    allowed = arm.world.rules.allowed_regions
    rows = [_policy("sys.regionrestriction", {"listOfAllowedLocations": {"value": list(allowed)}})] if allowed else []
    rows.append(_policy("tags", {"tagName": {"value": "owner"}}))
    return arm.paged(request, rows)


def _policy(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "properties": {"enforcementMode": "Default", "parameters": parameters}}


def _provider(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    rules, namespace = arm.world.rules, parameters["namespace"]
    shut = rules.no_timers_in if namespace == "Microsoft.ComputeSchedule" else ()
    places = [REGION_NAMES[region] for region in rules.regions if region not in shut]
    kinds = [{"resourceType": kind, "locations": places, "apiVersions": []} for kind in KINDS.get(namespace, ())]
    state = arm.world.registration(namespace)
    return Answer(200, {"namespace": namespace, "registrationState": state, "resourceTypes": kinds})


def _register(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    namespace = parameters["namespace"]
    arm.world.register(namespace)
    return Answer(200, {"namespace": namespace, "registrationState": arm.world.registration(namespace)})


def _sizes(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    region = request.query["$filter"].split("'")[1]
    rows = [_size(arm, region, name) for name in SIZES] if region in arm.world.rules.regions else []
    return Answer(200, {"value": [*rows, {"resourceType": "disks", "name": "Premium_LRS"}]})


def _size(arm: Arm, region: str, name: str) -> dict[str, Any]:
    shut = (region, name) in arm.world.rules.restricted
    limits = [{"type": "Location", "values": [region], "reasonCode": "NotAvailableForSubscription"}] if shut else []
    more = {"vCPUs": str(SIZES[name][1]), "HyperVGenerations": GENERATIONS.get(name, "V1,V2")}
    if name in CONTROLLERS:
        more["DiskControllerTypes"] = CONTROLLERS[name]
    if name in UNTRUSTED:
        more["TrustedLaunchDisabled"] = "True"
    return {
        "resourceType": "virtualMachines", "name": name, "family": SIZES[name][0], "locations": [region],
        "locationInfo": [{"location": region, "zones": ["1", "2", "3"]}], "restrictions": limits,
        "capabilities": [{"name": key, "value": value} for key, value in more.items()],
    }  # fmt: skip


def _usages(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    region = parameters["region"]
    names = ["cores", "lowPriorityCores", *(family for family, _ in SIZES.values())]
    rows = [
        {"name": {"value": name, "localizedValue": f"{name} vCPUs"}, "unit": "Count",
         "limit": limit_of(arm.world, region, name), "currentValue": used_of(arm.world, region, name)}
        for name in names
    ]  # fmt: skip
    return Answer(200, {"value": rows})


SCORE_INPUT = {"desiredLocations", "desiredSizes", "desiredCount", "availabilityZones"}
"""Of SpotPlacementScoresInput in azure-mgmt-computerecommender 1.0.0b3."""


def _spot_scores(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    more = set(request.body) - SCORE_INPUT
    if more or len(request.body["desiredSizes"]) > 5 or len(request.body["desiredLocations"]) > 8:
        raise ArmError(400, "InvalidParameter", f"the request has too much of something: {sorted(more)}")
    rows = [
        {"sku": size["sku"], "region": region, "isQuotaAvailable": limit_of(arm.world, region, "lowPriorityCores") > 0,
         "score": arm.world.rules.spot_scores.get(f"{region}/{size['sku']}", "High")}
        for size in request.body["desiredSizes"]
        for region in request.body["desiredLocations"]
    ]  # fmt: skip
    return Answer(200, {**request.body, "placementScores": rows})


def _versions(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    if request.query.get("$orderby") != "name desc":
        raise ArmError(400, "InvalidParameter", "the newest version is asked for by $orderby=name desc")
    return Answer(200, [{"name": "24.04.202611110", "location": parameters["region"]}])


def _version(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    old = parameters["sku"] in FIRST_GENERATION
    features = (
        []
        if old
        else [
            {"name": "SecurityType", "value": "TrustedLaunchSupported"},
            {"name": "DiskControllerTypes", "value": arm.world.rules.image_controllers},
        ]
    )
    properties = {"hyperVGeneration": "V1" if old else "V2", "features": features}
    return Answer(200, {"name": parameters["version"], "properties": properties})


def _put_identity(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    group = arm.world.open_group(parameters["group"])
    known = arm.world.things.get(request.path.lower())
    if known is None:
        known = _stands(arm, request, group.name, {"properties": {"principalId": PRINCIPAL}})
    return Answer(201, {"id": known.id, "location": known.location, **known.body})


def _stands(arm: Arm, request: Request, group: str, body: dict[str, Any]) -> Thing:
    parts = request.path.split("/providers/")[1].split("/")
    return arm.world.add(
        Thing(
            id=request.path, type="/".join([parts[0], *parts[1::2]]), name=parts[-1], group=group,
            location=request.body.get("location", ""), body=body, tags=request.body.get("tags") or {},
            created_at=arm.world.now,
        )
    )  # fmt: skip


def _get_role(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    for path, role in arm.world.roles.items():
        if path.endswith(parameters["role"].lower()):
            return Answer(200, {"id": path, "properties": role})
    raise ArmError(404, "RoleDefinitionDoesNotExist", "The specified role definition does not exist.")


def _put_role(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    properties = request.body["properties"]
    actions = [action for row in properties["permissions"] for action in row["actions"]]
    arm.world.roles[request.path.lower()] = {"actions": actions, "name": parameters["role"]}
    return Answer(201, {"id": request.path, "properties": properties})


def _delete_role(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    for right in list(arm.world.rights.values()):
        if right.role.lower() == request.path.lower():
            raise ArmError(400, "RoleDefinitionHasAssignments", "There are existing role assignments.")
    arm.world.roles.pop(request.path.lower(), None)
    return Answer(200)


def _page(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    """Every thing of a kind in the subscription, ours and others'."""
    world, kind = arm.world, parameters["kind"].lower()
    viewed = request.query.get("$expand", "").lower() == "instanceview"
    there = [one for one in world.things.values() if one.type.lower() == kind and one.ended_at is None]
    if kind == "microsoft.compute/virtualmachines":
        ours = [(compute.shown_with_view if viewed else compute.view)(world, one) for one in there]
    else:
        known = [{"id": one.id, "name": one.name, "type": one.type, "location": one.location} for one in there]
        ours = [{**one.body, **named} for one, named in zip(there, known, strict=True)]
    return arm.paged(request, [*ours, *(row for row in world.rules.others if row["type"].lower() == kind)])


def _put_storage(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    """An account, and what is set within it."""
    group = arm.world.open_group(parameters["group"])
    known = arm.world.things.get(request.path.lower())
    if known is None:
        known = _stands(arm, request, group.name, request.body)
    known.body = request.body
    return Answer(200, {"id": known.id, "location": known.location, **known.body})
