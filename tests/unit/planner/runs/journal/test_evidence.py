"""What earlier launches met, as an estimate reads it."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

from tests.builders import a_run, a_target, an_attempt
from tests.doubles.clock import NOON
from tests.unit.planner.runs.journal.entries import add
from trainplan.planner.runs.journal.evidence import read_evidence
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.targets import DearerError, no_capacity, refusal_of
from trainplan.pricing.obtainability import Evidence, MachinePlacement
from trainplan.pricing.offers import Market
from trainplan.providers.base import EndKind
from trainplan.providers.errors import CapacityError, QuotaError, TransientError

G4 = a_target(provider="aws", region="r1", zone="r1a", instance_type="g4", family="g4", market=Market.SPOT)
PLACEMENT = MachinePlacement("aws", "r1", "g4", "spot")


def evidence_of(path: Path, *, hours: float = 0.0) -> tuple[Evidence, ...]:
    lines: list[str] = []
    evidence = read_evidence(path, NOON + timedelta(hours=hours), lines.append)
    assert lines == []
    return evidence


def test_there_is_none_without_a_journal(tmp_path: Path) -> None:
    assert evidence_of(tmp_path / "journal.sqlite") == ()


def test_a_lack_of_capacity_is_evidence_and_other_refusals_are_not(journal: Journal, path: Path) -> None:
    for error in (
        CapacityError("no room"),
        QuotaError("too many", quota="vCPUs"),
        DearerError("dearer", usd_per_hour=G4.offer.usd_per_hour),
        TransientError("no answer"),
    ):
        journal.refuse(refusal_of(error, G4, NOON), NOON)
    assert evidence_of(path) == (Evidence(PLACEMENT, NOON, was_obtained=False),)


def test_a_machine_that_was_taken_back_is_evidence(journal: Journal, path: Path) -> None:
    journal.refuse(no_capacity(G4, NOON, "reclaimed"), NOON)
    assert evidence_of(path) == (Evidence(PLACEMENT, NOON, was_obtained=False),)


def test_refusals_that_are_over_stay_evidence_for_a_week(journal: Journal, path: Path) -> None:
    journal.refuse(no_capacity(G4, NOON, "no room"), NOON)
    later = NOON + timedelta(days=7)
    journal.refuse(no_capacity(G4, later, "no room"), later)
    assert [one.at for one in evidence_of(path, hours=7 * 24)] == [NOON, later]
    assert journal.refusals(later) == (no_capacity(G4, later, "no room"),)
    much_later = later + timedelta(hours=1)
    journal.refuse(no_capacity(G4, much_later, "no room"), much_later)
    assert [one.at for one in evidence_of(path, hours=7 * 24 + 1)] == [later, much_later]


def test_attempts_with_a_machine_are_successes(journal: Journal, path: Path) -> None:
    sent_at = NOON + timedelta(minutes=3)
    attempts = (
        an_attempt(1, G4, ref=None),
        an_attempt(2, G4, end=EndKind.NO_CAPACITY),
        an_attempt(3, G4, sent_at=sent_at, end=EndKind.RECLAIMED),
        an_attempt(4),
    )
    run = a_run(made=attempts)
    add(journal, run)
    journal.save(run, NOON)
    assert evidence_of(path, hours=1) == (Evidence(PLACEMENT, sent_at, was_obtained=True),)
    assert evidence_of(path, hours=24 * 31) == ()


def test_a_journal_that_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"not a database" * 100)
    lines: list[str] = []
    assert read_evidence(path, NOON, lines.append) == ()
    (line,) = lines
    assert "cannot be read" in line
    assert "what earlier launches met does not count" in line


def test_a_journal_of_another_version_is_none(journal: Journal, path: Path) -> None:
    journal.refuse(no_capacity(G4, NOON, "no room"), NOON)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 3")
    db.close()
    assert evidence_of(path) == ()
