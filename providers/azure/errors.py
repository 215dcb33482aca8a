"""What Azure says in refusing, as the errors of ours that it calls for. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from trainplan.providers.azure.names import PROVIDER
from trainplan.providers.cloud.propagation import Pair, pair_of
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)
from trainplan.workloads.wording import Command, Option, Text

_ELSEWHERE = "another zone, region or size may have one"
_SIGN_IN = "az login"
_AGAIN = "try again"
_GRANT = "plan doctor azure tells which role is missing; whoever owns the subscription grants it"
_REGISTER = "plan setup azure registers what is missing (or: az provider register --namespace NAMESPACE)"
_IDENTITY = "plan doctor azure looks whether the machines' identity is there; plan setup azure makes it"
_OFFER = Text("choose another offer: ", Command("estimate", Option.EXPLAIN), " shows why each was passed over")
_SPOT = Text("spot is for pay-as-you-go, enterprise and sponsored subscriptions; take ", Option.MARKET("on_demand"))
_RAISE = "raise it at https://portal.azure.com/#view/Microsoft_Azure_Capacity/QuotaMenuBlade/~/myQuotas"
_REPORT = "this is a mistake of the program or of an offer: choose another offer, and report it"

# Code of Resource Manager or Compute -> (our error, what to do); Quota and OperationNotAllowed are told apart below.
# The codes are Azure's own (docs of error codes, of spot, and the error lists of Karpenter's Azure provider).
_REACTIONS: tuple[tuple[type[ProviderError], str | Text, str], ...] = (
    (CapacityError, _ELSEWHERE,
     "SkuNotAvailable AllocationFailed OverconstrainedAllocationRequest ZonalAllocationFailed "
     "OverconstrainedZonalAllocationRequest"),
    (CapacityError, "Azure closes this region to the subscription: choose another", "RequestDisallowedByAzure"),
    (CapacityError, "spot costs more than on demand here now", "SpotPriceGreaterThanProvidedMaxPrice"),
    (QuotaError, _RAISE, "QuotaExceeded"),
    (BadRequestError, _SPOT, "AzureSpotFeatureNotEnabledForSubscription"),
    (BadRequestError, Text("take ", Option.MARKET("on_demand"), " for this size"),
     "AzureSpotIsNotSupportedForThisVMSize"),
    (BadRequestError, _REPORT,
     "InvalidParameter InvalidRequestContent InvalidRequestFormat InvalidResource InvalidTemplateDeployment "
     "BadRequest"),
    (BadRequestError, "an attempt cannot be sent again with other parameters; launch the job again",
     "PropertyChangeNotAllowed"),
    (BadRequestError, _OFFER,
     "ImageNotFound PlatformImageNotFound GalleryImageNotFound LocationNotAvailableForResourceType "
     "NoRegisteredProviderFound"),
    (BadRequestError, "accept the terms of the image, or choose another offer", "MarketplacePurchaseEligibilityFailed"),
    (TransientError, _AGAIN,
     "InvalidResourceReference InternalServerError InternalExecutionError InternalOperationError ServerTimeout "
     "ServiceUnavailable NetworkingInternalOperationError RetryableError AnotherOperationInProgress "
     "OperationPreempted OperationCancelled OSProvisioningTimedOut ReferencedResourceNotProvisioned Conflict"),
    (PermissionDeniedError, _GRANT, "AuthorizationFailed LinkedAuthorizationFailed AuthorizationPermissionMismatch"),
    (PermissionDeniedError, _IDENTITY, "FailedIdentityOperation"),
    (PermissionDeniedError, "a policy of the subscription forbids it: ask the owner to change the policy",
     "RequestDisallowedByPolicy"),
    (PermissionDeniedError, "the subscription is disabled: look at its billing", "ReadOnlyDisabledSubscription"),
    (PermissionDeniedError, "az account list shows the subscriptions of the sign-in", "SubscriptionNotFound"),
    (PermissionDeniedError, _REGISTER,
     "MissingSubscriptionRegistration SubscriptionNotRegistered MissingRegistrationForLocation"),
    (PermissionDeniedError, "a lock forbids it: az lock list, then az lock delete", "ScopeLocked"),
    (CredentialsError, _SIGN_IN, "InvalidAuthenticationToken ExpiredAuthenticationToken AuthenticationFailed"),
    (CredentialsError, "az login --tenant, into the subscription's directory", "InvalidAuthenticationTokenTenant"),
    (ThrottledError, "wait a little", "TooManyRequests SubscriptionRequestsThrottled ResourceRequestsThrottled"),
    (TransientError, "the group of an earlier try is still being deleted", "ResourceGroupBeingDeleted"),
    (TransientError, "a new identity takes minutes to be known everywhere", "PrincipalNotFound"),
    (TransientError, "Azure keeps an interface for 180 s after a failed create", "NicReservedForAnotherVm"),
    (InstanceNotFoundError, "",
     "ResourceNotFound ResourceGroupNotFound RoleAssignmentNotFound RoleDefinitionDoesNotExist "
     "ParentResourceNotFound ContainerNotFound NotFound"),
)  # fmt: skip
CODES: Mapping[str, tuple[type[ProviderError], str | Text]] = {
    code: (kind, hint) for kind, hint, codes in _REACTIONS for code in codes.split()
}
_STATUSES: Mapping[int, tuple[type[ProviderError], str | Text]] = {
    401: (CredentialsError, _SIGN_IN),
    408: (TransientError, _AGAIN),
    429: (ThrottledError, "wait a little"),
}
_NO_TIMER = (
    'shorten the deadline, or set `cloud_timer = "none"` in the table [azure]: then only the machine itself ends it '
    "when this computer is lost"
)
_NEVER_CARRIED_OUT = frozenset({"Failed", "Cancelled", "Blocked"})
"""States of an operation of ComputeSchedule (OperationState of its SDK) in which nothing will be done any more."""
_NOT_ALLOWED = "OperationNotAllowed"
# What says nothing by itself, where something within it does.
_WRAPPERS = frozenset(
    {"DeploymentFailed", "InvalidTemplateDeployment", "ResourceOperationFailure", "ResourceDeploymentFailure",
     "BadRequest", "Conflict", "NotFound", "MultipleErrorsOccurred", ""}
)  # fmt: skip
_QUOTA_NAME = re.compile(r"exceeding (?:approved|quota limits of)?\s*(?P<name>[\w .-]*?[Cc]ores) [Qq]uota")
_ADDRESSES = re.compile(r"PublicIP(Address)?CountLimitReached$", re.IGNORECASE)
"""IPv4StandardSkuPublicIpCountLimitReached, StaticPublicIPCountLimitReached and others: the kind of address is in the
code (reported by users of Terraform, of SkyPilot and of giantswarm/azure-operator)."""
_ADDRESS_QUOTA = "public IP addresses"
_TOO_MANY = re.compile(r"too many requests|throttl", re.IGNORECASE)
_NEW_LIMIT = re.compile(r"Current Limit: (?P<limit>\d+).*?New Limit Required: (?P<needed>\d+)", re.DOTALL)
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


class ErrorDetail(NamedTuple):
    """One error of Azure: its code and its message."""

    code: str
    message: str


def refusal(status: int, body: Any, what: str) -> ProviderError:
    """The error of a refused call, or of an operation that failed (whose document came with status 200)."""
    return _error(telling(body), status, what)


def telling(body: Any) -> ErrorDetail:
    """The code that says most of an error, which may be nested: the innermost that is known, else the outermost."""
    errors = list(_error_details(body.get("error", body) if isinstance(body, Mapping) else {}))
    recognized = [error for error in errors if error.code not in _WRAPPERS and _is_known(error.code)]
    specific = [error for error in errors if error.code not in _WRAPPERS]
    return (recognized or specific or errors or [ErrorDetail("", "")])[-1 if recognized else 0]


def _is_known(code: str) -> bool:
    return code in CODES or code == _NOT_ALLOWED or _ADDRESSES.search(code) is not None


def not_scheduled(body: Any) -> ProviderError | None:
    """Why `virtualMachinesSubmitDeallocate` set no timer for its one machine; None where it did.

    The call answers 200 also for what it refuses: each machine has a result of its own (ResourceOperation of
    azure-mgmt-computeschedule), with an `errorCode`, or with an operation, which has an id and a state.
    """
    results = body.get("results") if isinstance(body, Mapping) else None
    result = results[0] if isinstance(results, list) and results and isinstance(results[0], Mapping) else {}
    operation = result.get("operation") or {}
    inner = operation.get("resourceOperationError") or {}
    code = result.get("errorCode") or inner.get("errorCode") or ""
    if not code and operation.get("operationId") and operation.get("state") not in _NEVER_CARRIED_OUT:
        return None
    detail = result.get("errorDetails") or inner.get("errorDetails") or f"its operation is {operation.get('state')}"
    message = f"{code or 'no operation was made'}: {detail}"
    if issubclass(CODES.get(code, (BadRequestError, ""))[0], PermissionDeniedError):
        return unscheduled(PermissionDeniedError(message, hint=_GRANT, code=code))
    return unscheduled(BadRequestError(message, code=code))


def unscheduled(error: ProviderError) -> ProviderError:
    """The same error, which says that Azure's timer was not set."""
    hint = error.hint if isinstance(error, PermissionDeniedError) else _NO_TIMER
    return type(error)(f"Azure does not schedule the machine's end: {error.message}", hint=hint, code=error.code)


def _error_details(error: Any) -> Iterator[ErrorDetail]:
    """Yield the outermost error first; of several details the first one of the reply comes last, as the innermost."""
    if not isinstance(error, Mapping):
        return
    yield ErrorDetail(str(error.get("code") or ""), str(error.get("message") or ""))
    inner = error.get("details")
    for detail in reversed(inner if isinstance(inner, list) else []):
        yield from _error_details(detail)
    yield from _error_details(_within(error.get("message")))


def _within(message: object) -> object:
    """Deployments put the error of a resource into their message, as JSON text."""
    import json

    if not isinstance(message, str) or not message.lstrip().startswith("{"):
        return None
    try:
        document = json.loads(message)
    except ValueError:
        return None
    return document.get("error", document) if isinstance(document, dict) else None


def _error(error: ErrorDetail, status: int, what: str) -> ProviderError:
    code, message = error.code, f"{what}: {_first_line(error.message) or f'status {status}'}"
    make = _BY_TEXT.get(code)
    if make is not None:
        return make(error, message)
    if _ADDRESSES.search(code):
        return QuotaError(message, quota=_ADDRESS_QUOTA, hint=f"{_RAISE} ({_ADDRESS_QUOTA})", code=code)
    kind, hint = CODES.get(code) or _by_status(status)
    if kind is QuotaError:
        return _quota(error, message)
    if kind is UnrecognizedError:
        message = f"{message} (Azure's code: {code or status})"
    return kind(message, hint=hint, code=code or str(status))


def _by_status(status: int) -> tuple[type[ProviderError], str | Text]:
    if status >= 500:
        return TransientError, _AGAIN
    return _STATUSES.get(status, (UnrecognizedError, "look up what exists in the portal; report the code"))


def _not_allowed(error: ErrorDetail, message: str) -> ProviderError:
    if _TOO_MANY.search(error.message):
        return ThrottledError(message, hint="wait a little", code=error.code)
    if "quota" in error.message.lower():
        return _quota(error, message)
    return BadRequestError(message, hint=_OFFER, code=error.code)


def _quota(error: ErrorDetail, message: str) -> QuotaError:
    match, limits = _QUOTA_NAME.search(error.message), _NEW_LIMIT.search(error.message)
    name = match["name"].strip() if match else error.code
    change = f" from {limits['limit']} to {limits['needed']}" if limits else ""
    return QuotaError(message, quota=name, hint=f"{_RAISE} ({name}{change})", code=error.code)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


_BY_TEXT: Mapping[str, Callable[[ErrorDetail, str], ProviderError]] = {_NOT_ALLOWED: _not_allowed}


def too_new(call: str, error: ProviderError) -> Pair | None:
    """Which pair a refusal of a call (`PUT virtualMachines`) is about; None where waiting is of no use."""
    for name, code, words, text in _SIGNS:
        if (name, code) == (call, error.code) and words in error.message.lower():
            return pair_of(PROVIDER, text, call)
    return None
