"""A run that was trained in sessions elsewhere is taken into the journal, and a file that lies is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_job, a_run
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.errors import BadInputError
from trainplan.planner.runs.imported import read_imported
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Phase

JOB = json.loads(a_job(project="cats").to_json())


def lines(*events: dict[str, Any]) -> str:
    return "".join(json.dumps({"time": "2026-11-26T10:00:30+00:00", **event}) + "\n" for event in events)


def start(step: int) -> dict[str, Any]:
    return {
        "event": "start", "device_name": "Tesla T4", "device_count": 1, "framework": "jax", "framework_version": "0.10",
        "images": 100, "steps_per_epoch": 10, "epochs": 10, "total_steps": 100, "resumed_from_step": step,
    }  # fmt: skip


def history() -> dict[str, Any]:
    """Three sessions: one that was lost at step 45, one that ended in time, one that trained to the end."""
    step = {"event": "step", "step": 45, "epoch": 5, "images_per_second": 90.0}
    end = {"event": "end", "state": "done", "step": 100, "images_per_second": 95.5, "hold_out_accuracy": 0.91}
    sessions = [
        ("10:00:00", "10:30:00", None, lines(start(0), step)),
        ("11:00:00", "11:20:00", 76, lines(start(40), {**step, "step": 70})),
        ("12:00:00", "12:10:00", 0, lines(start(70), {"event": "phase", "name": "train", "seconds": 500.0}, end)),
    ]
    return {
        "format": "trainplan sessions 1",
        "place": "colab",
        "run_id": "261126-0badcafe",
        "job": JOB,
        "estimate": {"seconds": 3000.0, "images_per_second": 100.0, "basis": "scaled"},
        "sessions": [
            {
                "attempt": number, "began_at": f"2026-11-26T{began}+00:00", "ended_at": f"2026-11-26T{ended}+00:00",
                "setup_seconds": 30.0, "exit_code": code, "progress": progress,
            }
            for number, (began, ended, code, progress) in enumerate(sessions, 1)
        ],
    }  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "output" / "history.json"
    path.parent.mkdir()
    path.write_text(json.dumps(history()), encoding="utf-8")
    (path.parent / "model.keras").write_bytes(b"a model")
    return path


def imported(file: Path) -> CommandResult:
    return plan("history", "import", file, "--json")


def test_the_receipt_has_the_figures_of_all_sessions(file: Path) -> None:
    made = imported(file)
    assert made.code == 0, made.err
    (run,) = made.json
    assert (run["run_id"], run["provider"], run["outcome"]) == ("261126-0badcafe", "colab", "succeeded")
    receipt = run["receipt"]
    # An hour of training, not the two that lie between the first session's beginning and the last one's end.
    assert receipt["actual_seconds"] == 3600
    assert (receipt["attempts"], receipt["interruptions"], receipt["lost_steps"]) == (3, 1, 5)
    assert (receipt["steps"], receipt["total_steps"], receipt["accuracy"]) == (100, 100, 0.91)
    assert (receipt["actual_usd"], receipt["estimated_seconds"], run["off"]) == (0, 3000, pytest.approx(0.2))
    assert receipt["model_folder"] == str(file.parent)
    assert receipt["project"] == "cats"


def test_it_is_listed_beside_the_others(file: Path) -> None:
    assert imported(file).code == 0
    listed = plan("history")
    assert "261126-0badcafe" in listed.out
    assert "colab" in listed.out
    assert plan("history", "--json").json[0]["receipt"]["accuracy"] == 0.91


def test_a_file_is_taken_in_once_and_a_newer_one_goes_on(file: Path) -> None:
    document = history()
    document["sessions"] = document["sessions"][:1]
    file.write_text(json.dumps(document), encoding="utf-8")
    assert imported(file).json[0]["outcome"] == "stopped"
    file.write_text(json.dumps(history()), encoding="utf-8")
    assert imported(file).json[0]["outcome"] == "succeeded"
    again = imported(file)
    assert "nothing is newer" in again.err
    file.write_text(json.dumps(document), encoding="utf-8")
    assert imported(file).error == "the journal has 3 sessions of run 261126-0badcafe, and the file 1"


def test_a_run_of_somewhere_else_is_never_changed(file: Path, tmp_path: Path) -> None:
    run = a_run(run_id="261126-0badcafe", phase=Phase.DONE, provider="aws")
    with Journal.open(tmp_path / "home" / "journal.sqlite") as journal:
        journal.add_run(run, "{}", {}, run.created_at)
    assert imported(file).error == ("the journal has a run 261126-0badcafe of aws already, which this file is not of")
    with Journal.open(tmp_path / "home" / "journal.sqlite") as journal:
        assert journal.run(run.run_id) == run
        assert journal.receipt(run.run_id) is None


def change(where: str, value: object) -> Callable[[dict[str, Any]], None]:
    def apply(document: dict[str, Any]) -> None:
        *path, last = where.split(".")
        item: Any = document
        for name in path:
            item = item[int(name)] if name.isdigit() else item[name]
        item[last] = value

    return apply


@pytest.mark.parametrize(
    ("where", "value", "error"),
    [
        ("format", "trainplan sessions 2", "is not the history of a run in sessions"),
        ("place", "aws", "place: colab"),
        ("place", None, "place: colab"),
        ("run_id", "../../etc/passwd", "run_id is none"),
        ("run_id", 7, "run_id is none"),
        ("job", None, "job: the whole"),
        ("job", {**JOB, "epochs": -1}, "job: epochs"),
        ("job", {**JOB, "name": "a\x1b[2J"}, "job: name"),
        ("sessions", [], "sessions: from 1"),
        ("sessions", {"a": 1}, "sessions: from 1"),
        ("sessions.0", "none", None),
        ("sessions.0.attempt", True, "attempt is no number"),
        ("sessions.0.attempt", 10**30, "attempt is no number"),
        ("sessions.1.attempt", 1, "not one after the other"),
        ("sessions.0.began_at", "2026-11-26T10:00:00", "not two instants"),
        ("sessions.0.ended_at", "2026-11-25T10:00:00+00:00", "not two instants"),
        ("sessions.1.began_at", "2026-11-26T10:10:00+00:00", "not one after the other"),
        ("sessions.2.exit_code", "0", "exit_code is no number"),
        ("sessions.2.progress", 5, "progress is no text"),
    ],
)
def test_what_cannot_be_is_refused_in_words(file: Path, where: str, value: object, error: str | None) -> None:
    document = history()
    if where == "sessions.0":
        document["sessions"][0], error = value, "is no record"
    else:
        change(where, value)(document)
    file.write_text(json.dumps(document), encoding="utf-8")
    made = imported(file)
    assert made.code == 2
    assert error is not None
    assert error in made.error
    assert made.hint
    assert plan("history", "--json").json == []


def test_lines_that_no_trainer_writes_are_left_out(file: Path) -> None:
    document = history()
    document["sessions"][2]["progress"] += 'nonsense\n{"event": "end", "step": -5}\n{"event": "step", "step": 1e999}\n'
    file.write_text(json.dumps(document), encoding="utf-8")
    assert imported(file).json[0]["receipt"]["steps"] == 100


def test_a_file_that_is_too_large_or_no_file_is_refused(tmp_path: Path) -> None:
    assert "cannot read" in imported(tmp_path).error
    large = tmp_path / "large.json"
    with large.open("wb") as stream:
        stream.truncate(65 * 1024 * 1024)
    assert "is not the history of a run" in imported(large).error


@pytest.mark.parametrize("words", [("import",), ("export", "x"), ("importx",)])
def test_another_word_is_refused(words: tuple[str, ...]) -> None:
    assert plan("history", *words).code == 2


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_PLACES = ("place", "run_id", "job", "estimate", "sessions", "sessions.0.attempt", "sessions.0.began_at")
_MORE_PLACES = ("sessions.1.exit_code", "sessions.2.progress", "job.data", "job.model", "estimate.seconds")


@given(where=st.sampled_from((*_PLACES, *_MORE_PLACES)), value=_JSON)
def test_whatever_a_stranger_writes_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, where: str, value: object
) -> None:
    document = history()
    change(where, value)(document)
    path = tmp_path_factory.getbasetemp() / "stranger.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    # Anything but the two is an error of the reader.
    with suppress(BadInputError):
        assert read_imported(path).receipt.actual_usd == 0
