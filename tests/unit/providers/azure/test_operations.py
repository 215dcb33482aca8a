"""Machines are asked for by azure-mgmt-compute's own operations: one request each, which is the recorded one, and an
answer that is read by its code."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pytest
import requests
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError
from azure.core.pipeline.transport import RequestsTransport
from urllib3.exceptions import ProtocolError

from tests.rows import each_row
from trainplan.providers.azure.api import ArmClient, Call, Reply
from trainplan.providers.azure.settings import AzureSettings
from trainplan.providers.errors import CredentialsError, TransientError

HOME = "/subscriptions/that-of-the-record/resourceGroups/trainplan-r1-1"
MACHINE = f"{HOME}/providers/Microsoft.Compute/virtualMachines/trainplan-r1-1"
BODY = {"location": "eastus", "properties": {"priority": "Spot", "unknown to the models": [1, None, "ä"]}}
OPERATION = "https://management.azure.com/subscriptions/S/providers/Microsoft.Compute/locations/eastus/operations/1"
ENDPOINT = "https://arm.example"


@dataclass
class Wire(requests.adapters.BaseAdapter):
    """What left, and the one answer that comes back."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: io.BytesIO | None = None
    sent: list[requests.PreparedRequest] = field(default_factory=list)

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        self.sent.append(request)
        answer = requests.Response()
        answer.status_code, answer.request, answer.url = self.status, request, str(request.url)
        answer.headers.update({"Content-Type": "application/json", **self.headers})
        answer.raw = self.raw or io.BytesIO(self.body)
        return answer

    def close(self) -> None:
        pass

    def __hash__(self) -> int:
        return id(self)


class SignedIn:
    def get_token(self, *_: str, **__: object) -> AccessToken:
        return AccessToken("token", 2**40)


def asked(wire: Wire, call: Call, credential: Any = SignedIn) -> Reply:
    session = requests.Session()
    session.mount("https://", wire)
    settings = AzureSettings(subscription="that-of-today", arm_endpoint=ENDPOINT)
    transport = lambda: RequestsTransport(session=session, session_owner=False)  # noqa: E731
    return ArmClient(settings, credential=credential, transport=transport).send(call)


@pytest.mark.parametrize(
    "call",
    [
        Call(method="PUT", path=MACHINE, api="2026-04-01", body=BODY),
        Call(method="PUT", path=MACHINE, api="2024-07-01", body=BODY),
        Call(method="GET", path=MACHINE, api="2026-04-01", query={"$expand": "instanceView"}),
        Call(method="GET", path=MACHINE, api="2026-04-01"),
        Call(method="DELETE", path=MACHINE, api="2026-04-01", query={"forceDeletion": "true"}),
        Call(method="DELETE", path=MACHINE, api="2026-04-01"),
        Call(method="POST", path=f"{MACHINE}/retrieveBootDiagnosticsData", api="2026-04-01"),
        Call(method="PUT", path=f"{HOME}/providers/Microsoft.Network/virtualNetworks/n", api="2024-05-01", body=BODY),
    ],
    ids=lambda call: f"{call.name} {call.api} {len(call.query)}",
)
def test_what_leaves_is_what_was_recorded(call: Call) -> None:
    """Under other settings too, in another version of the API, and with what this version's models do not know."""
    wire = Wire(status=202 if call.method == "DELETE" else 200, headers={"Azure-AsyncOperation": OPERATION})
    reply = asked(wire, call)
    (sent,) = wire.sent
    query = "&".join(f"{name}={value}" for name, value in {"api-version": call.api, **call.query}.items())
    assert (sent.method, unquote(str(sent.url))) == (call.method, f"{ENDPOINT}{call.path}?{query}")
    assert sent.body in ((json.dumps(BODY), json.dumps(BODY).encode()) if call.body else (None, b""))
    assert reply.operation == OPERATION, "a launch follows the address that Azure gave"


@each_row("method", ["PUT", "GET", "DELETE"])
@each_row("status", [200, 201, 401, 404, 409, 429, 500])
def test_an_answer_is_told_by_status_and_code_and_asked_for_once(method: str, status: int) -> None:
    """azure-core has one class for every 409, a stockout's too, and another for a 401 of its own sign-in."""
    error = {"error": {"code": "AllocationFailed", "message": "no room"}}
    wire = Wire(status=status, body=json.dumps(error).encode())
    reply = asked(wire, Call(method=method, path=MACHINE, api="2026-04-01", body=BODY if method == "PUT" else None))
    assert (reply.status, reply.body, len(wire.sent)) == (status, error, 1)


@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_an_answer_that_is_no_json_is_an_answer(method: str) -> None:
    """The machine may be there: whoever launches looks."""
    wire = Wire(status=200, body=b'{"name": "cut')
    reply = asked(wire, Call(method=method, path=MACHINE, api="2026-04-01", body=BODY if method == "PUT" else None))
    assert (reply.status, reply.body["error"]["message"]) == (200, '{"name": "cut')


class Broken(io.BytesIO):
    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield b'{"na'
        raise ProtocolError("Connection broken: IncompleteRead")


def test_an_answer_that_breaks_off_is_none() -> None:
    with pytest.raises(TransientError):
        asked(Wire(status=201, raw=Broken()), Call(method="PUT", path=MACHINE, api="2026-04-01", body=BODY))


def test_an_answer_of_the_sign_in_is_not_azures_to_the_call() -> None:
    class Refused:
        def get_token(self, *_: str, **__: object) -> AccessToken:
            response = requests.Response()
            response.status_code, response.reason = 400, "invalid_client"
            error = ClientAuthenticationError("invalid_client")
            error.response, error.status_code = response, 400
            raise error

    wire = Wire()
    with pytest.raises(CredentialsError, match="no sign-in"):
        asked(wire, Call(method="GET", path=MACHINE, api="2026-04-01"), Refused)
    assert wire.sent == []
