"""The live page: what bills stands first, news come by themselves, a stop is asked about, and it ends by itself."""

from __future__ import annotations

import json
import re
import sys
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import a_job, a_target
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import stubborn, trains_well
from tests.extensions.serve.visitor import Typed, Visitor, serving
from tests.unit.planner.report.test_html import Reader
from tests.unit.planner.report.test_run_page import a_document
from trainplan.extensions.serve.commands import STOPPING, Answer, execute
from trainplan.extensions.serve.server import UNSEEN
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.run import Phase
from trainplan.pricing.money import format_usd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.doubles.desk import Desk
    from trainplan.planner.runs.run import Run


@pytest.fixture
def typed() -> Typed:
    return Typed()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def visitor(desk: Desk, typed: Typed, clock: FakeClock) -> Iterator[Visitor]:
    """The person, who has opened the address."""
    with serving(desk.settings.home, clock, typed) as made:
        yield made.enter()


def launched(desk: Desk, name: str = "tiny", **changes: Any) -> Run:
    """A run that goes on, at a cloud."""
    desk.provider.name = "aws"
    desk.scripts(stubborn)
    job = a_job(name=name, constraints={"deadline": "2h"})
    run = desk.planned(job, targets=[a_target("3.6", provider="aws", **changes)])
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(job), until_launched=True)
    return desk.journal.run(run.run_id)


def texts(page: str) -> str:
    return " ".join(" ".join(Reader(page.partition("</style>")[2]).texts).split())


def test_what_bills_and_until_when_stands_first(desk: Desk, visitor: Visitor) -> None:
    one, other = launched(desk), launched(desk, "more")
    page = visitor.get("/").body
    until = f"{one.deadline.astimezone():%Y-%m-%d %H:%M}"
    assert re.search(r'<p class="answer">([^<]*)', page)[1] == f"2 runs cost $7.200/h, until {until} at the latest."  # type: ignore[index]
    for run in (one, other):
        assert f'href="/runs/{run.run_id}"' in page
        assert f'href="/runs/{run.run_id}/stop"' in page
    assert "What happened lately" in page


def test_a_home_without_runs_says_that_no_run_bills(visitor: Visitor) -> None:
    page = visitor.get("/").body
    assert '<p class="answer">Nothing is being billed.</p>' in page
    assert "<table" not in page


def test_the_icon_that_browsers_ask_for_is_no_error(visitor: Visitor) -> None:
    reply = visitor.get("/favicon.ico")
    assert (reply.status, reply.body) == (204, "")


def test_runs_that_no_cloud_bills_are_told_beside(desk: Desk, visitor: Visitor) -> None:
    run = launched(desk)
    for provider, words in (("sim", "Free: 1 simulated"), ("local", "Free: 1 on machines of your own")):
        desk.journal._db.execute("UPDATE runs SET run_json = json_set(run_json, '$.provider', ?)", (provider,))
        page = texts(visitor.get("/").body)
        assert f"Nothing is being billed. {words}." in page
        assert ("(simulated time) tiny" in page) == (provider == "sim")
    assert run.run_id in visitor.get("/").body


def test_the_month_stands_beside_its_budget(desk: Desk, clock: FakeClock) -> None:
    desk.scripts(trains_well)
    desk.launch()
    db = desk.journal._db
    db.execute("UPDATE runs SET run_json = json_set(run_json, '$.provider', 'aws')")
    db.execute("UPDATE runs SET receipt_json = json_set(receipt_json, '$.actual_usd', 12.5)")
    (spent,) = desk.journal.spent_usd_since(clock.now().replace(day=1), ["aws"])
    assert spent.usd == Decimal("12.5")
    with serving(desk.settings.home, clock, limit_usd=Decimal(50)) as visitor:
        page = visitor.enter().get("/").body
    month = page.partition("<h2>This month</h2>")[2].partition("<h2>")[0]
    assert f"<strong>{format_usd(spent.usd)}</strong><span>runs that ended in {clock.now():%B %Y}" in month
    assert "<strong>$50.00</strong><span>budget of the month</span>" in month
    assert re.search(r'<meter min="0" max="50" value="[0-9.e-]+" aria-label="this month: [^"]* spent', month)
    assert "What this month has cost" in month
    with serving(desk.settings.home, clock) as visitor:
        assert "No budget is set" in visitor.enter().get("/").body


def test_a_run_that_has_ended_is_listed_with_its_cost(desk: Desk, visitor: Visitor) -> None:
    desk.scripts(trains_well)
    run, receipt = desk.launch()
    page = texts(visitor.get("/").body)
    assert "Nothing is being billed." in page
    assert f"Runs that have ended run job where started outcome cost accuracy {run.run_id} tiny local" in page
    assert receipt.accuracy == 0.975
    assert "97.5%" in page


def test_an_interruption_comes_by_itself(desk: Desk, visitor: Visitor) -> None:
    run = launched(desk)
    with visitor.stream("/events") as news:
        assert "interrupted" not in next(news)["html"]
        desk.journal.save(run.moved(Phase.INTERRUPTED), desk.clock.now(), "attempt 1: spot took it back")
        message = next(one["html"] for one in news if "taken back" in one["html"])
        assert ("td", {"class": "warning"}) in Reader(message).elements
        assert f"tiny {run.run_id}: the machine was taken back (attempt 1: spot took it back)" in message


def test_a_command_that_cannot_be_started_is_told_and_may_be_asked_for_again(
    desk: Desk, visitor: Visitor, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No memory, or the Python of the server was replaced: nothing is being stopped then, and the page says so."""
    run = launched(desk)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    typed.answers["stop"] = execute(["stop", run.run_id, "--json"])
    with visitor.stream(f"/events?run={run.run_id}") as news:
        visitor.server.commands.stop(run.run_id)
        words = "it could not be stopped: plan stop could not be started: No such file or directory"
        assert next(one for one in news if words in one["html"])


def test_a_page_is_told_when_what_stands_below_has_changed(desk: Desk, visitor: Visitor) -> None:
    run = launched(desk)
    with visitor.stream(f"/events?run={run.run_id}") as news:
        first = next(news)
        desk.journal.ask_to_stop(run.run_id, desk.clock.now())
        assert next(one for one in news if one["version"] != first["version"])


def test_the_look_brings_progress_and_cost_and_is_repeated(
    desk: Desk, visitor: Visitor, typed: Typed, clock: FakeClock
) -> None:
    run = launched(desk)
    row = {"run_id": run.run_id, "progress": "step 17 of 780", "usd_so_far": 1.25}
    typed.answers["status"] = Answer(0, json.dumps([row]), "")
    with visitor.stream("/events") as news:
        message = next(one for one in news if "step 17 of 780" in one["html"])
        assert "$1.25" in message["html"]
        assert typed.lines == [("status", "--json")]
        typed.answers["status"] = Answer(9, '{"error": "no"}', "error: the sign-in has expired\nhint: sign in\n")
        clock.advance(11)
        assert next(one for one in news if "The last look failed: the sign-in has expired" in one["html"])
    assert typed.lines == [("status", "--json")] * 2


def test_a_stop_asks_first_and_runs_plan_stop_once(desk: Desk, visitor: Visitor, typed: Typed) -> None:
    run = launched(desk)
    path = f"/runs/{run.run_id}/stop"
    question = texts(visitor.get(path).body)
    assert f"Stop run {run.run_id} of tiny?" in question
    assert "bills $3.600/h until" in question
    typed.holds.clear()
    form = f"form={visitor.form_token(run.run_id)}"
    for _ in range(2):
        reply = visitor.post(path, form)
        assert (reply.status, reply.headers["location"]) == (303, f"/runs/{run.run_id}")
    assert STOPPING in texts(visitor.get("/").body)
    with visitor.stream(f"/events?run={run.run_id}") as news:
        assert STOPPING in next(news)["html"]
        typed.answers["stop"] = Answer(7, "", "error: the bucket does not answer\n")
        typed.holds.set()
        assert next(one for one in news if "it could not be stopped: the bucket does not answer" in one["html"])
    assert [line for line in typed.lines if line[0] == "stop"] == [("stop", run.run_id, "--json")]


def test_a_run_that_has_ended_is_not_stopped(desk: Desk, visitor: Visitor, typed: Typed) -> None:
    desk.scripts(trains_well)
    run, _ = desk.launch()
    assert visitor.post(f"/runs/{run.run_id}/stop", f"form={visitor.form_token(run.run_id)}").status == 303
    assert not [line for line in typed.lines if line[0] == "stop"]
    assert "/stop" not in visitor.get(f"/runs/{run.run_id}").body


def test_a_runs_page_is_its_report(desk: Desk, visitor: Visitor, typed: Typed) -> None:
    run = launched(desk)
    typed.answers["report"] = Answer(0, json.dumps(a_document()), "")
    page = texts(visitor.get(f"/runs/{run.run_id}").body)
    assert "cats taken for dogs: 10" in page
    assert "bills $3.600/h until" in page
    visitor.get(f"/runs/{run.run_id}")
    reports = [line for line in typed.lines if line[0] == "report"]
    assert reports == [("report", run.run_id, "--json")] * 2, "a run that goes on has another one each time"
    typed.answers["report"] = Answer(9, "", "error: the journal is damaged\n")
    assert "there is no report: the journal is damaged" in texts(visitor.get(f"/runs/{run.run_id}").body)
    typed.answers["report"] = Answer(0, "[]", "")
    assert "there is no report: plan report printed nothing" in texts(visitor.get(f"/runs/{run.run_id}").body)


def test_the_report_of_a_run_that_has_ended_is_made_once(desk: Desk, visitor: Visitor, typed: Typed) -> None:
    desk.scripts(trains_well)
    run, _ = desk.launch()
    typed.answers["report"] = Answer(0, json.dumps(a_document()), "")
    for _ in range(2):
        assert visitor.get(f"/runs/{run.run_id}").status == 200
    assert [line for line in typed.lines if line[0] == "report"] == [("report", run.run_id, "--json")]


def test_a_teardown_that_is_not_confirmed_and_a_run_that_cannot_be_read_are_told(desk: Desk, visitor: Visitor) -> None:
    run = launched(desk)
    change = "UPDATE runs SET run_json = json_set(run_json, '$.unverified', 'disk d-1 may still be there')"
    desk.journal._db.execute(change)
    assert "disk d-1 may still be there" in visitor.get("/").body
    desk.journal._db.execute("UPDATE runs SET run_json = '{}'")
    assert f"run {run.run_id} is left out: " in visitor.get("/").body


def test_it_ends_when_nobody_who_may_look_has_looked(desk: Desk, typed: Typed, clock: FakeClock) -> None:
    with serving(desk.settings.home, clock, typed) as visitor:
        visitor.enter()
        clock.advance((UNSEEN - timedelta(seconds=1)).total_seconds())
        assert visitor.get("/").status == 200
        clock.advance((UNSEEN - timedelta(seconds=1)).total_seconds())
        assert visitor.get("/", cookie=None).status == 403, "a stranger keeps nothing alive"
        clock.advance(2)
        with pytest.raises(OSError, match=r"refused|reset|empty"):
            ask_until_it_ends(visitor)


def ask_until_it_ends(visitor: Visitor) -> None:
    """The first connection after the half hour may still be answered. Raises OSError."""
    while True:
        visitor.get("/", cookie=None)


def test_a_page_that_is_open_keeps_it_alive(desk: Desk, visitor: Visitor, clock: FakeClock) -> None:
    run = launched(desk)
    with visitor.stream("/events") as news:
        next(news)
        for minute in range(40):
            clock.advance(180)
            desk.journal.ask_to_stop(run.run_id, desk.clock.now() + timedelta(minutes=minute))
            next(news)
    assert visitor.get("/").status == 200
