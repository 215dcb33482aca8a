"""A cloud that the product has no adapter for: rents machines over HTTP on loopback, and the yard boots them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.doubles.serving import Serving
from tests.e2e.yard.machine import Machine

# A machine's own delete call, as Google's and Azure's agents send it; the name is the last part or the group's.
_OWN_DELETES = (
    re.compile(r"^/compute/v1/projects/[^/]+/zones/[^/]+/instances/([^/?]+)"),
    re.compile(r"^/subscriptions/[^/]+/resourceGroups/([^/?]+)"),
)


@dataclass(slots=True)
class Instance:
    """One that was ever created. `state` is pending, running or ended; `gone` once it was deleted and is off."""

    id: str
    labels: dict[str, str]
    user_data: str
    region: str
    state: str = "pending"
    deleted: bool = False
    deleted_itself: bool = False

    @property
    def is_gone(self) -> bool:
        return self.deleted and self.state == "ended"


@dataclass
class Office:
    """The double: `tests.e2e.yard.watcher.CloudDouble` on one side, HTTP on the other. `cloud` is whom it plays.

    `shapes` are how machines differ, in the order they are created; the last one holds for all after it.
    """

    cloud: str
    shapes: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    instances: dict[str, Instance] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def to_boot(self) -> Sequence[Machine]:
        with self.lock:
            made = []
            for number, instance in enumerate(self.instances.values()):
                if instance.state == "pending":
                    instance.state = "running"
                    made.append(self._machine(instance, self.shapes[min(number, len(self.shapes) - 1)]))
            return made

    def to_kill(self) -> Sequence[str]:
        with self.lock:
            return [name for name, instance in self.instances.items() if instance.deleted]

    def machine_ended(self, name: str) -> None:
        with self.lock:
            self.instances[name].state = "ended"

    def _machine(self, instance: Instance, shape: dict[str, Any]) -> Machine:
        return Machine(
            name=instance.id, cloud=self.cloud, user_data=instance.user_data, region=instance.region, **shape
        )

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, object]:
        """(status, JSON value)."""
        with self.lock:
            if method == "POST" and path == "/instances":
                wanted = Instance(**json.loads(body))
                return 200, asdict(self.instances.setdefault(wanted.id, wanted))
            if method == "GET" and path == "/instances":
                return 200, [asdict(instance) for instance in self.instances.values() if not instance.is_gone]
            for pattern in _OWN_DELETES:
                if method == "DELETE" and (found := pattern.match(path)):
                    return self._delete(found[1], itself=True)
            name = path.removeprefix("/instances/")
            if method == "DELETE":
                return self._delete(name)
            instance = self.instances.get(name)
            return (404, {}) if instance is None or instance.is_gone else (200, asdict(instance))

    def _delete(self, name: str, *, itself: bool = False) -> tuple[int, object]:
        instance = self.instances.get(name)
        if instance is None or instance.is_gone:
            return 404, {}
        instance.deleted, instance.deleted_itself = True, instance.deleted_itself or itself
        if instance.state == "pending":
            instance.state = "ended"
        return 200, {}


class OfficeServer(Serving):
    """`with` starts and ends it."""

    def __init__(self, office: Office) -> None:
        class Handler(_Handler):
            there = office

        super().__init__(Handler)


class _Handler(BaseHTTPRequestHandler):
    there: Office

    def do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, value = self.there.answer(self.command, self.path, body)
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = do

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""
