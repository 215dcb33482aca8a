"""The calls of the simulated cloud as a client makes them, and its time: what a test can put itself in front of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol


class RefusedError(Exception):
    """The cloud answered, and said no: `code` is its own."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = dict(details or {})


class DisconnectedError(Exception):
    """No reply came: whether the call took effect is not known."""


class Api(Protocol):
    """The calls of the simulated cloud."""

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Send one call. Raises RefusedError or DisconnectedError, or MachineError where its file is not usable."""
        ...

    def now(self) -> datetime:
        """The time in the simulated cloud. Raises as `call` does."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds of the simulated time."""
        ...


def canonical(body: Mapping[str, Any]) -> bytes:
    """The bytes of a request: the same parameters give the same bytes."""
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
