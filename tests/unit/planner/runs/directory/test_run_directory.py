"""What an attempt says of itself: how it ended where its instance does not tell, its checkpoints, its pace."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from tests.builders import a_job, a_run, a_target, an_attempt, an_instance
from tests.doubles.clock import NOON, FakeClock
from tests.doubles.fake_machine import FakeMachine, FakeStore, stubborn
from trainplan.planner.runs.directory.run_directory import (
    LAST_WORDS,
    LEAST_HALF_WIDTH,
    STEADY_AFTER,
    Ended,
    Watcher,
    newest_checkpoint,
    recorded_end,
    when_ended,
)
from trainplan.planner.runs.events import Event, Message, Progressed, TrainerStarted
from trainplan.planner.runs.run import Phase, Run
from trainplan.planner.runs.runner import request_for
from trainplan.providers.base import EndKind, Instance, InstanceState
from trainplan.providers.errors import TransientError


def a_store(state: str | None = None, *, manifest: bool = False) -> FakeStore:
    store = FakeStore()
    if state is not None:
        store.put("attempts/1/status.json", f'{{"state": "{state}"}}'.encode())
    if manifest:
        store.put("output/manifest.json", b"[]")
    return store


def ended_instance(kind: EndKind | None) -> Instance:
    return an_instance(InstanceState.ENDED, end=kind)


# --- how it ended ------------------------------------------------------------------------------------------------

NO_INSTANCE = None
SILENT = [NO_INSTANCE, ended_instance(None), ended_instance(EndKind.LOST)]
INTERRUPTED = [ended_instance(EndKind.RECLAIMED), ended_instance(EndKind.KILLED)]
ALIVE = [an_instance(state) for state in InstanceState if state is not InstanceState.ENDED]
OTHER_ENDS = [ended_instance(kind) for kind in EndKind if kind not in (EndKind.LOST, EndKind.RECLAIMED, EndKind.KILLED)]


@pytest.mark.parametrize("instance", [*SILENT, *INTERRUPTED])
def test_done_is_done_where_the_results_are_complete(instance: Instance | None) -> None:
    assert recorded_end(a_store("done", manifest=True), 1, instance) is EndKind.DONE
    assert recorded_end(a_store("done"), 1, instance) is None
    assert recorded_end(a_store("running", manifest=True), 1, instance) is None, "of an earlier attempt, perhaps"
    assert recorded_end(a_store("done", manifest=True), 2, instance) is None, "another attempt said so"


@pytest.mark.parametrize(("state", "end"), [("failed", EndKind.FAILED), ("deadline", EndKind.DEADLINE)])
def test_other_ends_count_where_nothing_else_is_known(state: str, end: EndKind) -> None:
    assert [recorded_end(a_store(state), 1, seen) for seen in SILENT] == [end] * len(SILENT)
    assert [recorded_end(a_store(state), 1, seen) for seen in INTERRUPTED] == [None] * len(INTERRUPTED)


@pytest.mark.parametrize("instance", [*ALIVE, *OTHER_ENDS])
def test_an_instance_that_lives_or_tells_is_believed(instance: Instance) -> None:
    assert recorded_end(a_store("done", manifest=True), 1, instance) is None


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff", b'{"state": 3}', b'{"state": "of the future"}'])
def test_a_status_that_says_nothing_is_none(text: bytes) -> None:
    store = a_store(manifest=True)
    store.put("attempts/1/status.json", text)
    assert recorded_end(store, 1, None) is None


def test_a_store_that_does_not_answer_is_no_answer() -> None:
    store = a_store("done", manifest=True)
    store.down = TransientError("connection lost")
    with pytest.raises(TransientError):
        recorded_end(store, 1, None)
    with pytest.raises(TransientError):
        newest_checkpoint(store)


# --- checkpoints -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "step"),
    [
        ([], None),
        (["step-00000010/complete.json"], 10),
        (["step-00000010/complete.json", "step-00000009/complete.json"], 10),
        (["step-00000010/complete.json", "step-00000011/weights"], 10),
        (["step-00000011/weights"], None),
        (["step-later/complete.json", "step-00000002/complete.json"], 2),
        (["complete.json"], None),
    ],
)
def test_the_newest_complete_checkpoint_counts(paths: list[str], step: int | None) -> None:
    store = FakeStore()
    for path in paths:
        store.put(f"checkpoints/{path}", b"")
    assert newest_checkpoint(store) == step


# --- what it says ------------------------------------------------------------------------------------------------


class Watched:
    """A trainer that a test makes speak, and who listens."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.clock = FakeClock()
        self.store = FakeStore()
        request = request_for(a_job(), self.clock)(a_run(), 1, a_target())
        self.machine = FakeMachine(request, self.store, self.clock, stubborn)
        self.watcher = Watcher(self.store, 1, self.events.append)

    def look(self) -> bool:
        return self.watcher.look(lambda: Decimal("0.5"))


def test_each_word_is_told_once() -> None:
    watched = Watched()
    assert not watched.look()
    watched.machine.start()
    assert watched.look()
    assert not watched.look()
    watched.machine.train(3, 100.0)
    watched.machine.say("warning", message="loss is not a number")
    assert watched.look()
    assert [type(event) for event in watched.events] == [TrainerStarted, Progressed, Message]
    assert watched.events[-1] == Message("loss is not a number")


@pytest.mark.parametrize(("version", "warnings"), [(1, 0), (2, 1)])
def test_a_trainer_of_a_later_protocol_is_told(version: int, warnings: int) -> None:
    watched = Watched()
    watched.machine.say("start", protocol=version, a_later_field=3)
    watched.look()
    texts = [event.text for event in watched.events if isinstance(event, Message)]
    assert len(texts) == warnings
    assert all(f"writes version {version} of the run-directory protocol" in text for text in texts)


def test_what_is_kept_is_told_from_what_is_only_trained() -> None:
    watched = Watched()
    run = a_run(Phase.RUNNING, attempts=1)
    watched.machine.start()
    watched.machine.train(30, 100.0)
    watched.look()
    trained = watched.watcher.trained(run)
    assert (trained.step, trained.checkpoint_step) == (30, 0)
    watched.machine.say("checkpoint", step=30)
    watched.machine.train(10, 100.0)
    watched.look()
    trained = watched.watcher.trained(run)
    assert (trained.step, trained.checkpoint_step) == (40, 30)


# --- how fast it is ----------------------------------------------------------------------------------------------


def at_rate(rate: float, seconds: float) -> Watched:
    """A trainer that has been training for so long, at so many images a second."""
    watched = Watched()
    watched.machine.start()
    watched.machine.train(max(1, round(seconds * rate / 128)), rate)
    watched.look()
    return watched


def promised(expected: float | None, low: float | None, usd_per_hour: str = "1") -> Run:
    target = replace(a_target(usd_per_hour), images_per_second=expected, images_per_second_low=low)
    return a_run(Phase.RUNNING, target=target, attempts=1)


@pytest.mark.parametrize(
    ("rate", "seconds", "run", "slow"),
    [
        (100.0, 300, promised(1000.0, 500.0), True),
        (499.0, 300, promised(1000.0, 500.0), True),
        (500.0, 300, promised(1000.0, 500.0), False),
        (2000.0, 300, promised(1000.0, 500.0), False),
        (100.0, 60, promised(1000.0, 500.0), False),  # caches are still filling
        (100.0, 300, promised(None, None), False),
        (100.0, 300, promised(1000.0, 500.0, "0"), False),
        (100.0, 300, a_run(), False),
    ],
)
def test_slow_is_below_the_low_end_after_two_minutes_where_it_costs(
    rate: float, seconds: float, run: Run, slow: bool
) -> None:
    watched = at_rate(rate, seconds)
    text = watched.watcher.slowness(run, watched.clock.now())
    assert bool(text) is slow
    if slow:
        assert f"training at {rate:,.0f} images/s; the estimate was 1,000, at least 500" in text


@pytest.mark.parametrize(
    ("hours", "width", "late"),
    [(2.0, 0.05, True), (1.02, 0.05, False), (0.5, 0.05, False), (2.0, None, False), (2.0, 0.6, False)],
)
def test_a_script_that_cannot_end_before_its_deadline_is_told_once_its_rate_has_an_interval(
    hours: float, width: float | None, late: bool
) -> None:
    watched = Watched()
    now = watched.clock.now()
    # 128 images a second and a step: so many steps are left as it has seconds.
    steps = round(hours * 3600)
    watched.machine.say("start", total_steps=steps + 50, steps_per_epoch=steps + 50, images=128 * (steps + 50))
    watched.machine.say("step", step=50, images_per_second=128.0, half_width=width)
    watched.look()
    run = replace(promised(None, None), deadline=now + timedelta(hours=1))
    text = watched.watcher.slowness(run, now)
    assert bool(text) is late
    if late:
        assert "at the soonest" in text
    told = None if width is None else max(width, LEAST_HALF_WIDTH)
    assert [event.half_width for event in watched.events if isinstance(event, Progressed)] == [told]


def test_a_trainer_that_has_said_nothing_is_not_called_slow() -> None:
    watched = Watched()
    assert watched.watcher.slowness(promised(1000.0, 500.0), NOON + timedelta(hours=1)) == ""
    assert timedelta(minutes=1) <= STEADY_AFTER


@pytest.mark.parametrize(
    ("status", "end"),
    [
        ({"state": "interrupted", "reason": "INTERRUPTED"}, EndKind.RECLAIMED),
        ({"state": "interrupted", "reason": "ACCELERATOR_LOST"}, EndKind.DEVICE_LOST),
        ({"state": "failed", "reason": "ACCELERATOR_NOT_VISIBLE"}, EndKind.FAILED),
        ({"state": "failed", "reason": "OUT_OF_MEMORY"}, EndKind.OUT_OF_MEMORY),
        ({"state": "failed", "reason": "BAD_JOB"}, EndKind.BAD_JOB),
        ({"state": "stopped"}, None),
        ({"state": "running"}, None),
        ([], None),
    ],
)
def test_a_machine_that_is_gone_has_left_word_of_its_end(status: object, end: EndKind | None) -> None:
    store = FakeStore()
    store.put("attempts/1/status.json", json.dumps(status).encode())
    assert recorded_end(store, 1, None) is end


# --- until when it billed ----------------------------------------------------------------------------------------

HOUR = timedelta(hours=1)
NEXT_DAY = NOON + 24 * HOUR


@pytest.mark.parametrize(
    ("vendor", "status", "deadline", "ended_at"),
    [
        (NOON + HOUR, {"state": "done", "time": (NOON + 2 * HOUR).isoformat()}, NOON + 3 * HOUR, NOON + HOUR),
        (NOON - HOUR, {}, None, NOON),
        (NEXT_DAY + HOUR, {}, None, NEXT_DAY),
        (None, {"state": "done", "time": (NOON + 2 * HOUR).isoformat()}, NOON + 3 * HOUR, NOON + 2 * HOUR + LAST_WORDS),
        (None, {"state": "stopped", "time": (NOON + HOUR).isoformat()}, None, NOON + HOUR + LAST_WORDS),
        (None, {"state": "done", "time": NEXT_DAY.isoformat()}, None, NEXT_DAY),
        # It is gone without a last word: it billed no longer than it gave signs of life.
        (None, {"state": "running", "time": (NOON + HOUR).isoformat()}, NOON + 3 * HOUR, NOON + HOUR + LAST_WORDS),
        (None, {"state": "done", "time": "2026-11-21T13:00:00"}, NOON + 3 * HOUR, NOON + 3 * HOUR + LAST_WORDS),
        (None, {"state": "done", "time": "soon"}, None, NEXT_DAY),
        (None, {}, NEXT_DAY + HOUR, NEXT_DAY),
        (None, {}, None, NEXT_DAY),
    ],
)
def test_a_machine_that_ended_itself_bills_until_then_whenever_somebody_looks(
    vendor: datetime | None, status: dict[str, str], deadline: datetime | None, ended_at: datetime
) -> None:
    store = FakeStore()
    store.put("attempts/1/status.json", json.dumps(status).encode())
    ended = when_ended(store, an_attempt(deadline=deadline), vendor, NEXT_DAY)
    assert ended.at == ended_at
    is_told = vendor is not None
    assert (ended.after is None) is is_told, "else it may have ended earlier"
    assert is_told or NOON <= (ended.after or NOON) <= ended.at


def test_a_machine_that_is_gone_billed_until_the_newer_of_heartbeat_and_progress() -> None:
    store = FakeStore()
    store.put("attempts/1/status.json", json.dumps({"state": "running", "time": NOON.isoformat()}).encode())
    line = {"event": "warning", "message": "slow", "time": (NOON + HOUR).isoformat()}
    store.put("attempts/1/progress.jsonl", json.dumps(line).encode() + b"\n")
    ended = when_ended(store, an_attempt(deadline=NEXT_DAY), None, NEXT_DAY)
    # It was most likely taken away, and at the latest its own timer has ended it.
    assert ended == (NOON + HOUR + LAST_WORDS, NOON + HOUR, NEXT_DAY)


def test_a_machine_whose_provider_switches_it_off_soon_billed_no_longer() -> None:
    store = FakeStore()
    store.put("attempts/1/status.json", json.dumps({"state": "done", "time": (NOON + HOUR).isoformat()}).encode())
    soon = timedelta(minutes=1)
    assert when_ended(store, an_attempt(), None, NEXT_DAY, soon) == (NOON + HOUR + soon, NOON + HOUR, None)
    store.put("attempts/1/status.json", json.dumps({"state": "running", "time": (NOON + HOUR).isoformat()}).encode())
    assert when_ended(store, an_attempt(), None, NEXT_DAY, soon).at == NOON + HOUR + LAST_WORDS, "it may hang"


def test_a_deletion_is_the_end_of_a_machine_that_said_so_and_the_latest_of_any_other() -> None:
    def told(state: str, at: datetime) -> Ended:
        store.put("attempts/1/status.json", json.dumps({"state": state, "time": at.isoformat()}).encode())
        return when_ended(store, attempt, None, NEXT_DAY, deleted_at=deleted_at)

    store, attempt, deleted_at = FakeStore(), an_attempt(deadline=NOON + 3 * HOUR), NOON + HOUR
    ended = when_ended(store, attempt, None, NEXT_DAY, deleted_at=deleted_at)
    assert (ended.at, ended.after) == (deleted_at, NOON), "nothing was ever heard of it"
    sign = NOON + HOUR / 2
    assert told("running", sign) == (sign + LAST_WORDS, sign, deleted_at)
    assert told("done", deleted_at - timedelta(minutes=1)) == (deleted_at, None, None)
    # Our own deletion, long after the vendor has taken it away.
    assert told("done", sign) == (sign + LAST_WORDS, sign, deleted_at)
