"""The calls of the simulated cloud as a client makes them, and its time: what a test can put itself in front of."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LOOPBACK = "127.0.0.1"
TOKEN_HEADER = "X-Sim-Token"
API, TIME, SETUP, ADMIN = "/api/", "/time", "/setup", "/admin/"
STOP = f"{ADMIN}stop"
_TIMEOUT_SECONDS = 30.0


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
        """Send one call. Raises RefusedError or DisconnectedError, or MachineError where no simulated cloud starts."""
        ...

    def now(self) -> datetime:
        """The time in the simulated cloud. Raises as `call` does."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds of the simulated time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens on loopback, and what it wants to hear."""

    port: int
    token: str


class HttpApi:
    """The server at an address. `find` gives it, starting one where there is none; it is asked again when nobody
    listens there any more."""

    def __init__(self, find: Callable[[], Address]) -> None:
        self._find = find
        self._address: Address | None = None

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return self.ask(f"{API}{operation}", parameters)

    def now(self) -> datetime:
        return datetime.fromisoformat(self.ask(TIME)["now"])

    def sleep(self, seconds: float) -> None:
        until = self.now() + timedelta(seconds=seconds)
        while True:
            reply = self.ask(TIME, {"until": until.isoformat()})
            remaining = (until - datetime.fromisoformat(reply["now"])).total_seconds()
            if remaining <= 0:
                return
            if reply["speed"]:
                time.sleep(remaining / reply["speed"])  # noqa: TID251  its seconds are parts of real ones

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A request to any path; a body makes it a POST."""
        if self._address is None:
            self._address = self._find()
        try:
            return exchange(self._address, path, body)
        except ConnectionRefusedError:
            # Nothing was sent: whoever listened there has ended, and the world goes on in another process.
            self._address = self._find()
        try:
            return exchange(self._address, path, body)
        except ConnectionRefusedError as error:
            raise DisconnectedError(str(error)) from error


def exchange(address: Address, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Send one request and return its reply. Raises RefusedError, DisconnectedError, and ConnectionRefusedError."""
    connection = http.client.HTTPConnection(LOOPBACK, address.port, timeout=_TIMEOUT_SECONDS)
    data = None if body is None else canonical(body)
    try:
        connection.request("GET" if data is None else "POST", path, data, {TOKEN_HEADER: address.token})
        response = connection.getresponse()
        reply: dict[str, Any] = json.loads(response.read())
    except ConnectionRefusedError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DisconnectedError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise RefusedError(str(reply["code"]), str(reply["message"]), reply["details"])
    return reply


def canonical(body: Mapping[str, Any]) -> bytes:
    """The bytes of a request: the same parameters give the same bytes."""
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
