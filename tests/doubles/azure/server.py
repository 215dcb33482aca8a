"""The double as an HTTPS server: Resource Manager, the sign-in, and under /control/ what only tests do with it."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.doubles.azure.arm import SIGNED, Arm
from tests.doubles.azure.bucket import STORE_CALLS, carry_out
from tests.doubles.azure.ledger import ledger
from tests.doubles.azure.rules import FIRST_DAY, PERSON, Rules
from tests.doubles.azure.values import Answer, ArmError
from tests.doubles.azure.world import LostError, World
from trainplan.providers.sim.scenario import Script

if TYPE_CHECKING:
    from trainplan.providers.sim.training import Trainer

LOOPBACK = "127.0.0.1"
_SECONDS = {field.name for field in fields(Rules) if isinstance(field.default, timedelta)}
"""Rules that are a length of time."""


class AzureServer:
    """One double in threads of this process; `url` is where it is."""

    def __init__(self, pem: Path, rules: Rules | None = None, trainer: Trainer | None = None) -> None:
        self._trainer = trainer
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self))
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://{LOOPBACK}:{self._server.server_port}"
        self.reset(rules or Rules())

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reset(self, rules: Rules) -> None:
        self.world = World(rules, self._trainer)
        self.arm = Arm(self.world, self.url)

    def answer(self, method: str, target: str, authorization: str | None, body: bytes) -> Answer:
        """Raises LostError."""
        path = urlsplit(target).path
        with self.lock:
            if self.world.rules.real:
                self.world.advance(datetime.now(UTC))  # noqa: TID251  its machines are real
            if path.startswith("/control/"):
                return Answer(200, self._control(path.removeprefix("/control/"), json.loads(body or b"{}")))
            if path.startswith((SIGNED, "/subscriptions")):
                return self.arm.handle(method, target, authorization, body)
        return _sign_in(self.url, path)

    def _control(self, what: str, steering: dict[str, Any]) -> Any:
        world = self.world
        match what:
            case "reset":
                self.reset(Rules(**(FIRST_DAY if steering.pop("first_day", False) else {}), **steering))
            case "rules":
                world.change(**{name: _rule(name, value) for name, value in steering.items()})
            case "advance":
                world.advance(world.now + timedelta(seconds=steering["seconds"]))
            case "costs":
                world.costs = steering["rows"]
            case "script":
                world.life.physics.play(Script.model_validate(steering))
            case "bucket":
                try:
                    world.let_into_storage()
                    world.reply_to(STORE_CALLS[steering["operation"]], {})
                except ArmError as error:
                    return {"refused": error.body["error"]["code"]}
                held = carry_out(world, steering["operation"], steering["key"], base64.b64decode(steering["data"]))
                return {"held": base64.b64encode(held).decode() if isinstance(held, bytes) else held}
            case _:
                pass
        return _as_json(what, world)


def _as_json(what: str, world: World) -> Any:
    """What there is of this name, else the time."""
    match what:
        case "calls" | "denied" | "refusals":
            return getattr(world, what)
        case "unmet":
            return [at.isoformat() for at in world.unmet.refused_at]
        case "timers":
            return [{"at": timer.at.isoformat(), "machine": timer.machine} for timer in world.timers]
        case "ledger":
            return ledger(world)
        case _:
            return {"now": world.now.isoformat()}


def _rule(name: str, value: Any) -> Any:
    if name in _SECONDS:
        return timedelta(seconds=value)
    if name == "limits":
        return {tuple(key.split("/")): limit for key, limit in value.items()}
    return tuple(tuple(row) if isinstance(row, list) else row for row in value) if isinstance(value, list) else value


def token_for(person: str) -> str:
    """A token as the directory gives it out, as far as a client looks into one."""
    parts = [{"alg": "none"}, {"oid": person, "tid": "tests"}, {}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


def _sign_in(url: str, path: str) -> Answer:
    """OpenID's discovery and the token endpoint."""
    if path.endswith("/token"):
        return Answer(200, {"token_type": "Bearer", "expires_in": 3600, "access_token": token_for(PERSON)})
    home = url + "/" + path.split("/")[1]
    told = {
        "token_endpoint": f"{home}/oauth2/v2.0/token",
        "authorization_endpoint": f"{home}/oauth2/v2.0/authorize",
        "issuer": f"{home}/v2.0",
    }
    return Answer(200, told)


def _handler(server: AzureServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: pytest has no use for it."""

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                told = server.answer(self.command, self.path, self.headers.get("Authorization"), body)
            except LostError:
                self.close_connection = True
                return
            data = b"" if told.body is None else told.body.encode() if isinstance(told.body, str) else _json(told.body)
            self.send_response(told.status)
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            self.wfile.flush()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

    return Handler


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()
