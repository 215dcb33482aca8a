"""Journals that older commits wrote, with live runs: they are adopted, their requests sent as they were recorded, and
ended. tests/data/journals/README.md tells how the journals were made."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from planner.home.client import own_client
from planner.runs.journal.journal import Journal
from planner.runs.run import Outcome, Phase
from tests.faults.commands import Command
from tests.faults.old_journals import DOUBLES, JOURNALS, KINDS, NO_ANSWER, NOT_SENT, TRAINS, Upgraded, upgraded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STORED_JOURNALS = tuple(sorted((file.parent.name, file.stem) for file in JOURNALS.glob("*/*.sql")))
"""Commit and provider of each."""
RENTED = tuple(row for row in STORED_JOURNALS if row[1] != "sim")


def test_the_newest_commit_has_a_journal_of_each_cloud() -> None:
    assert {provider for version, provider in STORED_JOURNALS if version == "e792807"} == set(DOUBLES)
    assert len(STORED_JOURNALS) == 8


@pytest.fixture(params=STORED_JOURNALS, ids="-".join)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Upgraded]:
    with upgraded(tmp_path / "home", *request.param) as made:
        yield made


def test_every_run_and_request_is_read(home: Upgraded) -> None:
    runs = {kind: home.run(kind) for kind in KINDS}
    assert [run.phase for run in runs.values()] == [Phase.RUNNING, Phase.LAUNCHING, Phase.LAUNCHING]
    for kind, run in runs.items():
        (attempt,) = run.attempts
        assert attempt.target == run.targets[0]
        assert (attempt.ref is not None) is (kind == TRAINS)
        assert (run.deadline - run.created_at, run.checkpoint_seconds) == (timedelta(hours=6), 300.0)
        assert own_client(home.computer.settings).owns(run)
        with Journal.open(home.computer.settings.journal) as journal:
            assert journal.request(run.run_id, 1) == home.requests[run.run_id]
            assert journal.estimate(run.run_id) == {"seconds": 18_000.0}


def test_status_adopts_what_was_made_and_ends_what_was_not(home: Upgraded) -> None:
    home.computer.status(Command(None))
    assert home.computer.messages == []
    # Of these two doubles a machine has begun to train by then; those of the others read the older commit's own agent.
    adopted = Phase.RUNNING if home.computer.provider in ("sim", "azure") else Phase.BOOTING
    assert [home.run(kind).phase for kind in KINDS] == [Phase.RUNNING, Phase.DONE, adopted]
    assert (home.run(NOT_SENT).outcome, home.machines(NOT_SENT)) == (Outcome.INTERRUPTED, [])
    for kind in (TRAINS, NO_ANSWER):
        (machine,) = home.machines(kind)
        (attempt,) = home.run(kind).attempts
        assert attempt.ref is not None
        assert machine.id.endswith(attempt.ref.id.removeprefix("gce/"))


def test_attach_goes_on_with_a_create_without_an_answer(home: Upgraded) -> None:
    home.attach(NO_ANSWER)
    assert [attempt.number for attempt in home.run(NO_ANSWER).attempts] == [1]
    assert len(home.machines(NO_ANSWER)) == 1
    assert home.creates(NO_ANSWER) == home.recorded(NO_ANSWER)


@pytest.mark.parametrize("kind", KINDS)
def test_stop_ends_it_and_leaves_nothing(home: Upgraded, kind: str) -> None:
    home.computer.stop(Command(None), home.name(kind))
    assert home.run(kind).outcome in (Outcome.STOPPED, Outcome.INTERRUPTED)
    assert [row.run for row in home.remaining() if row.run == home.name(kind)] == []
    assert len(home.machines(kind)) == (0 if kind == NOT_SENT else 1)


def test_after_attach_and_stop_of_every_run_nothing_is_left(home: Upgraded) -> None:
    for kind in KINDS:
        home.attach(kind)
        assert home.run(kind).phase in (Phase.BOOTING, Phase.RUNNING)
        home.computer.stop(Command(None), home.name(kind))
        assert home.run(kind).phase is Phase.DONE
        assert len(home.machines(kind)) == 1
    assert home.remaining() == []


@pytest.mark.parametrize("version", [version for version, provider in STORED_JOURNALS if provider == "sim"])
def test_a_simulated_create_that_was_not_sent_is_sent_as_it_was_recorded(tmp_path: Path, version: str) -> None:
    with upgraded(tmp_path / "home", version, "sim") as home:
        sent_as_recorded(home)


@pytest.mark.parametrize(("version", "provider"), RENTED)
def test_a_create_that_was_not_sent_is_sent_as_it_was_recorded(tmp_path: Path, version: str, provider: str) -> None:
    """Where the agent and the trainer have stayed the same."""
    with upgraded(tmp_path / "home", version, provider, same_files=True) as home:
        sent_as_recorded(home)


def sent_as_recorded(home: Upgraded) -> None:
    assert home.creates(NOT_SENT) == []
    home.attach(NOT_SENT)
    assert home.creates(NOT_SENT) == home.recorded(NOT_SENT)
    assert [attempt.number for attempt in home.run(NOT_SENT).attempts] == [1]
    assert len(home.machines(NOT_SENT)) == 1


@pytest.mark.parametrize(("version", "provider"), RENTED)
def test_a_rented_machine_whose_files_another_version_made_gets_a_request_of_its_own(
    tmp_path: Path, version: str, provider: str
) -> None:
    """The agent and the trainer are not in the journal, and the recorded start-up text takes none but those of then."""
    with upgraded(tmp_path / "home", version, provider) as home:
        home.attach(NOT_SENT)
        first, second = home.run(NOT_SENT).attempts
        assert first.ref is None
        assert "another version of trainplan" in (first.reason or "")
        assert second.ref is not None
        (machine,) = home.machines(NOT_SENT)
        assert machine.id.endswith(second.ref.id.removeprefix("gce/"))
        assert home.creates(NOT_SENT) != home.recorded(NOT_SENT)
