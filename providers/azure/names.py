"""What things are called at Azure: deterministic, so that they are found again by whoever knows run and attempt."""

from __future__ import annotations

import hashlib
import re
import uuid

PROVIDER = "azure"
OURS = "trainplan"
"""A tag on every group and machine of a run, whatever its other tags say."""
OURS_VALUE = "run"
STANDING_VALUE = "set-up"
"""The same tag's value on what `plan setup azure` makes, which no cleanup takes."""
STANDING_GROUP = "trainplan"
IDENTITY = "trainplan-machine"
MACHINE_ROLE = "trainplan machine"
DATA_ROLE = "trainplan machine data"
CLIENT_ROLE = "trainplan client"
"""Of docs/permissions/azure/client.json."""
BLOB_DATA_CONTRIBUTOR = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
"""The built-in role of this name has this id in every directory (Microsoft's list of built-in roles)."""
NAMESPACES = (
    "Microsoft.Compute",
    "Microsoft.Network",
    "Microsoft.Storage",
    "Microsoft.ManagedIdentity",
    "Microsoft.ComputeSchedule",
)
"""Resource providers that a subscription has to have registered."""

API = {
    "activity": "2015-04-01",
    "authorization": "2022-04-01",
    "compute": "2026-04-01",
    "consumption": "2024-08-01",
    "costs": "2025-03-01",
    "identity": "2023-01-31",
    "network": "2024-05-01",
    "policy": "2022-06-01",
    "recommender": "2025-06-05",
    "resources": "2021-04-01",
    "schedule": "2025-05-01",
    "skus": "2021-07-01",
    "storage": "2023-05-01",
    "subscriptions": "2022-12-01",
}
"""Versions of Azure's APIs, pinned: a recorded request is sent again as it was."""
NIC_API = "2022-11-01"
"""The version in which a machine's create describes its interface and address."""

ACTIVITY = "providers/Microsoft.Insights/eventtypes/management/values"
"""Below the subscription: what was done to its resources."""
_NAMESPACE = uuid.UUID("6f1d6a52-6f0e-5c0c-9d55-2f3b5a3c7f10")
_GROUP = re.compile(r"trainplan-(?P<run>.+)-(?P<attempt>\d+)")


def group_of(run_id: str, attempt: int) -> str:
    """The resource group of one attempt, and the machine in it."""
    return f"trainplan-{run_id}-{attempt}"


def attempt_of(group: str) -> tuple[str, int] | None:
    """Run and attempt out of a group's name; None for a name that is none of ours."""
    match = _GROUP.fullmatch(group)
    return (match["run"], int(match["attempt"])) if match else None


def unique(*what: str) -> str:
    """The same GUID for the same words."""
    return str(uuid.uuid5(_NAMESPACE, "\n".join(what)))


def account_of(subscription: str) -> str:
    """The storage account that `plan setup azure` makes where the person names none: 3 to 24 small letters, digits."""
    return f"trainplan{hashlib.sha256(subscription.lower().encode()).hexdigest()[:14]}"


def subscription_path(subscription: str) -> str:
    """The path of a subscription in Resource Manager."""
    return f"/subscriptions/{subscription}"


def group_path(subscription: str, group: str) -> str:
    """The path of a resource group."""
    return f"/subscriptions/{subscription}/resourceGroups/{group}"


def machine_path(subscription: str, group: str) -> str:
    """The path of the machine of an attempt, which has the name of its group."""
    return f"{group_path(subscription, group)}/providers/Microsoft.Compute/virtualMachines/{group}"


def identity_path(subscription: str, group: str) -> str:
    """The path of the machines' identity."""
    return f"{group_path(subscription, group)}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/{IDENTITY}"


def role_path(subscription: str, role: str) -> str:
    """The path of a role definition."""
    return f"/subscriptions/{subscription}/providers/Microsoft.Authorization/roleDefinitions/{role}"


def machine_role(subscription: str) -> str:
    """The id, in this subscription, of the role by which a machine ends itself."""
    return unique(subscription.lower(), MACHINE_ROLE)


def data_role(subscription: str) -> str:
    """The id, in this subscription, of the role by which machines read and write blobs."""
    return unique(subscription.lower(), DATA_ROLE)
