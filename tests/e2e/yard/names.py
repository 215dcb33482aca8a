"""The cloud's resolver, on the metadata address as Google has it: a few names, and no others."""

from __future__ import annotations

import socket
import struct
import threading

from tests.e2e.yard.network import METADATA, Network

_HEADER = struct.Struct(">HHHHHH")
_ANSWER, _REFUSED_NAME = 0x8180, 0x8183
_ADDRESS, _CLASS = 1, 1


class Names:
    """`known` may be added to; `asked` are the names that somebody wanted."""

    def __init__(self, network: Network, table: dict[str, str]) -> None:
        self.table = table
        self.requests: list[str] = []
        self._socket = network.serve(_bound)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                packet, client = self._socket.recvfrom(2048)
                self._socket.sendto(self.reply(packet), client)
            except OSError:
                return
            except (ValueError, struct.error, IndexError):
                continue

    def reply(self, packet: bytes) -> bytes:
        """One question, one address; a known name has no other record, an unknown one nothing."""
        number = _HEADER.unpack_from(packet)[0]
        name, end = _name(packet, _HEADER.size)
        kind = struct.unpack_from(">H", packet, end)[0]
        question = packet[_HEADER.size : end + 4]
        self.requests.append(name)
        address = self.table.get(name.lower())
        if address is None:
            return _HEADER.pack(number, _REFUSED_NAME, 1, 0, 0, 0) + question
        if kind != _ADDRESS:
            return _HEADER.pack(number, _ANSWER, 1, 0, 0, 0) + question
        row = struct.pack(">HHHIH", 0xC00C, _ADDRESS, _CLASS, 30, 4) + socket.inet_aton(address)
        return _HEADER.pack(number, _ANSWER, 1, 1, 0, 0) + question + row


def _bound() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((METADATA, 53))
    return made


def _name(packet: bytes, start: int) -> tuple[str, int]:
    """The name of a question, and where it ends."""
    labels = []
    while size := packet[start]:
        labels.append(packet[start + 1 : start + 1 + size].decode("ascii"))
        start += 1 + size
    return ".".join(labels), start + 1
