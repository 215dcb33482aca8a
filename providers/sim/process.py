"""The simulated cloud in a process that outlives its clients: how it is found, started, and when it ends itself."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from providers.errors import MachineError
from providers.sim.api import SETUP, Address, DisconnectedError, RefusedError, exchange
from providers.sim.persistence import Keeper, WorldInUseError
from providers.sim.server import Host, Setup, SimServer, setup_from_json, setup_to_json
from providers.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ADDRESS, SETUP_FILE, WORLD, START_LOCK = "server.json", "setup.json", "world.sqlite", "start.sqlite"
IDLE_SECONDS = 600.0
"""Real seconds after which a server that nobody asks ends itself; the world stays on disk."""
UNUSED_SECONDS = 60.0
"""The same for a world in which nobody has made anything."""
_LOOK_SECONDS = 2.0
_START_SECONDS = 30.0
_HINT = "see server.log in that folder; removing the folder begins a new simulated cloud"


def finder(home: Path, setup: Setup, now: Callable[[], datetime]) -> Callable[[], Address]:
    """Gives the address of the server of a folder, starting one where none answers, and sees that it follows
    `setup`. `now` is when a new world begins."""

    def find() -> Address:
        document = setup_to_json(setup)
        address = _answering(home)
        if address is None:
            address = _started(home, document, now())
        try:
            if exchange(address, SETUP, None) != document:
                exchange(address, SETUP, document)
        except (RefusedError, DisconnectedError, ConnectionRefusedError) as error:
            raise MachineError(f"the simulated cloud in {home} does not answer: {error}", hint=_HINT) from error
        return address

    return find


def serve(home: Path) -> int:
    """Be the server of a folder until nobody needs it. Exit code 0 also where another one has the world."""
    value = json.loads((home / SETUP_FILE).read_text(encoding="utf-8"))
    try:
        keeper = Keeper(home / WORLD)
    except WorldInUseError:
        return 0
    setup = setup_from_json(value["setup"])
    world = World(setup.scenario, datetime.fromisoformat(value["begin"]), state=keeper.load())
    host = Host(world, setup.speed, keeper)
    host.on_setup = lambda changed: _write(home / SETUP_FILE, {**value, "setup": setup_to_json(changed)})
    server = SimServer(host)
    server.start()
    address = {"port": server.port, "token": server.token, "pid": os.getpid()}
    _write(home / ADDRESS, address)
    try:
        while not server.stopped.wait(_LOOK_SECONDS):
            if host.idle_seconds() >= (IDLE_SECONDS if world.was_used else UNUSED_SECONDS):
                break
    finally:
        if _read(home / ADDRESS) == address:
            (home / ADDRESS).unlink(missing_ok=True)
        server.close()
        keeper.save(world.state)
        keeper.close()
    return 0


def _answering(home: Path) -> Address | None:
    reply = _read(home / ADDRESS)
    if reply is None:
        return None
    address = Address(port=int(reply["port"]), token=str(reply["token"]))
    try:
        exchange(address, SETUP, None)
    except (RefusedError, DisconnectedError, ConnectionRefusedError):
        return None
    return address


def _started(home: Path, setup: Mapping[str, Any], begin: datetime) -> Address:
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _alone(home):
            # Another client may have been faster.
            return _answering(home) or _start(home, {"setup": setup, "begin": begin.isoformat()})
    except (OSError, sqlite3.Error) as error:
        raise MachineError(f"the simulated cloud in {home} cannot be started: {error}", hint=_HINT) from error


def _start(home: Path, setup: Mapping[str, Any]) -> Address:
    _write(home / SETUP_FILE, setup)
    command = [sys.executable, "-P", "-m", "providers.sim", "start", str(home)]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    pause = threading.Event()
    for _ in range(int(_START_SECONDS / 0.05)):
        if (address := _answering(home)) is not None:
            return address
        pause.wait(0.05)
    raise MachineError(f"the simulated cloud in {home} does not come up", hint=_HINT)


@contextlib.contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Let one process at a time start the server; the lock ends with its process."""
    lock = sqlite3.connect(home / START_LOCK, timeout=_START_SECONDS, isolation_level=None)
    try:
        lock.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        lock.close()


def _read(path: Path) -> dict[str, Any] | None:
    try:
        reply: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return reply


def _write(path: Path, value: Mapping[str, Any]) -> None:
    """Write a file atomically, readable by this user only."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(value, file)
    Path(name).replace(path)
