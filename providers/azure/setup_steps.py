"""What stands in an account that runs are launched in, as the calls that make and remove it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainplan.providers.abilities import SetupStep
from trainplan.providers.azure.api import Call, recorded
from trainplan.providers.azure.names import (
    API,
    BLOB_DATA_CONTRIBUTOR,
    CLIENT_ROLE,
    DATA_ROLE,
    IDENTITY,
    MACHINE_ROLE,
    OURS,
    STANDING_VALUE,
    data_role,
    group_path,
    identity_path,
    machine_role,
    role_path,
    subscription_path,
    unique,
)
from trainplan.providers.azure.permissions import (
    CHANGES_RUNS_ALONE,
    CONDITION_VERSION,
    DATA_ACTIONS,
    MACHINE_ACTIONS,
    client_condition,
)

MACHINE, PERSON = "{machine}", "{person}"
"""Stand in calls for ids in the directory: of the machines' identity, not made yet, and of who is signed in."""
_TAGS = {OURS: STANDING_VALUE}


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingResources:
    """Where it stands: `storage` is the path of the storage account, `container` the name of the container in it."""

    subscription: str
    group: str
    region: str
    storage: str
    container: str
    keep_days: int

    @property
    def container_path(self) -> str:
        """The path of the container of run directories."""
        return f"{self.storage}/blobServices/default/containers/{self.container}"

    @property
    def identity_path(self) -> str:
        """The path of the identity of every machine."""
        return identity_path(self.subscription, self.group)

    @property
    def role_path(self) -> str:
        """The path of the role that lets a machine delete its own group."""
        return role_path(self.subscription, machine_role(self.subscription))

    @property
    def data_role_path(self) -> str:
        """The path of the role that lets machines use blobs."""
        return role_path(self.subscription, data_role(self.subscription))

    def register(self, namespaces: Sequence[str]) -> SetupStep:
        """The step that registers resource providers."""
        home = subscription_path(self.subscription)
        return _step(
            "resource providers",
            f"the subscription may use {', '.join(namespaces)}",
            *(_call("POST", f"{home}/providers/{name}/register", "resources") for name in namespaces),
        )

    def make_group(self) -> SetupStep:
        """The step that makes the standing resource group."""
        body = {"location": self.region, "tags": _TAGS}
        path = group_path(self.subscription, self.group)
        return _step("group", f"resource group {self.group} in {self.region}", _call("PUT", path, "resources", body))

    def make_identity(self) -> SetupStep:
        """The step that makes the identity of every machine."""
        body = {"location": self.region, "tags": _TAGS}
        return _step(
            "identity", f"{IDENTITY}: the identity of every machine", _call("PUT", self.identity_path, "identity", body)
        )

    def make_container(self) -> SetupStep:
        """Create the container in a storage account that the person has named, which stays as it is."""
        name = self.storage.rpartition("/")[2]
        return _step("storage", f"container {self.container} in your storage account {name}", self._container())

    def make_storage(self) -> SetupStep:
        """Private, no keys, nothing kept that was deleted; old runs are deleted by their age."""
        account = {
            "kind": "StorageV2",
            "sku": {"name": "Standard_LRS"},
            "location": self.region,
            "tags": _TAGS,
            "properties": {
                "accessTier": "Hot",
                "allowBlobPublicAccess": False,
                "allowSharedKeyAccess": False,
                "defaultToOAuthAuthentication": True,
                "minimumTlsVersion": "TLS1_2",
                "supportsHttpsTrafficOnly": True,
            },
        }
        entries = {"deleteRetentionPolicy": {"enabled": False}, "containerDeleteRetentionPolicy": {"enabled": False}}
        calls = [
            _call("PUT", self.storage, "storage", account),
            _call(
                "PUT",
                f"{self.storage}/blobServices/default",
                "storage",
                {"properties": {**entries, "isVersioningEnabled": False}},
            ),
            self._container(),
        ]
        if self.keep_days:
            calls.append(_call("PUT", f"{self.storage}/managementPolicies/default", "storage", self._age_limit()))
        name = self.storage.rpartition("/")[2]
        return _step("storage", f"storage account {name} in {self.region}, container {self.container}", *calls)

    def define_role(self) -> SetupStep:
        """The step that defines the role of machines."""
        text = "A machine of trainplan may delete its own resource group, and nothing else."
        body = self._role(MACHINE_ROLE, text, {"actions": list(MACHINE_ACTIONS), "dataActions": []})
        call = _call("PUT", self.role_path, "authorization", body)
        return _step("role", "a role for machines: to delete their own group", call)

    def define_data_role(self) -> SetupStep:
        """The step that defines the role for blobs."""
        text = "Machines of trainplan may read, write and delete blobs, and nothing else."
        body = self._role(DATA_ROLE, text, {"actions": [], "dataActions": list(DATA_ACTIONS)})
        call = _call("PUT", self.data_role_path, "authorization", body)
        return _step("data role", "a role for machines: to read and write blobs", call)

    def blob_role(self, who: str) -> str:
        """The id of the role that a machine (MACHINE) or the person (PERSON) has on the container."""
        return data_role(self.subscription) if who == MACHINE else BLOB_DATA_CONTRIBUTOR

    def grant_blobs(self, who: str) -> SetupStep:
        """Grant the role to the machines (MACHINE) or to the person (PERSON), on the container only."""
        properties: dict[str, Any] = {
            "roleDefinitionId": role_path(self.subscription, self.blob_role(who)),
            "principalId": who,
            "description": "trainplan: run directories and data sets",
        }
        if who == MACHINE:
            properties |= {
                "principalType": "ServicePrincipal",
                "condition": CHANGES_RUNS_ALONE,
                "conditionVersion": CONDITION_VERSION,
            }
            name, detail = "machines' data", f"machines may read container {self.container}, and write its run folders"
        else:
            name, detail = "your data", f"you may read and write container {self.container}"
        return _step(name, detail, _call("PUT", self.blob_right(who), "authorization", {"properties": properties}))

    def blob_right(self, who: str) -> str:
        """The path of the right that set-up gives."""
        name = unique(self.subscription.lower(), self.container_path.lower(), who)
        return f"{self.container_path}/providers/Microsoft.Authorization/roleAssignments/{name}"

    def client_command(self, principal: str) -> str:
        """What an owner types for somebody who launches (WHO): the client's role, and the condition on it."""
        condition = client_condition(machine_role(self.subscription), principal)
        return (
            f"az role assignment create --assignee WHO --role {shlex.quote(CLIENT_ROLE)} "
            f"--scope {subscription_path(self.subscription)} "
            f"--condition-version {CONDITION_VERSION} --condition {shlex.quote(condition)}"
        )

    def remove(self, name: str, path: str, api: str) -> SetupStep:
        """The step that deletes the resource at this path."""
        return _step(name, f"removes {path.rpartition('/')[2]}", _call("DELETE", path, api))

    def _role(self, name: str, description: str, granted: dict[str, list[str]]) -> dict[str, Any]:
        return {
            "properties": {
                "roleName": f"{name} {self.subscription[:8]}",
                "type": "CustomRole",
                "description": description,
                "assignableScopes": [subscription_path(self.subscription)],
                "permissions": [{**granted, "notActions": [], "notDataActions": []}],
            }
        }

    def _container(self) -> Call:
        return _call("PUT", self.container_path, "storage", {"properties": {"publicAccess": "None"}})

    def _age_limit(self) -> dict[str, Any]:
        rule = {
            "name": "old-runs",
            "enabled": True,
            "type": "Lifecycle",
            "definition": {
                "filters": {"blobTypes": ["blockBlob"], "prefixMatch": [f"{self.container}/runs/"]},
                "actions": {"baseBlob": {"delete": {"daysAfterModificationGreaterThan": self.keep_days}}},
            },
        }
        return {"properties": {"policy": {"rules": [rule]}}}


def _call(method: str, path: str, api: str, body: dict[str, Any] | None = None) -> Call:
    return Call(method=method, path=path, api=API[api], body=body)


def _step(name: str, detail: str, *calls: Call) -> SetupStep:
    return SetupStep(name=name, detail=detail, calls=tuple(map(recorded, calls)))
