"""A reader finds whole lines and a whole status; a disk that refuses costs lines, not the training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.workloads.trainer.clocks import FakeClock
from trainplan.workloads.trainer.progress import Clock, Progress, State


@pytest.fixture
def progress(tmp_path: Path, fake_clock: FakeClock) -> Progress:
    return Progress(tmp_path / "attempts" / "1", Clock(wall=fake_clock, monotonic=fake_clock))


def test_every_line_is_an_event_with_its_time_in_utc(tmp_path: Path, progress: Progress) -> None:
    progress.event("step", step=3, loss=0.5)
    progress.warn("slow disk")
    lines = (tmp_path / "attempts/1/progress.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"event": "step", "time": "1970-01-12T13:46:40.000+00:00", "step": 3, "loss": 0.5},
        {"event": "warning", "time": "1970-01-12T13:46:40.000+00:00", "message": "slow disk"},
    ]


def test_the_error_of_a_persons_program_is_kept_without_the_secret_in_it(
    tmp_path: Path, progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    token = "gh" + "p_" + "0123456789AbCdEfGhIjKlMnOpQrStUvWxyz"
    progress.warn(f"no answer to {token}")
    progress.status(State.FAILED, f"ValueError: {token}")
    progress.details(f"Traceback\nValueError: {token}\n")
    kept = [path.read_text(encoding="utf-8") for path in sorted((tmp_path / "attempts/1").rglob("*.*"))]
    assert len(kept) == 3
    assert token not in "".join(kept) + capsys.readouterr().err
    assert all("ValueError: " in text for text in kept[:1] + kept[2:])


def test_a_phase_is_timed(tmp_path: Path, progress: Progress, fake_clock: FakeClock) -> None:
    with progress.phase("data"):
        fake_clock.now += 2.5
    line = json.loads((tmp_path / "attempts/1/progress.jsonl").read_text(encoding="utf-8"))
    assert (line["name"], line["seconds"]) == ("data", 2.5)


def test_the_status_keeps_the_step_when_only_the_state_changes(tmp_path: Path, progress: Progress) -> None:
    progress.status(State.RUNNING, epoch=2, step=40)
    progress.status(State.FAILED, "no room")
    status = json.loads((tmp_path / "attempts/1/status.json").read_text(encoding="utf-8"))
    assert (status["state"], status["epoch"], status["step"], status["message"]) == ("failed", 2, 40, "no room")


def test_a_disk_that_refuses_is_complained_of_once(
    tmp_path: Path, progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "attempts/1/progress.jsonl").mkdir()
    progress.event("step", step=1)
    progress.event("step", step=2)
    assert capsys.readouterr().err.count("progress cannot be written") == 1
