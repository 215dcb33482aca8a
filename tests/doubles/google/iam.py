"""Who may what, on loopback: service accounts, roles of the project, its policy; which APIs it uses; quotas of TPUs.

An API that the project does not use refuses every call. A call without its permission is refused, and so is a
permission that does not exist, in a role and in testIamPermissions alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.doubles.google import compute, permissions
from tests.doubles.google.rpc import StatusError, info
from tests.doubles.google.world import Call, RefusedError, World

if TYPE_CHECKING:
    from tests.doubles.google.scenario import Scenario

DOCUMENTS = ("iam.v1", "serviceusage.v1", "serviceusage.v1beta1", "cloudresourcemanager.v1")
SERVICES = (
    *("compute", "storage", "iam", "cloudresourcemanager", "serviceusage", "tpu", "cloudtasks", "cloudbilling"),
    *("billingbudgets", "monitoring", "bigquery"),
)
_PAGE = 40
CLIENT_BASED = ("cloudresourcemanager", "serviceusage", "iam", "cloudbilling")
"""APIs that refuse a person's sign-in without a quota project; that it is these is assumed."""


@dataclass
class Iam:
    """`denied` are permissions that whoever asks does not have; `disabled` services that the project does not use.
    `granted` is what the client's role grants, `machine_granted` what the machines' account has; None: everything.
    For `lag_seconds` after its create an account or role is unknown to the policy, and an API that was switched on
    refuses as if it were off; `known_from` has when that ends, by e-mail address, role name or service. `operations`
    are those on networks and APIs, and when each is done."""

    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=lambda: {"version": 3, "etag": "ZTAw", "bindings": []})
    denied: set[str] = field(default_factory=set)
    granted: frozenset[str] | None = None
    machine_granted: frozenset[str] | None = None
    lag_seconds: float = 0.0
    known_from: dict[str, datetime] = field(default_factory=dict)
    disabled: set[str] = field(default_factory=set)
    no_quota_project: bool = False
    """Whoever asks is a person whose sign-in names no quota project."""
    unsupported: frozenset[str] = frozenset()
    """Permissions that exist, and that no custom role may have."""
    networks: dict[str, dict[str, Any]] = field(default_factory=dict)
    operations: dict[str, datetime] = field(default_factory=dict)
    tpu_quotas: dict[str, int] = field(
        default_factory=lambda: {
            "TPU v3 cores": 8, "Preemptible TPU v3 cores": 16,
            "TPU v5s litepod": 16, "TPU v5s litepod preemptible": 16,
            "TPU v5s litepod serving": 16, "TPU v5s litepod serving preemptible": 16,
        }
    )  # fmt: skip
    family_quotas: dict[str, int] = field(default_factory=lambda: {"CT6E": 8, "CT5P": 0})
    """Of Compute Engine, on demand, in each region."""

    @classmethod
    def of(cls, scenario: Scenario) -> Iam:
        # The budgets' API is off until somebody wants it.
        made = cls(lag_seconds=scenario.settling_seconds, disabled={"billingbudgets", *scenario.services_off})
        made.unsupported = frozenset(scenario.unsupported_in_roles)
        if scenario.tpu_quotas is not None:
            made.tpu_quotas = dict(scenario.tpu_quotas)
        return made


def _account(world: World, call: Call) -> dict[str, Any]:
    found = world.table(Iam).accounts.get(call.path["serviceAccountsId"])
    if found is None:
        raise StatusError("NOT_FOUND", f"Unknown service account {call.path['serviceAccountsId']}")
    return dict(found)


def _account_made(world: World, call: Call) -> dict[str, Any]:
    project, table = call.path["projectsId"], world.table(Iam)
    email = f"{call.body['accountId']}@{project}.iam.gserviceaccount.com"
    if email in table.accounts:
        raise StatusError("ALREADY_EXISTS", f"Service account {call.body['accountId']} already exists")
    name = f"projects/{project}/serviceAccounts/{email}"
    _is_new(world, email)
    table.accounts[email] = {"name": name, "email": email, "projectId": project, **call.body.get("serviceAccount", {})}
    return dict(table.accounts[email])


def _account_deleted(world: World, call: Call) -> dict[str, Any]:
    _account(world, call)
    del world.table(Iam).accounts[call.path["serviceAccountsId"]]
    return {}


def _role(world: World, call: Call) -> dict[str, Any]:
    found = world.table(Iam).roles.get(_role_name(call))
    if found is None:
        raise StatusError("NOT_FOUND", f"The role named {_role_name(call)} was not found.")
    return dict(found)


def _role_made(world: World, call: Call) -> dict[str, Any]:
    name = f"projects/{call.path['projectsId']}/roles/{call.body['roleId']}"
    table = world.table(Iam)
    if name in table.roles:
        raise StatusError("ALREADY_EXISTS", f"A role named {name} already exists.")
    _refuse_unknown(call.body["role"].get("includedPermissions", ()))
    _refuse_unsupported(world, call.body["role"])
    _is_new(world, name)
    table.roles[name] = {**call.body["role"], "name": name, "etag": "ZTAw"}
    return dict(table.roles[name])


def _role_changed(world: World, call: Call) -> dict[str, Any]:
    _refuse_unknown(call.body.get("includedPermissions", ()))
    _refuse_unsupported(world, call.body)
    found = {**_role(world, call), **call.body}
    found["deleted"] = bool(call.body.get("deleted", False))
    world.table(Iam).roles[_role_name(call)] = found
    return found


def _role_deleted(world: World, call: Call) -> dict[str, Any]:
    """Kept for seven days, and shown as deleted."""
    found = {**_role(world, call), "deleted": True}
    world.table(Iam).roles[_role_name(call)] = found
    return found


def _role_back(world: World, call: Call) -> dict[str, Any]:
    found = {**_role(world, call), "deleted": False}
    world.table(Iam).roles[_role_name(call)] = found
    return found


def _policy(world: World, call: Call) -> dict[str, Any]:
    return dict(world.table(Iam).policy)


def _policy_set(world: World, call: Call) -> dict[str, Any]:
    table, wanted = world.table(Iam), dict(call.body["policy"])
    if wanted.get("etag") != table.policy["etag"]:
        raise StatusError("FAILED_PRECONDITION", "There were concurrent policy changes.")
    for binding in wanted.get("bindings", ()):
        _refuse_unknown_in_policy(world, binding)
    table.policy = {**wanted, "etag": f"ZTA{len(table.policy['bindings']) % 10}w"[:4]}
    return dict(table.policy)


def _is_new(world: World, name: str) -> None:
    table = world.table(Iam)
    table.known_from[name] = world.now + timedelta(seconds=table.lag_seconds)


def _is_unknown(world: World, name: str) -> bool:
    since = world.table(Iam).known_from.get(name)
    return since is not None and world.now < since


def _refuse_unknown_in_policy(world: World, binding: Mapping[str, Any]) -> None:
    """Members and roles of this project must be there, and be known by now."""
    table, role = world.table(Iam), str(binding["role"])
    if role.startswith("projects/") and (role not in table.roles or _is_unknown(world, role)):
        raise StatusError("INVALID_ARGUMENT", f"Role ({role}) does not exist in the resource's hierarchy.")
    for member in binding["members"]:
        email = str(member).removeprefix("serviceAccount:")
        if member != email and (email not in table.accounts or _is_unknown(world, email)):
            raise StatusError("INVALID_ARGUMENT", f"Service account {email} does not exist.")


def _act_as(world: World, call: Call) -> dict[str, Any]:
    _account(world, call)
    return _permissions(world, call)


def _network(world: World, call: Call) -> dict[str, Any]:
    """One that was made here, or one of the scenario's."""
    made = world.table(Iam).networks.get(call.path["network"])
    return {**compute.shown_network(world, call), **made} if made else compute.network(world, call)


def _network_made(world: World, call: Call) -> dict[str, Any]:
    name = str(call.body["name"])
    world.table(Iam).networks[name] = {"kind": "compute#network", "id": world.number(), **call.body}
    known = world.scenario.networks
    world.scenario = world.scenario.model_copy(update={"networks": (*known, name)})
    return _global_operation(world, "insert")


def _network_deleted(world: World, call: Call) -> dict[str, Any]:
    _network(world, call)
    world.table(Iam).networks.pop(call.path["network"], None)
    left = tuple(name for name in world.scenario.networks if name != call.path["network"])
    world.scenario = world.scenario.model_copy(update={"networks": left})
    return _global_operation(world, "delete")


def _no_address(world: World, call: Call) -> dict[str, Any]:
    raise RefusedError(404, "notFound", f"The resource '{call.path['address']}' was not found")


def _global_operation(world: World, verb: str) -> dict[str, Any]:
    name = f"operation-{world.number()}"
    return {"kind": "compute#operation", "name": _start(world, name), "operationType": verb, "status": "RUNNING"}


def _start(world: World, name: str) -> str:
    world.table(Iam).operations[name] = world.now + timedelta(seconds=world.scenario.global_seconds)
    return name


def _is_done(world: World, name: str) -> bool:
    """Raises RefusedError for an operation that was never begun."""
    known = world.table(Iam).operations
    if name not in known:
        raise RefusedError(404, "notFound", f"The resource 'operations/{name}' was not found")
    return bool(world.now >= known[name])


def _global_done(world: World, call: Call) -> dict[str, Any]:
    name = call.path["operation"]
    return {"kind": "compute#operation", "name": name, "status": "DONE" if _is_done(world, name) else "RUNNING"}


def _permissions(world: World, call: Call) -> dict[str, Any]:
    table, asked = world.table(Iam), call.body["permissions"]
    _refuse_unknown(asked, " for this resource")
    granted = frozenset(asked) if table.granted is None else table.granted | {permissions.ON_ACCOUNT}
    return {"permissions": [name for name in asked if name in granted and name not in table.denied]}


def _refuse_unknown(names: Iterable[str], where: str = "") -> None:
    """One name that does not exist refuses the whole request."""
    for name in names:
        if name not in permissions.all_names():
            raise StatusError("INVALID_ARGUMENT", f"Permission {name} is not valid{where}.")


def _refuse_unsupported(world: World, role: Mapping[str, Any]) -> None:
    for name in role.get("includedPermissions", ()):
        if name in world.table(Iam).unsupported:
            raise StatusError("INVALID_ARGUMENT", f"Permission {name} is not supported in custom roles.")


def refuse_forbidden(world: World, call: Call, *, machine: bool) -> None:
    """Raises the refusal of a call whose permission its caller lacks."""
    table, method = world.table(Iam), call.method
    service = method.partition(".")[0]
    if table.no_quota_project and service in CLIENT_BASED and not machine:
        message = f"The {service}.googleapis.com API requires a quota project, which is not set by default."
        told = info("SERVICE_DISABLED", service=f"{service}.googleapis.com")
        raise StatusError("PERMISSION_DENIED", message, (told,))
    if _is_unknown(world, service) or service in table.disabled:
        words = f"{service} API has not been used in project 1 before or it is disabled."
        later = "If you enabled this API recently, wait a few minutes and retry."
        if service in ("compute", "storage"):
            raise RefusedError(403, "accessNotConfigured", f"{words} {later}")
        told = info("SERVICE_DISABLED", service=f"{service}.googleapis.com")
        raise StatusError("PERMISSION_DENIED", f"{words} {later}", (told,))
    name = permissions.lacking(call, table.machine_granted if machine else table.granted, table.denied)
    if name is None:
        return
    if method.startswith(("compute.", "storage.")):
        raise RefusedError(403, "forbidden", f"Required '{name}' permission for the resource (or it may not exist).")
    raise StatusError("PERMISSION_DENIED", f"Permission '{name}' denied on resource (or it may not exist).")


def _services(world: World, call: Call) -> dict[str, Any]:
    off, home = world.table(Iam).disabled, f"{call.path['v1Id']}/{call.path['v1Id1']}"
    names = [f"{name}.googleapis.com" for name in SERVICES if name not in off]
    return {
        "services": [
            {"name": f"{home}/services/{name}", "config": {"name": name}, "state": "ENABLED"} for name in names
        ]
    }


def _enabled(world: World, call: Call) -> dict[str, Any]:
    for name in call.body["serviceIds"]:
        _is_new(world, name.removesuffix(".googleapis.com"))
        world.table(Iam).disabled.discard(name.removesuffix(".googleapis.com"))
    return {"name": f"operations/{_start(world, f'acf.{world.number()}')}", "done": False}


def _operation(world: World, call: Call) -> dict[str, Any]:
    name = call.path["operationsId"]
    return {"name": f"operations/{name}", "done": _is_done(world, name)}


def _quotas(world: World, call: Call) -> dict[str, Any]:
    if call.path["servicesId"] == "compute.googleapis.com":
        return {"metrics": [_by_family(world.table(Iam).family_quotas)]}
    rows = [
        {
            "name": f"projects/1/services/tpu.googleapis.com/consumerQuotaMetrics/{number}",
            "metric": f"tpu.googleapis.com/{name.lower().replace(' ', '-')}",
            "displayName": name,
            "consumerQuotaLimits": [{"metric": name, "unit": "1/{project}/{zone}", "quotaBuckets": [_bucket(limit)]}],
        }
        for number, (name, limit) in enumerate(world.table(Iam).tpu_quotas.items())
    ]
    return {"metrics": rows}


def _bucket(limit: int) -> dict[str, Any]:
    """Google's JSON leaves out a number that is 0."""
    return {"effectiveLimit": str(limit)} if limit else {}


def _by_family(limits: Mapping[str, int]) -> dict[str, Any]:
    """A quota with one bucket for all, and one for each family that has a limit of its own."""
    buckets = [_bucket(0)]
    buckets += [
        {**_bucket(limit), "dimensions": {"region": "asia-northeast1", "tpu_family": family}}
        for family, limit in limits.items()
    ]
    metric = "compute.googleapis.com/tpus_per_tpu_family"
    return {
        "name": "projects/1/services/compute.googleapis.com/consumerQuotaMetrics/1",
        "metric": metric,
        "displayName": "TPUs per TPU family",
        "consumerQuotaLimits": [{"metric": metric, "unit": "1/{project}/{region}", "quotaBuckets": buckets}],
    }


def _testable(world: World, call: Call) -> dict[str, Any]:
    """Every permission that can be asked about on the project, in pages; of those that no custom role may have, so."""
    names = sorted(permissions.all_names())
    start = int(call.body.get("pageToken") or 0)
    unsupported = world.table(Iam).unsupported
    rows = [
        {"name": name, "stage": "GA", **({"customRolesSupportLevel": "NOT_SUPPORTED"} if name in unsupported else {})}
        for name in names[start : start + _PAGE]
    ]
    more = {"nextPageToken": str(start + _PAGE)} if start + _PAGE < len(names) else {}
    return {"permissions": rows, **more}


HANDLERS: Mapping[str, Callable[[World, Call], dict[str, Any]]] = {
    "iam.projects.serviceAccounts.get": _account,
    "iam.projects.serviceAccounts.create": _account_made,
    "iam.projects.serviceAccounts.delete": _account_deleted,
    "iam.projects.serviceAccounts.testIamPermissions": _act_as,
    "compute.networks.get": _network,
    "compute.networks.insert": _network_made,
    "compute.networks.delete": _network_deleted,
    "compute.addresses.delete": _no_address,
    "compute.globalOperations.get": _global_done,
    "iam.projects.roles.get": _role,
    "iam.projects.roles.create": _role_made,
    "iam.projects.roles.patch": _role_changed,
    "iam.projects.roles.delete": _role_deleted,
    "iam.projects.roles.undelete": _role_back,
    "cloudresourcemanager.projects.getIamPolicy": _policy,
    "cloudresourcemanager.projects.setIamPolicy": _policy_set,
    "cloudresourcemanager.projects.testIamPermissions": _permissions,
    "iam.permissions.queryTestablePermissions": _testable,
    "serviceusage.services.list": _services,
    "serviceusage.services.batchEnable": _enabled,
    "serviceusage.operations.get": _operation,
    "serviceusage.services.consumerQuotaMetrics.list": _quotas,
}
"""Methods by their ids in Google's descriptions."""


def _role_name(call: Call) -> str:
    return f"projects/{call.path['projectsId']}/roles/{call.path['rolesId']}"
