"""Journals of the first version: their runs are kept, and they can be written like any other."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from planner.errors import ThisMachineError
from planner.runs.journal.journal import Journal
from planner.runs.journal.reader import readable_runs
from planner.runs.journal.schema import SCHEMA_VERSION
from planner.runs.run import Outcome, Phase
from planner.runs.targets import no_capacity
from providers.base import RunId
from tests.builders import a_run, a_target
from tests.doubles.clock import NOON
from tests.unit.planner.runs.journal.entries import add, attempted
from workloads.job import OnSlow

if TYPE_CHECKING:
    from pathlib import Path


VERSION_1 = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, job_name TEXT NOT NULL, job_digest TEXT NOT NULL, job_json TEXT NOT NULL,
    provider TEXT NOT NULL, phase TEXT NOT NULL, outcome TEXT, message TEXT, created_at TEXT NOT NULL,
    deadline TEXT NOT NULL, usd_per_hour TEXT NOT NULL, model_folder TEXT NOT NULL, stop_asked TEXT,
    estimate_json TEXT NOT NULL, receipt_json TEXT
) STRICT;
CREATE INDEX runs_by_digest ON runs (job_digest, created_at);
CREATE TABLE attempts (
    run_id TEXT NOT NULL REFERENCES runs (run_id), number INTEGER NOT NULL, request_json TEXT NOT NULL,
    asked_at TEXT NOT NULL, instance_provider TEXT, instance_region TEXT, instance_id TEXT, exit_code INTEGER,
    reason TEXT, PRIMARY KEY (run_id, number)
) STRICT;
CREATE TABLE events (
    id INTEGER PRIMARY KEY, run_id TEXT NOT NULL REFERENCES runs (run_id), at TEXT NOT NULL, kind TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_run ON events (run_id, id);
INSERT INTO runs VALUES
    ('done', 'tiny', 'abc', '{}', 'local', 'done', 'failed', 'why', '2026-10-01T10:00:00+00:00',
     '2026-10-01T12:00:00+00:00', '0.12', '/home/model', NULL, '{"seconds": 600.0}', '{"outcome": "failed"}'),
    ('live', 'tiny', 'abc', '{}', 'local', 'running', NULL, NULL, '2026-10-02T10:00:00+00:00',
     '2026-10-02T12:00:00+00:00', '0.12', '/home/model-2', '2026-10-02T11:00:00+00:00', '{}', NULL);
INSERT INTO attempts VALUES
    ('done', 1, '{"attempt": 1}', '2026-10-01T10:00:00+00:00', 'local', 'here', 'container:x', 70, 'training failed'),
    ('live', 1, '{"attempt": 1}', '2026-10-02T10:00:00+00:00', 'local', 'here', 'container:y', NULL, NULL);
INSERT INTO events VALUES (1, 'done', '2026-10-01T10:00:00+00:00', 'planned', '');
PRAGMA user_version = 1;
"""


def _of_version_1(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with sqlite3.connect(path) as db:
        db.executescript(VERSION_1)
    db.close()


def test_a_journal_of_the_first_version_keeps_its_runs(path: Path) -> None:
    _of_version_1(path)
    for _ in range(2):
        with Journal.open(path) as journal:
            done, live = journal.run("done"), journal.run("live")
            assert [run.run_id for run in journal.runs()] == ["live", "done"]
            assert (done.phase, done.outcome, done.message) == (Phase.DONE, Outcome.FAILED, "why")
            (attempt,) = done.attempts
            assert (attempt.exit_code, attempt.reason, attempt.target, attempt.tries) == (
                70,
                "training failed",
                None,
                0,
            )
            assert attempt.asked_at == datetime(2026, 10, 1, 10, tzinfo=UTC)
            assert (done.targets, done.budget_usd, done.on_slow, done.slow) == ((), None, OnSlow.ASK, None)
            assert (live.phase, live.stop_asked) == (Phase.RUNNING, datetime(2026, 10, 2, 11, tzinfo=UTC))
            assert live.attempts[0].ref is not None
            assert journal.estimate(RunId("done")) == {"seconds": 600.0}
            assert journal.receipt(RunId("done")) == {"outcome": "failed"}
            assert journal.request(RunId("live"), 1) == {"attempt": 1}
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    db.close()


def test_a_migrated_journal_can_be_written_like_any_other(path: Path) -> None:
    _of_version_1(path)
    with Journal.open(path) as journal:
        live = journal.run("live")
        journal.save(replace(live, phase=Phase.TEARING_DOWN, unverified="a disk"), NOON)
        assert journal.run("live").unverified == "a disk"
        add(journal, a_run())
        attempted(journal)
        journal.refuse(no_capacity(a_target(), NOON, "no room"), NOON)
        assert len(journal.refusals(NOON)) == 1


def test_a_migration_that_fails_leaves_the_old_journal_as_it_was(path: Path) -> None:
    _of_version_1(path)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE refusals (in_the_way TEXT)")
    db.close()
    with pytest.raises(ThisMachineError, match="refusals already exists"):
        Journal.open(path)
    with sqlite3.connect(path) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(runs)")]
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    db.close()
    assert "targets_json" not in columns


def _migrate_and_read(path: Path, versions: list[int]) -> None:
    with Journal.open(path) as journal:
        versions.append(len(journal.runs()))


def test_two_commands_may_meet_an_old_journal_at_once(path: Path) -> None:
    _of_version_1(path)
    found: list[int] = []
    threads = [threading.Thread(target=_migrate_and_read, args=(path, found)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [2, 2, 2, 2]


def test_an_old_journal_is_read_too(path: Path) -> None:
    _of_version_1(path)
    assert sorted(readable_runs(path) or {}) == ["done", "live"]
