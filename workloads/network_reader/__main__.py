"""Answers one question on stdin with one answer on stdout, both JSON; the file runs in a child of this process.

This process runs nothing of the file: it starts the child, bounds its time, ends it with all that it has started, and
says what became of it where it has not answered.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.workloads.network_reader.confinement import (
    Limits,
    adopt_orphans,
    children,
    end_with_parent,
    guard,
    leave_namespaces,
    limit,
    write_only_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable

START_SECONDS = 180.0
"""For the import of the framework, before anything of the file runs: a cold disk takes a minute."""
MOST_ANSWER_BYTES = 32 * 1024 * 1024
_BEGUN = b"\n"
"""What the child sends when the file begins to run."""


def main() -> int:
    """Answer the question on stdin."""
    end_with_parent()
    question: dict[str, Any] = json.load(sys.stdin)
    limits = Limits(**question.pop("limits", {}))
    folder = Path.cwd()
    if not hasattr(os, "fork"):  # Windows: whoever asks bounds the time
        sys.stdout.write(json.dumps(_answer(question, limits, folder, lambda: None)))
        return 0
    sys.stdout.write(json.dumps(_supervised(question, limits, folder)))
    return 0


def _supervised(question: dict[str, Any], limits: Limits, folder: Path) -> dict[str, Any]:
    reading, writing = os.pipe()
    adopt_orphans()
    leave_namespaces()
    child = os.fork()
    if not child:
        os.close(reading)
        _child(question, limits, folder, writing)
    os.close(writing)
    text, is_late, has_begun = _read(reading, limits)
    os.kill(child, signal.SIGKILL)  # which nobody has waited for yet, so that its number is still its own
    _, status = os.waitpid(child, 0)
    _end_orphans()
    if is_late:
        return _error(
            f"it ran for {limits.seconds:g} s without giving a model" if has_begun else "the framework did not start",
            "the function must only build the network, not train it" if has_begun else "",
        )
    with suppress(ValueError):
        answer = json.loads(text)
        if isinstance(answer, dict):
            return answer
    return _error(f"it ended its process before it gave a model ({_ending(status)})", "")


def _end_orphans() -> None:
    """End what the child has started and left, and what that has. A namespace of processes has none left."""
    while orphans := children():
        for number in orphans:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)


def _child(question: dict[str, Any], limits: Limits, folder: Path, writing: int) -> None:
    """Never returns."""
    try:
        end_with_parent()
        silent = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):  # what the file prints is nobody's
            os.dup2(silent, number)
        answer = _answer(question, limits, folder, lambda: os.write(writing, _BEGUN))
        data = json.dumps(answer).encode()
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def _answer(question: dict[str, Any], limits: Limits, folder: Path, begin: Callable[[], object]) -> dict[str, Any]:
    """The graph, or why there is none, in words."""
    from trainplan.workloads.network_reader.errors import UnreadableError

    write_only_in(folder)
    limit(limits)
    try:
        if question["kind"] == "onnx":
            from trainplan.workloads.network_reader.onnx_graph import read_onnx

            return read_onnx(question, begin)
        from trainplan.workloads.network_reader.keras_graph import read_keras

        return read_keras(question, begin, lambda: guard(folder))
    except UnreadableError as error:
        return _error(str(error), error.hint) | ({"extra": error.extra} if error.extra else {})
    except MemoryError:
        return _error(f"it takes more than {limits.memory_bytes / 1024**3:g} GiB of memory", "")


def _error(message: str, hint: str) -> dict[str, Any]:
    return {"error": message, "hint": hint}


def _read(reading: int, limits: Limits) -> tuple[bytes, bool, bool]:
    """What the child wrote, whether it took too long, and whether the file had begun."""
    data, has_begun = b"", False
    until = time.monotonic() + START_SECONDS
    while len(data) < MOST_ANSWER_BYTES:
        ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return data, True, has_begun
        part = os.read(reading, 1 << 20)
        if not part:
            break
        if not has_begun and part.startswith(_BEGUN):
            has_begun, until = True, time.monotonic() + limits.seconds
        data += part
    return data, False, has_begun


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit code {os.WEXITSTATUS(status)}"


if __name__ == "__main__":
    sys.exit(main())
