"""Two terminals and one run, each a process of its own against the simulated cloud: one sits at a question or hangs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.typing_person import AtPty, command_line, own_environment

SPEED = 30
"""Simulated seconds in a real one: boot and deletion take two seconds each, and the three minutes that plan stop waits
for another command six."""
SCENARIO = 'boot = ["60s", "60s"]\n'
"""As the estimate has it, boot and the files of ImageNet take over a minute of a test."""
LONG = """\
name: long
model: {preset: vgg16}
data: {name: imagenet}
epochs: 90
global_batch_size: 256
"""
pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a job lies."""
    (tmp_path / "job.yaml").write_text(LONG)
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    return tmp_path


def world(folder: Path) -> dict[str, str]:
    return {"PLAN_SIM_SPEED": str(SPEED), "PLAN_SIM_SCENARIO": str(folder / "scenario.toml")}


def launch(folder: Path, *more: object) -> AtPty:
    words = ("launch", "job.yaml", "--provider", "sim", "--json", "--deadline", "600h", *more)
    return AtPty(folder, *words, **world(folder))


def plan(folder: Path, *arguments: object, stdin: int | None = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    """Another terminal, where nobody can be asked."""
    return subprocess.run(
        command_line(*arguments), cwd=folder, env=own_environment(folder, world(folder)), stdin=stdin,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def runs(folder: Path) -> list[dict[str, Any]]:
    return list(json.loads(plan(folder, "history", "--json").stdout))


def the_run(folder: Path) -> str:
    (row,) = json.loads(plan(folder, "status", "--json").stdout)
    return str(row["run_id"])


def stored_runs(folder: Path) -> list[Any]:
    return list(json.loads(plan(folder, "cleanup", "--provider", "sim", "--dry-run", "--json").stdout))


def test_stop_in_another_terminal_ends_a_run_whose_own_terminal_sits_at_the_ctrl_c_question(folder: Path) -> None:
    with launch(folder) as first:
        first.wait_for("launch? [Y/n]:")
        first.type("y\n")
        first.wait_for("training on")
        first.send(signal.SIGINT)
        first.wait_for("stop the run?")
        run_id = the_run(folder)
        stopped = plan(folder, "stop", run_id, "--json")
        assert stopped.returncode == 0, stopped.stderr
        code, out = first.wait_for_end()
    assert f"run {run_id}: another command has asked it to stop" in first.screen
    assert (code, json.loads(out)["outcome"], json.loads(stopped.stdout)["outcome"]) == (130, "stopped", "stopped")
    assert json.loads(out) == json.loads(stopped.stdout), "one receipt"
    assert [row["outcome"] for row in runs(folder)] == ["stopped"]
    assert stored_runs(folder) == []


def test_stop_beside_a_process_that_is_suspended_ends_the_machine_and_the_record_follows(folder: Path) -> None:
    with launch(folder, "--yes") as first:
        first.wait_for("training on")
        run_id = the_run(folder)
        first.send(signal.SIGSTOP)
        stopped = plan(folder, "stop", run_id, "--json")
        assert stopped.returncode == 0, stopped.stderr
        assert "another process follows the run and does not respond" in stopped.stderr
        assert json.loads(stopped.stdout)["recorded"] is False
        assert stored_runs(folder) == []
        assert [row["outcome"] for row in runs(folder)] in ([], [None])
        first.send(signal.SIGCONT)
        code, out = first.wait_for_end()
    assert (code, json.loads(out)["outcome"], json.loads(out)["attempts"]) == (130, "stopped", 1)
    assert [row["outcome"] for row in runs(folder)] == ["stopped"]
    assert stored_runs(folder) == []


def test_the_end_of_the_input_launches_nothing(folder: Path) -> None:
    with launch(folder) as first:
        first.wait_for("launch? [Y/n]:")
        first.type("\x04")
        code, out = first.wait_for_end()
    assert (code, json.loads(out)["exit_code"]) == (2, 2)
    assert "the input ended before an answer: nothing was launched" in first.screen
    assert "Traceback" not in first.screen
    assert runs(folder) == []


def test_no_and_ctrl_c_launch_nothing(folder: Path) -> None:
    for keys, number in (("n\n", None), ("", signal.SIGINT)):
        with launch(folder) as first:
            first.wait_for("launch? [Y/n]:")
            first.type(keys)
            if number:
                first.send(number)
            assert first.wait_for_end() == (130, "")
        assert "Traceback" not in first.screen
    assert runs(folder) == []


CLOSED = "import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, '-c', {code!r}])"


def test_a_closed_standard_input_is_nobody_and_no_traceback(folder: Path) -> None:
    """`plan launch JOB.yaml <&-`"""
    python, dash, code = command_line("launch", "job.yaml", "--provider", "sim")
    done = subprocess.run(
        [python, dash, CLOSED.format(code=code)], cwd=folder, env=own_environment(folder, world(folder)),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert (done.returncode, "error: the input is not a terminal, so nobody can be asked" in done.stderr) == (2, True)
