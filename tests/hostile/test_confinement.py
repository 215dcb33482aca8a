"""Code that is confined tries to get out, with all parts of the kernel and without each of them: what is promised for
the parts that are there holds."""

from __future__ import annotations

import json
import os
import secrets
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.hostile import escapes
from trainplan.workloads.network_reader.confinement import could_do

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="what the kernel forbids is Linux'"),
]

CONFINED = """
import json, os, sys
from pathlib import Path
from tests.hostile import escapes
from trainplan.workloads.network_reader.confinement import Limits, confine, leave
from trainplan.workloads.network_reader.__main__ import close_others

there, port, pid, abstract, without, leaked = json.loads(sys.argv[1])
reading, writing = os.pipe()
has_left = leave(without)
child = os.fork()
if not child:
    try:
        close_others(writing)
        parts = sorted(confine(Path.cwd(), Limits(), has_left=has_left, without=without))
        os.write(writing, json.dumps([parts, escapes.tried(Path(there), port, pid, abstract)]).encode())
    except BaseException as error:
        os.write(writing, repr(error).encode())
    finally:
        os._exit(0)
os.close(writing)
sys.stdout.buffer.write(open(reading, "rb").read())
"""
WITHOUT = {
    "all parts": [],
    "no namespaces": ["namespaces"],
    "no Landlock": ["Landlock"],
    "no seccomp": ["seccomp"],
    "Landlock alone": ["namespaces", "seccomp"],
    "seccomp alone": ["namespaces", "Landlock"],
    "no part": ["namespaces", "Landlock", "seccomp"],
}
PROMISES = {
    "read your files": {"read_a_file", "read_by_a_link", "read_shadow", "list_a_folder", "list_run"},
    "change your files": {"write_a_file", "write_shared_memory", "remove_a_file", "hard_link"},
    "change modes, owners and times of your files": {"chmod", "fchmodat", "chown", "utime", "setxattr", "flags"},
    "use the network": {"tcp"},
    "talk to other programs, such as Docker or ssh-agent": {"unix_socket", "abstract_socket"},
    "send signals to your processes": {"signal", "limits_of_others", "descriptor_of_others"},
    "look into your processes": {"ptrace", "ptrace_parent", "environment_of_others", "memory_of_others"},
}
ALWAYS = {"inherited_descriptors", "mount", "setuid", "type_into_a_terminal", "keys"}
UNCONFINED = {"read_a_file", "list_a_folder", "write_a_file", "tcp", "unix_socket", "abstract_socket", "signal"}
"""What succeeds without any part: so that a test which cannot try does not pass."""


@contextmanager
def targets(folder: Path) -> Iterator[tuple[Path, int, int, str]]:
    """A folder with a secret and a socket, a TCP port, a process, and a socket without a file, all of the person."""
    (folder / "secret").write_text("a credential")
    (folder / "secret").chmod(0o600)
    abstract = f"trainplan-{secrets.token_hex(8)}"
    escapes.LIBC.syscall(escapes.NUMBERS["keyctl"], 1, None)  # a keyring of this process, with a key in it
    escapes.LIBC.syscall(escapes.NUMBERS["add_key"], b"user", abstract.encode(), b"a credential", 12, -3)
    with ExitStack() as stack:
        for address in (os.fspath(folder / "socket"), f"\0{abstract}"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(address)
            listener.listen()
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        variables = {**os.environ, "SECRET_OF_THE_PERSON": "1"}
        process = stack.enter_context(subprocess.Popen(["sleep", "600"], env=variables))
        try:
            yield folder, server.getsockname()[1], process.pid, abstract
        finally:
            process.kill()


def escaped(without: list[str], there: Path) -> tuple[set[str], set[str]]:
    """The parts that held, and what has succeeded nevertheless."""
    with (
        targets(there) as found,
        tempfile.TemporaryDirectory() as folder,
        Path("/etc/passwd").open("rb") as leaked,
    ):
        question = json.dumps([os.fspath(found[0]), *found[1:], without, leaked.fileno()])
        done = subprocess.run(
            [sys.executable, "-c", CONFINED, question],
            cwd=folder, capture_output=True, check=False, pass_fds=[leaked.fileno()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
    assert done.stdout.startswith(b"["), done.stderr.decode() + done.stdout.decode()
    parts, names = json.loads(done.stdout)
    return set(parts), set(names)


@pytest.mark.parametrize("without", WITHOUT.values(), ids=WITHOUT)
def test_what_is_promised_for_the_parts_that_are_there_holds(without: list[str], tmp_path: Path) -> None:
    parts, done = escaped(without, tmp_path)
    assert not parts & set(without)
    held = [names for promise, names in PROMISES.items() if promise not in could_do(parts)]
    assert not done & set().union(ALWAYS, *held), (parts, done)
    if not parts:
        assert done >= UNCONFINED
    if could_do(parts):
        return
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert (tmp_path / "secret").read_text() == "a credential"
