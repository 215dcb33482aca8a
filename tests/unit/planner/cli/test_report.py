"""`plan report`: a run as JSON, in a few lines, and as one page that loads nothing; it changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import TINY, own_home
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import done_at_once, stubborn
from tests.doubles.fake_provider import FakeProvider
from tests.unit.planner.cli.command import plan


@pytest.fixture(autouse=True)
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    own_home(tmp_path, monkeypatch)
    (tmp_path / "job.yaml").write_text(TINY)
    with fake_provider.as_this_machine(FakeProvider(FakeClock(), [done_at_once], tidy=True), monkeypatch) as made:
        yield made


def launched(*options: str) -> str:
    run_id: str = plan("launch", "job.yaml", "--provider", "local", "--yes", "--json", *options).json["run_id"]
    return run_id


def test_the_json_the_lines_and_the_page_tell_of_the_same_run(tmp_path: Path) -> None:
    run_id = launched()
    told = plan("report", run_id, "--json").json
    assert (told["run"]["run_id"], told["run"]["outcome"]) == (run_id, "succeeded")
    assert told["made_by"]["command"] == f"plan report {run_id} --json"
    assert told["receipt"]["accuracy"] == told["held_out"]["accuracy"] == 0.975
    lines = plan("report", run_id[:10])
    assert lines.out.startswith("tiny is trained, ")
    assert f"receipt of tiny, run {run_id}: succeeded" in lines.out
    page = plan("report", run_id, "--html", "page.html")
    assert (page.code, page.out, page.err) == (0, "", "page.html is written\n")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "tiny is trained, " in text
    assert "http" not in text.replace("http-equiv", "")
    both = plan("report", run_id, "--html", "again.html", "--json")
    assert both.json["run"] == told["run"]
    assert (tmp_path / "again.html").is_file()


def test_a_run_that_goes_on_is_reported_and_nothing_is_changed(tmp_path: Path, provider: FakeProvider) -> None:
    provider.scripts[:] = [stubborn]
    run_id = launched("--detach")
    before = hashlib.sha256((tmp_path / "home" / "journal.sqlite").read_bytes()).digest()
    told = plan("report", run_id, "--json").json
    assert (told["run"]["outcome"], told["receipt"], told["bills"]["bills"]) == (None, None, True)
    assert "so far" in plan("report", run_id).out
    assert hashlib.sha256((tmp_path / "home" / "journal.sqlite").read_bytes()).digest() == before


def test_a_name_that_is_no_page_and_a_folder_that_is_not_there_are_errors() -> None:
    run_id = launched()
    said = plan("report", run_id, "--html", "report.pdf")
    assert (said.code, said.hint) == (2, "--html report.html")
    said = plan("report", run_id, "--html", "no/where.html")
    assert (said.code, said.error) == (9, "cannot write no/where.html: No such file or directory")
    assert plan("report", "nosuch").code == 2


def test_a_cloud_that_cannot_be_opened_leaves_what_the_journal_has(monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = launched()

    def refuses(name: str, settings: object) -> FakeProvider:
        from trainplan.planner.errors import ThisMachineError

        raise ThisMachineError(f"{name} needs its SDK")

    monkeypatch.setattr("trainplan.planner.api.build.provider", refuses)
    told = plan("report", run_id, "--json").json
    assert told["progress"] == []
    assert told["gaps"][0].endswith("local needs its SDK")
    assert told["receipt"]["outcome"] == "succeeded"
