"""`plan setup gcp`: what the project lacks for launches, what of it can be removed, and the carrying out of both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainplan.providers.abilities import SetupStep
from trainplan.providers.base import OwnedResource, VendorRequest
from trainplan.providers.cloud.propagation import Pair, pause
from trainplan.providers.cloud.setup_steps import StepEngine
from trainplan.providers.errors import (
    BadRequestError,
    InstanceNotFoundError,
    ProviderError,
    TransientError,
    UnrecognizedError,
)
from trainplan.providers.gcp.alarm import GoogleAlarm
from trainplan.providers.gcp.permissions import ADVICE, CLIENT_OWN, CLIENT_ROLES, ROLES, Role
from trainplan.providers.gcp.settings import MACHINE_ACCOUNT
from trainplan.providers.gcp.setup_steps import (
    SERVICES,
    StandingResources,
    json_call,
    missing_bindings,
    queue_body,
    with_grants,
    without_grants,
)
from trainplan.providers.gcp.too_new import POLICY, too_new_in_set_up
from trainplan.providers.gcp.tpu.deadline import QUEUE, REGION, queue_name

OURS = "made by plan setup gcp"
"""The description of what can be removed again."""
_DELETE_ROLE = "roles.delete"
PAUSE_SECONDS = 3.0
EFFECT_SECONDS = 180.0
PATIENCE_SECONDS = 120.0
"""How long trouble of Google's own, or somebody else who changes the policy, may last."""
_CONCURRENT = re.compile(r"concurrent", re.IGNORECASE)


@dataclass(frozen=True)
class GcpSetUp:
    """`owned` lists what runs have left anywhere; `wait` lets some seconds go by."""

    at: StandingResources
    owned: Callable[[], Sequence[OwnedResource]]
    wait: Callable[[float], None] = pause

    def lacking(self) -> Sequence[SetupStep]:
        """Return what is missing, in the order in which it is needed. A resource of an API that is disabled counts as
        missing. Raises ProviderError.
        """
        on = self.at.services()
        off = [name for name in SERVICES if name not in on]
        return [*self._services(off), *self._after_services(off)]

    def removable(self) -> Sequence[SetupStep]:
        """All but the bucket, which has the person's models, the APIs, which others may use, and the queue, which costs
        nothing and whose name Google may not give again for three days.

        Raises BadRequestError while machines of ours are there, which need all of it.
        """
        resources = self.owned()
        if resources:
            first = resources[0]
            raise BadRequestError(
                f"{len(resources)} resources of runs still exist: {first.kind} {first.id} in {first.region}",
                hint="plan stop or plan cleanup ends them first",
            )
        return list(self._to_remove())

    def carry_out(self, step: SetupStep, report: Callable[[str], None]) -> None:
        engine = StepEngine(
            calls=_Calls(self.at, report),
            sleep=self.wait,
            pause_seconds=PAUSE_SECONDS,
            trouble_seconds=PATIENCE_SECONDS,
            effect_seconds=EFFECT_SECONDS,
        )
        for call in step.calls:
            engine.carry_out(call, report)
            if call.operation not in (POLICY, _DELETE_ROLE) and step.name == f"role {CLIENT_OWN.id}":
                self._tell_the_owner(report)

    def _tell_the_owner(self, report: Callable[[str], None]) -> None:
        """How whoever launches gets their roles, with the condition as it has to be for this project and bucket."""
        report("for each person who launches (WHO), an owner of the project types:")
        for command in self.at.client_commands():
            report(command)

    # --- what is lacking

    def _services(self, off: Sequence[str]) -> Iterator[SetupStep]:
        if off:
            names = [f"{name}.googleapis.com" for name in off]
            path = f"/v1/projects/{self.at.project}/services:batchEnable"
            call = json_call("serviceusage", "services.batchEnable", "POST", path, {"serviceIds": names})
            yield SetupStep(
                name="services", detail=f"{', '.join(names)} switched on: free by themselves", calls=(call,)
            )

    def _after_services(self, off: Sequence[str]) -> Iterator[SetupStep]:
        if "compute" in off or self.at.network() is None:
            yield self._network()
        if self.at.account_is_ours and ("iam" in off or self.at.machine_account() is None):
            yield self._machine_account()
        for role in ROLES:
            yield from self._role(role, entries=None if "iam" in off else self.at.role(role))
        if self.at.account_is_ours:
            yield from self._grants({} if "cloudresourcemanager" in off else self.at.policy())
        if "cloudtasks" in off or self.at.queue() is None:
            yield self._queue()
        if self.at.bucket.ours and ("storage" in off or not self.at.is_bucket()):
            yield self._bucket()

    def _network(self) -> SetupStep:
        name = self.at.network_name
        path = f"/compute/v1/projects/{self.at.project}/global/networks"
        body = {"name": name, "autoCreateSubnetworks": True, "description": OURS}
        call = json_call("compute", "networks.insert", "POST", path, body)
        detail = f"{name}, with a subnetwork in each region and no rule that lets anybody in"
        return SetupStep(name="network", detail=detail, calls=(call,))

    def _machine_account(self) -> SetupStep:
        path = f"/v1/projects/{self.at.project}/serviceAccounts"
        document = {"displayName": "trainplan: rented machines", "description": OURS}
        body = {"accountId": MACHINE_ACCOUNT, "serviceAccount": document}
        call = json_call("iam", "serviceAccounts.create", "POST", path, body)
        return SetupStep(
            name="machine account", detail=f"{self.at.account.machine_account}, without keys", calls=(call,)
        )

    def _role(self, role: Role, entries: Mapping[str, Any] | None) -> Iterator[SetupStep]:
        home, calls = f"/v1/projects/{self.at.project}/roles", []
        if entries is None:
            calls.append(json_call("iam", "roles.create", "POST", home, {"roleId": role.id, "role": role.body}))
        else:
            if entries.get("deleted"):
                calls.append(json_call("iam", "roles.undelete", "POST", f"{home}/{role.id}:undelete", {}))
            if not role.is_whole(entries.get("includedPermissions", ())):
                calls.append(json_call("iam", "roles.patch", "PATCH", f"{home}/{role.id}", role.body))
        if calls:
            who = "for you to grant to whoever launches" if role in CLIENT_ROLES else "for the machines' account"
            count = f"{len(role.permissions)} permission{'' if len(role.permissions) == 1 else 's'}"
            detail = f"{role.id}, {count} (docs/permissions/gcp), {who}"
            yield SetupStep(name=f"role {role.id}", detail=detail, calls=tuple(calls))

    def _grants(self, policy: Mapping[str, Any]) -> Iterator[SetupStep]:
        lacking = missing_bindings(self.at.grants(), policy)
        if lacking:
            names = ", ".join(grant["role"].rpartition("/")[2] for grant in lacking)
            detail = (
                f"{names} to {self.at.account.machine_account}: machines of ours, and the bucket {self.at.bucket.name}"
            )
            yield SetupStep(name="grants", detail=detail, calls=(self._policy_call("add", lacking),))

    def _queue(self) -> SetupStep:
        path = f"/v2/{queue_name(self.at.project).rpartition('/')[0]}"
        call = json_call("cloudtasks", "queues.create", "POST", path, queue_body(self.at.project))
        return SetupStep(name="queue", detail=f"{QUEUE} in {REGION}, which ends TPUs at their deadline", calls=(call,))

    def _bucket(self) -> SetupStep:
        home = self.at.bucket
        body = {"name": home.name, "location": home.location, **home.settings}
        call = json_call("storage", "buckets.insert", "POST", "/storage/v1/b", body, {"project": self.at.project})
        return SetupStep(
            name="bucket", detail=f"gs://{home.name} in {home.location}, open to nobody else", calls=(call,)
        )

    # --- what can be removed

    def _to_remove(self) -> Iterator[SetupStep]:
        project = self.at.project
        if self.at.account_is_ours:
            there = [grant for grant in self.at.grants() if not missing_bindings([grant], self.at.policy())]
            if there:
                yield SetupStep(
                    name="grants",
                    detail="what the machines' account may do",
                    calls=(self._policy_call("remove", there),),
                )
        for role in reversed(ROLES):
            entries = self.at.role(role)
            if entries is not None and not entries.get("deleted"):
                call = json_call("iam", _DELETE_ROLE, "DELETE", f"/v1/{self.at.role_name(role)}")
                yield SetupStep(name=f"role {role.id}", detail="kept by Google for a week", calls=(call,))
        yield from self._accounts_to_remove()
        network = self.at.network()
        if network is not None and network.get("description") == OURS:
            path = f"/compute/v1/projects/{project}/global/networks/{self.at.network_name}"
            call = json_call("compute", "networks.delete", "DELETE", path)
            yield SetupStep(name="network", detail=self.at.network_name, calls=(call,))

    def _accounts_to_remove(self) -> Iterator[SetupStep]:
        entries = self.at.machine_account() if self.at.account_is_ours else None
        if entries is not None and entries.get("description") == OURS:
            email = self.at.account.machine_account
            path = f"/v1/projects/{self.at.project}/serviceAccounts/{email}"
            call = json_call("iam", "serviceAccounts.delete", "DELETE", path)
            yield SetupStep(name="machine account", detail=email, calls=(call,))

    # --- carrying it out

    def _policy_call(self, verb: str, grants: Sequence[Mapping[str, Any]]) -> VendorRequest:
        """What changes of the policy: the whole of it is read and written back, and is not ours to show."""
        parameters = {"project": self.at.project, verb: [dict(grant) for grant in grants]}
        return VendorRequest(service="cloudresourcemanager", operation=POLICY, parameters=parameters)


@dataclass(frozen=True)
class _Calls:
    """`trainplan.providers.cloud.setup_steps.SetUpCalls` for Google's calls. `report` hears what was done otherwise."""

    at: StandingResources
    report: Callable[[str], None]

    def send(self, call: VendorRequest) -> Mapping[str, Any] | None:
        if call.operation == POLICY:
            self._change_policy(call.parameters)
            return None
        request: Mapping[str, Any] = call.parameters
        if request["method"] != "DELETE" and self._is_there(call):
            return None
        body: Any = request.get("body")
        if call.service == "billingbudgets" and body is not None:
            body = GoogleAlarm(self.at).filled(body)
        try:
            return self._asked(call, body)
        except InstanceNotFoundError:
            if request["method"] != "DELETE":
                raise
            return None
        except BadRequestError as error:
            role = _role_without_advice(call, error)
            if role is None:
                raise
            self.report(
                f"role {role.id}: Google takes no custom role with {', '.join(ADVICE)}; it is made without them, and "
                "plan estimate shows no advice on spot capacity"
            )
            return self._asked(
                call, {"roleId": role.id, "role": role.body} if "roleId" in request["body"] else role.body
            )

    def _asked(self, call: VendorRequest, body: object) -> Mapping[str, Any]:
        request: Mapping[str, Any] = call.parameters
        return self.at.account.ask(request["method"], call.service, request["path"], request.get("query"), body)

    def too_new(self, call: VendorRequest, error: ProviderError) -> Pair | None:
        return too_new_in_set_up(call.operation, error)

    def may_pass(self, call: VendorRequest, error: ProviderError) -> bool:  # noqa: ARG002
        """Trouble of Google's own, and a policy that somebody else has changed meanwhile."""
        changed = isinstance(error, BadRequestError) and bool(_CONCURRENT.search(error.message))
        return changed or isinstance(error, (TransientError, UnrecognizedError))

    def under_way(self, call: VendorRequest, answer: Mapping[str, Any] | None) -> str:
        paths = {
            "services.batchEnable": "/v1/{name}",
            "networks.insert": f"/compute/v1/projects/{self.at.project}/global/operations/{{name}}",
            "networks.delete": f"/compute/v1/projects/{self.at.project}/global/operations/{{name}}",
        }
        if answer is None or call.operation not in paths:
            return ""
        entries = self.at.account.ask("GET", call.service, paths[call.operation].format(name=answer.get("name")))
        if entries.get("done") or entries.get("status") == "DONE":
            _check(entries, call)
            return ""
        return f"{call.operation}: waiting until Google has done it"

    def _change_policy(self, document: Mapping[str, Any]) -> None:
        """Read, changed, and written back if nobody else has meanwhile."""
        policy = self.at.policy()
        adds = "add" in document
        changed = with_grants(policy, document["add"]) if adds else without_grants(policy, document["remove"])
        path = f"/v1/projects/{self.at.project}:setIamPolicy"
        self.at.account.ask("POST", "cloudresourcemanager", path, None, {"policy": changed})

    def _is_there(self, call: VendorRequest) -> bool:
        """Whether a step that was cut off had made it already."""
        looks: Mapping[str, Callable[[], object]] = {
            "networks.insert": self.at.network,
            "serviceAccounts.create": self.at.machine_account,
            "queues.create": self.at.queue,
            "buckets.insert": self.at.is_bucket,
            "roles.create": lambda: self._made_role(call),
            "notificationChannels.create": lambda: self._channel(call),
            "budgets.create": GoogleAlarm(self.at).budget,
        }
        look = looks.get(call.operation)
        return bool(look()) if look else False

    def _channel(self, call: VendorRequest) -> str:
        body: Any = call.parameters["body"]
        return GoogleAlarm(self.at).channels().get(body["labels"]["email_address"], "")

    def _made_role(self, call: VendorRequest) -> Mapping[str, Any] | None:
        body: Any = call.parameters["body"]
        return next((self.at.role(role) for role in ROLES if role.id == body["roleId"]), None)


def _role_without_advice(call: VendorRequest, error: BadRequestError) -> Role | None:
    """The role of a call that was refused for a permission that launches can do without; None for another refusal.

    IAM lists three levels of support for permissions in custom roles (https://cloud.google.com/iam/docs/
    custom-roles-permissions-support); of which level these are was not found.
    """
    if call.operation not in ("roles.create", "roles.patch") or not any(name in error.message for name in ADVICE):
        return None
    path = str(call.parameters["path"])
    body: Any = call.parameters["body"]
    name = body.get("roleId") or path.rpartition("/")[2]
    return next((role.without_advice for role in ROLES if role.id == name), None)


def _check(operation: Mapping[str, Any], call: VendorRequest) -> None:
    """Raises BadRequestError for one that failed."""
    if operation.get("error"):
        raise BadRequestError(f"{call.operation}: {operation['error']}", hint="look at the project, then try again")
