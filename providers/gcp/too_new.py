"""Which refusals of Google mean that what was just created is not visible yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.providers.cloud.propagation import Pair, pair_of
from trainplan.providers.errors import BadRequestError, InstanceNotFoundError, ProviderError
from trainplan.providers.gcp.errors import OFF
from trainplan.providers.gcp.settings import PROVIDER

if TYPE_CHECKING:
    from trainplan.providers.gcp.account import GcpAccount


POLICY = "projects.setIamPolicy"


INSERT, CREATE_TPU, CREATE_TASK = "instances.insert", "queuedResources.create", "tasks.create"


_ABSENT = ("does not exist", "not found")


def too_new_in_set_up(operation: str, error: ProviderError) -> Pair | None:
    """Return the pair of a set-up call that failed because the resource of an earlier step is not visible yet."""
    if error.code in OFF:
        return pair_of(PROVIDER, "API", operation)
    words = error.message.lower()
    if operation != POLICY or not isinstance(error, BadRequestError) or not any(text in words for text in _ABSENT):
        return None
    # Of a role Google also says where it looked for it; an account is named by its address.
    return pair_of(PROVIDER, "role" if "role (" in words else "service account", operation)


def too_new_for_machine(operation: str, error: ProviderError, account: GcpAccount, disk: str = "") -> Pair | None:
    """For the create of a machine: what it names is too new where another API of Google's has it, else it is wrong.
    `disk` is the full name of its data disk, "" for none."""
    if not isinstance(error, (BadRequestError, InstanceNotFoundError)):
        return None
    words = error.message.lower()
    if not any(text in words for text in _ABSENT):
        return None
    if "serviceaccount" in words or "service account" in words:
        path = f"/v1/projects/{account.project}/serviceAccounts/{account.machine_account}"
        return pair_of(PROVIDER, "service account", operation) if _may_be_there(account, "iam", path) else None
    if "networks/" in words:
        path = f"/compute/v1/projects/{account.project}/global/networks/{account.settings.network}"
        return pair_of(PROVIDER, "network", operation) if _may_be_there(account, "compute", path) else None
    if operation == CREATE_TPU and "subnetwork" in words:
        # The API names the subnetwork alone; one in auto mode is made with its network.
        path = f"/compute/v1/projects/{account.project}/global/networks/{account.settings.network}"
        return pair_of(PROVIDER, "network", operation) if _may_be_there(account, "compute", path) else None
    if disk and "disk" in words:
        path = f"/compute/v1/{disk}"
        return pair_of(PROVIDER, "data disk", operation) if _may_be_there(account, "compute", path) else None
    return None


def too_new_for_task(error: ProviderError) -> Pair | None:
    """Return the pair of a TPU timer's create that failed because its queue, just created, is not visible yet."""
    return pair_of(PROVIDER, "queue", CREATE_TASK) if isinstance(error, InstanceNotFoundError) else None


def _may_be_there(account: GcpAccount, service: str, path: str) -> bool:
    """False where the API that has such things does not have it; nobody may be let look, which tells nothing."""
    try:
        account.ask("GET", service, path)
    except InstanceNotFoundError:
        return False
    except ProviderError:
        return True
    return True
