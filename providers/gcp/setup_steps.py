"""What stands in the project besides machines: APIs that are on, network, service account, roles, queue, bucket."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trainplan.providers.base import VendorRequest
from trainplan.providers.errors import InstanceNotFoundError
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.permissions import (
    CLIENT,
    CLIENT_OWN,
    MACHINE,
    READS,
    TPU_END,
    WRITES,
    Role,
    machines_alone,
    ours_alone,
    read_runs_and_data,
    write_runs,
)
from trainplan.providers.gcp.tpu.deadline import queue_name

NEEDED_SERVICES = ("compute", "storage", "iam", "cloudresourcemanager")
FOR_TPUS = ("tpu", "cloudtasks")
FOR_BILLING = ("cloudbilling",)
SERVICES = (*NEEDED_SERVICES, *FOR_TPUS, *FOR_BILLING)
"""APIs that are asked: for every launch; for TPUs v2 to v5e alone; for whether the project is billed."""
Binding = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The bucket of run directories: `settings` is what its create says of it, `ours` whether its name is our own."""

    name: str
    location: str
    ours: bool
    settings: Mapping[str, object]


@dataclass
class StandingResources:
    """Each look is one call, or a page of them; none is remembered. Raises ProviderError."""

    account: GcpAccount
    home: Callable[[], Home]

    @cached_property
    def bucket(self) -> Home:
        """The bucket of run directories and where it is."""
        return self.home()

    @property
    def project(self) -> str:
        """The project's id."""
        return self.account.project

    def services(self) -> frozenset[str]:
        """Those that are on, without `.googleapis.com`."""
        path, query = f"/v1/projects/{self.project}/services", {"filter": "state:ENABLED", "pageSize": "200"}
        pages = self.account.pages("serviceusage", path, query)
        rows = (row for page in pages for row in page.get("services", ()))
        return frozenset(row["config"]["name"].removesuffix(".googleapis.com") for row in rows)

    def network(self) -> Mapping[str, Any] | None:
        """The network of rented machines as Google returns it, None where there is none."""
        return self._there("compute", f"/compute/v1/projects/{self.project}/global/networks/{self.network_name}")

    @property
    def network_name(self) -> str:
        """The network that machines are in."""
        return self.account.settings.network

    def machine_account(self) -> Mapping[str, Any] | None:
        """The machines' service account as Google returns it, None where there is none."""
        email = self.account.machine_account
        return self._there("iam", f"/v1/projects/{self.project}/serviceAccounts/{email}")

    @property
    def account_is_ours(self) -> bool:
        """Whether the machines' account is the one that set-up makes; a person's own is left as it is."""
        return not self.account.settings.service_account

    def role(self, role: Role) -> Mapping[str, Any] | None:
        """Return the role. Google keeps a deleted role for a week, marked as deleted; it is returned too."""
        return self._there("iam", f"/v1/{self.role_name(role)}")

    def role_name(self, role: Role) -> str:
        """The full name of a role of the project."""
        return f"projects/{self.project}/roles/{role.id}"

    def policy(self) -> Mapping[str, Any]:
        """The project's IAM policy. Raises ProviderError."""
        body = {"options": {"requestedPolicyVersion": 3}}
        path = f"/v1/projects/{self.project}:getIamPolicy"
        return self.account.ask("POST", "cloudresourcemanager", path, None, body)

    def grants(self) -> tuple[Binding, ...]:
        """What the machines' account is to have: an end for machines of ours, and its folders of the one bucket."""
        name = self.bucket.name
        return (
            self._grant(MACHINE, "machines of trainplan", machines_alone()),
            self._grant(TPU_END),
            self._grant(READS, "run directories and data sets", read_runs_and_data(name)),
            self._grant(WRITES, "run directories", write_runs(name)),
        )

    def client_commands(self) -> tuple[str, ...]:
        """What an owner types for somebody who launches, WHO."""
        member = "user:WHO"
        own = f"expression={ours_alone(self.bucket.name)},title=trainplan"
        account = self.account.machine_account
        return (
            _binding(self.project, member, self.role_name(CLIENT), "None"),
            _binding(self.project, member, self.role_name(CLIENT_OWN), own),
            f"gcloud iam service-accounts add-iam-policy-binding {account} --member {member} "
            "--role roles/iam.serviceAccountUser",
        )

    def _grant(self, role: Role, title: str = "", expression: str = "") -> Binding:
        member = f"serviceAccount:{self.account.machine_account}"
        values: dict[str, Any] = {"role": self.role_name(role), "members": [member]}
        if expression:
            values["condition"] = {"title": title, "expression": expression}
        return values

    def queue(self) -> Mapping[str, Any] | None:
        """The queue of the machines' timers; None where there is none. Raises ProviderError."""
        return self._there("cloudtasks", f"/v2/{queue_name(self.project)}")

    def is_bucket(self) -> bool:
        """Whether the bucket of run directories exists. Raises ProviderError."""
        return self._there("storage", f"/storage/v1/b/{self.bucket.name}") is not None

    def permitted(self, permissions: Sequence[str]) -> frozenset[str]:
        """Which of these whoever is signed in has on the project."""
        path, body = f"/v1/projects/{self.project}:testIamPermissions", {"permissions": list(permissions)}
        reply = self.account.ask("POST", "cloudresourcemanager", path, None, body)
        return frozenset(reply.get("permissions", ()))

    def _there(self, service: str, path: str) -> Mapping[str, Any] | None:
        try:
            return self.account.ask("GET", service, path)
        except InstanceNotFoundError:
            return None


def missing_bindings(documents: Sequence[Binding], policy: Mapping[str, Any]) -> list[Binding]:
    """The grants that a policy does not have as they are wanted, one binding each: also those that it has without their
    condition, or under another one besides."""
    return [grant for grant in documents if _conditions(grant, policy) != {_condition(grant)}]


def with_grants(policy: Mapping[str, Any], grants: Sequence[Binding]) -> dict[str, Any]:
    """The policy with these in the place of whatever else their members have in the same roles; in the version that
    knows conditions."""
    cleared = without_grants(policy, missing_bindings(grants, policy))
    bindings = [*cleared["bindings"], *(dict(grant) for grant in missing_bindings(grants, policy))]
    return {**cleared, "bindings": bindings}


def without_grants(policy: Mapping[str, Any], grants: Sequence[Binding]) -> dict[str, Any]:
    """The policy without these members in these roles; what others have in them stays."""
    pairs = {(grant["role"], member) for grant in grants for member in grant["members"]}
    bindings = []
    for binding in policy.get("bindings", ()):
        members = [member for member in binding.get("members", ()) if (binding["role"], member) not in pairs]
        if members:
            bindings.append({**binding, "members": members})
    return {**policy, "version": 3, "bindings": bindings}


def queue_body(project: str) -> dict[str, Any]:
    """A task that is refused is sent again for half an hour: the next one comes after a quarter of an hour."""
    pauses = {"minBackoff": "30s", "maxBackoff": "300s", "maxDoublings": 4, "maxAttempts": 10}
    return {"name": queue_name(project), "retryConfig": pauses}


def _conditions(grant: Binding, policy: Mapping[str, Any]) -> set[str]:
    """The expressions under which all members of a grant have its role; "" is none."""
    members = set(grant["members"])
    rows = (row for row in policy.get("bindings", ()) if row.get("role") == grant["role"])
    return {_condition(row) for row in rows if members <= set(row.get("members", ()))}


def _condition(binding: Binding) -> str:
    return str((binding.get("condition") or {}).get("expression", ""))


def _binding(project: str, member: str, role: str, condition: str) -> str:
    """The command of an owner; gcloud asks for `--condition None` in a policy that has conditions."""
    words = ("gcloud", "projects", "add-iam-policy-binding", project, "--member", member, "--role", role)
    return shlex.join([*words, "--condition", condition])


def json_call(
    service: str, operation: str, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None
) -> VendorRequest:
    """A call of an API by its JSON, as `plan setup` shows it before it is sent."""
    parameters: dict[str, object] = {"method": method, "path": path}
    if query is not None:
        parameters["query"] = dict(query)
    if body is not None:
        parameters["body"] = body
    return VendorRequest(service=service, operation=operation, parameters=parameters)
