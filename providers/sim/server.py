"""The simulated cloud as a server on loopback: JSON over HTTP, for whoever knows its token."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from providers.sim.api import ADMIN, API, LOOPBACK, SETUP, STOP, TIME, TOKEN_HEADER
from providers.sim.calls import call
from providers.sim.ledger import ledger
from providers.sim.scenario import Scenario, Script
from providers.sim.values import CloudError, Code, LostReplyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.sim.persistence import Keeper
    from providers.sim.world import World

Reply = dict[str, Any]
MOST_BODY_BYTES = 64 * 1024 * 1024
_HEARD_OUT_BYTES = 65_536
"""Of the body of a caller without the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a world is run: its rules, and how many of its seconds pass in a real one (0: only when somebody sleeps)."""

    scenario: Scenario
    speed: float


class Host:
    """A world that several threads call, in its own time. `steady` tells real seconds."""

    def __init__(
        self,
        world: World,
        speed: float,
        keeper: Keeper | None = None,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._world = world
        self._speed = speed
        self._keeper = keeper
        self._steady = steady
        self._lock = threading.Lock()
        self._since = (steady(), world.now)
        self._last_request_seconds = steady()
        self.on_setup: Callable[[Setup], None] = lambda _: None

    @property
    def setup(self) -> Setup:
        """The scenario of the simulated cloud, and how fast its time passes."""
        return Setup(scenario=self._world.scenario, speed=self._speed)

    def idle_seconds(self) -> float:
        """How long nobody has asked anything, 0 while a machine runs in a world whose time passes by itself."""
        with self._lock:
            self._catch_up()
            if self._speed and self._world.anything_runs:
                return 0.0
            return self._steady() - self._last_request_seconds

    def answer(self, path: str, body: Any) -> Reply:
        """Answer one request. Raises CloudError, LostReplyError, or ValueError for a body that is wrong."""
        with self._lock:
            self._last_request_seconds = self._steady()
            self._catch_up()
            try:
                return self._answered(path, body)
            finally:
                if self._keeper is not None:
                    self._keeper.save(self._world.state)

    def _answered(self, path: str, body: Any) -> Reply:
        if path.startswith(API):
            return call(self._world, path.removeprefix(API), body or {})
        if path == TIME:
            return self._time(body)
        if path == SETUP:
            return self._set_up(body)
        return self._administered(path.removeprefix(ADMIN), body)

    def _time(self, body: Any) -> Reply:
        """Advance the time of a world that does not run by itself; in one that does, the caller waits."""
        if body is not None and not self._speed:
            self._world.advance(datetime.fromisoformat(body["until"]))
        return {"now": self._world.now.isoformat(), "speed": self._speed}

    def _set_up(self, body: Any) -> Reply:
        if body is not None:
            setup = setup_from_json(body)
            self._since, self._speed = (self._steady(), self._world.now), setup.speed
            if setup.scenario != self._world.scenario:
                self._world.follow(setup.scenario)
            self.on_setup(setup)
        return setup_to_json(self.setup)

    def _administered(self, what: str, body: Any) -> Reply:
        match what:
            case "ledger":
                return ledger(self._world.state, self._world.now)
            case "script":
                return {"faults": self._world.play(Script.model_validate(body))}
            case "advance":
                self._jump(self._world.now + timedelta(seconds=body["seconds"]))
                return {"now": self._world.now.isoformat()}
            case _:
                raise ValueError(f"there is no {what}")

    def _jump(self, until: datetime) -> None:
        self._world.advance(until)
        self._since = (self._steady(), self._world.now)

    def _catch_up(self) -> None:
        if self._speed:
            real, virtual = self._since
            self._world.advance(virtual + timedelta(seconds=(self._steady() - real) * self._speed))


class SimServer:
    """Serves a host in threads of its own until it is closed."""

    def __init__(self, host: Host) -> None:
        self._http = _Http(host)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.05,), name="simulated cloud", daemon=True
        )

    @property
    def token(self) -> str:
        """The secret that a request must carry."""
        return self._http.token

    @property
    def stopped(self) -> threading.Event:
        """Set once a client has asked the server to end."""
        return self._http.stopped

    @property
    def port(self) -> int:
        """The port on loopback where it listens."""
        return int(self._http.server_address[1])

    def start(self) -> None:
        """Answer requests in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and wait until the thread has ended."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def setup_to_json(setup: Setup) -> Reply:
    """A set-up as the server keeps it on disk."""
    return {"scenario": setup.scenario.model_dump(mode="json"), "speed": setup.speed}


def setup_from_json(body: Any) -> Setup:
    """Raises ValueError."""
    return Setup(scenario=Scenario.model_validate(body["scenario"]), speed=float(body["speed"]))


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self.token = secrets.token_hex(16)
        self.stopped = threading.Event()
        super().__init__((LOOPBACK, 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Http

    def do_GET(self) -> None:
        if self._is_trusted():
            self._serve(None)
        else:
            self._turn_away()

    def do_POST(self) -> None:
        length = self._length()
        if not self._is_trusted():
            # A connection that is closed with bytes unread is reset, and the answer with it. No more is heard out.
            self.rfile.read(min(length, _HEARD_OUT_BYTES))
            self._turn_away()
            return
        if length > MOST_BODY_BYTES:
            self._reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _refusal(Code.BAD_PARAMETER, "the body is too large"))
            return
        try:
            body = json.loads(self.rfile.read(length))
        except ValueError as error:
            self._reply(HTTPStatus.BAD_REQUEST, _refusal(Code.BAD_PARAMETER, str(error)))
            return
        self._serve(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the ledger has the calls."""

    def _length(self) -> int:
        """What the client says; 0 for what is no number."""
        text = self.headers.get("Content-Length") or ""
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0

    def _is_trusted(self) -> bool:
        data = (self.headers.get(TOKEN_HEADER) or "").encode("latin-1", "replace")
        return hmac.compare_digest(data, self.server.token.encode())

    def _turn_away(self) -> None:
        self._reply(HTTPStatus.UNAUTHORIZED, _refusal(Code.DENIED, "the token is wrong"))

    def _serve(self, body: Any) -> None:
        try:
            if self.path == STOP:
                self.server.stopped.set()
            reply = {} if self.path == STOP else self.server.host.answer(self.path, body)
        except CloudError as error:
            self._reply(HTTPStatus.BAD_REQUEST, _refusal(error.code, error.message, error.details))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._reply(HTTPStatus.BAD_REQUEST, _refusal(Code.BAD_PARAMETER, f"{type(error).__name__}: {error}"))
        except LostReplyError:
            self.close_connection = True
        else:
            self._reply(HTTPStatus.OK, reply)

    def _reply(self, status: HTTPStatus, reply: Reply) -> None:
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _refusal(code: str, message: str, details: Reply | None = None) -> Reply:
    return {"code": str(code), "message": message, "details": details or {}}
