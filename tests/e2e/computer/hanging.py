"""A processor that hangs in the kernel: QEMU's debugger writes an endless loop over a system call that nobody uses."""

from __future__ import annotations

import socket

from tests.e2e.computer.computer import Computer

_CALL = "__x64_sys_getpriority"
_FOR_EVER = b"\xeb\xfe"
"""A jump to itself. Interrupts go on, so that it is a soft lock-up: the kernel's watchdog sees it, and nothing else."""
_USE = "python3 -c 'import os; os.getpriority(os.PRIO_PROCESS, 0)'"


def hang(computer: Computer) -> None:
    """One of its processors hangs in the kernel from here on."""
    address = computer.run(f"grep ' {_CALL}$' /proc/kallsyms").split()[0]
    _write(computer, int(address, 16), _FOR_EVER)
    computer.tell(f"{_USE} &")


def _write(computer: Computer, address: int, data: bytes) -> None:
    """Into its memory, by the protocol of gdb; it stands still meanwhile."""
    path = computer.folder / "debugger"
    computer.command(f"gdbserver unix:{path},server=on,wait=off")
    with socket.socket(socket.AF_UNIX) as debugger:
        debugger.settimeout(30.0)
        debugger.connect(str(path))
        assert _answer(debugger, f"M{address:x},{len(data):x}:{data.hex()}") == "OK"
        assert _answer(debugger, "D") == "OK"


def _answer(debugger: socket.socket, packet: str) -> str:
    """The answer to one packet; what the machine says by itself, that it stands still, comes before it and is none."""
    debugger.sendall(f"${packet}#{sum(packet.encode()) % 256:02x}".encode())
    said = ""
    while True:
        piece = debugger.recv(4096).decode()
        if not piece:
            raise ConnectionError(f"the debugger ended after {said!r}")
        said += piece
        answers = [part.split("#")[0] for part in said.split("$")[1:] if "#" in part]
        answers = [answer for answer in answers if not answer.startswith("T")]
        if answers:
            debugger.sendall(b"+")
            return answers[0]
