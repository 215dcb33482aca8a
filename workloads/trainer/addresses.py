"""Where each process of a group listens: TensorFlow must know all of them, and the environment names rank 0's only."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Any

from workloads.trainer.errors import TrainerError

if TYPE_CHECKING:
    from workloads.trainer.process_group import ProcessGroup

_PAUSE_SECONDS = 0.2
_MESSAGE_SECONDS = 5.0
"""For what a connection that is open has to say: a stranger that stays silent must not hold up the others."""
_MOST_BYTES = 65_536
_LOOPBACK = ("127.0.0.1", "localhost")


def exchanged_addresses(group: ProcessGroup, within_seconds: float) -> list[str]:
    """HOST:PORT of every process, in order of rank; the same list in all of them.

    Rank 0 listens at the coordinator's port until each of the others has told its rank and a free port of its own, and
    answers with the list. A process's host is the address from which rank 0 hears it. Raises TrainerError where the
    others do not come.
    """
    deadline = time.monotonic() + within_seconds
    try:
        own_port = _free_port()
        if group.rank:
            return _listed_by_rank_0(group, own_port, deadline)
        return _gathered(group, own_port, deadline)
    except OSError as error:
        raise TrainerError(
            f"the {group.processes} processes did not come together at {group.coordinator} within "
            f"{within_seconds:.0f} s: {error}"
        ) from error


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _gathered(group: ProcessGroup, own_port: int, deadline: float) -> list[str]:
    host, port = _split(group.coordinator)
    # A machine's own name may mean its loopback address there, where the others cannot reach it.
    with socket.create_server((host if host in _LOOPBACK else "", port)) as server:
        connections: dict[int, socket.socket] = {}
        addresses = {0: f"{host}:{own_port}"}
        try:
            while len(addresses) < group.processes:
                server.settimeout(_seconds_left(deadline))
                connection, (peer, *_) = server.accept()
                with suppress(OSError, ValueError, KeyError, TypeError):  # whoever else may have knocked
                    message = _received(connection, min(deadline, time.monotonic() + _MESSAGE_SECONDS))
                    rank = int(message["rank"])
                    if 0 < rank < group.processes:
                        addresses[rank] = f"{peer}:{int(message['port'])}"
                        connections[rank] = connection
                        continue
                connection.close()
            result = [addresses[rank] for rank in range(group.processes)]
            for connection in connections.values():
                connection.sendall(_line({"addresses": result}))
            return result
        finally:
            for connection in connections.values():
                connection.close()


def _listed_by_rank_0(group: ProcessGroup, own_port: int, deadline: float) -> list[str]:
    while True:
        try:
            with socket.create_connection(_split(group.coordinator), timeout=_seconds_left(deadline)) as connection:
                connection.sendall(_line({"rank": group.rank, "port": own_port}))
                return [str(address) for address in _received(connection, deadline)["addresses"]]
        except (ConnectionError, ValueError):  # rank 0 does not listen yet
            _seconds_left(deadline)
            Event().wait(_PAUSE_SECONDS)


def _line(message: dict[str, object]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _received(connection: socket.socket, deadline: float) -> dict[str, Any]:
    """One line. Raises ValueError where it is none, OSError where it does not come."""
    content = b""
    while not content.endswith(b"\n"):
        connection.settimeout(_seconds_left(deadline))
        chunk = connection.recv(_MOST_BYTES)
        if not chunk or len(content) > _MOST_BYTES:
            raise ValueError("no whole line")
        content += chunk
    message: dict[str, Any] = json.loads(content)
    return message


def _seconds_left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
