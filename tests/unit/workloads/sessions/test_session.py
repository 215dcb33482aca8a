"""What a session refuses before it trains, and what it says of the sessions that are left."""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from trainplan.workloads.sessions import kaggle
from trainplan.workloads.sessions.records import Progress, write_record
from trainplan.workloads.sessions.session import DONE, FAILED, Place, SessionError, train, write_result
from trainplan.workloads.sessions.telling import progress_text, sessions_left_text

PLAN: dict[str, Any] = {
    "run_id": "261126-0badcafe", "place": "colab", "name": "cats", "framework": "jax", "packages": ["json"],
    "session_seconds": 43_200.0, "planned_seconds": 14_400.0, "setup_seconds": 360.0, "checkpoint_seconds": 600.0,
    "next": "again", "trainer": "trainer.whl", "data": [],
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    folder = tmp_path / "cats"
    folder.mkdir()
    for name in ("job.json", "trainer.whl"):
        (folder / name).write_bytes(b"{}")
    digest = hashlib.sha256(b"{}").hexdigest()
    write_plan(folder, files=dict.fromkeys(("job.json", "trainer.whl"), digest))
    work = tmp_path / "work"
    return Place(folder=folder, kept=folder / "run", work=work, downloads=folder / "downloads")


def write_plan(folder: Path, **changes: Any) -> None:
    (folder / "sessions.json").write_text(json.dumps({**PLAN, **changes}), encoding="utf-8")


def test_a_damaged_upload_is_not_trained_on(place: Place) -> None:
    (place.folder / "job.json").write_bytes(b"{ }")
    with pytest.raises(SessionError, match=r"job\.json is not what plan export wrote"):
        train(place)


def test_a_framework_that_is_not_there_is_named(place: Place) -> None:
    write_plan(place.folder, files={}, packages=["no_such_framework"])
    with pytest.raises(SessionError, match="this place has no no_such_framework"):
        train(place)


def test_a_session_that_is_about_to_end_begins_nothing(place: Place) -> None:
    place.work.mkdir()
    (place.work / "began").write_text(repr(time.time() - 43_200), encoding="utf-8")
    with pytest.raises(SessionError, match="about to end"):
        train(place)


def test_what_trains_in_a_session_gets_none_of_the_credentials_of_its_place(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAGGLE_USER_SECRETS_TOKEN", "a credential")
    trainer = (
        "import json, os, pathlib\npathlib.Path('seen.json').write_text(json.dumps(dict(os.environ)))\n"
        "raise SystemExit(70)\n"
    )
    with zipfile.ZipFile(place.folder / "trainer.whl", "w") as wheel:
        for name in ("trainplan/__init__.py", "trainplan/workloads/__init__.py"):
            wheel.writestr(name, "")
        wheel.writestr("trainplan/workloads/trainer.py", trainer)
    write_plan(place.folder, files={})
    train(place)
    seen = json.loads((place.work / "seen.json").read_text())
    assert seen["KERAS_BACKEND"] == "jax"
    assert "a credential" not in seen.values()


def test_a_run_that_is_trained_is_not_trained_again(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(place.kept, {"attempt": 1, "exit_code": 0})
    assert train(place) == DONE
    assert "this run is trained" in capsys.readouterr().out


def test_records_that_cannot_be_read_are_left_out_of_the_result(place: Place) -> None:
    write_record(place.kept, {"attempt": 2, "exit_code": None})
    (place.kept / "sessions" / "0001.json").write_text("{half", encoding="utf-8")
    result = json.loads(write_result(place).read_text(encoding="utf-8"))
    assert [record["attempt"] for record in result["sessions"]] == [2]
    assert result["format"] == "trainplan sessions 1"


def test_kaggle_without_its_data_set_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kaggle.train(tmp_path / "input", tmp_path / "working") == FAILED
    assert "no data set with sessions.json is attached" in capsys.readouterr().out


def test_kaggle_sees_data_sets_and_the_last_output_as_one_folder(tmp_path: Path, place: Place) -> None:
    inputs = tmp_path / "input"
    (inputs / "datasets" / "ada").mkdir(parents=True)
    place.folder.rename(inputs / "datasets" / "ada" / "cats-trainer")
    images = inputs / "cats-images" / "images-00000.bin"
    images.parent.mkdir()
    images.touch()
    write_record(inputs / "cats-a" / "run", {"attempt": 1, "exit_code": 76})
    seen = kaggle.place(inputs, tmp_path / "working")
    assert {path.name for path in seen.folder.iterdir()} >= {"sessions.json", "job.json", "images-00000.bin"}
    assert seen.earlier == (inputs / "cats-a" / "run",)
    assert seen.kept == tmp_path / "working" / "run"


@pytest.mark.parametrize(
    ("planned", "left", "of_this", "text"),
    [
        (43_200, 3_600, 3_700, "ends in this session"),
        (43_200, 3_600, 3_000, "1 more session after this one"),
        (43_200, 3_000 + 42_240, 3_000, "1 more session after this one"),
        (43_200, 3_000 + 42_241, 3_000, "2 more sessions after this one"),
        (14_400, 3_600, 40_000, "ends in this session, if it lasts"),
        (14_400, 3_600, 3_000, "about 1 more session after this one"),
        (14_400, 36_000, 40_000, "about 3 more sessions after this one"),
        (900, 36_000, 40_000, "more sessions than this place gives"),
    ],
)
def test_the_sessions_that_are_left(planned: float, left: float, of_this: float, text: str) -> None:
    assert sessions_left_text(left, of_this, {**PLAN, "planned_seconds": planned}) == text


def test_progress_is_told_by_what_this_session_has_seen(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    lines = [
        {"event": "start", "epochs": 10, "total_steps": 1_000, "resumed_from_step": 100},
        {"event": "step", "step": 101, "epoch": 2, "images_per_second": 812.4},
        {"event": "step", "step": 201, "epoch": 3, "images_per_second": 812.4},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"half', encoding="utf-8")
    progress = Progress(path)
    assert len(progress.read()) == 3
    text = progress_text(progress, (1_000.0, 101), 1_060.0, 9_000.0, PLAN)
    assert (
        text == "epoch 3 of 10 | step 201 of 1,000 | 812 images/s | 8 min to train | ends in this session, if it lasts"
    )
    assert progress.text.count('"event": "step"') == 1  # of thousands, the newest alone comes home
