"""Every command with --json: one document on stdout, of what it did or of the error that ended it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.builders import a_run
from tests.desk import TINY
from tests.json_output import commands, walked
from tests.unit.planner.cli.command import plan
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Outcome, Phase

WITHOUT_JSON: dict[str, str] = {}
"""Commands that have no --json, each with the reason. None so far: `plan board`, which goes on until Ctrl-C, prints its
object before it starts, and `plan status --watch --json` prints its document once."""


COMMANDS = commands()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("PLAN_", "AWS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(TINY)
    return tmp_path


def lacking(tree: dict[tuple[str, ...], Any]) -> list[str]:
    """The commands that have no --json and are not listed."""
    names = [" ".join(path) for path, one in tree.items() if "--json" not in _options(one)]
    return sorted({*names} - {*WITHOUT_JSON})


def _options(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def test_every_command_has_json() -> None:
    assert len(COMMANDS) > 20
    assert lacking(COMMANDS) == []
    assert sorted({*WITHOUT_JSON} - {" ".join(path) for path in COMMANDS}) == []


def test_a_command_without_json_is_noticed() -> None:
    app = typer.Typer()
    app.command("one")(lambda: None)
    app.command("two")(lambda: None)
    assert lacking(walked(app)) == ["one", "two"]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_an_error_of_every_command_is_one_object(path: tuple[str, ...]) -> None:
    said = plan(*path, "--json", "--no-such-option")
    assert said.code == 2
    assert said.json == {"error": said.error, "hint": said.hint, "field": "--no-such-option", "exit_code": 2}
    assert said.error


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("init", "job.yaml"), 2),
        (("init", "none/job.yaml"), 9),
        (("export", "job.yaml", "--to", "sbatch", "--out", "job.yaml"), 9),
        (("data", "remove", "images", "--provider", "nobody"), 2),
        (("stop", "nonesuch"), 2),
    ],
)
def test_what_they_refuse_is_one_object_too(words: tuple[str, ...], code: int) -> None:
    said = plan(*words, "--json")
    assert said.json == {"error": said.error, "hint": said.hint, "field": None, "exit_code": code}
    assert said.code == code


def test_a_home_that_is_a_file_is_an_error_in_words(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(here / "job.yaml"))
    said = plan("prices", "forget", "--json")
    assert said.code == said.json["exit_code"] == 2
    assert said.error == f"PLAN_HOME: {here / 'job.yaml'} is a file"


def test_init_names_the_file_and_the_command_that_reads_it(here: Path) -> None:
    assert plan("init", "a job.yaml", "--json").json == {"file": "a job.yaml", "next": "plan estimate 'a job.yaml'"}
    assert (here / "a job.yaml").is_file()
    assert plan("init", "r.yaml", "--recipe", "vgg16-imagenet", "--json").json["file"] == "r.yaml"


def test_export_lists_what_it_wrote(here: Path) -> None:
    said = plan("export", "job.yaml", "--to", "sbatch", "--out", "out", "--json").json
    assert {here / "out" / name for name in said["files"]} == {*(here / "out").iterdir()}
    assert (said["to"], said["commands"]) == ("sbatch", [f"sbatch {here}/out/job.sbatch"])
    assert "not plan, ends" in said["notes"][-1]


def test_forgetting_says_whether_there_was_anything(here: Path) -> None:
    assert plan("prices", "forget", "--json").json == {"forgotten": False}
    (here / "home" / "catalog.sqlite").write_bytes(b"")
    assert plan("prices", "forget", "--json").json == {"forgotten": True}


def test_stopping_a_run_that_has_ended_says_how_it_ended(here: Path) -> None:
    run = a_run(phase=Phase.DONE, outcome=Outcome.DEADLINE, message="the deadline was reached")
    with Journal.open(here / "home" / "journal.sqlite") as journal:
        journal.add_run(run, "{}", {}, run.created_at)
    said = plan("stop", run.run_id, "--json")
    assert said.code == 0
    assert said.err.endswith(f"run {run.run_id} has ended already: deadline\n")
    assert said.json == {
        "run_id": run.run_id, "phase": "done", "outcome": "deadline", "message": "the deadline was reached",
        "had_ended": True, "ended_at": None, "ended": [],
    }  # fmt: skip


def test_cleaning_up_after_drills_says_how_many_runs_it_ended(here: Path) -> None:
    assert plan("drill", "sim", "--clean", "--json").json == {"ended_runs": 0}
