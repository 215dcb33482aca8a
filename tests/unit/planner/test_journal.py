"""The journal: what is written is there for whoever opens it next, and a file that is no journal is an error."""

from __future__ import annotations

import multiprocessing
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from planner.errors import BadInputError, ThisMachineError
from planner.journal import SCHEMA_VERSION, Journal
from planner.run import Attempt, Outcome, Phase
from providers.base import RunId
from tests.builders import RUN_ID, a_job, a_ref, a_run
from tests.doubles.clock import NOON

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


def test_a_run_is_found_as_it_was_put(journal: Journal, path: Path) -> None:
    run = add(journal, a_run(usd_per_hour=Decimal("0.1200"), model_folder="/with space/ü"), seconds=600.0, usd=None)
    with Journal.open(path) as other:
        assert other.run(RUN_ID) == run
        assert other.run(RUN_ID).usd_per_hour == Decimal("0.1200")
        assert other.job_json(RUN_ID) == a_job().to_json()
        assert other.estimate(RUN_ID) == {"seconds": 600.0, "usd": None}
        assert other.receipt(RUN_ID) is None


def test_every_part_of_a_run_is_kept(journal: Journal) -> None:
    run = add(journal, a_run())
    journal.add_attempt(RUN_ID, 1, {"run_id": RUN_ID, "attempt": 1}, NOON)
    journal.add_attempt(RUN_ID, 2, {"run_id": RUN_ID, "attempt": 2}, LATER)
    run = replace(
        run,
        phase=Phase.TEARING_DOWN,
        outcome=Outcome.STOPPED,
        message="why",
        deadline=LATER,
        stop_asked=LATER,
        model_folder="/another",
        attempts=(
            Attempt(number=1, ref=a_ref(1), exit_code=75, reason="stopped"),
            Attempt(number=2),
        ),
    )
    journal.save(run, LATER, "why")
    assert journal.run(RUN_ID) == run


def test_instants_keep_their_zone(journal: Journal) -> None:
    here = timezone(timedelta(hours=5, minutes=30))
    add(journal, a_run(created_at=NOON.astimezone(here)))
    assert journal.run(RUN_ID).created_at == NOON
    assert journal.run(RUN_ID).created_at.utcoffset() == timedelta(hours=5, minutes=30)


def test_an_attempt_is_kept_as_it_was_first_asked_for(journal: Journal) -> None:
    add(journal, a_run())
    journal.add_attempt(RUN_ID, 1, {"seed": 0}, NOON)
    journal.add_attempt(RUN_ID, 1, {"seed": 1}, LATER)
    assert journal.request(RUN_ID, 1) == {"seed": 0}
    assert journal.asked_at(RUN_ID) == NOON
    assert len(journal.run(RUN_ID).attempts) == 1


def test_the_newest_attempt_tells_since_when_it_may_bill(journal: Journal) -> None:
    add(journal, a_run())
    journal.add_attempt(RUN_ID, 1, {}, NOON)
    journal.add_attempt(RUN_ID, 2, {}, LATER)
    assert journal.asked_at(RUN_ID) == LATER


def test_saving_leaves_the_attempts_it_does_not_know_of(journal: Journal) -> None:
    """Between writing the attempt and moving on, another command may have looked."""
    run = add(journal, a_run())
    journal.add_attempt(RUN_ID, 1, {}, NOON)
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
    journal.add_attempt(RUN_ID, 1, {}, NOON)
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
    assert [run.run_id for run in journal.runs()] == ["run-3", "run-2", "run-1"]
    assert [run.run_id for run in journal.live()] == ["run-2", "run-3"]


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


# --- several at once ---------------------------------------------------------------------------------------------


def _write_some(path: Path, name: str, count: int) -> None:
    with Journal.open(path) as journal:
        for number in range(count):
            run = a_run(run_id=RunId(f"{name}-{number}"), created_at=datetime.now(UTC))  # noqa: TID251
            add(journal, run)
            journal.add_attempt(run.run_id, 1, {"who": name}, NOON)
            journal.save(replace(run, phase=Phase.LAUNCHING, attempts=(Attempt(number=1),)), NOON)


def test_several_processes_write_at_once_and_nothing_is_lost(path: Path) -> None:
    """From the very first opening, which makes the tables."""
    start = multiprocessing.get_context("spawn")
    writers = [start.Process(target=_write_some, args=(path, name, 6)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    with Journal.open(path) as journal:
        found = journal.runs()
    assert {run.run_id for run in found} == {f"{name}-{number}" for name in "ab" for number in range(6)}
    assert all(run.phase is Phase.LAUNCHING and len(run.attempts) == 1 for run in found)
