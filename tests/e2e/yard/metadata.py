"""The metadata service of three clouds, which each machine finds at its usual address and sees as its own."""

from __future__ import annotations

import json
import re
import secrets
import socket
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.e2e.yard.network import METADATA, Network

_EC2_VERSION = re.compile(r"^/(latest|\d{4}-\d{2}-\d{2})/")
_EC2_VERSIONS = ("2009-04-04", "2016-09-02", "2018-09-24", "2021-03-23")
_TOKEN_SECONDS = 21_600
NOTICE = {"aws": timedelta(seconds=120), "gcp": timedelta(seconds=30), "azure": timedelta(seconds=30)}


@dataclass(slots=True)
class Identity:
    """What the service knows of one machine. `notice` is when it will be taken away; `acknowledged` what Azure heard.

    `credentials` are AWS's (id, secret, token), `token` what Google and Azure give. `asked`: (method, path).
    """

    cloud: str
    name: str
    region: str
    user_data: str
    credentials: tuple[str, str, str] = ("test", "test", "test")
    token: str = "token-of-the-machine"
    notice: datetime | None = None
    noticed_at: datetime | None = None
    acknowledged: list[str] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


Reply = tuple[int, str, bytes]


class Metadata:
    """The server; `machines` by address. One that is not in it gets no answer but 404."""

    def __init__(self, network: Network) -> None:
        self.machines: dict[str, Identity] = {}
        machines = self.machines

        class Handler(_Handler):
            table = machines

        self._server = network.serve(lambda: ThreadingHTTPServer((METADATA, 80), Handler))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    table: dict[str, Identity]

    def do(self) -> None:
        parts = urlsplit(self.path)
        asked = Request(
            self.command,
            parts.path,
            {name: values[0] for name, values in parse_qs(parts.query).items()},
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(int(self.headers.get("Content-Length") or 0)),
        )
        identity = self.table.get(str(self.client_address[0]))
        status, kind, body = 404, "text/plain", b""
        if identity is not None:
            identity.requests.append((asked.method, asked.path))
            status, kind, body = _CLOUDS[identity.cloud](identity, asked)
            if identity.cloud == "aws" and asked.path == "/latest/api/token":
                # HttpPutResponseHopLimit=1: what carries the token does not reach a container behind the machine.
                self.connection.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if identity is not None and identity.cloud == "gcp":
            self.send_header("Metadata-Flavor", "Google")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def _text(text: str) -> Reply:
    return 200, "text/plain", text.encode()


def _json(value: object) -> Reply:
    return 200, "application/json", json.dumps(value).encode()


_NOTHING: Reply = (404, "text/plain", b"")


def _aws(identity: Identity, request: Request) -> Reply:
    """IMDSv2 alone, as with HttpTokens=required."""
    if request.path == "/latest/api/token":
        seconds = request.headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
        if request.method != "PUT" or not seconds.isdigit() or not 1 <= int(seconds) <= _TOKEN_SECONDS:
            return 400, "text/plain", b"a PUT with the time to live"
        identity.sessions.add(token := secrets.token_urlsafe(24))
        return _text(token)
    if request.headers.get("x-aws-ec2-metadata-token") not in identity.sessions:
        return 401, "text/plain", b"Unauthorized"
    found = _EC2_VERSION.match(request.path)
    if found is None or (found[1] not in _EC2_VERSIONS and found[1] != "latest"):
        return _NOTHING
    path = request.path[found.end() :].rstrip("/")
    if path.startswith("meta-data"):
        return _leaf(_ec2_tree(identity), path.removeprefix("meta-data").strip("/"))
    if path == "dynamic/instance-identity":
        return _text("document")
    document = {"instanceId": identity.name, "region": identity.region}
    values = {"user-data": _text(identity.user_data), "dynamic/instance-identity/document": _json(document)}
    return values.get(path, _NOTHING)


def _ec2_tree(identity: Identity) -> dict[str, str]:
    key, secret, token = identity.credentials
    role = {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "AccessKeyId": key,
        "SecretAccessKey": secret,
        "Token": token,
        "Expiration": f"{datetime.now(UTC) + timedelta(hours=6):%Y-%m-%dT%H:%M:%SZ}",  # noqa: TID251  a server's
    }
    tree = {
        "instance-id": identity.name,
        "ami-id": "ami-yard",
        "hostname": identity.name,
        "local-hostname": identity.name,
        "placement/region": identity.region,
        "placement/availability-zone": f"{identity.region}a",
        "iam/security-credentials/trainplan": json.dumps(role),
    }
    if identity.notice is not None:
        action = {"action": "terminate", "time": f"{identity.notice:%Y-%m-%dT%H:%M:%SZ}"}
        tree["spot/instance-action"] = json.dumps(action)
    return tree


def _leaf(tree: dict[str, str], path: str) -> Reply:
    """A value, or the names below a folder."""
    if path in tree:
        return _text(tree[path])
    start = f"{path}/" if path else ""
    rest = {name.removeprefix(start) for name in tree if name.startswith(start)}
    names = sorted({name.partition("/")[0] + ("/" if "/" in name else "") for name in rest})
    return _text("\n".join(names)) if names else _NOTHING


def _google(identity: Identity, request: Request) -> Reply:
    if request.headers.get("metadata-flavor") != "Google":
        return 403, "text/html", b"Missing required header: Metadata-Flavor"
    path = request.path.removeprefix("/computeMetadata/v1/").strip("/")
    account = "instance/service-accounts/default"
    values = {
        "instance/id": _text("".join(str(ord(letter)) for letter in identity.name)[:19]),
        "instance/name": _text(identity.name),
        "instance/hostname": _text(f"{identity.name}.c.yard.internal"),
        "instance/zone": _text(f"projects/1/zones/{identity.region}-a"),
        "instance/attributes": _json({"user-data": identity.user_data}),
        "instance/attributes/tpu-env": _text("ACCELERATOR_TYPE: 'v3-8'\nWORKER_ID: '0'\n"),
        "instance/preempted": _text("TRUE" if identity.notice else "FALSE"),
        "instance/maintenance-event": _text("NONE"),
        "project/attributes": _json({}),
        "project/project-id": _text("a-project"),
        f"{account}/token": _json({"access_token": identity.token, "expires_in": 3599, "token_type": "Bearer"}),
        f"{account}/identity": _text(f"identity-of-{identity.name}-for-{request.query.get('audience', '')}"),
        f"{account}/email": _text("machine@a-project.iam.gserviceaccount.com"),
    }
    return values.get(path, _NOTHING)


def _azure(identity: Identity, request: Request) -> Reply:
    if request.headers.get("metadata") != "true":
        return 400, "application/json", b'{"error": "Bad request. Required metadata header not specified"}'
    if request.path == "/metadata/scheduledevents":
        return _events(identity, request)
    if request.path == "/metadata/identity/oauth2/token" and "resource" in request.query:
        return _json({"access_token": identity.token, "expires_in": "86399", "token_type": "Bearer"})
    if request.path == "/metadata/instance/compute/name":
        return _text(identity.name)
    if request.path == "/metadata/instance":
        return _json({"compute": {"name": identity.name, "location": identity.region}})
    return _NOTHING


def _events(identity: Identity, request: Request) -> Reply:
    if request.method == "POST":
        identity.acknowledged += [row["EventId"] for row in json.loads(request.body)["StartRequests"]]
        return _text("")
    events = []
    if identity.notice is not None:
        events.append(
            {
                "EventId": "taken-back",
                "EventType": "Preempt",
                "ResourceType": "VirtualMachine",
                "Resources": [identity.name],
                "EventStatus": "Scheduled",
                "NotBefore": format_datetime(identity.notice, usegmt=True),
            }
        )
    return _json({"DocumentIncarnation": len(events), "Events": events})


_CLOUDS = {"aws": _aws, "gcp": _google, "azure": _azure}
