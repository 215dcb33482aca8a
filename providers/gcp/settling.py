"""Which refusals of Google mean that something is too new to be known (for how long: providers.settling)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import BadRequestError, InstanceNotFoundError, ProviderError
from providers.gcp.part import PROVIDER
from providers.gcp.translate import OFF
from providers.settling import Pair, pair_of

if TYPE_CHECKING:
    from providers.gcp.account import Account

POLICY = "projects.setIamPolicy"
INSERT, CREATE_TPU, CREATE_TASK = "instances.insert", "queuedResources.create", "tasks.create"
_MISSING = ("does not exist", "not found")


def of_set_up(operation: str, error: ProviderError) -> Pair | None:
    """For a call of `plan setup gcp`, which has made what is not found in a step before."""
    if error.code in OFF:
        return pair_of(PROVIDER, "API", operation)
    words = error.message.lower()
    if operation != POLICY or not isinstance(error, BadRequestError) or not any(said in words for said in _MISSING):
        return None
    # Of a role Google also says where it looked for it; an account is named by its address.
    return pair_of(PROVIDER, "role" if "role (" in words else "service account", operation)


def of_machine(operation: str, error: ProviderError, account: Account) -> Pair | None:
    """For the create of a machine: what it names is too new where another API of Google's has it, else it is wrong."""
    if not isinstance(error, (BadRequestError, InstanceNotFoundError)):
        return None
    words = error.message.lower()
    if not any(said in words for said in _MISSING):
        return None
    if "serviceaccount" in words or "service account" in words:
        path = f"/v1/projects/{account.project}/serviceAccounts/{account.machine_account}"
        return pair_of(PROVIDER, "service account", operation) if _may_be_there(account, "iam", path) else None
    if "networks/" in words:
        path = f"/compute/v1/projects/{account.project}/global/networks/{account.settings.network}"
        return pair_of(PROVIDER, "network", operation) if _may_be_there(account, "compute", path) else None
    return None


def of_task(error: ProviderError) -> Pair | None:
    """For a timer of a TPU, whose queue was there a moment ago."""
    return pair_of(PROVIDER, "queue", CREATE_TASK) if isinstance(error, InstanceNotFoundError) else None


def _may_be_there(account: Account, service: str, path: str) -> bool:
    """False where the API that has such things does not have it; nobody may be let look, which tells nothing."""
    try:
        account.ask("GET", service, path)
    except InstanceNotFoundError:
        return False
    except ProviderError:
        return True
    return True
