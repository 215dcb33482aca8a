"""The page of `plan serve` in a browser: news come by themselves, a stop is asked about, no name runs a script."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.browser.test_run_page import RUNS
from tests.doubles.clock import FakeClock
from tests.doubles.desk import Desk
from tests.extensions.serve.test_server import launched
from tests.extensions.serve.visitor import Typed, serving
from tests.unit.planner.report.test_run_page import a_document
from trainplan.extensions.serve.commands import Answer
from trainplan.planner.runs.run import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.browser.pages import Opener
    from tests.extensions.serve.visitor import Visitor


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


@pytest.fixture
def typed() -> Typed:
    return Typed()


@pytest.fixture
def visitor(desk: Desk, typed: Typed) -> Iterator[Visitor]:
    with serving(desk.settings.home, FakeClock(), typed) as made:
        yield made


def test_an_interruption_appears_and_the_keyboard_stays_where_it_was(
    opener: Opener, desk: Desk, visitor: Visitor
) -> None:
    run = launched(desk)
    page = opener.open(visitor.server.access.address)
    assert page.locator(".answer").inner_text().startswith("1 run costs $3.600/h, until ")
    page.get_by_text("This page updates by itself.", exact=True).wait_for()
    page.locator(f"#stop-{run.run_id}").focus()
    desk.journal.save(run.moved(Phase.INTERRUPTED), desk.clock.now(), "attempt 1: spot took it back")
    page.get_by_text("the machine was taken back (attempt 1: spot took it back)").wait_for()
    assert page.locator("td.warning", has_text="interrupted").count() == 1
    assert page.evaluate("document.activeElement.id") == f"stop-{run.run_id}"
    assert opener.findings(page) == []


def test_a_stop_takes_two_clicks_and_a_question(opener: Opener, desk: Desk, visitor: Visitor, typed: Typed) -> None:
    run = launched(desk)
    typed.answers["report"] = Answer(0, json.dumps(a_document()), "")
    page = opener.open(visitor.server.access.address)
    page.locator(f"#stop-{run.run_id}").click()
    assert f"Stop run {run.run_id} of tiny?" in page.locator(".answer").inner_text()
    assert opener.findings(page) == []
    assert not [line for line in typed.lines if line[0] == "stop"]
    page.get_by_role("button", name=f"Stop run {run.run_id}").click()
    page.wait_for_url(f"**/runs/{run.run_id}")
    assert [line for line in typed.lines if line[0] == "stop"] == [("stop", run.run_id, "--json")]


def test_a_hostile_name_runs_no_script(opener: Opener, desk: Desk, visitor: Visitor, typed: Typed) -> None:
    run = launched(desk)
    desk.journal._db.execute("UPDATE runs SET run_json = json_set(run_json, '$.job_name', ?)", (RUNS,))
    typed.answers["report"] = Answer(0, json.dumps(a_document(RUNS)), "")
    typed.answers["status"] = Answer(9, "[]", f"error: {RUNS}\n")
    page = opener.open(visitor.server.access.address)
    page.get_by_text("The last look failed: ").wait_for()
    for path in ("/", f"/runs/{run.run_id}", f"/runs/{run.run_id}/stop"):
        page.goto(f"{visitor.server.access.origin}{path}")
        assert page.evaluate("window.ran") is None, path
        assert page.locator("img, iframe, object, embed").count() == 0, path
        assert "window.ran" in page.locator("body").inner_text(), path
