"""The roles of docs/permissions/azure: what a machine may, whoever launches, and whoever sets up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MACHINE_ACTIONS = (
    "Microsoft.Resources/subscriptions/resourceGroups/delete",
    "Microsoft.Compute/virtualMachines/delete",
    "Microsoft.Compute/virtualMachines/deallocate/action",
    "Microsoft.Compute/disks/delete",
    "Microsoft.Network/networkInterfaces/delete",
    "Microsoft.Network/publicIPAddresses/delete",
    "Microsoft.Network/networkSecurityGroups/delete",
    "Microsoft.Network/virtualNetworks/delete",
)
"""On its own resource group alone: to end it, and what is in it."""
DATA_ACTIONS = (
    "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read",
    "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write",
    "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/delete",
)
"""What machines may do to blobs. Azure's built-in role would let them delete the container, and sign addresses."""
_NO_CHANGE = " AND ".join(f"!(ActionMatches{{'{action}'}})" for action in DATA_ACTIONS[1:])
CHANGES_RUNS_ALONE = (
    f"(({_NO_CHANGE}) OR "
    "(@Resource[Microsoft.Storage/storageAccounts/blobServices/containers/blobs:path] StringLike 'runs/*'))"
)
"""The condition on that role: data sets are read, only run directories are changed (Microsoft's page "Azure role
assignment condition format and syntax"; version 2.0; unproven without an account)."""
LINKED_ACTIONS = (
    "Microsoft.Compute/disks/write",
    "Microsoft.Compute/virtualMachines/deallocate/action",
    "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action",
    "Microsoft.Network/networkInterfaces/join/action",
    "Microsoft.Network/networkInterfaces/read",
    "Microsoft.Network/networkInterfaces/write",
    "Microsoft.Network/networkSecurityGroups/join/action",
    "Microsoft.Network/publicIPAddresses/join/action",
    "Microsoft.Network/publicIPAddresses/read",
    "Microsoft.Network/publicIPAddresses/write",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
)
"""No calls of ours: Azure asks for them within the create of a machine and its timer (unproven without an account)."""
CLIENT_ACTIONS = (
    "Microsoft.Authorization/permissions/read",
    "Microsoft.Authorization/policyAssignments/read",
    "Microsoft.Authorization/roleAssignments/delete",
    "Microsoft.Authorization/roleAssignments/read",
    "Microsoft.Authorization/roleAssignments/write",
    "Microsoft.Authorization/roleDefinitions/read",
    "Microsoft.Compute/disks/delete",
    "Microsoft.Compute/locations/operations/read",
    "Microsoft.Compute/locations/placementScores/generate/action",
    "Microsoft.Compute/locations/publishers/artifacttypes/offers/skus/versions/read",
    "Microsoft.Compute/locations/usages/read",
    "Microsoft.Compute/skus/read",
    "Microsoft.Compute/virtualMachines/delete",
    "Microsoft.Compute/virtualMachines/read",
    "Microsoft.Compute/virtualMachines/retrieveBootDiagnosticsData/action",
    "Microsoft.Compute/virtualMachines/write",
    "Microsoft.ComputeSchedule/locations/virtualMachinesSubmitDeallocate/action",
    "Microsoft.Consumption/budgets/read",
    "Microsoft.Insights/eventtypes/values/read",
    "Microsoft.ManagedIdentity/userAssignedIdentities/read",
    "Microsoft.Network/networkInterfaces/delete",
    "Microsoft.Network/networkSecurityGroups/delete",
    "Microsoft.Network/networkSecurityGroups/read",
    "Microsoft.Network/networkSecurityGroups/write",
    "Microsoft.Network/publicIPAddresses/delete",
    "Microsoft.Network/virtualNetworks/delete",
    "Microsoft.Network/virtualNetworks/read",
    "Microsoft.Network/virtualNetworks/write",
    "Microsoft.Resources/subscriptions/providers/read",
    "Microsoft.Resources/subscriptions/read",
    "Microsoft.Resources/subscriptions/resourceGroups/delete",
    "Microsoft.Resources/subscriptions/resourceGroups/read",
    "Microsoft.Resources/subscriptions/resourceGroups/resources/read",
    "Microsoft.Resources/subscriptions/resourceGroups/write",
    "Microsoft.Storage/storageAccounts/read",
    *LINKED_ACTIONS,
)
"""Everything that launching, looking and tearing down asks for. Assigning roles is more than Contributor has."""
CONDITION_VERSION = "2.0"
_ASSIGNMENTS = "Microsoft.Authorization/roleAssignments"


def client_condition(role: str, principal: str) -> str:
    """The condition on the assignment of the client's role: it grants, and takes away, `role` of `principal` alone.

    `role` is the id of the machines' role, `principal` the machines' identity. Without a condition, whoever may write
    role assignments can make themselves owner (Microsoft's pages "Delegate Azure role assignment management using
    conditions" and "Authorization actions and attributes"). No condition narrows what may be deleted: Azure has
    conditions for role assignments and for storage alone.
    """
    return _assigns_alone({"RoleDefinitionId": role, "PrincipalId": principal})


def setup_condition(roles: Sequence[str]) -> str:
    """The condition on the assignment of the set-up's role: it grants, and takes away, these roles (ids) alone.

    Whom they are granted to is not known before the set-up has made the machines' identity.
    """
    return _assigns_alone({"RoleDefinitionId": ", ".join(roles)})


def _assigns_alone(document: Mapping[str, str]) -> str:
    parts = []
    for verb, source in (("write", "Request"), ("delete", "Resource")):
        same = " AND ".join(
            f"@{source}[{_ASSIGNMENTS}:{name}] ForAnyOfAnyValues:GuidEquals {{{ids}}}" for name, ids in document.items()
        )
        parts.append(f"((!(ActionMatches{{'{_ASSIGNMENTS}/{verb}'}})) OR ({same}))")
    return " AND ".join(parts)


SETUP_ACTIONS = (
    "Microsoft.Authorization/roleAssignments/delete",
    "Microsoft.Authorization/roleAssignments/read",
    "Microsoft.Authorization/roleAssignments/write",
    "Microsoft.Authorization/roleDefinitions/delete",
    "Microsoft.Authorization/roleDefinitions/read",
    "Microsoft.Authorization/roleDefinitions/write",
    "Microsoft.Compute/register/action",
    "Microsoft.ComputeSchedule/register/action",
    "Microsoft.ManagedIdentity/userAssignedIdentities/delete",
    "Microsoft.ManagedIdentity/userAssignedIdentities/read",
    "Microsoft.ManagedIdentity/userAssignedIdentities/write",
    "Microsoft.ManagedIdentity/register/action",
    "Microsoft.Network/register/action",
    "Microsoft.Resources/subscriptions/providers/read",
    "Microsoft.Resources/subscriptions/resourceGroups/read",
    "Microsoft.Resources/subscriptions/resourceGroups/write",
    "Microsoft.Storage/register/action",
    "Microsoft.Storage/storageAccounts/blobServices/containers/read",
    "Microsoft.Storage/storageAccounts/blobServices/containers/write",
    "Microsoft.Storage/storageAccounts/blobServices/read",
    "Microsoft.Storage/storageAccounts/blobServices/write",
    "Microsoft.Storage/storageAccounts/managementPolicies/read",
    "Microsoft.Storage/storageAccounts/managementPolicies/write",
    "Microsoft.Storage/storageAccounts/read",
    "Microsoft.Storage/storageAccounts/write",
)
"""Of whoever sets up, and removes it again."""
ALARM_ACTIONS = (
    "Microsoft.Consumption/budgets/delete",
    "Microsoft.Consumption/budgets/read",
    "Microsoft.Consumption/budgets/write",
)
"""Of whoever types `plan setup azure --alarm`, beside those of the set-up."""
