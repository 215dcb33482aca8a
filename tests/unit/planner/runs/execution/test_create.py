"""Getting an instance: what is on disk before each send, what is sent again, and what each refusal leads to."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from tests.builders import a_job, a_target
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import done_at_once, ended_at_once, ends_after, trains_well
from tests.doubles.fake_provider import FakeProvider
from tests.unit.planner.runs.execution.followed import placements
from trainplan.planner.errors import BadInputError
from trainplan.planner.runs.events import Message, PhaseReached
from trainplan.planner.runs.execution.create import MOST_THROTTLED, MOST_TRIES
from trainplan.planner.runs.journal.records import request_from_record
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.runs.targets import Target
from trainplan.pricing.offers import Offer
from trainplan.providers.base import EndKind, LaunchRequest
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
)
from trainplan.providers.values import Resolution

A, B, C = (a_target(zone=zone, family="g4") for zone in "abc")
BUSY, UNCLEAR, FULL = ThrottledError("slow down"), TransientError("connection lost"), CapacityError("no room")


class Crash(BaseException):
    """The process is gone."""


def crash() -> None:
    raise Crash


def wire(request: LaunchRequest) -> list[str]:
    """The calls as bytes would go out."""
    return [json.dumps(dict(call.parameters), sort_keys=True, separators=(",", ":")) for call in request.calls]


# --- recorded before it is sent ----------------------------------------------------------------------------------


def test_each_request_is_on_disk_as_it_will_be_sent_before_it_is_sent(desk: Desk) -> None:
    on_disk: list[LaunchRequest] = []

    def look(operation: str) -> None:
        if operation == "launch":
            with desk.reopened() as journal:
                (run,) = journal.live()
                assert run.phase is Phase.LAUNCHING
                on_disk.append(request_from_record(journal.request(run.run_id, run.attempts[-1].number), desk.provider))

    desk.provider.before = look
    desk.provider.refuse |= {("launch", 1): FULL, ("launch", 2): BUSY}
    run, _ = desk.launch(targets=[A, B])
    assert run.outcome is Outcome.SUCCEEDED
    assert on_disk == desk.provider.received
    assert [request.attempt for request in on_disk] == [1, 2, 2]
    assert all(wire(request) for request in on_disk)


@pytest.mark.parametrize("error", [BUSY, UNCLEAR], ids=["throttled", "transient"])
@pytest.mark.parametrize("times", [1, 3])
def test_what_may_have_arrived_is_sent_again_byte_for_byte(desk: Desk, error: ProviderError, times: int) -> None:
    """Even by a program that would say it in other words by now."""
    for number in range(1, times + 1):
        desk.provider.refuse["launch", number] = error
    desk.clock.at_sleep[1] = lambda: setattr(desk.provider, "dialect", "start in another way")
    run, _ = desk.launch(targets=[A, B])
    first, *others = desk.provider.received
    assert others == [first] * times
    assert {tuple(wire(request)) for request in others} == {tuple(wire(first))}
    assert (placements(run), run.attempts[0].tries) == (["a"], times)


def test_between_two_tries_it_waits_longer_each_time_and_at_most_a_minute(desk: Desk) -> None:
    for number in range(1, MOST_THROTTLED):
        desk.provider.refuse["launch", number] = BUSY
    desk.scripts(done_at_once)
    run, _ = desk.launch()
    pauses = desk.clock.sleeps[: MOST_THROTTLED - 1]
    assert all(0.5 * 2**number <= pause <= 2**number for number, pause in enumerate(pauses[:5], 1))
    assert all(30 <= pause <= 60 for pause in pauses[5:])
    assert run.outcome is Outcome.SUCCEEDED
    assert f"slow down; the same request again in {pauses[0]:.0f} s" in [
        event.text for event in desk.events_of(Message)
    ]


def test_runs_that_are_throttled_together_do_not_come_back_together(desk: Desk) -> None:
    pauses = []
    for number in range(4):
        desk.provider.refuse["launch", desk.provider.count("launch") + 1] = BUSY
        slept = len(desk.clock.sleeps)
        desk.scripts(done_at_once)
        desk.launch()
        pauses.append(desk.clock.sleeps[slept])
        assert number + 1 == len(set(pauses))


def test_each_try_is_on_disk_before_it_leaves(desk: Desk) -> None:
    seen: list[tuple[int, bool]] = []

    def look(operation: str) -> None:
        if operation == "launch":
            with desk.reopened() as journal:
                attempt = journal.live()[0].attempts[-1]
                seen.append((attempt.tries, attempt.sent_at == desk.clock.now()))

    desk.provider.before = look
    desk.provider.refuse |= {("launch", 1): BUSY, ("launch", 2): UNCLEAR}
    desk.launch()
    assert seen == [(0, True), (1, True), (2, True)]


# --- what is looked up -------------------------------------------------------------------------------------------


GONE = BadRequestError("its data disk was not found")


def test_a_request_refused_as_wrong_only_when_it_is_sent_again_gives_up_its_placement_and_not_its_run(
    desk: Desk,
) -> None:
    """An earlier try may have made what the request names, and taken it back when the placement refused."""
    desk.provider.refuse |= {("launch", 1): UNCLEAR, ("launch", 2): GONE}
    run, _ = desk.launch(targets=[A, B])
    assert (run.outcome, placements(run)) == (Outcome.SUCCEEDED, ["a", "b"])
    assert (run.attempts[0].cleared, run.attempts[0].reason) == (True, "its data disk was not found")


def test_a_wrong_request_ends_its_run_however_often_the_first_try_is_unclear(desk: Desk) -> None:
    for number in range(1, 20):
        desk.provider.refuse["launch", number] = UNCLEAR if number % 2 else GONE
    run, _ = desk.launch(targets=[A, B])
    assert run.outcome is not Outcome.SUCCEEDED
    assert desk.leaked == []


@pytest.mark.parametrize(("error", "most"), [(BUSY, MOST_THROTTLED), (UNCLEAR, MOST_TRIES)])
def test_after_too_many_tries_the_placement_is_given_up_and_remembered(
    desk: Desk, error: ProviderError, most: int
) -> None:
    for number in range(1, most + 1):
        desk.provider.refuse["launch", number] = error
    run, receipt = desk.launch(targets=[A, B])
    assert (placements(run), run.outcome) == (["a", "b"], Outcome.SUCCEEDED)
    assert [request.attempt for request in desk.provider.received] == [1] * most + [2]
    assert [refusal.zone for refusal in desk.journal.refusals(desk.clock.now())] == ["a"]
    assert (receipt.attempts, receipt.interruptions) == (2, 0)
    assert desk.leaked == []


def test_what_exists_after_too_many_tries_is_adopted(desk: Desk) -> None:
    """Each reply was lost, and the first create took effect."""
    for number in range(1, MOST_TRIES + 1):
        desk.provider.lose["launch", number] = UNCLEAR
    run, _ = desk.launch(targets=[A, B])
    assert (placements(run), run.outcome) == (["a"], Outcome.SUCCEEDED)
    assert desk.provider.count("launch") == MOST_TRIES
    assert desk.leaked == []


def test_what_cannot_be_looked_up_is_ended_before_the_run_goes_elsewhere(desk: Desk) -> None:
    """The create took effect, no reply came, and the list does not answer either for a while."""
    for number in range(1, MOST_TRIES + 1):
        desk.provider.lose["launch", number] = UNCLEAR
    desk.provider.refuse["list_owned", 1] = UNCLEAR
    never_two(desk)
    run, _ = desk.launch(targets=[A, B])
    assert (placements(run), run.outcome) == (["a", "b"], Outcome.SUCCEEDED)
    assert desk.leaked == []


@pytest.mark.parametrize("error", [FULL, QuotaError("too many", quota="vCPUs")], ids=["capacity", "quota"])
@pytest.mark.parametrize("lag", [timedelta(0), timedelta(seconds=40)])
def test_a_refusal_after_a_lost_reply_does_not_hide_what_the_lost_one_made(
    desk: Desk, error: ProviderError, lag: timedelta
) -> None:
    desk.provider.lag = lag
    desk.provider.lose["launch", 1] = UNCLEAR
    desk.provider.refuse["launch", 2] = error
    never_two(desk)
    run, _ = desk.launch(targets=[A, a_target(zone="b", region="there", family="g4")])
    assert (placements(run), run.outcome) == (["a", "b"], Outcome.SUCCEEDED)
    assert desk.leaked == []


def never_two(desk: Desk) -> None:
    """From now on no machine is made while another one of the run is there."""

    def look(operation: str) -> None:
        assert operation != "launch" or len(desk.provider.machines) <= 1, desk.leaked

    desk.provider.after = look


# --- a second process after a crash ------------------------------------------------------------------------------


def crashed(desk: Desk, *, after: bool, targets: list[Target]) -> Run:
    """A launch whose process died just before, or just after, its first create."""
    hook = "after" if after else "before"
    setattr(desk.provider, hook, lambda operation: crash() if operation == "launch" else None)
    with pytest.raises(Crash):
        desk.launch(targets=targets)
    setattr(desk.provider, hook, lambda _: None)
    (run,) = desk.journal.live()
    assert run.phase is Phase.LAUNCHING
    return run


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("minutes", [0, 20])
def test_who_comes_next_sends_what_was_recorded_and_gets_the_one_machine(desk: Desk, after: bool, minutes: int) -> None:
    run = crashed(desk, after=after, targets=[A, B])
    desk.clock.advance(60 * minutes)
    desk.provider.dialect = "start in another way"
    run, _ = desk.runner().follow(run, desk.request())
    assert (run.outcome, len(run.attempts), run.attempts[0].tries) == (Outcome.SUCCEEDED, 1, 1)
    first, second = desk.provider.received
    assert first == second
    assert wire(first) == wire(second)
    assert desk.leaked == []


def test_a_machine_that_a_late_replay_makes_is_as_young_as_it_is(desk: Desk) -> None:
    """The first create never left; the second one did, an hour later, and no list shows what it made yet."""
    run = crashed(desk, after=False, targets=[A])
    desk.clock.advance(20 * 60)
    desk.provider.lag = timedelta(seconds=30)
    run, receipt = desk.runner().follow(run, desk.request())
    assert (run.outcome, receipt.attempts, receipt.interruptions) == (Outcome.SUCCEEDED, 1, 0)
    assert desk.leaked == []


@pytest.mark.parametrize(
    ("kind", "outcome", "attempts"),
    [
        (EndKind.RECLAIMED, Outcome.SUCCEEDED, 2),
        (EndKind.KILLED, Outcome.SUCCEEDED, 2),
        (EndKind.FAILED, Outcome.FAILED, 1),
        (EndKind.DONE, Outcome.SUCCEEDED, 1),
        (EndKind.DEADLINE, Outcome.DEADLINE, 1),
    ],
)
def test_a_replay_that_finds_its_machine_dead_goes_by_how_it_died(
    desk: Desk, kind: EndKind, outcome: Outcome, attempts: int
) -> None:
    desk.scripts(done_at_once if kind is EndKind.DONE else ended_at_once(kind), trains_well)
    run = crashed(desk, after=True, targets=[A, B])
    run, _ = desk.runner().follow(run, desk.request())
    assert (run.outcome, len(run.attempts)) == (outcome, attempts)
    assert desk.provider.received[0] == desk.provider.received[1]
    assert desk.leaked == []


def test_a_replay_refused_as_wrong_gives_up_its_placement_and_not_its_run(desk: Desk) -> None:
    run = crashed(desk, after=False, targets=[A, B])
    desk.provider.refuse["launch", desk.provider.count("launch") + 1] = GONE
    run, _ = desk.runner().follow(run, desk.request())
    assert (run.outcome, placements(run)) == (Outcome.SUCCEEDED, ["a", "b"])
    assert desk.leaked == []


def test_nobody_sends_the_create_of_a_run_that_was_stopped_meanwhile(desk: Desk) -> None:
    run = crashed(desk, after=True, targets=[A, B])
    desk.journal.ask_to_stop(run.run_id, desk.clock.now())
    run, _ = desk.runner().follow(desk.journal.run(run.run_id), desk.request())
    assert (run.outcome, desk.provider.count("launch")) == (Outcome.STOPPED, 1)
    assert desk.leaked == []


def test_nobody_sends_the_create_of_a_run_whose_deadline_has_passed(desk: Desk) -> None:
    run = crashed(desk, after=False, targets=[A])
    desk.clock.advance(40 * 86_400)
    run, _ = desk.runner().follow(run, desk.request())
    assert (run.outcome, desk.provider.count("launch")) == (Outcome.DEADLINE, 1)


# --- failover ----------------------------------------------------------------------------------------------------


def test_capacity_goes_to_the_next_placement_in_the_plans_order(desk: Desk) -> None:
    desk.provider.refuse |= {("launch", 1): FULL, ("launch", 2): FULL}
    run, receipt = desk.launch(targets=[A, B, C])
    assert (placements(run), run.outcome) == (["a", "b", "c"], Outcome.SUCCEEDED)
    assert [attempt.reason for attempt in run.attempts[:2]] == ["no room", "no room"]
    assert (receipt.attempts, receipt.interruptions) == (3, 0)
    assert f"{A.where}: no room" in [event.detail for event in desk.events_of(PhaseReached)]
    assert sum(desk.clock.sleeps) < 60, "nobody waits for a placement that says at once that it is full"


def test_a_quota_skips_the_family_in_the_region_and_names_it(desk: Desk) -> None:
    """No second zone of the region is asked, and no other size of the family."""
    desk.provider.refuse["launch", 1] = QuotaError("too many", quota="G vCPUs")
    bigger = a_target(zone="a", instance_type="bigger", family="g4")
    other = a_target(zone="a", instance_type="other", family="p3")
    run, _ = desk.launch(targets=[A, B, bigger, other])
    assert [attempt.target for attempt in run.attempts] == [A, other]
    (refusal,) = desk.journal.refusals(desk.clock.now())
    assert (refusal.quota, refusal.family, refusal.zone) == ("G vCPUs", "g4", None)


def test_the_zone_that_the_provider_recommends_is_asked_next(desk: Desk) -> None:
    desk.provider.refuse["launch", 1] = CapacityError("no room", elsewhere=("c",))
    run, _ = desk.launch(targets=[A, B, C])
    assert placements(run) == ["a", "c"]


def test_what_one_run_was_refused_the_next_one_does_not_ask(desk: Desk) -> None:
    desk.provider.refuse["launch", 1] = FULL
    desk.launch(targets=[A, B])
    second, _ = desk.launch(targets=[A, B])
    assert placements(second) == ["b"]
    desk.clock.advance(15 * 60)
    third, _ = desk.launch(targets=[A, B])
    assert placements(third) == ["a"]


def test_a_fresh_run_asks_anyway_when_all_its_placements_were_refused_to_others(desk: Desk) -> None:
    desk.provider.down["launch"] = FULL
    short = a_job(constraints={"deadline": "10m"})  # no second pass begins before it
    first, _ = desk.launch(short, targets=[A, B])
    assert (placements(first), first.outcome) == (["a", "b"], Outcome.NO_CAPACITY)
    desk.clock.advance(60)
    second, _ = desk.launch(short, targets=[A, B])
    assert (placements(second), second.outcome) == (["a", "b"], Outcome.NO_CAPACITY)
    desk.provider.down.clear()
    desk.clock.advance(60)
    third, _ = desk.launch(targets=[A, B])
    assert (placements(third), third.outcome) == (["a"], Outcome.SUCCEEDED)


def test_refused_placements_cost_nothing(desk: Desk) -> None:
    desk.provider.refuse |= {("launch", 1): FULL, ("launch", 2): FULL}
    desk.scripts(done_at_once)
    dear = [a_target("36000", zone="a"), a_target("36000", zone="b"), a_target("0", zone="c")]
    _, receipt = desk.launch(targets=dear)
    assert receipt.actual_usd == 0


def test_credentials_that_end_in_the_middle_of_a_search_end_it(desk: Desk) -> None:
    desk.provider.refuse |= {("launch", 1): FULL, ("launch", 2): CredentialsError("expired", hint="sign in")}
    with pytest.raises(Exception, match="expired"):
        desk.launch(targets=[A, B, C])
    (run,) = desk.journal.runs()
    assert (run.phase, run.outcome, placements(run)) == (Phase.DONE, Outcome.REFUSED, ["a", "b"])
    assert desk.leaked == []


# --- what a request leaves open ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(Resolution):
    image: str


@dataclass
class LooksUp(FakeProvider):
    """Finds an image; `images` are what it finds, one after the other."""

    images: tuple[str | Exception, ...] = ("image-1",)
    lookups: int = 0

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        found = self.images[min(self.lookups, len(self.images) - 1)]
        self.lookups += 1
        if isinstance(found, Exception):
            raise found
        return replace(request, resolution=Image(image=found))

    def resolution_type(self, offer: Offer) -> type[Image]:
        return Image


def looking_up(desk: Desk, *images: str | Exception) -> LooksUp:
    desk.provider = LooksUp(desk.clock, images=images)
    return desk.provider


def test_what_was_looked_up_is_recorded_and_sent_again_as_it_was(desk: Desk) -> None:
    provider = looking_up(desk, "image-1", "image-2")
    provider.refuse["launch", 1] = UNCLEAR
    desk.launch()
    assert [request.resolution for request in provider.received] == [Image(image="image-1")] * 2
    assert provider.lookups == 1


@pytest.mark.parametrize("error", [BUSY, UNCLEAR], ids=["throttled", "transient"])
def test_a_look_up_that_does_not_answer_is_made_again(desk: Desk, error: Exception) -> None:
    provider = looking_up(desk, error, error, "image-1")
    run, _ = desk.launch()
    assert (run.outcome, provider.lookups, len(provider.received)) == (Outcome.SUCCEEDED, 3, 1)


@pytest.mark.parametrize("error", [CredentialsError("who?"), UNCLEAR])
def test_a_look_up_that_fails_ends_the_run_and_asks_for_nothing(desk: Desk, error: Exception) -> None:
    provider = looking_up(desk, error)
    with pytest.raises(Exception, match=str(error).replace("?", ".")):
        desk.launch()
    (run,) = desk.journal.runs()
    assert (run.phase, run.attempts, provider.received) == (Phase.DONE, (), [])


def test_after_a_crash_nothing_is_looked_up_again(desk: Desk) -> None:
    provider = looking_up(desk, "image-1", "image-2")
    run = crashed(desk, after=True, targets=[A])
    desk.runner().follow(run, desk.request())
    assert [request.resolution for request in provider.received] == [Image(image="image-1")] * 2


@pytest.mark.parametrize("spoilt", [{"job_json": "{"}, {"job_json": None}, {"deadline": "soon"}, None])
def test_a_recorded_request_that_cannot_be_read_ends_the_run_and_its_machine(
    desk: Desk, spoilt: dict[str, object] | None
) -> None:
    run = crashed(desk, after=True, targets=[A])
    with closing(sqlite3.connect(desk.settings.journal)) as db, db:
        record = json.loads(db.execute("SELECT request_json FROM attempts").fetchone()[0])
        text = json.dumps([] if spoilt is None else record | spoilt)
        db.execute("UPDATE attempts SET request_json = ?", (text,))
    with pytest.raises(
        BadInputError, match=f"the request of attempt 1 of run {run.run_id} in the journal cannot be"
    ) as said:
        desk.runner().follow(run, desk.request())
    assert said.value.hint
    assert desk.journal.run(run.run_id).phase is Phase.DONE
    assert (desk.leaked, len(desk.provider.received)) == ([], 1)


def test_a_placement_that_was_just_taken_away_is_passed_over_for_a_while(desk: Desk) -> None:
    desk.scripts(ends_after(EndKind.RECLAIMED, 10), trains_well)
    run, _ = desk.launch(targets=[A, B])
    assert (placements(run), run.outcome) == (["a", "b"], Outcome.SUCCEEDED)
    assert [refusal.zone for refusal in desk.journal.refusals(desk.clock.now())] == ["a"]
