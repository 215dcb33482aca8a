"""What the agent tells of progress and log: bounded, whole, and without secrets."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.providers.agent.machine import NOON, FakeClock, FakeRunning, MemoryStore, drained
from trainplan.providers.agent import logs, progress
from trainplan.providers.agent.clock import stamp
from trainplan.providers.agent.logs import LogTail
from trainplan.providers.agent.progress import ProgressTail
from trainplan.providers.agent.store import AwayError
from trainplan.providers.agent.vault import Redactor

PLAIN = Redactor()


class Source:
    """A trainer's progress.jsonl."""

    def __init__(self, folder: Path, store: MemoryStore) -> None:
        self.path = folder / "progress.jsonl"
        self.folder, self.store = folder, store
        self.path.touch()
        self.tail = self.again()

    def again(self) -> ProgressTail:
        return ProgressTail(self.path, self.folder / "spool.jsonl", self.store, "progress.jsonl")

    def steps(self, seconds: int, first: int = 0) -> None:
        lines = [{"event": "step", "time": stamp(NOON + n), "step": n} for n in range(first, first + seconds)]
        self.write("".join(json.dumps(line) + "\n" for line in lines))

    def write(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def events(self) -> list[dict[str, Any]]:
        drained(self.tail.finish(PLAIN))
        return [json.loads(line) for line in self.store.objects["progress.jsonl"].splitlines()]


@pytest.fixture
def source(tmp_path: Path, store: MemoryStore) -> Source:
    return Source(tmp_path, store)


def test_days_of_steps_stay_a_small_object(source: Source) -> None:
    source.steps(100_000)
    told = source.events()
    assert len(told) < 2100
    gaps = [later["step"] - earlier["step"] for earlier, later in itertools.pairwise(told)]
    assert max(gaps) == 60
    assert gaps[:10] == [2] * 10


def test_everything_but_steps_is_told(source: Source) -> None:
    source.write('{"event": "start"}\n')
    source.steps(10)
    for number in range(5):
        source.write(json.dumps({"event": "epoch", "epoch": number}) + "\n")
    source.write('{"event": "end"}\n')
    assert [line["event"] for line in source.events() if line["event"] != "step"] == ["start", *["epoch"] * 5, "end"]


def test_a_flood_of_lines_is_bounded_and_its_end_is_told(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MOST_BYTES", 10_000)
    for number in range(1000):
        source.write(json.dumps({"event": "warning", "message": "x" * 100, "n": number}) + "\n")
    source.write('{"event": "end"}\n')
    told = source.events()
    assert len(source.store.objects["progress.jsonl"]) < 11_000
    assert told[-1]["event"] == "end"


def test_half_a_line_waits_and_what_is_no_line_is_left_out(source: Source) -> None:
    source.write('{"event": "sta')
    source.tail.pull(PLAIN)
    source.write('rt"}\nno json\n[1]\n{"x": 1}\n' + "y" * 100_000 + "\n")
    assert [line["event"] for line in source.events()] == ["start"]


def test_a_second_life_tells_the_same_bytes(source: Source) -> None:
    source.write('{"event": "start"}\n')
    source.steps(5000)
    source.events()
    before = source.store.objects["progress.jsonl"]
    source.tail = source.again()
    source.steps(1000, first=5000)
    source.events()
    after = source.store.objects["progress.jsonl"]
    assert after.startswith(before)
    assert len(after) > len(before)


def test_nothing_new_is_not_sent_again(source: Source) -> None:
    source.tail.push()
    source.steps(1)
    source.tail.pull(PLAIN)
    source.tail.push()
    source.tail.push()
    assert source.store.puts.count("progress.jsonl") == 1


def test_a_link_is_not_followed_out_of_the_run_directory(tmp_path: Path, store: MemoryStore) -> None:
    (tmp_path / "passwd").write_text('{"event": "start", "root": 1}\n')
    (tmp_path / "progress.jsonl").symlink_to(tmp_path / "passwd")
    tail = ProgressTail(tmp_path / "progress.jsonl", tmp_path / "spool", store, "p")
    assert not tail.pull(PLAIN)


def log_of(store: MemoryStore) -> bytes:
    return b"".join(data for path, data in sorted(store.objects.items()) if path.startswith("log/"))


@given(pieces=st.lists(st.binary(max_size=200), max_size=20))
def test_whatever_is_said_comes_out_whole(pieces: list[bytes]) -> None:
    store = MemoryStore(FakeClock())
    tail = LogTail(store, "log")
    for piece in pieces:
        tail.add(piece, PLAIN)
        tail.push()
    drained(tail.finish(FakeRunning(), PLAIN))
    assert log_of(store) == b"".join(pieces)


@given(cuts=st.lists(st.integers(0, 60), max_size=5), newline=st.booleans())
def test_a_secret_is_covered_wherever_the_pipe_cuts_it(cuts: list[int], newline: bool) -> None:
    said = b"x" * 20 + b"hunter2-secret" + b"y" * 20 + (b"\n" if newline else b"")
    store = MemoryStore(FakeClock())
    tail = LogTail(store, "log")
    redactor = Redactor(["hunter2-secret"])
    placements = [0, *sorted(min(cut, len(said)) for cut in cuts), len(said)]
    for start, end in itertools.pairwise(placements):
        tail.add(said[start:end], redactor)
        tail.push()
    drained(tail.finish(FakeRunning(), redactor))
    assert log_of(store) == said.replace(b"hunter2-secret", b"***")


@pytest.mark.parametrize("offset", range(0, 20, 3))
def test_a_secret_in_a_line_without_end_is_covered(store: MemoryStore, offset: int) -> None:
    tail = LogTail(store, "log")
    redactor = Redactor(["hunter2-secret"])
    said = b"x" * (65_536 - offset) + b"hunter2-secret" + b"y" * 70_000 + b"hunter2-secret\n"
    for start in range(0, len(said), 1000):
        tail.add(said[start : start + 1000], redactor)
    drained(tail.finish(FakeRunning(), redactor))
    assert log_of(store) == said.replace(b"hunter2-secret", b"***")


def test_chunks_have_a_bound_and_end_with_lines(store: MemoryStore) -> None:
    tail = LogTail(store, "log")
    said = b"".join(b"line %d\n" % n for n in range(100_000))
    for start in range(0, len(said), 5000):
        tail.add(said[start : start + 5000], PLAIN)
        tail.push()
    drained(tail.finish(FakeRunning(), PLAIN))
    chunks = [data for path, data in sorted(store.objects.items()) if path.startswith("log/")]
    assert max(map(len, chunks)) <= logs.CHUNK_BYTES
    assert all(chunk.endswith(b"\n") for chunk in chunks)
    assert b"".join(chunks) == said


def test_a_flood_keeps_its_beginning_and_its_end(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(logs, "MOST_CHUNKS", 5)
    tail = LogTail(store, "log")
    for number in range(10_000):
        tail.add(b"line %d\n" % number, PLAIN)
        tail.push()
    drained(tail.finish(FakeRunning(), PLAIN))
    said = log_of(store)
    assert said.startswith(b"line 0\n")
    assert said.endswith(b"line 9999\n")
    assert b"bytes of this log were left out" in said
    assert len(said) < 8000


def test_a_store_that_is_away_costs_bounded_memory(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(logs, "MOST_WAITING", 3)
    tail = LogTail(store, "log")
    store.away = True
    for number in range(2000):
        tail.add(b"line %d\n" % number, PLAIN)
        with pytest.raises(AwayError):
            tail.push()
    store.away = False
    drained(tail.finish(FakeRunning(), PLAIN))
    assert len(log_of(store)) < 5000
    assert log_of(store).endswith(b"line 1999\n")
