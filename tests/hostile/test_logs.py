"""A container that writes its log as fast as it is read: `plan logs` ends all the same."""

from __future__ import annotations

import itertools

import pytest

from tests.doubles.fake_machine import FakeStore
from trainplan.planner.runs.directory import printed as logs


class Endless(FakeStore):
    """Has always one more piece of the log."""

    def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        assert size is not None
        return b"x" * (size - 1) + b"\n"


def test_a_log_without_an_end_is_cut_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_BYTES", 3 * logs.PIECE_BYTES)
    store, seen = Endless(), dict[str, int]()
    store.files["attempts/1/log/00001.log"] = b""
    lines = list(itertools.islice(logs.new_output(store, "attempts/1/log", seen, is_last=True), 10))
    assert len(lines) == 4
    assert lines[-1] == "(what follows in attempts/1/log/00001.log is not shown: it is longer than 3 MiB)"
    assert list(logs.new_output(store, "attempts/1/log", seen, is_last=True)) == [], "with --follow it is said once"
