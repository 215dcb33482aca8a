"""A Python file that a person calls their network, and that does something else: it is told, and nothing of it is
left."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from trainplan.planner.errors import BadInputError
from trainplan.planner.planning.own_networks import Reading, with_network
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.network_reader.confinement import Limits

FRAMEWORK = next((name for name in ("jax", "tensorflow", "torch") if importlib.util.find_spec(name)), None)
"""The first starts soonest."""

pytestmark = [
    pytest.mark.train,
    pytest.mark.slow,
    pytest.mark.skipif(FRAMEWORK is None, reason="needs a framework (the extra train-cpu)"),
    pytest.mark.skipif(sys.platform != "linux", reason="what the kernel forbids is Linux'"),
]

BUILD = "def build(image_size, channels, classes):\n"
ALL_AT_ONCE = """
import ctypes, os, signal, socket, subprocess
from pathlib import Path

import keras

libc = ctypes.CDLL(None)
OUTSIDE = {outside!r}


def write_by_the_kernel():
    number = libc.open(f"{{OUTSIDE}}/kernel".encode(), os.O_CREAT | os.O_WRONLY, 0o600)
    if number < 0:
        raise OSError
    libc.write(number, b"x", 1)


def connect_by_the_kernel():
    address = (ctypes.c_uint8 * 16)(2, 0, {port} >> 8, {port} & 255, 127, 0, 0, 1)
    if libc.connect(libc.socket(2, 1, 0), address, 16):
        raise OSError


def read_a_credential():
    os.environ["AWS_SECRET_ACCESS_KEY"]


def print_a_million_lines():
    for _ in range(1_000_000):
        print("a line that nobody reads")
    raise OSError


ATTEMPTS = {{
    "python_socket": lambda: socket.create_connection(("127.0.0.1", {port}), 1),
    "kernel_socket": connect_by_the_kernel,
    "python_fork": os.fork,
    "program": lambda: subprocess.run(["true"]),
    "shell": lambda: os.system("true"),
    "signal": lambda: os.kill({parent}, signal.SIGTERM),
    "python_write": lambda: Path(OUTSIDE, "python").write_text("x"),
    "kernel_write": write_by_the_kernel,
    "remove": lambda: os.remove(f"{{OUTSIDE}}/there"),
    "rename": lambda: os.rename(f"{{OUTSIDE}}/there", f"{{OUTSIDE}}/moved"),
    "credential": read_a_credential,
    "million_lines": print_a_million_lines,
}}


def build(image_size, channels, classes):
    done = []
    for name, attempt in ATTEMPTS.items():
        try:
            attempt()
            done.append(name)
        except Exception:
            pass
    Path("inside").write_text("its own folder is its own")
    image = keras.Input((image_size, image_size, channels))
    if done:
        raise ValueError("done: " + ", ".join(done))
    x = keras.layers.Flatten()(image)
    return keras.Model(image, keras.layers.Dense(classes)(x))
"""


class Reads:
    """Reads files for a job, in a folder where nothing else is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[Path] = []

    def __call__(self, source: str, **limits: Any) -> TrainingJob:
        file = self.folder / "my_net.py"
        file.write_text(source)
        job = TrainingJob.model_validate(
            {
                "name": "own", "model": {"python": f"{file}:build"}, "data": {"name": "digits"}, "epochs": 1,
                "global_batch_size": 8, "framework": FRAMEWORK,
            }
        )  # fmt: skip
        reading = Reading(self.folder / "home", date(2026, 11, 26), self.agree, Limits()._replace(**limits))
        return with_network(job, reading)

    def agree(self, file: Path, parts: frozenset[str]) -> None:
        self.asked.append(file)

    def left(self) -> list[str]:
        """The processes whose home is in the folder, as those of every reader are, and files that no reader leaves."""
        home = f"HOME={self.folder}".encode()
        running = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if home in (process / "environ").read_bytes():
                    running.append((process / "cmdline").read_text())
            except OSError:
                continue
        expected = {"my_net.py", "home", "outside"}
        return running + [path.name for path in self.folder.iterdir() if path.name not in expected]


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reads:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a credential")
    return Reads(tmp_path)


def test_a_file_can_do_nothing_but_build_a_network(reads: Reads, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "there").write_text("x")
    with subprocess.Popen(["sleep", "60"]) as bystander, _listening() as (port, was_reached):
        reads(ALL_AT_ONCE.format(outside=str(outside), port=port, parent=bystander.pid))
        assert bystander.poll() is None
        bystander.kill()
        assert not was_reached()
    assert [path.name for path in outside.iterdir()] == ["there"]
    assert not reads.left()


def test_a_file_that_never_ends_leaves_nothing_running(reads: Reads) -> None:
    escapes = (
        "import ctypes, os\n" + BUILD + "    libc = ctypes.CDLL(None)\n"
        "    if libc.fork() == 0 and libc.fork() == 0:\n        os.setsid()\n    while True: pass\n"
    )
    with pytest.raises(BadInputError, match=r"my_net.py: it ran for 0.5 s without giving a model"):
        reads(escapes, seconds=0.5)
    assert not reads.left()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import numpy; numpy.ones(50 * 10**9, 'uint8')", "it takes more than 16 GiB of memory"),
        ("import os; os._exit(7)", r"it ended its process before it gave a model \(exit code 7\)"),
        ("import ctypes; ctypes.string_at(0)", r"it ended its process before it gave a model \(SIGSEGV\)"),
        ("import os; os.fork()", "it starts a process, which a network does not need"),
    ],
    ids=["memory", "exit", "crash", "fork"],
)
def test_a_file_that_ends_otherwise_is_told(body: str, message: str, reads: Reads) -> None:
    with pytest.raises(BadInputError, match=message):
        reads(f"{BUILD}    {body}\n")
    assert not reads.left()


def _listening() -> Any:
    """A server that tells whether anybody has come."""
    import socket
    from contextlib import contextmanager

    @contextmanager
    def server() -> Any:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)

            def was_reached() -> bool:
                try:
                    listener.accept()
                except BlockingIOError:
                    return False
                return True

            yield listener.getsockname()[1], was_reached

    return server()
