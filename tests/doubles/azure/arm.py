"""Resource Manager's calls on the double: groups, what is in them, rights, operations; the first route that fits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from tests.doubles.azure import compute, lookups
from tests.doubles.azure.permissions import actions_for, attributes_of, permits
from tests.doubles.azure.rules import PERSON, PRINCIPAL, SUBSCRIPTION
from tests.doubles.azure.values import Answer, ArmError, Group, Request, Right, Thing
from tests.doubles.azure.wire import SdkModels, WireError
from tests.doubles.azure.world import LostError, World, matching, thing_of
from tests.doubles.needs import UnknownCallError
from tests.faults.harness import EndedBy
from trainplan.providers.azure.api import kind_of, namespace_of
from trainplan.providers.sim.values import Effect

HOME = f"/subscriptions/{SUBSCRIPTION}"
GROUP = HOME + r"/resourceGroups/(?P<group>[^/]+)"
SIGNED = "/signed/"
"""Where consoles lie, as blobs that a signature in the address lets anybody read."""
_DENIED = (
    "The client '{person}' with object id '{person}' does not have authorization to perform action '{action}' over "
    "scope '{scope}' or the scope is invalid. If access was recently granted, please refresh your credentials."
)
_MODELS = {"networkSecurityGroups": "NetworkSecurityGroup", "virtualNetworks": "VirtualNetwork"}


class Arm:
    """`base` is where it is reached, for the addresses of operations and of next pages."""

    def __init__(self, world: World, base: str) -> None:
        self.world = world
        self.base = base

    def handle(self, method: str, target: str, authorization: str | None, raw: bytes) -> Answer:
        """Raises LostError where no answer goes out."""
        url = urlsplit(target)
        path, query = unquote(url.path), dict(parse_qsl(url.query))
        if path.startswith(SIGNED):
            return self._signed(path.removeprefix(SIGNED), query)
        body = json.loads(raw) if raw else None
        asked = Request(method, path, query, body)
        self.world.calls.append(
            {
                "method": method,
                "path": path,
                "query": query,
                "body": body,
                "at": self.world.now.isoformat(),
                "machine": authorization == f"Bearer {self.world.rules.machine_token}",
            }
        )
        try:
            return self._answered(asked, authorization)
        except ArmError as error:
            self.world.refusals.append(error.body["error"]["code"])
            return Answer(error.status, error.body)
        except WireError as error:
            return Answer(400, {"error": {"code": "InvalidRequestContent", "message": str(error)}})

    def _signed(self, life: str, query: dict[str, str]) -> Answer:
        """A console's blob: its address alone lets it be read, and a signature is part of it."""
        if query.get("sig") != "1":
            return Answer(403, "AuthenticationFailed")
        return Answer(200, self.world.life.physics.console(life))

    def _answered(self, request: Request, authorization: str | None) -> Answer:
        if authorization is None or not authorization.startswith("Bearer "):
            raise ArmError(401, "AuthenticationFailed", "Authentication failed.")
        if authorization.endswith("expired"):
            raise ArmError(401, "ExpiredAuthenticationToken", "The access token expiry UTC time has passed.")
        token = self.world.rules.machine_token
        if token and authorization == f"Bearer {token}" and not self._granted(request):
            raise ArmError(403, "AuthorizationFailed", f"The client does not have authorization to {request.method}.")
        if "api-version" not in request.query:
            raise ArmError(400, "MissingApiVersionParameter", "The api-version query parameter is required.")
        if not token or authorization != f"Bearer {token}":
            self._permit(request)
        call = f"{request.method} {kind_of(request.path)}"
        effect = self.world.reply_to(call, _where(request.path))
        try:
            answer = self._registered_answer(call, request)
        except ArmError:
            if effect is Effect.LOST_REPLY:
                raise LostError from None
            raise
        if effect is Effect.LOST_REPLY:
            raise LostError
        return answer

    def _permit(self, request: Request) -> None:
        """Whether the person who is signed in has the permission that the call takes. Raises ArmError."""
        if request.path == "/subscriptions":
            return  # lists what the sign-in can see, whatever that is
        attributes, granted = self._attributes(request), self.world.rules.granted
        try:
            action, *linked = actions_for(request.method, request.path, request.body)
        except UnknownCallError as error:
            self.world.denied.append(str(error))
            raise ArmError(403, "AuthorizationFailed", str(error)) from None
        for one in (action, *linked):
            if not permits(granted, one, attributes):
                self.world.denied.append(one)
                code = "AuthorizationFailed" if one == action else "LinkedAuthorizationFailed"
                raise ArmError(403, code, _DENIED.format(person=PERSON, action=one, scope=request.path))

    def _attributes(self, request: Request) -> dict[str, str]:
        """What conditions on role assignments look at."""
        if "/roleAssignments/" not in request.path:
            return {}
        known = self.world.rights.get(request.path.lower())
        there = attributes_of("Resource", known.body["properties"]) if known else {}
        return {**there, **attributes_of("Request", request.body["properties"] if request.body else {})}

    def _granted(self, request: Request) -> bool:
        """Whether the machines' identity has a right at the group that is asked about; it may only end things."""
        found = matching(GROUP + "(/.*)?", request.path)
        ends = request.method == "DELETE" or request.path.endswith("/deallocate")
        scopes = [
            right.scope.lower()
            for right in self.world.rights.values()
            if right.principal == PRINCIPAL and self.world.holds_at(right) <= self.world.now
        ]
        return bool(
            found and ends and any(scope == f"{HOME}/resourcegroups/{found['group']}".lower() for scope in scopes)
        )

    def _registered(self, request: Request) -> None:
        """Whether the subscription may use the resource provider that is asked to make, do or count something."""
        namespace = namespace_of(request.path)
        wants = request.method in ("PUT", "POST") or request.path.endswith("/usages")
        state = self.world.registration(namespace)
        if wants and state != "Registered" and not request.path.endswith("/register"):
            said = f"The subscription is not registered to use namespace '{namespace}'."
            raise ArmError(409, "MissingSubscriptionRegistration", said)

    def _registered_answer(self, call: str, request: Request) -> Answer:
        """The answer of a call that finds what it needs, however new that is. Raises ArmError."""
        text = f"{request.path} {json.dumps(request.body)}"
        # What a timer does not know it says in an answer of its own.
        words = None if request.method == "POST" else self.world.unmet.meets(call, text, self.world.now)
        if words is not None:
            raise ArmError(words.status, words.code, words.message)
        answer = self._routed(request)
        self.world.unmet.note_creation(call, text, self.world.now)
        return answer

    def _allowed(self, request: Request) -> None:
        """Whether a policy lets this be created in its region; resource groups it lets be anywhere."""
        allowed, body = self.world.rules.allowed_regions, request.body
        region = body.get("location") if isinstance(body, dict) else None
        if request.method == "PUT" and allowed and region not in (None, *allowed) and "/providers/" in request.path:
            message = (
                "Resource was disallowed by Azure: This policy maintains a set of best available regions where your "
                "subscription can deploy resources."
            )
            raise ArmError(403, "RequestDisallowedByAzure", message)

    def _routed(self, request: Request) -> Answer:
        self._registered(request)
        self._allowed(request)
        for method, pattern, take in _ROUTES:
            if request.method == method and (found := matching(pattern, request.path)):
                return take(self, request, found.groupdict())
        raise ArmError(404, "InvalidResourceType", f"the double does not have {request.method} {request.path}")

    def operation(self, region: str, ready_at: Any, error: dict[str, str] | None = None) -> dict[str, str]:
        """The headers of a reply whose work is still to be done."""
        made = self.world.operation(ready_at, error)
        url = f"{self.base}{HOME}/providers/Microsoft.Compute/locations/{region}/operations/{made.id}"
        return {"Azure-AsyncOperation": f"{url}?api-version=2026-04-01", "Retry-After": "0"}

    def paged(self, request: Request, rows: list[Any]) -> Answer:
        """A page of a list, with where the next one is."""
        start, size = int(request.query.get("$skiptoken", "0")), self.world.rules.page_size
        more = {}
        if start + size < len(rows):
            query = urlencode({**request.query, "$skiptoken": str(start + size)})
            more = {"nextLink": f"{self.base}{request.path}?{query}"}
        return Answer(200, {"value": rows[start : start + size], **more})


Take = Callable[[Arm, Request, dict[str, str]], Answer]


def _where(path: str) -> dict[str, str]:
    found = matching(GROUP + "(/.*)?", path)
    return {"group": found["group"]} if found else {}


def shown_group(world: World, group: Group) -> dict[str, Any]:
    state = "Deleting" if group.goes_at is not None else "Succeeded"
    return {
        "id": group.id, "name": group.name, "type": "Microsoft.Resources/resourceGroups", "location": group.location,
        "tags": group.tags, "properties": {"provisioningState": state},
    }  # fmt: skip


def _put_group(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    _known_keys(request.body, {"location", "tags"})
    return Answer(201, shown_group(arm.world, arm.world.put_group(parameters["group"], request.body)))


def _get_group(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    return Answer(200, shown_group(arm.world, arm.world.group(parameters["group"])))


def _delete_group(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    group = arm.world.group(parameters["group"])
    arm.world.delete_group(group, EndedBy.COMMAND)
    assert group.goes_at is not None
    return Answer(202, None, arm.operation(group.location, group.goes_at))


def _list_groups(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    world = arm.world
    filtered = request.query.get("$filter")
    wanted = matching(r"tagName eq '(?P<tag>[^']+)'( and tagValue eq '(?P<value>[^']*)')?", filtered or "")
    assert wanted or filtered is None
    rows = [
        shown_group(world, group)
        for group in world.groups
        if group.ended_at is None
        and group.created_at + world.rules.listing_lag <= world.now
        and (not wanted or wanted["tag"] in group.tags)
        and (not wanted or wanted["value"] in (None, group.tags[wanted["tag"]]))
    ]
    return arm.paged(request, rows)


def _list_resources(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    world = arm.world
    world.group(parameters["group"])
    rows = [
        {"id": one.id, "name": one.name, "type": one.type, "location": one.location, "tags": one.tags,
         "createdTime": one.created_at.isoformat(), "provisioningState": one.state(world.now)}
        for one in world.in_group(parameters["group"])
    ]  # fmt: skip
    return arm.paged(request, rows)


def _put_network(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    """Both kinds that a launch makes before its machine."""
    world = arm.world
    group = world.open_group(parameters["group"])
    SdkModels("azure.mgmt.network", _MODELS[parameters["kind"]]).check(request.body)
    known = world.things.get(request.path.lower())
    if known is None:
        known = world.add(
            Thing(
                id=request.path, type=f"Microsoft.Network/{parameters['kind']}", name=parameters["name"],
                group=group.name,
                location=request.body["location"], body=request.body, tags=request.body.get("tags") or {},
                created_at=world.now, ready_at=world.now + world.rules.network,
            )
        )  # fmt: skip
    return Answer(201, view(world, known), arm.operation(known.location, known.ready_at))


def view(world: World, thing: Thing) -> dict[str, Any]:
    state = "Updating" if thing.state(world.now) == "Creating" else thing.state(world.now)
    properties = {**thing.body.get("properties", {}), "provisioningState": state}
    return {**thing.body, "id": thing.id, "name": thing.name, "type": thing.type, "properties": properties}


def _get_thing(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    return Answer(200, view(arm.world, thing_of(arm.world, request.path)))


def _delete_thing(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    found = arm.world.things.get(request.path.lower())
    if found is None:
        return Answer(204)
    arm.world.remove(found, EndedBy.COMMAND)
    return Answer(202, None, arm.operation(found.location, found.goes_at))


def _put_right(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    world, properties = arm.world, request.body["properties"]
    scope = request.path[: request.path.lower().index("/providers/microsoft.authorization")]
    if "/resourcegroups/" in scope.lower():
        world.open_group(scope.split("/")[4])
    if properties["roleDefinitionId"].lower() not in world.roles and not lookups.is_built_in(properties):
        raise ArmError(400, "RoleDefinitionDoesNotExist", "The specified role definition does not exist.")
    known = world.rights.get(request.path.lower())
    if known is None:
        known = Right(
            id=request.path, scope=scope, role=properties["roleDefinitionId"], principal=properties["principalId"],
            body=request.body, created_at=world.now,
        )  # fmt: skip
        world.rights[request.path.lower()] = known
        world.past_rights.append(known)
    return Answer(201, shown_right(known))


def shown_right(right: Right) -> dict[str, Any]:
    return {
        "id": right.id, "name": right.id.rpartition("/")[2], "type": "Microsoft.Authorization/roleAssignments",
        "properties": {**right.body["properties"], "scope": right.scope},
    }  # fmt: skip


def _list_rights(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    wanted = matching(r"principalId eq '(?P<principal>[^']+)'", request.query["$filter"])
    assert wanted
    scope = request.path[: request.path.lower().index("/providers/microsoft.authorization")].lower()
    rows = [
        shown_right(right)
        for right in arm.world.rights.values()
        if right.principal == wanted["principal"] and (scope == HOME.lower() or scope.startswith(right.scope.lower()))
    ]
    return arm.paged(request, rows)


def _get_right(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    right = arm.world.rights.get(request.path.lower())
    if right is None:
        raise ArmError(404, "RoleAssignmentNotFound", "The role assignment was not found.")
    return Answer(200, shown_right(right))


def _delete_right(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    right = arm.world.rights.get(request.path.lower())
    if right is None:
        return Answer(204)
    arm.world.end_right(right)
    return Answer(200, shown_right(right))


def _known_keys(body: Any, known_names: set[str]) -> None:
    more = set(body) - known_names
    if more:
        raise ArmError(400, "InvalidRequestContent", f"could not find member {sorted(more)}")


_RIGHT = r"/.+/providers/Microsoft\.Authorization/roleAssignments/[^/]+"
_ROUTES: list[tuple[str, str, Take]] = [
    ("GET", HOME + "/resourcegroups", _list_groups),
    ("PUT", GROUP, _put_group),
    ("GET", GROUP, _get_group),
    ("DELETE", GROUP, _delete_group),
    ("GET", GROUP + "/resources", _list_resources),
    ("PUT", _RIGHT, _put_right),
    ("DELETE", _RIGHT, _delete_right),
    ("GET", r"/.+/providers/Microsoft\.Authorization/roleAssignments", _list_rights),
    *compute.routes(GROUP, HOME),
    *lookups.routes(GROUP, HOME),
    (
        "PUT",
        GROUP + r"/providers/Microsoft\.Network/(?P<kind>networkSecurityGroups|virtualNetworks)/(?P<name>[^/]+)",
        _put_network,
    ),
    ("GET", _RIGHT, _get_right),
    ("GET", GROUP + r"/providers/[^/]+/[^/]+/[^/]+(/[^/]+/[^/]+)*", _get_thing),
    ("DELETE", GROUP + r"/providers/[^/]+/[^/]+/[^/]+", _delete_thing),
]
