"""What cleanup makes of everything it finds, how it ends things, and what the command says and leaves with."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import a_run, a_target, an_attempt
from tests.doubles.clock import NOON
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import until_asked
from tests.doubles.fake_provider import FACTORY, PROVIDERS
from tests.rows import each_row
from tests.unit.planner.cli.command import plan
from trainplan.planner.errors import ExitCode
from trainplan.planner.home.client import own_client
from trainplan.planner.runs.cleanup.cleanup import NEWBORN, PATIENCE, Fate, end, fate_of, look
from trainplan.planner.runs.decision.next_action import TIMER_GRACE
from trainplan.planner.runs.directory.run_directory import has_written, outlived
from trainplan.planner.runs.journal.reader import readable_runs
from trainplan.planner.runs.proposal.dry_run import DryRun
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.runs.targets import no_capacity
from trainplan.providers.base import OwnedResource, RunId
from trainplan.providers.errors import IncompleteListingError, InstanceNotFoundError, TransientError

ME, FORMER, SOMEBODY = "me", "formerly me", "somebody"


def a_thing(**changes: Any) -> OwnedResource:
    """A machine of ours, an hour old, which may live for another."""
    base = OwnedResource(
        provider="local", region="here", kind="machine", id="m-1", run_id=a_run().run_id, attempt=1, client=ME,
        created_at=NOON - timedelta(hours=1), deadline=NOON + timedelta(hours=1),
    )  # fmt: skip
    return replace(base, **changes)


def runs(*known_runs: Run) -> dict[str, Run]:
    return {run.run_id: run for run in known_runs}


TRAINING = a_run(Phase.RUNNING, attempts=1)
OVER = a_run(Phase.DONE, attempts=1, outcome=Outcome.SUCCEEDED)
UNSURE = a_run(Phase.TEARING_DOWN, attempts=1, unverified="teardown unverified: machine m-1")
SECOND = a_run(Phase.RUNNING, attempts=2)
THEIRS = a_run(Phase.RUNNING, made=(an_attempt(client=SOMEBODY),))
TAKEN_OVER = replace(THEIRS, taken_over=True)
PAST = {"deadline": NOON - TIMER_GRACE - timedelta(seconds=1)}
YOUNG = {"created_at": NOON - NEWBORN + timedelta(seconds=1)}
OTHER = {"run_id": RunId("another")}


@each_row(
    ("changes", "known_runs", "fate"),
    [
        ({}, runs(TRAINING), Fate.LIVE),
        ({"attempt": None}, runs(TRAINING), Fate.LIVE),
        ({"client": SOMEBODY}, runs(TRAINING), Fate.FOREIGN),  # the journal is a copy of another home's
        ({"client": SOMEBODY}, runs(OVER), Fate.FOREIGN),
        ({"client": FORMER}, runs(TRAINING), Fate.LIVE),
        ({"client": FORMER} | OTHER, runs(), Fate.ORPHAN),
        ({"client": SOMEBODY}, runs(TAKEN_OVER), Fate.LIVE),
        ({"client": SOMEBODY} | PAST, runs(TRAINING), Fate.EXPIRED),
        ({"client": None}, runs(THEIRS), Fate.FOREIGN),
        (OTHER | YOUNG | {"client": SOMEBODY}, runs(), Fate.FOREIGN),
        ({}, runs(OVER), Fate.ORPHAN),
        ({}, runs(UNSURE), Fate.ORPHAN),
        ({}, runs(SECOND), Fate.ORPHAN),  # of the attempt before
        (PAST, runs(TRAINING), Fate.EXPIRED),
        (PAST | {"client": SOMEBODY} | OTHER, runs(), Fate.EXPIRED),
        ({"deadline": NOON - TIMER_GRACE}, runs(TRAINING), Fate.LIVE),  # its timers may still be at it
        (OTHER, runs(TRAINING), Fate.ORPHAN),
        (OTHER | {"client": None}, runs(TRAINING), Fate.ORPHAN),
        (OTHER | YOUNG, runs(), Fate.NEWBORN),
        (OTHER | {"created_at": None}, runs(), Fate.ORPHAN),
        (OTHER | {"client": SOMEBODY}, runs(), Fate.FOREIGN),
        ({}, None, Fate.ORPHAN),  # no journal: labels alone
        (YOUNG, None, Fate.NEWBORN),
        ({"client": SOMEBODY}, None, Fate.FOREIGN),
        (PAST | YOUNG, None, Fate.EXPIRED),
    ],
)
def test_what_becomes_of_a_thing(changes: dict[str, Any], known_runs: dict[str, Run] | None, fate: Fate) -> None:
    assert fate_of(a_thing(**changes), known_runs, {ME, FORMER}, NOON) is fate


@pytest.mark.parametrize(
    ("changes", "known_runs", "fate"),
    [
        ({}, runs(THEIRS), Fate.LIVE),
        ({}, runs(OVER), Fate.ORPHAN),
        ({"attempt": 2}, runs(THEIRS), Fate.LIVE),  # the journal is older than the machine
        (OTHER, runs(THEIRS), Fate.FOREIGN),
        ({}, None, Fate.FOREIGN),
    ],
)
def test_what_another_client_of_this_home_made_is_ours_where_its_run_is_in_the_journal(
    changes: dict[str, Any], known_runs: dict[str, Run] | None, fate: Fate
) -> None:
    thing = a_thing(**{"client": SOMEBODY, **changes})
    assert fate_of(thing, known_runs, {ME}, NOON, same_home={SOMEBODY}) is fate


def test_a_cleanup_shows_a_live_run_as_live_though_the_file_of_the_client_is_gone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    _here(desk, monkeypatch)
    desk.scripts(until_asked)
    gone = own_client(desk.settings).id
    run = desk.planned()
    ref = desk.provider.launch(replace(desk.request()(run, 1, run.targets[0]), client=gone)).ref
    attempt = an_attempt(1, client=gone, ref=ref)
    desk.journal.add_attempt(replace(run, phase=Phase.RUNNING, attempts=(attempt,)), {}, NOON)
    (desk.settings.home / "client.json").unlink()
    (row,) = plan("cleanup", "--provider", "local", "--dry-run", "--json").json
    assert row["fate"] == "live"


@pytest.mark.parametrize(
    ("client", "fate"), [(ME, Fate.LIVE), (FORMER, Fate.LIVE), (SOMEBODY, Fate.FOREIGN), (None, Fate.FOREIGN)]
)
def test_a_run_that_the_journal_has_and_cannot_read_keeps_what_it_made(
    desk: Desk, client: str | None, fate: Fate
) -> None:
    """Our own thing counts as used, so that no option of cleanup ends it; another client's stays that client's."""
    run = desk.planned()
    with closing(sqlite3.connect(desk.settings.journal)) as db, db:
        db.execute("UPDATE runs SET run_json = json_set(run_json, '$.phase', 'flying')")
    runs = readable_runs(desk.settings.journal)
    assert fate_of(a_thing(run_id=run.run_id, client=client), runs, {ME, FORMER}, NOON) is fate


DISK = a_thing(kind="disk", instance=False, id="d-1")


@pytest.mark.parametrize(
    ("answer", "age", "thing", "fate"),
    [
        (InstanceNotFoundError("gone"), NEWBORN, DISK, Fate.ORPHAN),
        (InstanceNotFoundError("gone"), NEWBORN - timedelta(seconds=1), DISK, Fate.LIVE),
        (InstanceNotFoundError("gone"), NEWBORN, replace(DISK, attempt=None), Fate.LIVE),
        (InstanceNotFoundError("gone"), NEWBORN, a_thing(), Fate.LIVE),
        (TransientError("away"), NEWBORN, DISK, Fate.LIVE),
    ],
)
def test_what_came_with_a_machine_that_has_ended_is_no_longer_in_use_though_its_run_is_live(
    desk: Desk, answer: Exception, age: timedelta, thing: OwnedResource, fate: Fate
) -> None:
    run = a_run(Phase.RUNNING, made=(an_attempt(1, asked_at=NOON - age, sent_at=NOON - age, client=ME),))
    desk.provider.refuse[("get", 1)] = answer
    desk.provider.refuse[("list_owned", 1)] = IncompleteListingError("half", resources=(thing,), unanswered=("b",))
    (found,) = look(desk.provider, lambda: runs(run), {ME}, lambda: NOON).resources
    assert found.fate is fate


def test_only_what_nobody_uses_and_what_is_past_its_time_ends() -> None:
    assert [fate for fate in Fate if fate.ends] == [Fate.EXPIRED, Fate.ORPHAN]


def test_the_journal_is_read_after_the_provider_was_asked(desk: Desk) -> None:
    asked: list[str] = []
    desk.provider.before = asked.append

    def read() -> dict[str, Run]:
        asked.append("journal")
        return {}

    look(desk.provider, read, {ME}, lambda: NOON)
    assert asked == ["list_owned", "journal"]


def test_placements_that_did_not_answer_are_told_with_what_the_others_said(desk: Desk) -> None:
    error = IncompleteListingError("half", resources=(a_thing(**OTHER),), unanswered=("sim-west",))
    desk.provider.refuse[("list_owned", 1)] = error
    found = look(desk.provider, dict, {ME}, lambda: NOON)
    assert (found.unanswered, [known.fate for known in found.resources]) == (("sim-west",), [Fate.ORPHAN])


def _orphan(desk: Desk) -> OwnedResource:
    """A machine whose run the journal has forgotten."""
    desk.scripts(until_asked)
    run = desk.planned()
    desk.provider.launch(desk.request()(run, 1, run.targets[0]))
    (resource,) = desk.provider.list_owned()
    return resource


@pytest.mark.parametrize("slow_deletes", [0, 5])
def test_what_is_ended_is_looked_for_until_it_is_gone(desk: Desk, slow_deletes: int) -> None:
    resource = _orphan(desk)
    desk.provider.slow_deletes = slow_deletes
    assert end(desk.provider, [resource], desk.clock) == []
    assert desk.leaked == []


def test_what_does_not_go_is_named_when_patience_has_run_out(desk: Desk) -> None:
    resource = _orphan(desk)
    desk.provider.slow_deletes = None
    (left,) = end(desk.provider, [resource], desk.clock)
    assert resource.id in left
    assert desk.clock.now() - NOON > PATIENCE


def test_a_list_that_does_not_come_is_no_absence(desk: Desk) -> None:
    resource = _orphan(desk)
    desk.provider.refuse |= {("list_owned", number): TransientError("away") for number in range(1, 1000)}
    (left,) = end(desk.provider, [resource], desk.clock)
    assert "away" in left


def test_the_command_shows_what_it_found_and_ends_what_no_run_uses(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    _here(desk, monkeypatch)
    resource = replace(_orphan(desk), client=own_client(desk.settings).id)
    looked = plan("cleanup", "--provider", "local", "--dry-run")
    assert (looked.code, resource.id in looked.out) == (ExitCode.OK, True)
    assert desk.leaked == [resource.id]
    assert (
        plan("cleanup", "--provider", "local").code == ExitCode.BAD_INPUT
    )  # the input is not a terminal, so nobody can be asked
    assert desk.leaked == [resource.id]
    cleaned = plan("cleanup", "--provider", "local", "--yes", "--json")
    assert cleaned.code == ExitCode.OK
    (row,) = cleaned.json
    assert (row["id"], row["fate"]) == (resource.id, "orphan")
    assert desk.leaked == []


@pytest.mark.parametrize("damage", [b"not a journal", b""])
def test_it_works_from_labels_alone_where_the_journal_is_damaged_or_gone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    _here(desk, monkeypatch)
    _orphan(desk)
    desk.close()
    if damage:
        desk.settings.journal.write_bytes(damage)
        assert readable_runs(desk.settings.journal) is None
    else:
        desk.settings.journal.unlink()
        assert readable_runs(desk.settings.journal) == {}
    assert plan("cleanup", "--provider", "local", "--yes").code == ExitCode.OK
    assert desk.leaked == []


def test_a_placement_that_did_not_answer_is_exit_code_7(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    _here(desk, monkeypatch)
    error = IncompleteListingError("half", resources=(), unanswered=("sim-west",))
    desk.provider.refuse |= {("list_owned", number): error for number in range(1, 10)}
    cleaned = plan("cleanup", "--provider", "local", "--yes")
    assert cleaned.code == ExitCode.TEARDOWN_UNVERIFIED
    assert "sim-west" in cleaned.error
    assert "nothing of ours" not in cleaned.out


def test_a_dry_run_goes_where_a_launch_would_and_sends_nothing(desk: Desk) -> None:
    first, second = a_target(zone="a"), a_target(zone="b")
    run = desk.planned(targets=[first, second])
    dry = DryRun(lambda _: desk.provider, desk.clock, (no_capacity(first, NOON, "full"),))
    target, calls = dry.calls(run, desk.request())
    assert (target.zone, [call.operation for call in calls]) == ("b", ["start"])
    assert desk.provider.calls == []


def _here(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's provider is the desk's, and its home the command's."""
    monkeypatch.setitem(*FACTORY)
    monkeypatch.setattr(f"{FACTORY[2].split(':')[0]}.PROVIDERS", [*PROVIDERS, desk.provider])
    monkeypatch.setenv("PLAN_HOME", str(desk.settings.home))


def test_what_a_cleanup_deletes_beside_a_machine_is_noted_before_for_the_receipt(desk: Desk) -> None:
    cleaned = [a_thing(kind="volume", id="vol-1", instance=False), a_thing(kind="schedule", id="s", instance=False)]
    assert end(desk.provider, cleaned, desk.clock) == []
    assert outlived(desk.provider.store(cleaned[0].run_id), 1) == {"disk": desk.clock.now()}
    assert not has_written(desk.provider.store(cleaned[0].run_id), 1), "no machine has written that"
