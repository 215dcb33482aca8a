"""Small changes of valid input, and what the fuzzers have in common besides."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

_CHUNKS = (
    b"",
    b"\x00",
    b'"',
    b'""',
    b",",
    b"\n",
    b"\r\n",
    b"\xff\xfe",
    b"{",
    b"]",
    b"\\u0000",
    b"1" * 50,
    b"<html>",
    b"-",
)


class Crash(Exception):
    """An input that ended in an error that nobody expects; the text names its seed."""


def changed_value(value: Any, random: Random, odd: Sequence[Any]) -> Any:
    """The JSON value with one place in it replaced by something odd, doubled or removed."""
    if not isinstance(value, dict | list) or not value or random.random() < 0.1:
        return random.choice(odd)
    if isinstance(value, list):
        index = random.randrange(len(value))
        listed = [*value]
        if random.random() < 0.2:
            return listed[:index] + listed[index:] * 2
        listed[index] = changed_value(listed[index], random, odd)
        return listed
    key = random.choice(list(value))
    if random.random() < 0.2:
        return {name: item for name, item in value.items() if name != key}
    return {**value, key: changed_value(value[key], random, odd)}


def changed_bytes(content: bytes, random: Random) -> bytes:
    """One to four places of the bytes replaced, removed or doubled."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        begin = random.randrange(len(changed) + 1)
        end = min(len(changed), begin + random.choice((0, 1, 1, 2, 8, 64, 4096)))
        piece = random.choice((*_CHUNKS, bytes([random.randrange(256)]), bytes(changed[begin:end]) * 2))
        changed[begin:end] = piece
    return bytes(changed)


@contextmanager
def no_longer_than(seconds: float, what: str) -> Iterator[None]:
    """Raises Crash where the block takes longer: a hang. For the main thread."""

    def over(number: int, frame: FrameType | None) -> None:
        raise Crash(f"{what}: it took longer than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def a_folder() -> Iterator[Path]:
    """A folder for one home, in memory where there is such: nothing waits for a disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def as_a_program(run: Callable[[int, int], Counter[str]], what: str) -> None:
    """`python -m tests.fuzz.… [--inputs N] [--seed S]`: prints how many inputs ended in which way."""
    parser = argparse.ArgumentParser(description=f"Mutated {what}: none may end in an unhandled error.")
    parser.add_argument("--inputs", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    began = time.perf_counter()
    counts = ", ".join(f"{name} {count:,}" for name, count in sorted(run(asked.inputs, asked.seed).items()))
    seconds = time.perf_counter() - began
    sys.stdout.write(f"{asked.inputs:,} mutated {what}, seed {asked.seed}: {counts} ({seconds:.0f} s)\n")
