"""The yard's network: a namespace that plays the cloud, one for each machine, and no way out of either."""

from __future__ import annotations

import ctypes
import os
import selectors
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")
METADATA = "169.254.169.254"
HOST_AGENT = "168.63.129.16"
GATEWAY = "10.77.0.1"
_NAMES = Path("/run/netns")
_OURS = "tpyard-"
_CLONE_NEWNET = 0x40000000
_PIECE = 256 * 1024


class Network:
    """Addresses 10.77.0.2 on are machines'; the cloud's own namespace has the gateway's and the metadata service's."""

    def __init__(self) -> None:
        self.name = f"{_OURS}{os.getpid()}"
        self._machines = 1

    def __enter__(self) -> Network:
        forget_the_dead()
        _ip("netns", "add", self.name)
        within = ("-n", self.name)
        _ip(*within, "link", "set", "lo", "up")
        _ip(*within, "link", "add", "cloud", "type", "bridge")
        _ip(*within, "link", "set", "cloud", "up")
        for address in (f"{GATEWAY}/24", f"{METADATA}/32", f"{HOST_AGENT}/32"):
            _ip(*within, "addr", "add", address, "dev", "cloud")
        return self

    def __exit__(self, *_: object) -> None:
        for name in _namespaces():
            if name == self.name or name.startswith(f"{self.name}-"):
                _ip("netns", "del", name)

    def machine(self) -> tuple[str, str]:
        """A new machine's namespace and its address."""
        self._machines += 1
        number = self._machines
        name, address = f"{self.name}-{number}", f"10.77.0.{number}"
        _ip("netns", "add", name)
        _ip("-n", self.name, "link", "add", f"m{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("-n", self.name, "link", "set", f"m{number}", "master", "cloud", "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("link", "set", "eth0", "up"),
            ("addr", "add", f"{address}/24", "dev", "eth0"),
            ("route", "add", "default", "via", GATEWAY),
        ):
            _ip("-n", name, *words)
        # A container's /proc/sys is read-only, and Docker routes.
        inside(name, lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"))
        return name, address

    def serve(self, make: Callable[[], Value]) -> Value:
        """What `make` opens, it opens in the cloud's namespace."""
        return inside(self.name, make)


def inside(namespace: str, make: Callable[[], Value]) -> Value:
    """Called in a thread of its own, which is in that namespace and then ends; sockets stay where they were made."""
    made: list[Value] = []
    failed: list[BaseException] = []

    def there() -> None:
        try:
            with (_NAMES / namespace).open("rb") as file:
                if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
            made.append(make())
        except BaseException as error:  # noqa: BLE001  raised again by the caller
            failed.append(error)

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def forget_the_dead() -> None:
    """Namespaces that a test process left when it was killed."""
    for name in _namespaces():
        pid = name.removeprefix(_OURS).partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", name)


def _namespaces() -> list[str]:
    return sorted(path.name for path in _NAMES.glob(f"{_OURS}*"))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Relay:
    """A port in the cloud that leads to a server on this computer's loopback, as long as it is not cut.

    `refused` counts who came while it was.
    """

    def __init__(self, network: Network, target: tuple[str, int]) -> None:
        self._target = target
        self._cut = False
        self.refused = 0
        self._open: set[socket.socket] = set()
        self._listening = network.serve(lambda: socket.create_server((GATEWAY, 0)))
        self.port = self._listening.getsockname()[1]
        self.url = f"http://{GATEWAY}:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Nobody gets through any more, and who is through is cut off."""
        self._cut = True
        for connection in tuple(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._cut = False

    def close(self) -> None:
        self.cut()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            if self._cut:
                self.refused += 1
                connection.close()
            else:
                threading.Thread(target=self._pass, args=(connection,), daemon=True).start()

    def _pass(self, near: socket.socket) -> None:
        with suppress(OSError), near, socket.create_connection(self._target, timeout=300) as far:
            self._open |= {near, far}
            try:
                _both_ways(near, far)
            finally:
                self._open -= {near, far}


def _both_ways(near: socket.socket, far: socket.socket) -> None:
    """Until either side has said all."""
    with selectors.DefaultSelector() as watch:
        watch.register(near, selectors.EVENT_READ, far)
        watch.register(far, selectors.EVENT_READ, near)
        while True:
            for key, _ in watch.select():
                data = key.fileobj.recv(_PIECE)  # both are sockets
                if not data:
                    return
                key.data.sendall(data)
