"""What the Cloud TPU API and Cloud Tasks say went wrong, as what calls for a reaction: by its code. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
from trainplan.providers.gcp.errors import (
    LOCATION_POLICY,
    NO_QUOTA_PROJECT,
    QUOTA_PROJECT,
    SET_QUOTA_PROJECT,
    SIGN_IN,
    Reaction,
)
from trainplan.providers.gcp.tpu.api import Refused

OFF = "SERVICE_DISABLED"
_ELSEWHERE = "another zone or machine may have one"
_QUOTA = (
    "TPUs of the Cloud TPU API have quotas of their own: ask for more at "
    "https://console.cloud.google.com/iam-admin/quotas?service=tpu.googleapis.com, or choose another zone or machine"
)
_ENABLE = "gcloud services enable {service}.googleapis.com, or plan setup gcp"
_GRANT = "ask whoever owns the project for the role in docs/permissions/gcp"
_LOOK = "look at the type, the runtime version and the network, then launch it again"
_REPORT = "look up what exists; the code is Google's own"


# By the names of google.rpc.Code. RESOURCE_EXHAUSTED and FAILED_PRECONDITION say too little: SAID and INFO come first.
CODES: Mapping[str, Reaction] = {
    "CANCELLED": Reaction(TransientError, "try again"),
    "UNKNOWN": Reaction(TransientError, "try again"),
    "INVALID_ARGUMENT": Reaction(BadRequestError, _LOOK),
    "DEADLINE_EXCEEDED": Reaction(TransientError, "try again"),
    "NOT_FOUND": Reaction(InstanceNotFoundError),
    "ALREADY_EXISTS": Reaction(BadRequestError, "something else in the project has this name: launch the job again"),
    "PERMISSION_DENIED": Reaction(PermissionDeniedError, _GRANT),
    "ABORTED": Reaction(TransientError, "try again"),
    "OUT_OF_RANGE": Reaction(BadRequestError, _LOOK),
    "UNIMPLEMENTED": Reaction(BadRequestError, _LOOK),
    "INTERNAL": Reaction(TransientError, "try again"),
    "UNAVAILABLE": Reaction(TransientError, "try again later"),
    "UNAUTHENTICATED": Reaction(CredentialsError, SIGN_IN),
}
# Reasons of a google.rpc.ErrorInfo, which say more than the code they come with.
INFO: Mapping[str, Reaction] = {
    "RATE_LIMIT_EXCEEDED": Reaction(ThrottledError, "wait a little"),
    OFF: Reaction(PermissionDeniedError, _ENABLE),
    "BILLING_DISABLED": Reaction(PermissionDeniedError, "the project needs a billing account that is open"),
    "ACCESS_TOKEN_EXPIRED": Reaction(CredentialsError, SIGN_IN),
    "IAM_PERMISSION_DENIED": Reaction(PermissionDeniedError, _GRANT),
}
# What a message says beside its code, where the code alone is not enough; the first that fits counts.
REACTIONS_BY_TEXT: Sequence[tuple[frozenset[str], re.Pattern[str], Reaction]] = (
    (
        frozenset({"RESOURCE_EXHAUSTED"}),
        re.compile(r"requests? per|rate limit", re.IGNORECASE),
        Reaction(ThrottledError, "wait a little"),
    ),
    (frozenset({"RESOURCE_EXHAUSTED"}), re.compile(r"quota", re.IGNORECASE), Reaction(QuotaError, _QUOTA)),
    (
        frozenset({"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "INTERNAL"}),
        re.compile(r"capacity|stockout|resource pool|not enough resources", re.IGNORECASE),
        Reaction(CapacityError, _ELSEWHERE),
    ),
    (
        frozenset({"INVALID_ARGUMENT", "FAILED_PRECONDITION"}),
        re.compile(r"while in state PREEMPTED"),
        Reaction(CapacityError, _ELSEWHERE),
    ),
    (
        frozenset({"PERMISSION_DENIED", "NOT_FOUND"}),
        re.compile(r"Location \S+ is not found or access is unauthorized|Permission denied on 'locations/"),
        Reaction(CapacityError, "this zone is not open to the project; another may be"),
    ),
    (
        frozenset({"FAILED_PRECONDITION", "PERMISSION_DENIED"}),
        LOCATION_POLICY,
        Reaction(CapacityError, "a policy of the organisation closes this placement; another may be open"),
    ),
    (
        frozenset({"INVALID_ARGUMENT", "PERMISSION_DENIED"}),
        re.compile(r"user agent is not allowed|request to provision TPU Node has been denied"),
        Reaction(BadRequestError, "Google does not rent it in this way: choose another offer"),
    ),
)
_NUMBERS = {
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARGUMENT",
    4: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND",
    6: "ALREADY_EXISTS",
    7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED",
    9: "FAILED_PRECONDITION",
    10: "ABORTED",
    11: "OUT_OF_RANGE",
    12: "UNIMPLEMENTED",
    13: "INTERNAL",
    14: "UNAVAILABLE",
    16: "UNAUTHENTICATED",
}
_QUOTA_NAME = re.compile(r"[Qq]uota(?: limit| metric)? '([^']+)'")


def error_of(refusal: Refused, what: str, service: str = "tpu") -> ProviderError:
    """The error of ours that an answer calls for; what is in no table stays unrecognized."""
    message = f"{what}: {refusal.message or refusal.status}"
    code, reaction = _reaction(refusal)
    if reaction is None:
        return UnrecognizedError(f"Google says {code}: {message}", hint=_REPORT, code=code)
    if reaction.kind is QuotaError:
        return QuotaError(message, quota=_quota_name(refusal), hint=reaction.hint, code=code)
    return reaction.kind(message, hint=reaction.hint.format(service=service), code=code)


def is_off(error: ProviderError) -> bool:
    """Whether the project does not use the service at all: then nothing of it can be there."""
    return error.code == OFF


def operation_error(operation: Mapping[str, Any], what: str) -> ProviderError | None:
    """What an operation failed with; None where it goes on or went well."""
    reply = operation.get("error")
    return error_of(status_of(reply), what) if reply else None


def _reaction(refusal: Refused) -> tuple[str, Reaction | None]:
    """The code, of which the most telling one is taken, and what it calls for."""
    for row in refusal.details:
        reason = str(row.get("reason", ""))
        if reason == OFF and QUOTA_PROJECT.search(refusal.message):
            return NO_QUOTA_PROJECT, Reaction(CredentialsError, SET_QUOTA_PROJECT)
        if reason in INFO:
            return reason, INFO[reason]
    if any(str(row.get("@type", "")).endswith("google.rpc.QuotaFailure") for row in refusal.details):
        return refusal.status, Reaction(QuotaError, _QUOTA)
    for statuses, pattern, reaction in REACTIONS_BY_TEXT:
        if refusal.status in statuses and pattern.search(refusal.message):
            return refusal.status, reaction
    return refusal.status, CODES.get(refusal.status)


def _quota_name(refusal: Refused) -> str:
    for row in refusal.details:
        for violation in row.get("violations", ()):
            if violation.get("subject"):
                return str(violation["subject"])
    match = _QUOTA_NAME.search(refusal.message)
    return match[1] if match else "unknown"


def status_of(reply: Mapping[str, Any]) -> Refused:
    """A google.rpc.Status in JSON."""
    number = int(reply.get("code", 2))
    code = _NUMBERS.get(number, str(number))
    return Refused(code, str(reply.get("message", "")), reply.get("details", ()))
