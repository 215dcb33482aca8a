"""A journal with rows that cannot be read: each is told, and none hides another run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.desk import TINY, own_home
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import done_at_once
from tests.doubles.fake_provider import FakeProvider
from tests.hostile.terminal import assert_harmless
from tests.unit.planner.cli.command import plan

pytestmark = pytest.mark.slow

LAUNCH = ("launch", "job.yaml", "--provider", "local", "--yes", "--fresh", "--json")

BAD_RECEIPTS = (
    "{", "null", "[]", "3", "[" * 10_000, '{"attempts": "x"}', "NaN",
    json.dumps({"attempts": 1, "actual_seconds": 1e300}),
)  # fmt: skip
BAD_FIELDS: tuple[tuple[str, Any], ...] = (
    ("deadline", "2026-11-22T12:00:00"),
    ("deadline", "soon"),
    ("created_at", "2026-11-22T12:00:00"),
    ("created_at", 7),
    ("phase", "flying"),
    ("budget_usd", "much"),
    ("outcome", "\x1b]0;x\x07"),
    ("job_name", None),
    ("attempts", [[]]),
)
BAD_COLUMNS = (
    ("run_json", "{"),
    ("run_json", "[" * 10_000),
    ("run_json", "[]"),
    ("run_json", "{}"),
    ("run_json", r'{"phase": "\ud800"}'),
    ("targets", "[" * 10_000),
    ("targets", b"packed"),
)


@pytest.fixture(autouse=True)
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    own_home(tmp_path, monkeypatch)
    (tmp_path / "job.yaml").write_text(TINY)
    with fake_provider.as_this_machine(FakeProvider(FakeClock(), [done_at_once], tidy=True), monkeypatch):
        yield


def two_runs() -> list[str]:
    return [plan(*LAUNCH).json["run_id"] for _ in range(2)]


def spoil(tmp_path: Path, run_id: str, column: str, value: object) -> None:
    with closing(sqlite3.connect(tmp_path / "home" / "journal.sqlite")) as db, db:
        db.execute(f"UPDATE runs SET {column} = ? WHERE run_id = ?", (value, run_id))


def spoil_field(tmp_path: Path, run_id: str, field: str, value: object) -> None:
    with closing(sqlite3.connect(tmp_path / "home" / "journal.sqlite")) as db, db:
        changed = "json_patch(run_json, ?)"
        db.execute(f"UPDATE runs SET run_json = {changed} WHERE run_id = ?", (json.dumps({field: value}), run_id))


@pytest.mark.parametrize("receipt", BAD_RECEIPTS, ids=range(len(BAD_RECEIPTS)))
def test_a_receipt_that_cannot_be_read_is_told_and_hides_no_run(tmp_path: Path, receipt: str) -> None:
    bad, good = two_runs()
    spoil(tmp_path, bad, "receipt_json", receipt)
    for arguments in (("history",), ("history", "--json")):
        said = plan(*arguments)
        assert_harmless(said)
        assert said.code == 0, said.err
        assert bad in said.out
        assert good in said.out
        assert f"the receipt of run {bad} in " in said.err
    assert plan("status").code == 0
    said = plan("status", bad)
    assert_harmless(said)
    assert (said.code, said.error.startswith(f"the receipt of run {bad} in ")) == (9, True)


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS)
def test_a_field_that_cannot_be_read_is_told_and_hides_no_run(tmp_path: Path, field: str, value: object) -> None:
    bad, good = two_runs()
    spoil_field(tmp_path, bad, field, value)
    # A list of past runs shows none of these.
    assert_told(bad, good, is_listed=field in ("deadline", "budget_usd", "attempts"))


@pytest.mark.parametrize(("column", "value"), BAD_COLUMNS)
def test_a_column_that_cannot_be_read_is_told_and_hides_no_run(tmp_path: Path, column: str, value: object) -> None:
    bad, good = two_runs()
    spoil(tmp_path, bad, column, value)
    assert_told(bad, good, is_listed=column == "targets")


def assert_told(bad: str, good: str, *, is_listed: bool) -> None:
    """Every command says what it cannot read of one run, and shows the other."""
    said = plan("history")
    assert_harmless(said)
    assert said.code == 0, said.err
    assert good in said.out
    if is_listed:
        assert bad in said.out
    else:
        assert f"run {bad} is left out: " in said.err
    for arguments in (
        ("status", bad),
        ("stop", bad),
        ("attach", bad),
        ("logs", bad),
        ("cleanup", "--provider", "local"),
    ):
        said = plan(*arguments)
        assert_harmless(said)
        assert said.code in (0, 9), said.err


def test_a_live_run_whose_deadline_has_no_time_zone_is_an_error_that_says_so(tmp_path: Path) -> None:
    bad, good = two_runs()
    spoil_field(tmp_path, bad, "phase", "running")
    spoil_field(tmp_path, bad, "deadline", "2026-11-22T12:00:00")
    said = plan("status")
    assert_harmless(said)
    assert said.code == 9
    assert "has no time zone" in said.error
    assert said.hint == "it may be running and billing; plan cleanup lists what exists"
    assert "nothing is running" not in said.out
    assert good in plan("history").out
