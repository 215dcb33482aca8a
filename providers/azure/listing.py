"""Everything of ours that there is at Azure, by its labels, and its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from trainplan.providers.azure.api import Call
from trainplan.providers.azure.errors import refusal
from trainplan.providers.azure.launch import FORCED
from trainplan.providers.azure.names import API, OURS, OURS_VALUE, STANDING_VALUE, attempt_of, group_path, machine_path
from trainplan.providers.azure.prices import rates_at
from trainplan.providers.azure.reply import KINDS, owned
from trainplan.providers.base import LABEL_RUN, InstanceRef, OwnedResource, RunId
from trainplan.providers.cloud.listing import ListedResources, look_at_all, whole
from trainplan.providers.errors import (
    BadRequestError,
    CredentialsError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    TransientError,
)

if TYPE_CHECKING:
    from trainplan.providers.azure.account import AzureAccount

_WORKERS = 8
_GROUP_TYPE = "Microsoft.Resources/resourceGroups"
_ROLE_TYPE = "Microsoft.Authorization/roleAssignments"
# The version that each kind is deleted by itself with.
_APIS = {
    "machine": API["compute"],
    "disk": "2024-03-02",
    "interface": API["network"],
    "address": API["network"],
    "security_group": API["network"],
    "network": API["network"],
    "role_assignment": API["authorization"],
}
_ORDER = tuple(KINDS.values())


def list_owned(account: AzureAccount, run_id: RunId | None) -> Sequence[OwnedResource]:
    """Groups with our tag and all that is in them, and rights of the machines' identity whose group is gone.

    Raises IncompleteListingError where one of these lists did not come whole, CredentialsError.
    """
    groups: list[Mapping[str, Any]] = []
    lists: list[ListedResources] = []
    try:
        groups = list(_groups(account, run_id))
    except CredentialsError:
        raise
    except ProviderError as error:
        lists.append(ListedResources(unanswered=(f"the list of resource groups: {error.message}",)))
    lists += look_at_all(partial(_content, account), groups, _WORKERS)
    try:
        rights = _rights(account, run_id, {str(group["name"]).lower(): group for group in groups})
        lists.append(ListedResources(tuple(rights)))
    except CredentialsError:
        raise
    except ProviderError as error:
        lists.append(ListedResources(unanswered=(f"the rights of the machines' identity: {error.message}",)))
    return whole(lists, "lists of Azure")


def delete(account: AzureAccount, ref: InstanceRef | OwnedResource) -> None:
    """Ask for the end of an attempt's group, and with it of all that is in it. Idempotent.

    Where the group is going already and the thing is still listed, it is asked to go by itself: a group whose deletion
    is stuck must not keep alive what bills. Raises ProviderError.
    """
    group, path, kind = _where(account, ref)
    if group is None:
        return
    state = _group_state(account, group)
    if state is None and kind != "role_assignment":
        return
    if state is not None and state != "deleting":
        _accepted(
            account,
            Call(method="DELETE", path=group_path(account.subscription, group), api=API["resources"], query=FORCED),
        )
        return
    if path is not None and kind in _APIS:
        forced = {"forceDeletion": "true"} if kind == "machine" else {}
        _accepted(account, Call(method="DELETE", path=path, api=_APIS[kind], query=forced))


def _accepted(account: AzureAccount, call: Call) -> None:
    reply = account.arm.send(call)
    if reply.status < 400:
        return
    error = refusal(reply.status, reply.body, call.name)
    if isinstance(error, InstanceNotFoundError) or _on_its_way(reply.status, error):
        return
    # A condition on what a role assignment says cannot hold for one that is gone (assumed;
    # docs/maintainers/fidelity.md).
    if isinstance(error, PermissionDeniedError) and _is_gone(account, call):
        return
    raise error


def _is_gone(account: AzureAccount, call: Call) -> bool:
    reply = account.arm.send(Call(method="GET", path=call.path, api=call.api))
    return reply.status >= 400 and isinstance(refusal(reply.status, reply.body, call.name), InstanceNotFoundError)


def _on_its_way(status: int, error: ProviderError) -> bool:
    """A conflict with something that is under way (its own deletion, an interface that is held for 180 s) passes."""
    return status == 409 and isinstance(error, TransientError)


def _where(account: AzureAccount, ref: InstanceRef | OwnedResource) -> tuple[str | None, str | None, str]:
    """The group something belongs to, its own path, and its kind; no group for what was never ours."""
    if isinstance(ref, OwnedResource) and not ref.instance:
        return _group_in(ref.id), ref.id if ref.kind in _APIS else None, ref.kind
    if attempt_of(ref.id) is None:
        return None, None, "machine"
    return ref.id, machine_path(account.subscription, ref.id), "machine"


def _group_in(path: str) -> str | None:
    parts = path.split("/")
    at = next((number for number, part in enumerate(parts) if part.lower() == "resourcegroups"), None)
    return parts[at + 1] if at is not None and at + 1 < len(parts) else None


def _group_state(account: AzureAccount, group: str) -> str | None:
    try:
        reply = account.get(group_path(account.subscription, group), "resources")
    except InstanceNotFoundError:
        return None
    return str(reply.get("properties", {}).get("provisioningState", "")).lower()


def _groups(account: AzureAccount, run_id: RunId | None) -> Iterator[Mapping[str, Any]]:
    """Azure filters by one tag; that it is ours, and whose, is looked at here."""
    tag, value = (OURS, OURS_VALUE) if run_id is None else (LABEL_RUN, run_id)
    rows = account.pages(
        f"{account.home}/resourcegroups", "resources", **{"$filter": f"tagName eq '{tag}' and tagValue eq '{value}'"}
    )
    for row in rows:
        if (row.get("tags") or {}).get(tag) == value:
            yield row


def others_groups(account: AzureAccount) -> Sequence[str]:
    """The names of all resource groups of the subscription that are neither of runs nor of the set-up. Raises
    ProviderError."""
    rows = account.pages(f"{account.home}/resourcegroups", "resources")
    ours = (OURS_VALUE, STANDING_VALUE)
    return [str(row.get("name", "")) for row in rows if (row.get("tags") or {}).get(OURS) not in ours]


def _content(account: AzureAccount, group: Mapping[str, Any]) -> ListedResources:
    """The group and everything in it."""
    path = group_path(account.subscription, str(group["name"]))
    itself = {"type": _GROUP_TYPE, "id": path, "createdTime": group.get("createdTime")}
    rows: list[Mapping[str, Any]] = [itself]
    trouble: tuple[str, ...] = ()
    try:
        rows += account.pages(f"{path}/resources", "resources", **{"$expand": "createdTime,provisioningState"})
    except InstanceNotFoundError:
        return ListedResources()
    except ProviderError as error:
        trouble = (f"what is in {group['name']}: {error.message}",)
    home = account.settings.home
    resource = (owned(row, group, lambda region: rates_at(region, home)) for row in rows)
    resources = [one for one in resource if one is not None]
    return ListedResources(tuple(sorted(resources, key=_rank)), trouble)


def _rank(one: OwnedResource) -> int:
    """Machines first, then what bills most."""
    return _ORDER.index(one.kind) if one.kind in _ORDER else len(_ORDER)


def _rights(
    account: AzureAccount, run_id: RunId | None, groups: Mapping[str, Mapping[str, Any]]
) -> Iterator[OwnedResource]:
    """What the machines' identity may do to groups of ours; Azure deletes a right with its group, or forgets to."""
    try:
        principal = account.identity().principal
    except BadRequestError:
        return  # there is no such identity: nothing was given to it
    rows = account.pages(
        f"{account.home}/providers/Microsoft.Authorization/roleAssignments",
        "authorization",
        **{"$filter": f"principalId eq '{principal}'"},
    )
    for row in rows:
        group = _group_in(str(row.get("properties", {}).get("scope", "")))
        whose = attempt_of(group) if group else None
        if not group or not whose or run_id not in (None, whose[0]):
            continue
        entries = groups.get(group.lower())
        # Of a group that is there and was not listed, nobody knows whose it is: it is left alone.
        if entries is not None or _group_state(account, group) is None:
            resource = owned({"type": _ROLE_TYPE, "id": row["id"]}, entries or {"name": group})
            if resource is not None:
                yield resource
