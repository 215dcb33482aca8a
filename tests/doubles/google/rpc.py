"""Refusals as Google's newer APIs word them (https://cloud.google.com/apis/design/errors): a google.rpc.Status."""

from __future__ import annotations

from typing import Any

from tests.doubles.google.world import RefusedError

_HTTP = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
}
NO_SUBNETWORK = 'Cloud TPU received a bad request. The value "{name}" provided for field "Subnetwork" does not exist.'
"""As a user of v4 in us-central2 was answered, who had named none (gist of alpharomercoma, 2025-02)."""
NUMBERS = {"RESOURCE_EXHAUSTED": 8, "NOT_FOUND": 5, "FAILED_PRECONDITION": 9}


class StatusError(RefusedError):
    """`details` are what comes with it, each with its @type."""

    def __init__(self, status: str, message: str, details: tuple[dict[str, Any], ...] = ()) -> None:
        super().__init__(_HTTP[status], status, message)
        self.details = details

    @property
    def body(self) -> dict[str, Any]:
        told: dict[str, Any] = {"code": self.status, "message": self.message, "status": self.reason}
        return {"error": {**told, **({"details": list(self.details)} if self.details else {})}}


def info(reason: str, **metadata: str) -> dict[str, Any]:
    kind = "type.googleapis.com/google.rpc.ErrorInfo"
    return {"@type": kind, "reason": reason, "domain": "googleapis.com", "metadata": metadata}
