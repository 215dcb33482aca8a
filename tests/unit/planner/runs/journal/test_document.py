"""The document that the journal keeps of a run: what of it is not this command's to write stays as it is recorded."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders import RUN_ID, a_run, a_target, an_attempt
from tests.doubles.clock import NOON
from tests.unit.planner.runs.journal.test_whole import RUN
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Outcome, Phase, Run

LATER = NOON + timedelta(minutes=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal.open(path) as opened:
        yield opened


def written(journal: Journal, run: Run) -> Run:
    """The run in the journal, each attempt with a request."""
    journal.add_run(replace(run, attempts=()), "{}", {}, NOON)
    for attempt in run.attempts:
        journal.add_attempt(replace(run, attempts=(attempt,)), {}, NOON)
    return run


def document(journal: Journal) -> dict[str, Any]:
    (text,) = journal._db.execute("SELECT run_json FROM runs").fetchone()
    return dict(json.loads(text))


def put(journal: Journal, record: dict[str, Any], targets: list[dict[str, Any]] | None = None) -> None:
    journal._db.execute("UPDATE runs SET run_json = ?", (json.dumps(record),))
    if targets is not None:
        journal._db.execute("UPDATE runs SET targets = ?", (json.dumps(targets),))


def every_write(journal: Journal, run: Run) -> None:
    """Everything that changes a run which is recorded."""
    journal.save(run, LATER)
    journal.add_attempt(run, {}, LATER)
    journal.ask_to_stop(RUN_ID, LATER)
    journal.take_over(RUN_ID, LATER)
    journal.go_on(RUN_ID, LATER)


def test_fields_of_a_newer_version_are_read_past_and_stay(journal: Journal) -> None:
    run = written(journal, a_run(Phase.BOOTING, attempts=2))
    record, targets = document(journal), json.loads(journal._db.execute("SELECT targets FROM runs").fetchone()[0])
    new = {"new": {"a": [1, None]}}
    put(
        journal,
        {
            **record,
            **new,
            "attempts": [{**attempt, **new, "target": {**attempt["target"], **new}} for attempt in record["attempts"]],
        },
        [{**target, **new} for target in targets],
    )
    assert journal.run(RUN_ID) == run
    every_write(journal, journal.run(RUN_ID))
    kept = document(journal)
    assert kept["new"] == new["new"]
    assert [attempt["new"] for attempt in kept["attempts"]] == [new["new"]] * 2
    assert [attempt["target"]["new"] for attempt in kept["attempts"]] == [new["new"]] * 2
    (text,) = journal._db.execute("SELECT targets FROM runs").fetchone()
    assert [target["new"] for target in json.loads(text)] == [new["new"]]


def test_placements_that_are_others_by_now_are_written_anew(journal: Journal) -> None:
    run = written(journal, a_run(Phase.BOOTING, attempts=1))
    elsewhere = (a_target("2", zone="b"), *run.targets)
    journal.save(replace(run, targets=elsewhere), LATER)
    assert journal.run(RUN_ID).targets == elsewhere


def test_an_attempt_stays_in_the_placement_that_it_was_asked_for_in(journal: Journal) -> None:
    run = written(journal, a_run(Phase.LAUNCHING, made=(an_attempt(1, asked_at=NOON, client="ours"),)))
    other = replace(run.attempts[0], target=a_target("9", zone="z"), asked_at=LATER, client="theirs", tries=3)
    journal.save(run.with_attempt(other), LATER)
    assert journal.run(RUN_ID).attempts == (replace(run.attempts[0], tries=3),)


def test_what_an_attempt_was_not_known_to_have_is_written_later(journal: Journal) -> None:
    """As attempts of the first version, which had no target of their own."""
    run = written(journal, a_run(Phase.LAUNCHING, made=(an_attempt(1, asked_at=NOON),)))
    record = document(journal)
    del record["attempts"][0]["target"]
    put(journal, record)
    assert journal.run(RUN_ID).attempts[0].target is None
    journal.save(run, LATER)
    assert journal.run(RUN_ID) == run


def test_attempts_are_in_their_order(journal: Journal) -> None:
    run = written(journal, a_run(Phase.BOOTING, attempts=3))
    journal.save(replace(run, attempts=(run.attempts[2], run.attempts[0])), LATER)
    assert journal.run(RUN_ID).attempts == run.attempts


def test_what_is_unset_takes_no_room(journal: Journal) -> None:
    written(journal, a_run(Phase.BOOTING, attempts=1))
    record = document(journal)
    assert None not in [*record.values(), *record["attempts"][0].values()]


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"attempts": 7}', '{"attempts": [[]]}'])
def test_a_run_that_nobody_can_read_is_written_anew_by_the_command_that_follows_it(journal: Journal, text: str) -> None:
    run = written(journal, a_run(Phase.BOOTING, attempts=1))
    journal._db.execute("UPDATE runs SET run_json = ?, targets = x'00'", (text,))
    with pytest.raises(ThisMachineError, match="cannot be used"):
        journal.run(RUN_ID)
    journal.save(run, LATER)
    assert journal.run(RUN_ID) == run


def test_the_error_names_the_field_and_the_run_and_shows_no_value(journal: Journal) -> None:
    written(journal, a_run(Phase.BOOTING, attempts=1))
    record = document(journal)
    record["attempts"][0]["tries"] = "\x1b]0;x\x07"
    put(journal, record)
    with pytest.raises(ThisMachineError) as caught:
        journal.run(RUN_ID)
    assert f"attempts.0.tries of run {RUN_ID}: Input should be a valid integer" in caught.value.message
    assert "\x1b" not in caught.value.message
    assert "\n" not in caught.value.message


def test_a_run_that_was_never_added_is_not_saved(journal: Journal) -> None:
    with pytest.raises(ThisMachineError, match="FOREIGN KEY"):
        journal.save(a_run(), NOON)
    assert journal.runs() == []


def test_lists_are_searched_in_what_the_document_says(journal: Journal) -> None:
    """There is no second copy of a run's phase, provider and so on that could say something else."""
    run = written(journal, a_run(Phase.BOOTING, attempts=1, provider="aws", job_digest="abc", unverified="a disk"))
    run = replace(run, unverified="a disk")
    journal.save(run, NOON)
    assert journal.live() == journal.unverified() == journal.live_of("abc") == [run]
    assert journal.providers() == {"aws"}
    done = replace(run, phase=Phase.DONE, outcome=Outcome.SUCCEEDED, provider="gcp", unverified=None, targets=())
    journal.save(done, LATER)
    assert (journal.live(), journal.unverified(), journal.live_of("abc")) == ([done], [], [])
    journal.save_receipt(RUN_ID, {"attempts": 1}, LATER)
    assert (journal.live(), journal.providers(), journal.newest_of("abc", "gcp")) == ([], {"gcp"}, done)


def test_live_runs_are_found_without_reading_the_others(journal: Journal) -> None:
    plan = journal._db.execute("EXPLAIN QUERY PLAN SELECT run_id FROM runs WHERE phase IS NOT 'done' OR owes_receipt")
    assert "runs_live" in plan.fetchone()["detail"]


def test_a_document_is_the_run_in_words_that_other_programs_read(journal: Journal, path: Path) -> None:
    journal.add_run(RUN, "{}", {}, NOON)
    with closing(sqlite3.connect(path)) as db:
        asked = "SELECT json_extract(run_json, '$.job_name'), json_extract(run_json, '$.attempts[0].ref.id') FROM runs"
        assert db.execute(asked).fetchone() == (RUN.job_name, RUN.attempts[0].ref.id if RUN.attempts[0].ref else None)
