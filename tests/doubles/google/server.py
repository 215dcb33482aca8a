"""The server: finds the method that a request calls, holds request and reply against Google's description, answers.

`/control/…` is not Google's: it resets the world, moves its time and tells what it has seen.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.doubles import gcs, in_turn
from tests.doubles.google import advice, budgets, compute, disks, iam, storage, tasks, tpu, unknown
from tests.doubles.google.discovery import Description, Matched, ViolationError, description
from tests.doubles.google.machines import ledger_rows
from tests.doubles.google.scenario import FaultRule, Scenario
from tests.doubles.google.world import Call, RefusedError, Rule, World
from tests.doubles.needs import UnknownCallError
from tests.doubles.serving import QuickHandler, Serving
from tests.doubles.shown_time import ShownTime

DOCUMENTS = [
    "compute.v1",
    "storage.v1",
    "cloudbilling.v1",
    "tpu.v2",
    "cloudtasks.v2",
    *iam.DOCUMENTS,
    *budgets.DOCUMENTS,
]
"""Which APIs are spoken; the first that has a method for a path answers."""
HANDLERS: dict[str, Callable[[World, Call], dict[str, Any]]] = {
    **advice.HANDLERS,
    **compute.HANDLERS,
    **disks.HANDLERS,
    **tpu.HANDLERS,
    **tasks.HANDLERS,
    **iam.HANDLERS,
    **budgets.HANDLERS,
}
LEDGERS: list[Callable[[World], list[dict[str, Any]]]] = [ledger_rows, tpu.ledger, tasks.ledger]
"""What modules of APIs bring: methods by id, and what ever was there."""
Reply = tuple[int, dict[str, str], bytes]


@dataclass
class Host:
    """The world that is served now; `lock` is held while anybody asks."""

    world: World = field(default_factory=World)
    lock: threading.RLock = field(default_factory=threading.RLock)
    shown_clock: ShownTime | None = None
    """Has the world's time, if it is there."""

    def control(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        if what in in_turn.VERBS:
            in_turn.VERBS[what]()
        if what == "permit":  # from now on whoever calls has these permissions and no others
            self.world.table(iam.Iam).granted = frozenset(body["permissions"])
        return self._controlled(what, body)

    def show_time(self) -> None:
        """Before an answer is sent: a call that waits for something has moved the time as well."""
        if self.shown_clock is not None:
            self.shown_clock.show(self.world.now)

    def _controlled(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        world = self.world
        match what:
            case "reset":
                self.world = World(Scenario.model_validate(body))
            case "pass":
                world.pass_to(datetime.fromisoformat(body["until"]))
            case "sleep":
                world.pass_by(float(body["seconds"]))
            case "fault":
                world.rules.append(Rule(FaultRule.model_validate(body)))
            case "mend":
                world.rules.clear()
            case "ledger":
                return {"rows": [row for ledger in LEDGERS for row in ledger(world)]}
            case "calls":
                return {"calls": [call._asdict() for call in world.calls], "violations": world.violations}
            case "unmet":
                return {"at": [at.isoformat() for at in unknown.unmet(world).refused_at]}
            case "objects":
                return {"names": {name: len(there) for name, there in world.bucket.objects.items()}}
            case _:
                pass
        return {"now": self.world.now.isoformat()}


class GoogleServer(Serving):
    """Listens on loopback, in threads of this process; `with` starts and ends it. Or `in_turn` serves in one thread,
    with a host that shows its time."""

    def __init__(self, shown_clock: ShownTime | None = None) -> None:
        self.host = host = Host(shown_clock=shown_clock)

        class Handler(_Handler):
            there = host

        super().__init__(Handler)

    def in_turn(self, stdin: int) -> None:
        in_turn.serve(self._server, stdin)


class LostError(Exception):
    """No reply is sent."""


def exchanged(world: World, request: gcs.Request, query: str) -> Reply:
    """One request and its reply. Raises LostError where it is lost on its way."""
    if world.scenario.real:
        world.pass_to(datetime.now(UTC))  # noqa: TID251  its machines live in the real time
    world.tell()
    known = _caller(request)
    name = storage.method_of(request) if known is None else known.method.id
    if name is None:
        world.violations.append(f"{request.method} {request.path}: no API of Google's has this method")
        return _json(404, RefusedError(404, "notFound", "no such method").body)
    rule = world.fault(name, "error", "lost_request", "lost_reply", "garbled")
    if rule is not None and rule.effect == "error":
        return _json(rule.status, RefusedError(rule.status, rule.code, rule.message).body)
    if rule is not None and rule.effect == "lost_request":
        raise LostError
    reply = _answered(world, request, query, known)
    if rule is not None and rule.effect == "lost_reply":
        raise LostError
    if rule is not None and rule.effect == "garbled":
        return reply[0], reply[1], rule.message.encode()
    return reply


class Caller(NamedTuple):
    """A method, and the description that it is in."""

    api: Description
    method: Matched


def _caller(request: gcs.Request) -> Caller | None:
    if storage.method_of(request) is not None:
        return None  # what is sent and fetched whole has another path than the description says
    for name in DOCUMENTS:
        found = description(name).match(request.method, request.path)
        if found is not None:
            return Caller(description(name), found)
    return None


def _answered(world: World, request: gcs.Request, query: str, caller: Caller | None) -> Reply:
    machine = bool(request.headers.get("authorization"))  # only machines sign their calls to this double
    if caller is None:
        method = str(storage.method_of(request))
        call = Call(method, gcs.told_of(request), request.query, {})
        world.calls.append(call)
        try:
            iam.refuse_forbidden(world, call, machine=machine)
            if not machine:
                unknown.refuse_unknown(world, method)
        except RefusedError as error:
            return _json(error.status, error.body)
        return storage.answered(world, request)
    api, found = caller
    try:
        body = json.loads(request.body) if request.body else None
        call = Call(found.id, found.path, api.check_request(found, query, body), body or {})
        world.calls.append(call)
        world.signed.setdefault(found.id, []).append(request.headers.get("authorization", ""))
        world.pass_to(world.now)
        iam.refuse_forbidden(world, call, machine=machine)
        if not machine:
            unknown.refuse_unknown(world, found.id)
        if found.id.startswith("storage."):
            status, headers, data = storage.answered(world, request)
            if status < 300 and data:
                api.check_reply(found, json.loads(data))
                unknown.was_made(world, found.id)
            return status, headers, data
        if found.id not in HANDLERS:
            raise ViolationError(f"{found.id} is not in this double")
        told = HANDLERS[found.id](world, call)
        api.check_reply(found, told)
        unknown.was_made(world, found.id)
    except (ViolationError, UnknownCallError) as error:
        world.violations.append(str(error))
        return _json(400, RefusedError(400, "invalid", f"Google's description does not allow: {error}").body)
    except RefusedError as error:
        return _json(error.status, error.body)
    return _json(200, told)


def _json(status: int, value: object) -> Reply:
    return status, {"Content-Type": "application/json; charset=UTF-8"}, json.dumps(value).encode()


class _Handler(QuickHandler):
    there: Host

    def do(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.there.lock:
            if parts.path.startswith("/control/"):
                told = self.there.control(parts.path.removeprefix("/control/"), json.loads(body or b"{}"))
                self.there.show_time()
                self._send(*_json(200, told))
                return
            query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = gcs.Request(self.command, parts.path, query, headers, body)
            try:
                reply = exchanged(self.there.world, asked, parts.query)
            except LostError:
                self.close_connection = True
                return
            finally:
                self.there.show_time()
        self._send(*reply)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def main() -> None:
    """Serves until its standard input ends; says where on its standard output. With a file, it serves in one thread
    and shows its time there (tests/doubles/shown_time.py)."""
    for name in DOCUMENTS:
        description(name)
    if sys.argv[1:]:
        server = GoogleServer(ShownTime(Path(sys.argv[1])))
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        gc.freeze()  # what a forked server does not collect, it shares
        server.in_turn(sys.stdin.fileno())
        return
    with GoogleServer() as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stdin.read()
