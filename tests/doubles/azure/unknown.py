"""What was made a moment ago and is not known to another call yet: how Azure refuses that call."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.doubles.azure.rules import PERSON, PRINCIPAL


@dataclass(frozen=True, slots=True)
class Words:
    """`made_by` is the call that makes the thing ("": it stood when the world began), `about` what its path or body
    has; the call that is refused has `within`."""

    made_by: str
    status: int
    code: str
    message: str
    about: str = ""
    within: str = ""


_GROUP = Words("PUT resourceGroups", 404, "ResourceGroupNotFound", "Resource group 'trainplan' could not be found.")
_NO_THING = "The Resource was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix"
_NO_REFERENCE = "Resource /subscriptions/s/resourceGroups/g/providers/Microsoft.Network/{} referenced was not found."
_NO_ACCOUNT = Words("PUT storageAccounts", 404, "ResourceNotFound", _NO_THING)
_REGISTER = "The subscription is not registered to use namespace '{}'."


def _register(namespace: str) -> Words:
    message = _REGISTER.format(namespace)
    return Words("POST register", 409, "MissingSubscriptionRegistration", message, about=f"/{namespace}/register")


WORDS: dict[tuple[str, str], Words] = {
    ("resource group", "PUT networkSecurityGroups"): _GROUP,
    ("resource group", "PUT virtualNetworks"): _GROUP,
    ("resource group", "PUT roleAssignments"): _GROUP,
    ("resource group", "PUT virtualMachines"): _GROUP,
    ("resource group", "PUT userAssignedIdentities"): _GROUP,
    ("resource group", "PUT storageAccounts"): _GROUP,
    ("security group", "GET networkSecurityGroups"): Words(
        "PUT networkSecurityGroups", 404, "ResourceNotFound", _NO_THING
    ),
    ("security group", "PUT virtualNetworks"): Words(
        "PUT networkSecurityGroups",
        400,
        "InvalidResourceReference",
        _NO_REFERENCE.format("networkSecurityGroups/nothing-in"),
    ),
    ("network", "GET virtualNetworks"): Words("PUT virtualNetworks", 404, "ResourceNotFound", _NO_THING),
    ("network", "PUT virtualMachines"): Words(
        "PUT virtualNetworks",
        400,
        "InvalidResourceReference",
        _NO_REFERENCE.format("virtualNetworks/network/subnets/machine"),
    ),
    ("identity", "PUT virtualMachines"): Words(
        "",
        400,
        "FailedIdentityOperation",
        "Identity operation for resource failed with error 'Failed to perform resource identity operation. Status: "
        "'NotFound''.",
    ),
    ("machine", "POST virtualMachinesSubmitDeallocate"): Words(
        "PUT virtualMachines", 200, "ResourceNotFound", "no deallocate was scheduled: the machine is not known"
    ),
    ("resource provider", "PUT userAssignedIdentities"): _register("Microsoft.ManagedIdentity"),
    ("resource provider", "PUT storageAccounts"): _register("Microsoft.Storage"),
    ("storage account", "PUT blobServices"): _NO_ACCOUNT,
    ("storage account", "PUT containers"): _NO_ACCOUNT,
    ("storage account", "PUT managementPolicies"): _NO_ACCOUNT,
    ("identity", "PUT roleAssignments"): Words(
        "PUT userAssignedIdentities",
        400,
        "PrincipalNotFound",
        f"Principal {PRINCIPAL} does not exist in the directory tests.",
        within=PRINCIPAL,
    ),
    ("role", "PUT roleAssignments"): Words(
        "PUT roleDefinitions", 400, "RoleDefinitionDoesNotExist", "The specified role definition does not exist."
    ),
    ("container", "PUT roleAssignments"): Words(
        "PUT containers", 404, "ResourceNotFound", _NO_THING, within="/containers/"
    ),
    ("container", "Put Blob"): Words("PUT containers", 404, "ContainerNotFound", "The container does not exist."),
    ("role assignment", "Put Blob"): Words(
        "PUT roleAssignments", 403, "AuthorizationPermissionMismatch", "not authorized", about=PERSON
    ),
}
"""By the thing and the call that needs it. A list of its own, and not the product's: they check each other."""


@dataclass
class Unmet:
    """What is not known yet in one world: `rules` have `made`, `needed_by` and `seconds` (None: it never is).
    `refused_at` are the instants at which a call did not find it."""

    rules: tuple[dict[str, Any], ...]
    began: datetime
    made_at: dict[tuple[str, str], datetime] = field(default_factory=dict)
    refused_at: list[datetime] = field(default_factory=list)

    def note_creation(self, call: str, text: str, now: datetime) -> None:
        """This call was carried out; `text` is its path and its body."""
        for rule in self.rules:
            key = rule["resource"], rule["needed_by"]
            if WORDS[key].made_by == call and WORDS[key].about in text:
                self.made_at.setdefault(key, now)

    def meets(self, call: str, text: str, now: datetime) -> Words | None:
        """How the call is refused, None where it finds all it needs."""
        for rule in self.rules:
            key = rule["resource"], rule["needed_by"]
            words = WORDS[key]
            since = self.made_at.get(key) if words.made_by else self.began
            if rule["needed_by"] != call or since is None or words.within not in text:
                continue
            if rule["seconds"] is None or now < since + timedelta(seconds=rule["seconds"]):
                self.refused_at.append(now)
                return words
        return None
