"""How long this home's own runs waited in a cluster's queue, as an estimate reads it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.builders import a_run, a_target, an_attempt
from tests.doubles.clock import NOON
from tests.unit.planner.runs.journal.entries import add
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.queue_waits import own_queue_waits

MINUTE = timedelta(minutes=1)


def test_there_are_none_without_a_journal_or_in_a_file_that_is_none(tmp_path: Path) -> None:
    assert own_queue_waits(tmp_path / "journal.sqlite") == {}
    (tmp_path / "other").write_text("no journal", encoding="utf-8")
    assert own_queue_waits(tmp_path / "other") == {}


def test_waits_are_counted_from_asking_to_the_start_by_partition(journal: Journal, path: Path) -> None:
    """A job that still waits, and a run on a cloud, tell nothing."""
    cluster, cloud = a_target(provider="slurm", region="two"), a_target(provider="aws", region="r1")
    attempts = (
        an_attempt(1, cluster, bills_from=NOON + 7 * MINUTE),
        an_attempt(2, cluster),
        an_attempt(3, cloud, bills_from=NOON + MINUTE),
    )
    run = a_run(made=attempts)
    add(journal, run)
    journal.save(run, NOON)
    assert own_queue_waits(path) == {"two": [7 * MINUTE]}
