"""The journal: what is written is there for whoever opens it next, and runs are found in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from tests.builders import RUN_ID, a_job, a_run, a_target, an_attempt
from tests.doubles.clock import NOON
from tests.unit.planner.runs.journal.entries import LATER, a_numbered_run, add, attempted
from trainplan.planner.errors import BadInputError, StateError
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.reader import readable_runs
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.planner.runs.targets import no_capacity, refusal_of
from trainplan.pricing.offers import Market
from trainplan.providers.base import EndKind, RunId
from trainplan.providers.errors import QuotaError
from trainplan.workloads.job import OnSlow


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
    (attempt,) = journal.run(RUN_ID).attempts
    assert (attempt.asked_at, attempt.sent_at) == (NOON, LATER)


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


# --- placements that said no -----------------------------------------------------------------------------------------


def test_refusals_are_kept_across_processes_until_they_are_over(journal: Journal, path: Path) -> None:
    placement = a_target(provider="aws", region="r1", zone="r1a", instance_type="g4", family="g4", market=Market.SPOT)
    no_room = no_capacity(placement, NOON, "no room")
    no_quota = refusal_of(QuotaError("too many", quota="vCPUs"), placement, NOON)
    for refusal in (no_room, no_quota):
        journal.refuse(refusal, NOON)
    with Journal.open(path) as other:
        assert other.refusals(NOON) == (no_room, no_quota)
        assert other.refusals(no_room.until - timedelta(seconds=1)) == (no_room, no_quota)
        assert other.refusals(no_room.until) == (no_quota,)
        assert other.refusals(no_quota.until) == ()


def test_refusals_that_are_over_do_not_pile_up(journal: Journal, path: Path) -> None:
    for day in range(5):
        at = NOON + 8 * timedelta(days=day)
        journal.refuse(no_capacity(a_target(), at, "no room"), at)
    with sqlite3.connect(path) as db:
        (count,) = db.execute("SELECT count(*) FROM refusals").fetchone()
    db.close()
    assert count == 1


# --- finding runs ------------------------------------------------------------------------------------------------


def test_a_run_is_found_by_the_beginning_of_its_id(journal: Journal) -> None:
    for number in (1, 2, 21):
        add(journal, a_numbered_run(number))
    assert journal.run("run-1").run_id == "run-1"
    assert journal.run("run-21").run_id == "run-21"
    assert journal.run(" RUN-21 ").run_id == "run-21", "as it is pasted"
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


def test_whoever_cannot_wait_gives_up_on_a_journal_that_another_process_writes(journal: Journal, path: Path) -> None:
    add(journal, a_run())
    with closing(sqlite3.connect(path, isolation_level=None)) as other, Journal.open(path, busy_seconds=0) as hurried:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StateError, match="locked"):
            hurried.save(a_run(), LATER)


def test_runs_of_a_cloud_that_lives_ahead_of_us_are_listed_by_our_own_clock(journal: Journal) -> None:
    ahead = a_run(run_id=RunId("261121-00000001"), created_at=NOON + timedelta(days=2), launched_at=NOON)
    newer = a_run(run_id=RunId("261121-00000002"), created_at=NOON + timedelta(hours=1))
    for run in (ahead, newer):
        journal.add_run(run, "{}", {}, NOON)
    assert [run.run_id for run in journal.runs()] == [newer.run_id, ahead.run_id]
    assert [run.created_at for run in journal.summaries(lambda _: None)] == [newer.created_at, NOON]


def test_a_journal_whose_damage_sqlite_quotes_is_told_as_one_that_cannot_be_used(tmp_path: Path) -> None:
    """The message of sqlite3 is no UTF-8 then."""
    path = tmp_path / "journal.sqlite"
    Journal.open(path).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET name = CAST(x'EE41' AS TEXT), sql = 'CREATE x' WHERE name = 'runs'")
    with pytest.raises(StateError, match="cannot be used"):
        Journal.open(path)
    assert readable_runs(path) is None
