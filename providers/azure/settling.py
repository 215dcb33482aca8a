"""Which refusals of Azure mean that something is too new to be known; providers.settling has how long that may last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.azure.names import PROVIDER
from providers.settling import pair_of

if TYPE_CHECKING:
    from providers.errors import ProviderError
    from providers.settling import Pair

TIMER = "POST virtualMachinesSubmitDeallocate"
NO_RIGHT_YET = pair_of(PROVIDER, "role assignment", "Put Blob")
"""Blob Storage says of a right that does not hold yet what it says of one that nobody has given."""
_NO_GROUP = "ResourceGroupNotFound"
_NOT_REGISTERED = ("MissingSubscriptionRegistration", "MissingRegistrationForLocation", "SubscriptionNotRegistered")
_IN_A_GROUP = (
    *("networkSecurityGroups", "virtualNetworks", "roleAssignments", "virtualMachines"),
    *("userAssignedIdentities", "storageAccounts"),
)
_IN_AN_ACCOUNT = ("blobServices", "containers", "managementPolicies")

# (call, code, words of the refusal in small letters, what it does not find); the first that fits counts
_SIGNS = (
    *((f"PUT {kind}", _NO_GROUP, "", "resource group") for kind in _IN_A_GROUP),
    ("GET networkSecurityGroups", "ResourceNotFound", "", "security group"),
    ("GET virtualNetworks", "ResourceNotFound", "", "network"),
    ("PUT virtualNetworks", "InvalidResourceReference", "networksecuritygroups/", "security group"),
    ("PUT virtualMachines", "InvalidResourceReference", "", "network"),
    ("PUT virtualMachines", "FailedIdentityOperation", "", "identity"),
    (TIMER, "ResourceNotFound", "", "machine"),
    *((f"PUT {kind}", "ResourceNotFound", "", "storage account") for kind in _IN_AN_ACCOUNT),
    *((f"PUT {kind}", "ParentResourceNotFound", "", "storage account") for kind in _IN_AN_ACCOUNT),
    *((f"PUT {kind}", "ContainerOperationFailure", "does not exist", "storage account") for kind in _IN_AN_ACCOUNT),
    ("PUT roleAssignments", "PrincipalNotFound", "", "identity"),
    ("PUT roleAssignments", "RoleDefinitionDoesNotExist", "", "role"),
    ("PUT roleAssignments", "ResourceNotFound", "", "container"),
    *((f"PUT {kind}", code, "", "resource provider") for kind in _IN_A_GROUP for code in _NOT_REGISTERED),
)


def too_new(call: str, error: ProviderError) -> Pair | None:
    """Which pair a refusal of a call (`PUT virtualMachines`) is about; None where waiting is of no use."""
    for name, code, words, made in _SIGNS:
        if (name, code) == (call, error.code) and words in error.message.lower():
            return pair_of(PROVIDER, made, call)
    return None
