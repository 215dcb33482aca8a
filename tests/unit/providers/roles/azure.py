"""What Azure's roles are asked about: an action on something of somebody else's, within the scope of its assignment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.doubles.azure.permissions import attributes_of, holds
from tests.doubles.azure.rules import PRINCIPAL, SUBSCRIPTION
from trainplan.providers.azure.names import BLOB_DATA_CONTRIBUTOR, data_role, machine_role
from trainplan.providers.azure.permissions import CHANGES_RUNS_ALONE, client_condition, setup_condition

OWNER = "8e3af657-a8ff-443c-a75c-2fe8c4bcb635"
"""The built-in role, by Microsoft's list of built-in roles."""


class RoleRight(NamedTuple):
    """`shared`: whether the scope of the assignment holds things of somebody else (a subscription does; the resource
    group of one attempt does not; the container may)."""

    shared: bool
    condition: str = ""


# Role of the table -> files of docs/permissions/azure, and how each is assigned.
NOW: Mapping[str, Mapping[str, RoleRight]] = {
    "client": {"client.json": RoleRight(True, client_condition(machine_role(SUBSCRIPTION), PRINCIPAL))},
    "machine": {"machine.json": RoleRight(False), "machine-data.json": RoleRight(True, CHANGES_RUNS_ALONE)},
    "setup": {"set-up.json": RoleRight(True, setup_condition((data_role(SUBSCRIPTION), BLOB_DATA_CONTRIBUTOR)))},
}
CONTENTS = (
    "Microsoft.Compute/virtualMachines/retrieveBootDiagnosticsData/action",
    "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read",
)
COMPUTES_ONLY = ("Microsoft.Compute/locations/placementScores/generate/action",)
"""It is about no resource: a score of a size in a region."""
_OWNERS = {"roleDefinitionId": OWNER, "principalId": "11111111-2222-3333-4444-555555555555", "principalType": "User"}
_SOMEBODYS: Mapping[str, str] = {
    **attributes_of("Request", _OWNERS),
    **attributes_of("Resource", _OWNERS),
    "Resource:Microsoft.Storage/storageAccounts/blobServices/containers/blobs:path": "invoices/2026.pdf",
}


def reached(folder: Path, roles: Mapping[str, Mapping[str, RoleRight]]) -> dict[str, set[str]]:
    """By role: actions that it has on somebody else's things, without those that only show names and settings."""
    found: dict[str, set[str]] = {}
    for role, files in roles.items():
        found[role] = set()
        for name, given in files.items():
            told = json.loads((folder / name).read_text(encoding="utf-8"))
            actions = [*told["Actions"], *told["DataActions"]]
            if given.shared:
                found[role] |= {one for one in actions if _is_told(one) and _reaches(one, given.condition)}
    return found


def _is_told(action: str) -> bool:
    return action in CONTENTS or not (action in COMPUTES_ONLY or action.endswith(("/read", "/register/action")))


def _reaches(action: str, condition: str) -> bool:
    return not condition or holds(condition, action, _SOMEBODYS)
