"""A sweep over arguments of a script: real processes of a script that needs no framework."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.doubles.own_script import command, environment, left, lines, run
from tests.doubles.waiting import until
from trainplan.workloads.output_files import STOPPED_FOR_GOOD

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="what holds a script to its end is POSIX"),
]

# Nine epochs of ten steps; its weights are a chain of all its steps, and its score follows from them and from `lr`.
SCRIPT = """
import argparse, hashlib, os, pathlib, sys, time
import trainplan_run
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--epochs", type=int, default=9)
asked = parser.parse_args()
weights, step = f"{asked.lr}", 0
folder = trainplan_run.resume_from()
if folder is not None:
    weights, text = (folder / "state").read_text().split()
    step = int(text)
with open(os.environ["MARK"] + "/began", "a") as file:
    file.write(f"{asked.lr} {step}\\n")
while step < 10 * asked.epochs:
    step += 1
    weights = hashlib.sha256(weights.encode()).hexdigest()
    trainplan_run.report(step, 8, 10 * asked.epochs, loss=1 / step)
    if step % 10 == 0:
        FIGURES
    if trainplan_run.should_stop():
        with trainplan_run.checkpoint_folder() as folder:
            (folder / "state").write_text(f"{weights} {step}")
        sys.exit(75)
pathlib.Path("model.txt").write_text(f"{asked.lr} {weights}")
pathlib.Path("figures").mkdir(exist_ok=True)
pathlib.Path("figures/end.txt").write_text("1")
"""
SCORED = SCRIPT.replace("FIGURES", "trainplan_run.figures(score=step * (1 - abs(asked.lr - 0.1)))")
SWEEP = {"args.lr": [0.3, 0.1, 1.0], "maximize": "score"}


def keys(**sweep: Any) -> dict[str, Any]:
    return {"args": {"lr": 0.5}, "checkpoints": True, "constraints": {"deadline": "5m"}, "sweep": {**SWEEP, **sweep}}


def table(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "output" / "sweep.json").read_bytes()))


def is_told(folder: Path) -> bool:
    """Whether the manifest has every file of the output, under the path where it lies."""
    output = folder / "output"
    rows = json.loads((output / "manifest.json").read_bytes())
    there = {path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file()}
    return {row["path"] for row in rows} == there - {"manifest.json"}


def began(folder: Path) -> list[str]:
    file = folder / "began"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def test_trials_differ_in_an_argument_and_pause_where_their_rungs_end(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ended = run(folder, SCORED, **keys())
    assert ended.returncode == 0, ended.stderr
    found = table(folder)
    assert (found["best"], found["measure"], found["more_is_better"]) == (2, "score", True)
    assert [[one["epochs"] for one in row["results"]] for row in found["trials"]] == [[1], [1, 3], [1]]
    assert [round(row["results"][0]["reached"], 3) for row in found["trials"]] == [0.333] * 3
    # Three pause after three of nine epochs, and the best goes on from there.
    assert began(folder) == ["0.3 0", "0.1 0", "1.0 0", "0.1 30"]
    alone = tmp_path / "alone"
    whole = {name: value for name, value in keys().items() if name != "sweep"}
    assert run(alone, SCORED, **{**whole, "args": {"lr": 0.1}}).returncode == 0
    model = (folder / "output" / "model.txt").read_text()
    assert model == (alone / "output" / "model.txt").read_text(), "it is trained as if it had been trained alone"
    steps = [line["step"] for line in lines(folder) if "step" in line]
    assert steps == sorted(steps)
    (start,) = [line for line in lines(folder) if line["event"] == "start"]
    assert (start["resumed_from_step"], start["framework"]) == (0, "Python")
    assert lines(folder)[-1]["event"] == "end"
    assert not left(folder)
    assert is_told(folder)


def test_less_may_be_better_and_what_is_no_number_is_out(tmp_path: Path) -> None:
    figures = "trainplan_run.figures(val_loss=float('nan') if asked.lr == 0.03 else asked.lr)"
    folder = tmp_path / "run"
    sweep = {"args.lr": [0.3, 0.1, 0.03], "minimize": "val_loss", "maximize": None}
    ended = run(folder, SCRIPT.replace("FIGURES", figures), **keys() | {"sweep": sweep})
    assert ended.returncode == 0, ended.stderr
    found = table(folder)
    assert found["best"] == 2
    assert found["trials"][2]["results"][0]["failure"] == "val_loss is no number"


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ("pass", "the script never reported 'score', which ranks the trials of its sweep; it reported loss."),
        ("trainplan_run.figures(scroe=1)", "it reported loss, scroe. Report it after each epoch"),
    ],
)
def test_a_figure_that_is_never_reported_ends_the_first_trial(tmp_path: Path, figures: str, message: str) -> None:
    folder = tmp_path / "run"
    slow = SCRIPT.replace("FIGURES", f"{figures}; time.sleep(0.5)")
    ended = run(folder, slow, **keys())
    assert ended.returncode == 65, ended.stderr
    assert message in ended.stderr
    assert began(folder) == ["0.3 0"]
    assert not (folder / "output").exists()


def test_a_script_that_never_says_of_how_many_steps_is_no_trial(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    without = SCORED.replace("10 * asked.epochs, loss=1 / step", "loss=1 / step")
    ended = run(folder, without, **keys())
    assert ended.returncode == 65
    assert "the script reports no total_steps" in ended.stderr
    assert began(folder) == ["0.3 0"]


def test_killed_anywhere_it_goes_on_at_its_rung_to_the_same_model(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run(whole, SCORED, **keys()).returncode == 0
    slow = SCORED.replace("    step += 1\n", "    step += 1\n    time.sleep(0.02)\n")

    def is_in_second_trial(number: int) -> bool:
        return len(began(killed)) >= 2 * number

    for number in (1, 2):
        process = subprocess.Popen(command(killed, slow, attempt=number, **keys()), env=environment(killed))
        until(partial(is_in_second_trial, number), "the second trial of this attempt")
        os.kill(process.pid, signal.SIGKILL)  # and not its group: what it has started has to notice by itself
        process.wait(60)
        until(lambda: not left(killed), "the end of all that a killed sweep has started")
    ended = subprocess.run(
        command(killed, slow, attempt=3, **keys()), env=environment(killed), check=False, timeout=120
    )
    assert ended.returncode == 0
    assert (killed / "output" / "model.txt").read_text() == (whole / "output" / "model.txt").read_text()
    firsts = [line for line in began(killed) if line.endswith(" 0")]
    # The second and the third were killed before they paused; what has paused never begins anew.
    assert firsts == ["0.3 0", "0.1 0", "0.1 0", "1.0 0", "1.0 0"]


def test_a_deadline_before_the_last_rung_brings_the_best_checkpoint_home(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    slow = SCORED.replace("    step += 1\n", "    step += 1\n    time.sleep(0.06)\n")
    slow = slow.replace("while step", 'pathlib.Path("checkpoint").write_text("an index of TensorFlow")\nwhile step')
    words = command(folder, slow, "--deadline-unix", f"{time.time() + 40:.1f}", **keys())
    ended = subprocess.run(words, env=environment(folder), capture_output=True, text=True, check=False, timeout=90)
    assert ended.returncode == 0, ended.stderr
    found = table(folder)
    assert found["ended_early"]
    assert found["best"] is not None
    step = int((folder / "output" / "checkpoint" / "state").read_text().split()[1])
    assert json.loads((folder / "output" / "metrics.json").read_bytes())["steps"] == step
    assert (folder / "output" / "script-checkpoint").read_text() == "an index of TensorFlow"
    assert is_told(folder)


def test_a_stop_of_a_script_that_ends_well_when_it_is_asked_is_a_stop(tmp_path: Path) -> None:
    """It has done a part of its steps, whatever exit code it has."""
    folder, whole = tmp_path / "run", tmp_path / "whole"
    source = SCORED.replace("sys.exit(75)", "sys.exit(75 if step == 30 else 0)")
    assert run(whole, source, **keys()).returncode == 0
    slow = source.replace("    step += 1\n", "    step += 1\n    time.sleep(0.05)\n")
    with subprocess.Popen(command(folder, slow, **keys()), env=environment(folder)) as process:
        until(lambda: len(began(folder)) == 2, "the second trial")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 75
    again = subprocess.run(command(folder, source, attempt=2, **keys()), env=environment(folder), timeout=120)
    assert again.returncode == 0
    assert (folder / "output" / "model.txt").read_text() == (whole / "output" / "model.txt").read_text()


def test_a_stop_for_good_brings_the_best_checkpoint_so_far_home(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    slow = SCORED.replace("    step += 1\n", "    step += 1\n    time.sleep(0.05)\n")
    with subprocess.Popen(command(folder, slow, **keys()), env=environment(folder)) as process:
        until(lambda: len(began(folder)) == 3, "the third trial")
        (folder / "attempts" / "1" / STOPPED_FOR_GOOD).touch()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 77
    figures = json.loads((folder / "output" / "metrics.json").read_bytes())
    assert (figures["outcome"], figures["failure"]) == ("stopped", "the sweep ended before its last rung")
    assert (table(folder)["best"], table(folder)["ended_early"]) == (2, True)
    assert (folder / "output" / "checkpoint" / "state").read_text().endswith(" 30")
    assert is_told(folder)
    assert lines(folder)[-1]["state"] == "stopped"
    again = subprocess.run(command(folder, slow, attempt=2, **keys()), env=environment(folder), timeout=120)
    assert again.returncode == 0
    assert began(folder)[3].startswith("1.0 "), "it goes on at the trial that was stopped"
    assert (folder / "output" / "model.txt").is_file()


def test_what_has_ended_by_itself_comes_home_at_the_deadline_without_any_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    source = SCORED.replace(
        "while step <",
        "if asked.lr == 0.3:\n    trainplan_run.report(90, 8, 90, score=999)\n    step = 90\nwhile step <",
    ).replace("    step += 1\n", "    step += 1\n    time.sleep(0.5)\n")
    words = command(folder, source, "--deadline-unix", f"{time.time() + 40:.1f}", **keys())
    ended = subprocess.run(words, env=environment(folder), capture_output=True, text=True, check=False, timeout=90)
    assert ended.returncode == 0, ended.stderr
    assert (table(folder)["best"], table(folder)["ended_early"]) == (1, True)
    assert (folder / "output" / "model.txt").read_text().startswith("0.3 ")
    assert is_told(folder)


@pytest.mark.train
@pytest.mark.keras_3
@pytest.mark.e2e
def test_the_example_for_keras_is_swept_as_it_is(tmp_path: Path) -> None:
    source = (ROOT / "examples" / "scripts" / "keras_images.py").read_text(encoding="utf-8")
    args = {"epochs": 6, "images": 256}
    sweep = {"args.images": [128, 256], "minimize": "loss"}
    limits = {"checkpoints": True, "constraints": {"deadline": "10m"}}
    folder, alone = tmp_path / "run", tmp_path / "alone"
    ended = run(folder, source, args=args, sweep=sweep, **limits)
    assert ended.returncode == 0, ended.stderr
    found = table(folder)
    best = sweep["args.images"][found["best"] - 1]
    assert [one["reached"] for one in found["trials"][found["best"] - 1]["results"]] == [pytest.approx(1 / 3), 1.0]
    assert run(alone, source, args={**args, "images": best}, **limits).returncode == 0
    import keras

    one, other = (keras.models.load_model(place / "output" / "model.keras") for place in (folder, alone))
    for weights, same in zip(one.get_weights(), other.get_weights(), strict=True):
        assert (weights == same).all()


FAILING = SCORED.replace(
    "while step <",
    'pathlib.Path("log.txt").write_text(f"{asked.lr}")\nif asked.lr == FAILS: sys.exit("no GPU")\nwhile step <',
)


@pytest.mark.parametrize(("lr", "trial"), [("0.1", 1), ("0.3", 1)])
def test_a_trial_that_fails_brings_home_what_there_is(tmp_path: Path, lr: str, trial: int) -> None:
    """Of the trial before it where that has a result, else what the failing one has saved."""
    folder = tmp_path / "run"
    ended = run(folder, FAILING.replace("FAILS", lr), **keys())
    assert ended.returncode == 77, ended.stderr
    figures = json.loads((folder / "output" / "metrics.json").read_bytes())
    assert figures["failure"].startswith("trial 1 " if lr == "0.3" else "trial 2 "), figures
    assert (folder / "output" / "log.txt").read_text() == "0.3"
    assert (folder / "output" / "checkpoint" / "state").is_file() is (lr == "0.1")
    assert is_told(folder)
    assert table(folder)["best"] == (None if lr == "0.3" else trial)
