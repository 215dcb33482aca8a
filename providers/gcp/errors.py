"""What Google says went wrong, as what calls for a reaction: by its code, never by an exception's class. Pure."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    InstanceNotFoundError,
    MachineError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)
from trainplan.workloads.extras import install_hint

SIGN_IN = "gcloud auth application-default login"
EXISTS = "alreadyExists"
IN_USE = frozenset({"resourceInUseByAnotherResource", "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"})
"""Codes of a delete of what something else still holds."""
OFF = frozenset({"accessNotConfigured", "SERVICE_DISABLED"})
"""Codes of an API that the project does not use."""
QUOTA_PROJECT = re.compile(r"requires a quota project")
"""Of the refusal of a person's sign-in without a quota project, whose reason is that of an API that is off
(GoogleCloudPlatform/cloud-foundation-fabric issue 2622: "API requires a quota project, which is not set by …")."""
NO_QUOTA_PROJECT = "QUOTA_PROJECT_NOT_SET"
"""Our code for it: Google's own, SERVICE_DISABLED, says that an API is off, which `plan setup gcp` would switch on."""
SET_QUOTA_PROJECT = "gcloud auth application-default set-quota-project PROJECT, with the project that is worked in"
_USE = "ask whoever owns the project for roles/serviceusage.serviceUsageConsumer, or the role in docs/permissions/gcp"
_ELSEWHERE = "another zone, region or machine may have one"
_QUOTA = "ask for more at https://console.cloud.google.com/iam-admin/quotas, or choose another region or machine"
_ENABLE = "plan setup gcp switches it on, or gcloud services enable {api}.googleapis.com"
_BILLING = "the project needs a billing account that is open"
_GRANT = "ask whoever owns the project for the role in docs/permissions/gcp"
_WAIT = "wait a little"
_AGAIN = "try again"
_LOOK = "look at the machine type, the image and the network named, then launch it again"


class Reaction(NamedTuple):
    """What a code calls for, and what the person is told to do."""

    kind: type[ProviderError]
    hint: str = ""


CODES: Mapping[str, Reaction] = {
    # No room: the same request may be met elsewhere. More quota does not help.
    "ZONE_RESOURCE_POOL_EXHAUSTED": Reaction(CapacityError, _ELSEWHERE),
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": Reaction(CapacityError, _ELSEWHERE),
    "RESOURCE_POOL_EXHAUSTED": Reaction(CapacityError, _ELSEWHERE),
    "insufficientCapacity": Reaction(CapacityError, _ELSEWHERE),
    "UNSUPPORTED_OPERATION": Reaction(CapacityError, "it was taken back while it was being created; try another zone"),
    "RESOURCE_NOT_FOUND": Reaction(CapacityError, "it disappeared while it was being created; try another zone"),
    # The account may not have so many.
    "QUOTA_EXCEEDED": Reaction(QuotaError, _QUOTA),
    "quotaExceeded": Reaction(QuotaError, _QUOTA),
    # Too many calls.
    "rateLimitExceeded": Reaction(ThrottledError, _WAIT),
    "userRateLimitExceeded": Reaction(ThrottledError, _WAIT),
    "RATE_LIMIT_EXCEEDED": Reaction(ThrottledError, _WAIT),
    "RESOURCE_OPERATION_RATE_EXCEEDED": Reaction(ThrottledError, _WAIT),
    "operationRateExceeded": Reaction(ThrottledError, _WAIT),
    # Who may what.
    "authError": Reaction(CredentialsError, SIGN_IN),
    "required": Reaction(CredentialsError, SIGN_IN),
    "forbidden": Reaction(PermissionDeniedError, _GRANT),
    "insufficientPermissions": Reaction(PermissionDeniedError, _GRANT),
    "IAM_PERMISSION_DENIED": Reaction(PermissionDeniedError, _GRANT),
    "PERMISSION_DENIED": Reaction(PermissionDeniedError, _GRANT),
    NO_QUOTA_PROJECT: Reaction(CredentialsError, SET_QUOTA_PROJECT),
    "USER_PROJECT_DENIED": Reaction(PermissionDeniedError, _USE),
    "accessNotConfigured": Reaction(PermissionDeniedError, _ENABLE),
    "SERVICE_DISABLED": Reaction(PermissionDeniedError, _ENABLE),
    "billingNotEnabled": Reaction(PermissionDeniedError, _BILLING),
    "BILLING_DISABLED": Reaction(PermissionDeniedError, _BILLING),
    "UserProjectAccountProblem": Reaction(PermissionDeniedError, _BILLING),
    # It will stay wrong.
    "invalid": Reaction(BadRequestError, _LOOK),
    "badRequest": Reaction(BadRequestError, _LOOK),
    "invalidParameter": Reaction(BadRequestError, _LOOK),
    "INVALID_FIELD_VALUE": Reaction(BadRequestError, _LOOK),
    "VPC_NOT_FOUND": Reaction(BadRequestError, "name a network in the setting `network`, or run plan setup gcp"),
    "conditionNotMet": Reaction(BadRequestError, _LOOK),
    EXISTS: Reaction(BadRequestError, "another resource of the project has this name: delete it, or launch again"),
    **{code: Reaction(BadRequestError, "delete what holds it first") for code in IN_USE},
    "notFound": Reaction(InstanceNotFoundError),
    # Google's own trouble; whether the call took effect is to be looked up.
    "RESOURCE_NOT_READY": Reaction(TransientError, _AGAIN),
    "resourceNotReady": Reaction(TransientError, _AGAIN),
    "INTERNAL_ERROR": Reaction(TransientError, _AGAIN),
    "internalError": Reaction(TransientError, _AGAIN),
    "backendError": Reaction(TransientError, _AGAIN),
}
_STATUSES: Mapping[int, Reaction] = {
    400: CODES["invalid"],
    401: CODES["authError"],
    403: CODES["forbidden"],
    404: CODES["notFound"],
    408: CODES["backendError"],
    412: CODES["conditionNotMet"],
    429: CODES["rateLimitExceeded"],
    500: CODES["backendError"],
    502: CODES["backendError"],
    503: CODES["backendError"],
    504: CODES["backendError"],
}
LOCATION_POLICY = re.compile(r"constraints/gcp\.resourceLocations")
"""Of the refusal by an organisation's policy on placements: 412 conditionNotMet, "Location ZONE:… violates constraint
…" (cloudfoundry/bosh-bootloader issue 513, GoogleCloudPlatform/oss-test-infra pull request 2703)."""
# What a code that says too little is about: only of refusals, whose code says no more than their status.
_REACTIONS_BY_TEXT: Sequence[tuple[re.Pattern[str], Reaction]] = (
    (
        re.compile(r"Location \S+ is not found or access is unauthorized|Permission denied on 'locations/"),
        Reaction(CapacityError, "this zone is not open to the project; another may be"),
    ),
    (
        LOCATION_POLICY,
        Reaction(CapacityError, "a policy of the organisation closes this placement; another may be open"),
    ),
    (
        re.compile(r"does not exist in zone"),
        Reaction(CapacityError, "this zone does not have it; another may"),
    ),
    (
        re.compile(r"This user agent is not allowed to use the machine type"),
        Reaction(BadRequestError, "Google does not rent it in this way: choose another offer"),
    ),
)
_QUOTA_NAME = re.compile(r"[Qq]uota '([^']+)'")
_GLOBAL = ("GPUS_ALL_REGIONS", "GPUS-ALL-REGIONS")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetail:
    """One error of a Google reply. `status` is 0 for an operation, which has no HTTP status."""

    code: str
    status: int
    message: str
    details: Sequence[Mapping[str, Any]] = field(default_factory=tuple)

    @property
    def info(self) -> Mapping[str, Any]:
        """`errorInfo` of the details: reason, domain, metadatas."""
        return next((dict(row["errorInfo"]) for row in self.details if row.get("errorInfo")), {})


def error_of(error: ErrorDetail, what: str) -> ProviderError:
    """The error of ours that a code of Google's calls for; one in no table stays unrecognized."""
    if error.code in OFF and QUOTA_PROJECT.search(error.message):
        error = replace(error, code=NO_QUOTA_PROJECT)
    reaction = _reaction(error)
    message = f"{what}: {error.message or error.code}"
    if reaction is None:
        hint = "look up what exists; the code is Google's own"
        return UnrecognizedError(f"Google says {error.code or error.status}: {message}", hint=hint, code=error.code)
    if reaction.kind is QuotaError:
        return _quota(error, message)
    if reaction.kind is CapacityError:
        return CapacityError(message, elsewhere=_elsewhere(error), hint=reaction.hint, code=error.code)
    hint = reaction.hint.format(api=what.partition("/")[0])
    return reaction.kind(message, hint=hint, code=error.code or str(error.status))


def in_short(error: ProviderError) -> str:
    """The message; that of an API that is off without Google's own words, which are the same for every call of it."""
    return f"the API {error.message.partition('/')[0]} is off in this project" if error.code in OFF else error.message


def error_of_reply(status: int, text: str, what: str) -> ProviderError:
    """The error that a reply's body tells."""
    try:
        reply = json.loads(text)["error"]
        rows = reply.get("errors") or [{}]
        details = [dict(row) for row in reply.get("details", ())]
        reason = str(rows[0].get("reason") or next((row["reason"] for row in details if row.get("reason")), ""))
        message = str(reply.get("message", ""))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        reason, message = "", text[:300]
    return error_of(ErrorDetail(code=reason, status=status, message=message), what)


def error_of_operation(operation: Mapping[str, Any], what: str) -> ProviderError | None:
    """What an operation that is over failed with; None where it did not."""
    rows = (operation.get("error") or {}).get("errors") or ()
    if not rows:
        return None
    row = rows[0]
    status = int(operation.get("httpErrorStatusCode") or 0)
    details = tuple(row.get("errorDetails") or ())
    error = ErrorDetail(
        code=str(row.get("code", "")), status=status, message=str(row.get("message", "")), details=details
    )
    return error_of(error, what)


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Errors of Google's libraries as ours. `what` was asked for, the name of its API first."""
    try:
        from google.api_core import exceptions as core
        from google.protobuf import json_format
    except ImportError as error:
        raise MachineError("Google's libraries are not installed here", hint=install_hint("gcp")) from error
    with session_errors(what):
        try:
            yield
        except json_format.ParseError as error:
            raise unreadable(what, error) from error
        except core.GoogleAPICallError as error:
            raise error_of(_call_said(error), what) from error
        except core.RetryError as error:
            raise _unanswered(what, error) from error


@contextlib.contextmanager
def session_errors(what: str) -> Iterator[None]:
    """Errors of a session of google-auth as ours. `what` was asked for."""
    try:
        import requests
        from google.auth import exceptions as auth
    except ImportError as error:
        raise MachineError("google-auth is not installed here", hint=install_hint("gcp")) from error
    try:
        yield
    except requests.exceptions.JSONDecodeError as error:
        raise unreadable(what, error) from error
    except (auth.TransportError, requests.RequestException) as error:
        raise _unanswered(what, error) from error
    except auth.GoogleAuthError as error:
        raise CredentialsError(f"there is no sign-in for Google Cloud: {error}", hint=SIGN_IN) from error


def _unanswered(what: str, why: object) -> TransientError:
    return TransientError(f"{what} does not answer: {why}", hint="check the network connection, then try again")


def unreadable(what: str, why: object) -> TransientError:
    """The error of a reply that is none of Google's: whether the call took effect is to be looked up."""
    hint = "try again; if it happens again, check proxies and firewalls between this computer and Google"
    return TransientError(f"{what}: the reply cannot be read: {why}", hint=hint)


def _call_said(error: Any) -> ErrorDetail:
    """What a GoogleAPICallError carries."""
    rows: Sequence[Any] = error.errors or ({},)
    first = rows[0] if isinstance(rows[0], dict) else {}
    code = str(first.get("reason") or error.reason or "")
    return ErrorDetail(code=code, status=int(error.code or 0), message=str(error.message))


def _reaction(error: ErrorDetail) -> Reaction | None:
    if error.status in (400, 403, 404, 412):
        for pattern, reaction in _REACTIONS_BY_TEXT:
            if pattern.search(error.message):
                return reaction
    row = CODES.get(error.code)
    if row is not None:
        return row
    # A code that nobody knows may be a stockout as well as a fault: only a reply without one is judged by its status.
    return None if error.code else _STATUSES.get(error.status)


def _quota(error: ErrorDetail, message: str) -> QuotaError:
    info: Mapping[str, Any] = next((row["quotaInfo"] for row in error.details if row.get("quotaInfo")), {})
    match = _QUOTA_NAME.search(error.message)
    name = str(info.get("limitName") or (match[1] if match else "") or "unknown")
    # By its own name in messages (GPUS_ALL_REGIONS), by that of its limit in details.
    everywhere = any(word in f"{name} {error.message}" for word in _GLOBAL)
    hint = f"this one counts all regions together: {_QUOTA}" if everywhere else _QUOTA
    return QuotaError(message, quota=name, everywhere=everywhere, hint=hint, code=error.code)


def _elsewhere(error: ErrorDetail) -> tuple[str, ...]:
    """The zones that a stockout recommends."""
    text = str((error.info.get("metadatas") or {}).get("zonesAvailable", ""))
    return tuple(zone.strip() for zone in text.split(",") if zone.strip())
