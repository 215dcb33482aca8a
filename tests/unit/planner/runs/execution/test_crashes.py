"""A process that is gone at any point of a run: the next look finds what is there, and leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pytest

from tests.builders import a_job
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import (
    MODEL,
    FakeMachine,
    Sighting,
    ends,
    stubborn,
    trains_well,
)
from tests.doubles.fake_provider import FakeProvider
from tests.unit.planner.runs.execution.followed import Crash, Fuse, packed
from trainplan.planner.errors import (
    BadInputError,
)
from trainplan.planner.runs.directory.run_directory import LAST_WORDS
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.runs.runner import request_none
from trainplan.providers.base import EndKind, OwnedResource, RunId


def _steps_of_a_run(desk: Desk, script: Callable[[FakeMachine], Iterator[Sighting]]) -> int:
    fuse = Fuse(10**9)
    _arm(desk, fuse)
    desk.scripts(script)
    desk.launch()
    return 10**9 - fuse.interrupts_left


def _arm(desk: Desk, fuse: Fuse) -> None:
    desk.provider.before = desk.provider.after = desk.listen = fuse.burn


@pytest.mark.parametrize("script", [trains_well, ends(EndKind.FAILED)], ids=["trains well", "fails"])
def test_after_a_crash_at_any_point_the_next_look_leaves_nothing(
    desk: Desk, tmp_path_factory: pytest.TempPathFactory, script: Callable[[FakeMachine], Iterator[Sighting]]
) -> None:
    """Before and after each call of the provider, and after each entry in the journal."""
    from tests.doubles.desk import Desk

    steps = _steps_of_a_run(desk, script)
    assert steps > 20
    outcomes = set()
    for at in range(1, steps + 1):
        broken = Desk(tmp_path_factory.mktemp("crash"))
        broken.scripts(script)
        _arm(broken, Fuse(at))
        with pytest.raises(Crash):
            broken.launch()
        broken.close()
        _arm(broken, Fuse(10**9))
        run = _settled(broken)
        assert (run.phase, broken.leaked) == (Phase.DONE, []), f"crashed at step {at}"
        assert run.outcome is not None
        outcomes.add(run.outcome)
        if run.outcome is Outcome.SUCCEEDED:
            assert (broken.folder / "model" / "model.keras").read_bytes() == MODEL["model.keras"]
    ended = Outcome.SUCCEEDED if script is trains_well else Outcome.FAILED
    assert outcomes == {Outcome.INTERRUPTED, ended}


def _settled(desk: Desk) -> Run:
    """`plan status`, again and again, until the run is done."""
    for _ in range(20):
        with desk.reopened() as journal:
            (run,) = journal.runs()
            run = desk.runner(journal).settle(run)
            if run.phase is Phase.DONE:
                assert journal.run(run.run_id) == packed(run)
                return run
    raise AssertionError(f"never done: {run}")


def test_settling_does_not_wait_for_training(desk: Desk) -> None:
    desk.scripts(stubborn)
    desk.clock.at_sleep[3] = Fuse(1).burn
    with pytest.raises(Crash):
        desk.launch()
    (run,) = desk.journal.live()
    slept = len(desk.clock.sleeps)
    assert desk.runner().settle(run).phase is Phase.RUNNING
    assert desk.journal.receipt(run.run_id) is None
    assert len(desk.clock.sleeps) == slept
    assert desk.leaked == [f"{run.run_id}-1"]


def test_settling_launches_nothing(desk: Desk) -> None:
    run = desk.runner().settle(desk.planned())
    assert (run.phase, run.outcome, run.message) == (
        Phase.DONE,
        Outcome.INTERRUPTED,
        "the launch was cut off before anything was made",
    )
    assert desk.provider.count("launch") == 0


def test_what_was_put_there_ahead_of_a_create_is_no_sign_of_it(desk: Desk) -> None:
    """The process dies on the way to the create, with the machine's part in the run directory already."""
    desk.provider.before = lambda operation: Fuse(1).burn() if operation == "launch" else None
    with pytest.raises(Crash):
        desk.launch()
    (run,) = desk.journal.live()
    assert run.phase is Phase.LAUNCHING
    desk.provider.before = lambda operation: None
    store = desk.provider.store(run.run_id)
    store.put("attempts/1/machine/spec.json", b"{}")
    settled = desk.runner().settle(run)
    assert (settled.outcome, settled.message) == (
        Outcome.INTERRUPTED, "the launch was cut off before anything was made",
    )  # fmt: skip
    assert settled.total_usd(desk.clock.now()) == 0


@dataclass
class WithRecord(FakeProvider):
    """Has a record of what was made."""

    made: bool | None = None

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        return [replace(one, attempt=1) for one in super().list_owned(run_id)]

    def was_made(self, run_id: RunId, attempt: int, region: str, asked_at: datetime) -> bool | None:
        assert (attempt, region) == (1, "here")
        return self.made


@pytest.mark.parametrize(("made", "is_charged"), [(False, False), (True, True), (None, True)])
def test_a_network_that_is_left_of_a_create_is_no_machine_where_a_record_has_none(
    tmp_path: Path, *, made: bool | None, is_charged: bool
) -> None:
    """$16 at most for a machine that never was, since the process died on the way to it."""
    desk = Desk(tmp_path)
    desk.provider = provider = WithRecord(desk.clock, made=made)
    provider.before = lambda operation: Fuse(1).burn() if operation == "launch" else None
    with pytest.raises(Crash):
        desk.launch()
    (run,) = desk.journal.live()
    provider.before = lambda operation: None
    provider.attached["a-network"] = run.run_id
    desk.clock.advance(3600)
    settled = desk.runner().settle(run)
    assert settled.attempts[0].found is is_charged
    provider.made = False
    assert not desk.executor().finisher.asked_again(settled).attempts[0].found, "the record may come later"
    desk.close()


def test_a_machine_that_ended_itself_yesterday_did_not_bill_until_today(desk: Desk) -> None:
    desk.scripts(stubborn)
    desk.clock.at_sleep[3] = Fuse(1).burn
    with pytest.raises(Crash):
        desk.launch()
    (run,) = desk.journal.live()
    del desk.provider.machines[f"{run.run_id}-1"]
    said = {"state": "stopped", "time": desk.clock.now().isoformat()}
    desk.provider.store(run.run_id).put("attempts/1/status.json", json.dumps(said).encode())
    until = desk.clock.now() + LAST_WORDS
    desk.clock.advance(24 * 3600)
    settled = desk.runner().settle(run)
    assert settled.phase is Phase.DONE
    assert settled.attempts[0].ended_at == until


def test_a_run_that_is_only_followed_launches_nothing(desk: Desk) -> None:
    with pytest.raises(BadInputError, match="was never launched"):
        desk.runner().follow(desk.planned(), request_none)
    assert desk.provider.count("launch") == 0


def test_a_finished_run_stays_as_it_is_when_looked_at_again(desk: Desk) -> None:
    run, receipt = desk.launch()
    desk.clock.advance(3600)
    assert desk.runner().settle(run) == packed(run)
    assert desk.journal.receipt(run.run_id) == receipt.to_json()


def test_a_replay_sends_what_was_recorded(desk: Desk) -> None:
    """The second try after a crash, in the same phase: the same request, the same instance."""
    desk.provider.after = Fuse(1).burn
    with pytest.raises(Crash):
        desk.launch()
    (run,) = desk.journal.live()
    assert run.phase is Phase.LAUNCHING
    desk.provider.dialect = "start in another way"
    run, _ = desk.runner().follow(run, desk.request(a_job(seed=7)))
    assert run.outcome is Outcome.SUCCEEDED
    first, second = desk.provider.received
    assert first == second
    assert [call.operation for call in first.calls] == ["start"]
    assert len(run.attempts) == 1
