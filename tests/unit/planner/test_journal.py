"""The journal: what is written is there for whoever opens it next, and a file that is no journal is an error."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from planner.errors import BadInputError, ThisMachineError
from planner.journal import Journal
from planner.journal_schema import SCHEMA_VERSION
from planner.recorded_runs import readable_runs
from planner.run import Attempt, Outcome, Phase
from planner.targets import no_capacity, refusal_of
from pricing.offers import Market
from providers.base import EndKind, RunId
from providers.errors import QuotaError
from tests.builders import RUN_ID, a_job, a_ref, a_run, a_target, an_attempt
from tests.doubles.clock import NOON
from workloads.job import OnSlow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from planner.run import Run

LATER = NOON + timedelta(minutes=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.sqlite"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal.open(path) as made:
        yield made


def add(journal: Journal, run: Run, **estimate: object) -> Run:
    journal.add_run(run, a_job().to_json(), estimate, NOON)
    return run


def a_numbered_run(number: int, phase: Phase = Phase.PLANNED, **changes: object) -> Run:
    created = NOON + timedelta(minutes=number)
    return a_run(phase, run_id=RunId(f"run-{number}"), created_at=created, **changes)


def attempted(journal: Journal, number: int = 1, at: datetime = NOON, **request: object) -> None:
    """The run with its next attempt, asked for."""
    run = journal.run(RUN_ID)
    attempt = Attempt(number=number, target=a_target(), asked_at=at, sent_at=at)
    journal.add_attempt(replace(run.with_attempt(attempt), phase=Phase.LAUNCHING), dict(request), at)


def test_a_run_is_found_as_it_was_put(journal: Journal, path: Path) -> None:
    run = a_run(
        targets=(a_target("0.1200", zone="a", seconds=60.5), a_target("0.5", images_per_second_low=3.25)),
        model_folder="/with space/ü", budget_usd=Decimal("12.30"), on_slow=OnSlow.REPLAN,
    )  # fmt: skip
    add(journal, run, seconds=600.0, usd=None)
    with Journal.open(path) as other:
        assert other.run(RUN_ID) == run
        assert other.run(RUN_ID).usd_per_hour == Decimal("0.1200")
        assert other.job_json(RUN_ID) == a_job().to_json()
        assert other.estimate(RUN_ID) == {"seconds": 600.0, "usd": None}
        assert other.receipt(RUN_ID) is None


def test_every_part_of_a_run_is_kept(journal: Journal) -> None:
    add(journal, a_run())
    for number in (1, 2, 3):
        attempted(journal, number)
    journal.ask_to_stop(RUN_ID, LATER)
    run = a_run(
        Phase.TEARING_DOWN,
        outcome=Outcome.BUDGET,
        message="why",
        deadline=LATER,
        model_folder="/another",
        provider="aws",
        targets=(a_target("3"),),
        budget_usd=Decimal(5),
        on_slow=OnSlow.CONTINUE,
        slow=OnSlow.STOP,
        unverified="a disk",
        made=(
            an_attempt(1, exit_code=75, reason="stopped", end=EndKind.STOPPED, ended_at=LATER, cleared=True),
            an_attempt(2, ref=None, tries=3, sent_at=LATER, deadline=LATER, reason="no room"),
            an_attempt(3, end=EndKind.RECLAIMED, step=40, lost_steps=7),
        ),
    )
    journal.save(run, LATER, "why")
    assert journal.run(RUN_ID) == replace(run, stop_asked=LATER)


def test_a_new_attempt_is_kept_with_all_that_the_run_has_become(journal: Journal) -> None:
    add(journal, a_run(outcome=Outcome.INTERRUPTED, message="old", unverified="old"))
    run = a_run(
        Phase.LAUNCHING, deadline=LATER, model_folder="/another", provider="aws", targets=(a_target("3"),),
        budget_usd=Decimal(5), on_slow=OnSlow.STOP, slow=OnSlow.CONTINUE, made=(an_attempt(1, ref=None),),
    )  # fmt: skip
    journal.add_attempt(run, {}, NOON)
    assert journal.run(RUN_ID) == run


def test_who_follows_a_run_does_not_undo_what_another_has_asked(journal: Journal) -> None:
    run = add(journal, a_run())
    journal.ask_to_stop(RUN_ID, LATER)
    journal.save(run, LATER)
    attempted(journal)
    assert journal.run(RUN_ID).stop_asked == LATER


def test_a_run_that_goes_on_forgets_what_was_asked_of_its_former_life(journal: Journal) -> None:
    run = add(journal, a_run())
    journal.save(replace(run, slow=OnSlow.STOP), NOON)
    journal.ask_to_stop(RUN_ID, LATER)
    journal.go_on(RUN_ID, LATER)
    assert (journal.run(RUN_ID).stop_asked, journal.run(RUN_ID).slow) == (None, None)


def test_instants_keep_their_zone(journal: Journal) -> None:
    here = timezone(timedelta(hours=5, minutes=30))
    add(journal, a_run(created_at=NOON.astimezone(here)))
    assert journal.run(RUN_ID).created_at == NOON
    assert journal.run(RUN_ID).created_at.utcoffset() == timedelta(hours=5, minutes=30)


def test_an_attempt_is_kept_as_it_was_first_asked_for(journal: Journal) -> None:
    add(journal, a_run())
    attempted(journal, seed=0)
    attempted(journal, at=LATER, seed=1)
    assert journal.request(RUN_ID, 1) == {"seed": 0}
    assert journal.asked_at(RUN_ID) == NOON
    (attempt,) = journal.run(RUN_ID).attempts
    assert (attempt.asked_at, attempt.sent_at) == (NOON, LATER)


def test_the_newest_attempt_tells_since_when_it_may_bill(journal: Journal) -> None:
    add(journal, a_run())
    attempted(journal, 1)
    attempted(journal, 2, LATER)
    assert journal.asked_at(RUN_ID) == LATER


def test_saving_leaves_the_attempts_it_does_not_know_of(journal: Journal) -> None:
    """Between writing the attempt and moving on, another command may have looked."""
    run = add(journal, a_run())
    attempted(journal)
    journal.save(replace(run, phase=Phase.TEARING_DOWN, outcome=Outcome.FAILED), LATER)
    assert [attempt.number for attempt in journal.run(RUN_ID).attempts] == [1]


def test_the_first_wish_to_stop_counts(journal: Journal) -> None:
    add(journal, a_run())
    journal.ask_to_stop(RUN_ID, NOON)
    journal.ask_to_stop(RUN_ID, LATER)
    assert journal.run(RUN_ID).stop_asked == NOON


def test_a_receipt_is_kept(journal: Journal) -> None:
    add(journal, a_run())
    journal.save_receipt(RUN_ID, {"outcome": "succeeded", "accuracy": None}, NOON)
    assert journal.receipt(RUN_ID) == {"outcome": "succeeded", "accuracy": None}


def test_every_write_leaves_an_event(journal: Journal, path: Path) -> None:
    run = add(journal, a_run())
    attempted(journal)
    journal.ask_to_stop(RUN_ID, NOON)
    journal.save(replace(run, phase=Phase.TEARING_DOWN), LATER, "why")
    journal.save_receipt(RUN_ID, {}, LATER)
    with sqlite3.connect(path) as db:
        kept = db.execute("SELECT kind, detail FROM events ORDER BY id").fetchall()
    db.close()
    assert kept == [
        ("planned", ""),
        ("asking", "attempt 1"),
        ("stop asked", ""),
        ("tearing_down", "why"),
        ("receipt", ""),
    ]


# --- places that said no -----------------------------------------------------------------------------------------


def test_refusals_are_kept_across_processes_until_they_are_over(journal: Journal, path: Path) -> None:
    place = a_target(provider="aws", region="r1", zone="r1a", instance_type="g4", family="g4", market=Market.SPOT)
    no_room = no_capacity(place, NOON, "no room")
    no_quota = refusal_of(QuotaError("too many", quota="vCPUs"), place, NOON)
    for refusal in (no_room, no_quota):
        journal.refuse(refusal, NOON)
    with Journal.open(path) as other:
        assert other.refusals(NOON) == (no_room, no_quota)
        assert other.refusals(no_room.until - timedelta(seconds=1)) == (no_room, no_quota)
        assert other.refusals(no_room.until) == (no_quota,)
        assert other.refusals(no_quota.until) == ()


def test_refusals_that_are_over_do_not_pile_up(journal: Journal, path: Path) -> None:
    for day in range(5):
        at = NOON + timedelta(days=day)
        journal.refuse(no_capacity(a_target(), at, "no room"), at)
    with sqlite3.connect(path) as db:
        (count,) = db.execute("SELECT count(*) FROM refusals").fetchone()
    db.close()
    assert count == 1


# --- journals of earlier versions --------------------------------------------------------------------------------

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


def _migrate_and_read(path: Path, found: list[int]) -> None:
    with Journal.open(path) as journal:
        found.append(len(journal.runs()))


def test_two_commands_may_meet_an_old_journal_at_once(path: Path) -> None:
    _of_version_1(path)
    found: list[int] = []
    threads = [threading.Thread(target=_migrate_and_read, args=(path, found)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [2, 2, 2, 2]


# --- finding runs ------------------------------------------------------------------------------------------------


def test_a_run_is_found_by_the_beginning_of_its_id(journal: Journal) -> None:
    for number in (1, 2, 21):
        add(journal, a_numbered_run(number))
    assert journal.run("run-1").run_id == "run-1"
    assert journal.run("run-21").run_id == "run-21"
    assert journal.run("run-2").run_id == "run-2", "an id that is whole is meant, also where others begin with it"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "there is no run ''"),
        ("x", "there is no run 'x'"),
        ("run-111", "there is no run 'run-111'"),
        ("%", "there is no run '%'"),
        ("run", "'run' is the beginning of 2 runs"),
        ("' OR 1=1 --", "there is no run"),
    ],
)
def test_none_or_several_are_named(journal: Journal, name: str, message: str) -> None:
    for number in (1, 2):
        add(journal, a_numbered_run(number))
    with pytest.raises(BadInputError) as caught:
        journal.run(name)
    assert caught.value.message.startswith(message)


def test_runs_come_newest_first_and_live_ones_oldest_first(journal: Journal) -> None:
    for number, phase in ((1, Phase.DONE), (3, Phase.RUNNING), (2, Phase.PLANNED)):
        run = add(journal, a_numbered_run(number))
        journal.save(replace(run, phase=phase), NOON)
    journal.save_receipt(RunId("run-1"), {"attempts": 0}, NOON)
    assert [run.run_id for run in journal.runs()] == ["run-3", "run-2", "run-1"]
    assert [run.run_id for run in journal.live()] == ["run-2", "run-3"]


def test_a_run_that_is_done_is_live_until_its_last_receipt_is_written(journal: Journal) -> None:
    """Its process died between the two."""
    add(journal, a_run())
    attempted(journal)
    done = replace(journal.run(RUN_ID), phase=Phase.DONE)
    journal.save(done, NOON)
    for receipt, live in ((None, True), ({"attempts": 0}, True), ({"attempts": 1}, False)):
        if receipt is not None:
            journal.save_receipt(RUN_ID, receipt, NOON)
        assert ([run.run_id for run in journal.live()] == [RUN_ID]) is live
        assert journal.owes_receipt(done) is live


def test_of_runs_made_in_one_instant_the_last_is_the_newest(journal: Journal) -> None:
    for name in ("b", "a"):
        add(journal, a_run(run_id=RunId(name)))
    assert [run.run_id for run in journal.runs()] == ["a", "b"]


def test_the_newest_run_of_a_job_at_a_provider(journal: Journal) -> None:
    add(journal, a_numbered_run(1, job_digest="one"))
    add(journal, a_numbered_run(3, job_digest="one"))
    add(journal, a_numbered_run(2, job_digest="one"))
    add(journal, a_numbered_run(4, job_digest="one", provider="aws"))
    add(journal, a_numbered_run(5, job_digest="two"))
    add(journal, a_numbered_run(6, job_digest="one", model_folder=""))
    found = [journal.newest_of(*key) for key in (("one", "local"), ("one", "aws"), ("two", "local"))]
    assert [run.run_id if run else None for run in found] == ["run-3", "run-4", "run-5"]
    assert journal.newest_of("three", "local") is None


def test_a_run_that_was_never_recorded_is_in_no_list(journal: Journal) -> None:
    assert (journal.runs(), journal.live()) == ([], [])


# --- files that are no journal, or cannot be one -----------------------------------------------------------------


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.close()


def _damaged(path: Path) -> None:
    path.write_bytes(b"no database at all, but as long as one has to be " * 40)


def _cut_off(path: Path) -> None:
    with Journal.open(path) as journal:
        add(journal, a_run())
    path.write_bytes(path.read_bytes()[:5000])


def _another_database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE runs (x)")
    db.close()


def _a_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_newer, "was written by a newer version of plan"),
        (_damaged, "cannot be used: file is not a database"),
        (_cut_off, "cannot be used: database disk image is malformed"),
        (_another_database, "cannot be used: table runs already exists"),
        (_a_folder, "cannot be used: unable to open database file"),
    ],
)
def test_a_file_that_is_no_journal_is_this_machines_error(
    path: Path, make: Callable[[Path], None], message: str
) -> None:
    path.parent.mkdir()
    make(path)
    with pytest.raises(ThisMachineError) as caught, Journal.open(path) as journal:
        journal.runs()
    assert message in caught.value.message
    assert str(path) in caught.value.message
    assert "PLAN_HOME" in caught.value.hint


def test_a_home_that_is_a_file_is_this_machines_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(ThisMachineError, match="cannot be used"):
        Journal.open(tmp_path / "home" / "journal.sqlite")


def test_a_write_that_fails_changes_nothing(journal: Journal, path: Path) -> None:
    run = add(journal, a_run())
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE events")
    db.close()
    with pytest.raises(ThisMachineError, match="no such table: events"):
        journal.save(replace(run, phase=Phase.TEARING_DOWN, outcome=Outcome.FAILED), LATER)
    assert journal.run(RUN_ID) == run


def test_a_run_is_recorded_once(journal: Journal) -> None:
    add(journal, a_run())
    with pytest.raises(ThisMachineError, match="UNIQUE"):
        add(journal, a_run(job_name="another"))
    assert journal.run(RUN_ID).job_name == "tiny"


def test_a_journal_that_was_never_finished_is_made_anew(path: Path) -> None:
    """The process that created it died before its first transaction."""
    path.parent.mkdir()
    path.touch()
    with Journal.open(path) as journal:
        add(journal, a_run())
        assert len(journal.runs()) == 1


def test_a_damaged_journal_is_named_and_read_by_nobody(path: Path) -> None:
    path.parent.mkdir()
    assert readable_runs(path) == {}
    _damaged(path)
    assert readable_runs(path) is None


def test_a_journal_is_read_where_it_cannot_be_written(journal: Journal, path: Path) -> None:
    run = add(journal, a_run())
    journal._db.execute("PRAGMA max_page_count = 1")
    assert readable_runs(path) == {RUN_ID: run}


def test_an_old_journal_is_read_too(path: Path) -> None:
    _of_version_1(path)
    assert sorted(readable_runs(path) or {}) == ["done", "live"]


# --- no room, no permission --------------------------------------------------------------------------------------


def full(journal: Journal) -> None:
    """The disk takes not a page more."""
    (pages,) = journal._db.execute("PRAGMA page_count").fetchone()
    journal._db.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_refuses_the_run_and_says_so_and_what_is_there_stays(journal: Journal) -> None:
    first = add(journal, a_run())
    full(journal)
    with pytest.raises(ThisMachineError, match="full") as caught:
        journal.add_run(a_numbered_run(1), "x" * 100_000, {}, NOON)
    assert "free disk space" in caught.value.hint
    assert caught.value.exit_code == 9
    assert journal.run(RUN_ID) == first
    journal._db.execute("PRAGMA max_page_count = 100000")
    add(journal, a_numbered_run(2000))


def test_an_attempt_that_finds_no_room_is_not_half_written(journal: Journal) -> None:
    run = add(journal, a_run())
    full(journal)
    with pytest.raises(ThisMachineError, match="full"):
        attempted(journal, job_json="x" * 100_000)
    assert journal.run(RUN_ID) == run


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_journal_without_permission_is_this_machines_error(path: Path) -> None:
    Journal.open(path).close()
    path.chmod(0o400)
    with Journal.open(path) as journal, pytest.raises(ThisMachineError, match="readonly"):
        add(journal, a_run())


def test_a_read_only_journal_refuses_the_run_and_can_be_read(path: Path) -> None:
    with Journal.open(path) as journal:
        run = add(journal, a_run())
    db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
    db.row_factory = sqlite3.Row
    with Journal(db, path) as journal:
        assert journal.run(RUN_ID) == run
        with pytest.raises(ThisMachineError, match="readonly") as caught:
            add(journal, a_numbered_run(1))
        assert "permissions" in caught.value.hint


# --- several at once ---------------------------------------------------------------------------------------------


def _write_some(path: Path, name: str, count: int) -> None:
    with Journal.open(path) as journal:
        journal._db.execute("PRAGMA synchronous = OFF")
        for number in range(count):
            run = a_run(run_id=RunId(f"{name}-{number}"))
            add(journal, run)
            attempt = Attempt(number=1, target=a_target(), asked_at=NOON)
            run = replace(run, phase=Phase.LAUNCHING, attempts=(attempt,))
            journal.add_attempt(run, {"who": name}, NOON)
            journal.refuse(no_capacity(a_target(zone=f"{name}-{number}"), NOON, name), NOON)
            ref = a_ref(1, run.run_id)
            journal.save(replace(run, phase=Phase.BOOTING, attempts=(replace(attempt, ref=ref),)), NOON)


def test_several_processes_write_at_once_and_nothing_is_lost(path: Path) -> None:
    """From the very first opening, which makes the tables."""
    start = multiprocessing.get_context("fork")
    writers = [start.Process(target=_write_some, args=(path, name, 5)) for name in "abcdefgh"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * len(writers)
    with Journal.open(path) as journal:
        found, refusals = journal.runs(), journal.refusals(NOON)
    made = {f"{name}-{number}" for name in "abcdefgh" for number in range(5)}
    assert {run.run_id for run in found} == made
    assert all(run.phase is Phase.BOOTING and run.attempts[0].ref is not None for run in found)
    assert {refusal.zone for refusal in refusals} == made


@pytest.mark.parametrize(
    "damage",
    ["UPDATE runs SET phase = 'nowhere'", "UPDATE runs SET targets_json = '[{'", "UPDATE runs SET deadline = ''"],
)
def test_a_row_that_cannot_be_is_a_damaged_journal_and_no_traceback(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal.open(path) as journal:
        journal.add_run(a_run(), "{}", {}, NOON)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(damage)
    with Journal.open(path) as journal, pytest.raises(ThisMachineError, match="cannot be used"):
        journal.runs()
    runs = readable_runs(path)
    assert runs is not None
    with pytest.raises(ThisMachineError, match="cannot be used"):
        runs[RUN_ID]
