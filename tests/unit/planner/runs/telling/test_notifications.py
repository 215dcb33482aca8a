"""What a person's own command or web address is told of a run: each event once, and nothing ever waits or breaks."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.desk import Desk
from tests.doubles.fake_machine import done_at_once, ended_at_once, trains_well
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.planner.runs.runner import Runner
from trainplan.planner.runs.telling.delivery import Delivery
from trainplan.planner.runs.telling.notifications import Notifications
from trainplan.providers.base import EndKind

RECORD = {"event": "ended", "run_id": "261124-1"}
NEVER_ENDS = "import time\nwhile True: time.sleep(60)"


@dataclass
class Posts:
    """What an address on loopback got; it answers with `code`, or never where `hangs` is set until the end."""

    address: str = ""
    code: int = 204
    location: str = ""
    hangs: bool = False
    bodies: list[dict[str, Any]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def posts() -> Iterator[Posts]:
    posts = Posts()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"]))
            posts.bodies.append(json.loads(text) | {"path": self.path, "type": self.headers["Content-Type"]})
            if posts.hangs:
                posts.released.wait(30)
            self.send_response(posts.code)
            if posts.location:
                self.send_header("Location", posts.location)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    posts.address = f"http://127.0.0.1:{server.server_address[1]}"
    yield posts
    posts.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


def failures(target: tuple[str, ...], patience_seconds: float = 20.0) -> list[str]:
    delivery = Delivery(target, patience_seconds)
    delivery.send(RECORD)
    return delivery.failures(is_last=True)


# --- delivery ----------------------------------------------------------------------------------------------------


def test_an_address_gets_the_record(posts: Posts) -> None:
    assert failures((f"{posts.address}/a?b=c",)) == []
    assert posts.bodies == [RECORD | {"path": "/a?b=c", "type": "application/json"}]


def test_a_redirection_is_not_followed(posts: Posts) -> None:
    posts.code, posts.location = 302, f"{posts.address}/elsewhere"
    assert failures((f"{posts.address}/secret",)) == [
        "notify: ended of run 261124-1 was not delivered: 127.0.0.1 answered 302"
    ]
    assert [body["path"] for body in posts.bodies] == ["/secret"]


def test_an_address_that_refuses_fails_or_hangs_is_a_line_without_the_address(posts: Posts) -> None:
    posts.code = 500
    assert failures((f"{posts.address}/secret",))[0].endswith("127.0.0.1 answered 500")
    posts.hangs = True
    (line,) = failures((f"{posts.address}/secret",), 0.2)
    assert "was not delivered: timed out" in line
    (line,) = failures(("http://127.0.0.1:9/secret",))
    assert "was not delivered" in line
    assert "secret" not in line


def test_a_command_gets_the_record_and_the_event(tmp_path: Path) -> None:
    program = "import json,os,sys; json.dump([json.load(sys.stdin), os.environ['TRAINPLAN_EVENT']], open('out', 'w'))"
    program = program.replace("'out'", repr(str(tmp_path / "out")))
    assert failures((sys.executable, "-c", program)) == []
    assert json.loads((tmp_path / "out").read_text()) == [RECORD, "ended"]


def test_a_command_that_fails_is_missing_or_hangs_is_a_line(tmp_path: Path) -> None:
    (line,) = failures((sys.executable, "-c", "raise SystemExit(3)"))
    assert line.endswith("ended with code 3")
    (line,) = failures((str(tmp_path / "no such command"),))
    assert line.endswith("no such command: No such file or directory")
    (line,) = failures((sys.executable, "-c", NEVER_ENDS), 0.3)
    assert line.endswith("had not ended after 0.3 s, and was killed")


def test_sending_returns_at_once(posts: Posts) -> None:
    posts.hangs = True
    delivery = Delivery((posts.address,), 30)
    delivery.send(RECORD)
    assert delivery.failures() == [], "still under way"


# --- runs --------------------------------------------------------------------------------------------------------


@contextmanager
def telling(desk: Desk, posts: Posts) -> Iterator[Runner]:
    desk.settings = replace(desk.settings, notify=(f"{posts.address}/runs",))
    yield desk.runner()


def events(posts: Posts) -> list[str]:
    return [body["event"] for body in posts.bodies]


def test_the_end_is_told_once(desk: Desk, posts: Posts) -> None:
    desk.scripts(done_at_once)
    with telling(desk, posts):
        run, receipt = desk.launch()
    (body,) = [body for body in posts.bodies if body["event"] == "ended"]
    assert (body["run_id"], body["job"], body["state"], body["outcome"]) == (
        run.run_id, run.job_name, "done", "succeeded",
    )  # fmt: skip
    assert body["text"].startswith(f"run {run.run_id} of {run.job_name} ended (succeeded) after ")
    assert set(body["estimate"]) == {"low_seconds", "seconds", "high_seconds", "usd"}
    assert body["usd_so_far"] == pytest.approx(receipt.actual_usd, abs=0.01)
    before = len(posts.bodies)
    runner = desk.runner()
    runner.settle(run)
    assert len(posts.bodies) == before, "the journal knows that it was told"


def test_an_interruption_is_told_once_though_it_happens_twice(desk: Desk, posts: Posts) -> None:
    desk.scripts(ended_at_once(EndKind.RECLAIMED), ended_at_once(EndKind.KILLED), trains_well)
    with telling(desk, posts):
        run, _ = desk.launch()
    assert run.outcome is Outcome.SUCCEEDED
    assert events(posts).count("interrupted") == 1
    assert events(posts).count("ended") == 1
    (body,) = [body for body in posts.bodies if body["event"] == "interrupted"]
    assert "was interrupted at local: spot took it back" in body["text"]


@pytest.mark.parametrize(("low", "high", "text"), [(0, 0.001, "longer than the slow end"), (9e5, 9e6, "shorter than")])
def test_a_run_outside_its_estimate_is_told_of(desk: Desk, posts: Posts, low: float, high: float, text: str) -> None:
    desk.scripts(trains_well)
    with telling(desk, posts) as runner:
        run = desk.planned()
        estimate = {**desk.journal.estimate(run.run_id), "low_seconds": low, "high_seconds": high}
        desk.journal._db.execute("UPDATE runs SET estimate_json = ?", (json.dumps(estimate),))
        runner.follow(run, desk.request())
    (body,) = [body for body in posts.bodies if body["event"] == "outside_estimate"]
    assert text in body["text"]
    assert (body["estimate"]["low_seconds"], body["estimate"]["high_seconds"]) == (low, high)


def test_a_run_that_is_launched_again_is_told_of_again(desk: Desk, posts: Posts) -> None:
    desk.scripts(ended_at_once(EndKind.DEADLINE), done_at_once)
    with telling(desk, posts):
        desk.launch()
        assert events(posts).count("ended") == 1
        assert desk.journal.notify(desk.journal.runs()[0].run_id, "ended", desk.clock.now()) is False
        desk.journal.go_on(desk.journal.runs()[0].run_id, desk.clock.now())
        assert desk.journal.notify(desk.journal.runs()[0].run_id, "ended", desk.clock.now()) is True


@pytest.mark.parametrize("target", [("/no/such/command",), (sys.executable, "-c", "raise SystemExit(1)")])
def test_a_run_ends_as_ever_where_nobody_can_be_told(desk: Desk, target: tuple[str, ...]) -> None:
    desk.scripts(trains_well)
    desk.settings = replace(desk.settings, notify=target)
    run, receipt = desk.launch()
    assert (run.phase, run.outcome, desk.leaked) == (Phase.DONE, Outcome.SUCCEEDED, [])
    assert receipt.outcome == "succeeded"
    lines = [event.text for event in desk.events_of(Message) if event.text.startswith("notify: ")]
    assert any(line.startswith(f"notify: ended of run {run.run_id} was not delivered: ") for line in lines)


def test_the_machine_is_gone_before_anybody_waits_for_a_delivery_that_hangs(desk: Desk, posts: Posts) -> None:
    posts.hangs = True
    desk.scripts(ended_at_once(EndKind.FAILED))
    desk.settings = replace(desk.settings, notify=(posts.address,))
    runner = desk.runner()
    waiting = []

    class Waiting(Delivery):
        def failures(self, *, is_last: bool = False) -> list[str]:
            if is_last:
                waiting.append((list(desk.leaked), desk.journal.runs()[0].phase))
            return super().failures(is_last=is_last)

    runner._notifications = Notifications(
        desk.settings, desk.journal, desk.clock, desk._tell, Waiting((posts.address,), 0.2)
    )
    run = desk.planned()
    runner.follow(run, desk.request())
    assert waiting == [([], Phase.DONE)]
    assert any("notify: ended of run" in event.text for event in desk.events_of(Message))


def test_nothing_is_told_or_written_without_the_setting(desk: Desk) -> None:
    desk.scripts(trains_well)
    run, _ = desk.launch()
    kinds = desk.journal._db.execute("SELECT kind FROM events WHERE run_id = ?", (run.run_id,)).fetchall()
    assert "notified" not in {row[0] for row in kinds}


def test_a_measuring_run_is_not_told_of(desk: Desk, posts: Posts) -> None:
    desk.scripts(done_at_once)
    with telling(desk, posts) as runner:
        run = replace(desk.planned(), model_folder="")
        desk.journal.save(run, desk.clock.now())
        runner.follow(run, desk.request())
    assert posts.bodies == []
