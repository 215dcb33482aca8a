"""Answers one question on stdin with one answer on stdout, both JSON; the file runs in a child of this process.

This process runs nothing of the file: it starts the child, bounds its time, ends it with all that it has started, and
says what became of it where it has not answered.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.workloads.network_reader.confinement import Limits, children, confine, leave
from trainplan.workloads.network_reader.guard import guard
from trainplan.workloads.network_reader.kernel import adopt_orphans, end_with_parent
from trainplan.workloads.regular_file import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BufferedReader

START_SECONDS = 180.0
"""For the import of the framework, before anything of the file runs: a cold disk takes a minute."""
MOST_ANSWER_BYTES = 32 * 1024 * 1024
MOST_FOLDER_BYTES, MOST_FILES = 256 * 1024**2, 1_000
_LOOK_SECONDS = 0.5
_BEGUN = b"\n"
"""What the child sends when the file begins to run."""


class _Task(NamedTuple):
    """A question, and what the answer is made under. `without` are parts of the kernel that are left out, for tests;
    `stream` is the file where it is not Python."""

    question: dict[str, Any]
    limits: Limits
    folder: Path
    without: tuple[str, ...] = ()
    stream: BufferedReader | None = None
    has_left: bool = False


def main() -> int:
    """Answer the question on stdin."""
    end_with_parent()
    question: dict[str, Any] = json.load(sys.stdin)
    limits = Limits(**question.pop("limits", {}))
    task = _Task(question, limits, Path.cwd(), tuple(question.pop("without", ())))
    if question["kind"] == "onnx":  # opened here: where it is read, there are no other files
        try:
            task = task._replace(stream=open_regular(Path(question["file"])))
        except OSError as error:
            sys.stdout.write(json.dumps(_error(f"it cannot be read: {error.strerror}", "")))
            return 0
    if not hasattr(os, "fork"):  # Windows: whoever asks bounds the time
        sys.stdout.write(json.dumps(_answer(task, lambda: None)))
        return 0
    sys.stdout.write(json.dumps(_supervised(task)))
    return 0


def _supervised(task: _Task) -> dict[str, Any]:
    reading, writing = os.pipe()
    adopt_orphans()
    task = task._replace(has_left=leave(task.without))
    child = os.fork()
    if not child:
        _child(task, writing)
    os.close(writing)
    text, is_late, has_begun = _read(reading, task)
    os.kill(child, signal.SIGKILL)  # which nobody has waited for yet, so that its number is still its own
    _, status = os.waitpid(child, 0)
    _end_orphans()
    if is_late:
        return _error(
            f"it ran for {task.limits.seconds:g} s without giving a model"
            if has_begun
            else "the framework did not start",
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


def _child(task: _Task, writing: int) -> None:
    """Never returns."""
    try:
        end_with_parent()
        silent = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):  # what the file prints is nobody's
            os.dup2(silent, number)
        close_others(writing, *([task.stream.fileno()] if task.stream else []))
        answer = _answer(task, lambda: os.write(writing, _BEGUN))
        data = json.dumps(answer).encode()
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def close_others(*kept: int) -> None:
    """Close every descriptor but the first three and these."""
    for number, following in itertools.pairwise([*sorted({2, *kept}), os.sysconf("SC_OPEN_MAX")]):
        os.closerange(number + 1, following)


def _answer(task: _Task, begin: Callable[[], object]) -> dict[str, Any]:
    """The graph, or why there is none, in words."""
    from trainplan.workloads.network_reader.errors import UnreadableError

    question = task.question
    parts = confine(task.folder, task.limits, has_left=task.has_left, without=task.without)
    if question["kind"] == "parts":
        return {"parts": sorted(parts)}
    if missing := set(question.get("parts", ())) - parts:
        return _error(f"it was not run: it could not be confined as agreed, by {', '.join(sorted(missing))}", "")
    try:
        if task.stream is not None:
            from trainplan.workloads.network_reader.onnx_graph import read_onnx

            return read_onnx(question, task.stream, begin)
        from trainplan.workloads.network_reader.keras_graph import read_keras

        return read_keras(question, begin, lambda: guard(task.folder))
    except UnreadableError as error:
        return _error(str(error), error.hint) | ({"extra": error.extra} if error.extra else {})
    except MemoryError:
        return _error(f"it takes more than {task.limits.memory_bytes / 1024**3:g} GiB of memory", "")


def _error(message: str, hint: str) -> dict[str, Any]:
    return {"error": message, "hint": hint}


def _read(reading: int, task: _Task) -> tuple[bytes, bool, bool]:
    """What the child wrote, whether it took too long, and whether the file had begun."""
    data, has_begun = b"", False
    until = time.monotonic() + START_SECONDS
    while len(data) < MOST_ANSWER_BYTES and not _is_full(task.folder):
        now = time.monotonic()
        if now >= until:
            return data, True, has_begun
        ready, _, _ = select.select([reading], [], [], min(_LOOK_SECONDS, until - now))
        if not ready:
            continue
        part = os.read(reading, 1 << 20)
        if not part:
            break
        if not has_begun and part.startswith(_BEGUN):
            has_begun, until = True, time.monotonic() + task.limits.seconds
        data += part
    return data, False, has_begun


def _is_full(folder: Path) -> bool:
    """Whether the child has written more than it may. It is outside of this folder where it has files of its own, which
    the kernel bounds."""
    files = [path for path in itertools.islice(folder.rglob("*"), MOST_FILES + 1) if path.is_file()]
    return len(files) > MOST_FILES or sum(path.stat().st_size for path in files) > MOST_FOLDER_BYTES


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit code {os.WEXITSTATUS(status)}"


if __name__ == "__main__":
    sys.exit(main())
