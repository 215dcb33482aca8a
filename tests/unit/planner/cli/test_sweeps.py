"""A sweep on the command line: its estimate, a run on the simulated cloud, its table, and what is refused."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.desk import on_the_doubles_day, signed_out
from tests.unit.planner.cli.command import plan
from trainplan.planner.report.sweep_page import sweep_json, table_of_json
from trainplan.workloads.jobfile import read_job
from trainplan.workloads.sweep import Result, table_of
from trainplan.workloads.sweep_text import report_with_trials, winner_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JOB = """\
name: flowers
model: {preset: vgg16}
data: {name: cifar10}
epochs: 9
global_batch_size: 256
sweep:
  optimizer.learning_rate: [0.1, 0.03, 0.01]
  optimizer.momentum: [0.9, 0.5, 0.0]
  budget_usd: 8
"""
SIM = ("--provider", "sim", "--device", "V100")


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    signed_out(monkeypatch)
    on_the_doubles_day(monkeypatch)
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLAN_SIM_SPEED", "0")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.toml").write_text("start = 2026-11-21T12:00:00Z\n")
    os.environ["PLAN_SIM_SCENARIO"] = str(tmp_path / "scenario.toml")
    (tmp_path / "job.yaml").write_text(JOB)
    yield
    os.environ.pop("PLAN_SIM_SCENARIO", None)


def test_the_estimate_tells_the_sweep_and_the_full_grid(tmp_path: Path) -> None:
    said = plan("estimate", "job.yaml", *SIM)
    assert (
        "sweep of optimizer.learning_rate, optimizer.momentum: 9 trials; 9 to epoch 1, 4 to epoch 3, 2 to epoch 9: 29 "
        "epochs of the 81 of all trials"
    ) in said.out
    assert "ranked by cost, for $8.00 at most" in said.out
    document = json.loads(plan("estimate", "job.yaml", *SIM, "--json").out)
    sweep, first = document["sweep"], document["candidates"][0]
    assert (sweep["trials"], sweep["epochs"], sweep["grid_epochs"]) == (9, 29, 81)
    # Of trials this short the starts of the trainer take more than halving saves, which the second line lets see.
    assert first["total_seconds"] > sweep["grid_seconds"]
    assert plan("estimate", "job.yaml", *SIM, "--html", "page.html", "--levers").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "a sweep of 9 trials: 29 epochs of the 81 of all trials; all trials to their end would take $" in page
    assert "for $8.00 at most" in page
    assert f"row 1 takes ${first['cost_usd']:.2f}; all trials to their end would take" in said.out
    (tmp_path / "job.yaml").write_text(JOB.replace("epochs: 9\n", "epochs: 90\n"))
    document = json.loads(plan("estimate", "job.yaml", *SIM, "--json").out)
    assert document["candidates"][0]["total_seconds"] < document["sweep"]["grid_seconds"]


def test_a_budget_that_is_too_small_is_refused_before_anything_is_created(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB.replace("budget_usd: 8", "budget_usd: 0.01"))
    said = plan("launch", "job.yaml", *SIM, "--yes")
    assert said.code
    assert "over_budget" in said.err
    assert plan("history").out.startswith("no runs yet")


def test_a_run_of_it_has_its_table(tmp_path: Path) -> None:
    assert plan("launch", "job.yaml", *SIM, "--yes").code == 0
    (run,) = json.loads(plan("history", "--json").out)
    assert run["receipt"]["total_steps"] == run["receipt"]["steps"] == 29 * (50_000 // 256)
    said = plan("history", "--sweep", run["run_id"])
    assert said.out.splitlines()[0] == f"flowers, run {run['run_id']}: succeeded"
    assert "best: trial 1, whose model is the run's" in said.out
    winner = run["receipt"]["sweep"]
    assert winner == "trial 1 of 9 (learning_rate 0.1, momentum 0.9)", "a simulated trial reaches nothing"
    report = plan("report", run["run_id"])
    assert winner in report.out.splitlines()[0]
    assert " 100% of all trials' epochs" in report.out
    assert f"best: {winner}" in plan("report", run["run_id"]).out.replace("\n", " ")
    assert report.out.count("\n    8 ") == said.out.count("\n    8 ") == 1, "the table of the trials"
    assert plan("report", run["run_id"], "--html", "report.html").code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count(winner) >= 3, "in the answer, above the trials and on the receipt"
    assert "Trials, the best first" in page
    assert (
        plan("report", run["run_id"], "--json").json["sweep"]
        == plan("history", "--sweep", run["run_id"], "--json").json
    )
    document = json.loads(plan("history", "--sweep", run["run_id"], "--json").out)
    assert [len(row["results"]) for row in document["trials"]] == [3, 3, 2, 2, 1, 1, 1, 1, 1]
    file = tmp_path / f"flowers-{run['run_id']}" / "sweep.json"
    table = file.read_text()
    for spoiled in ("{}", "[" * 100_000, table.replace('"trial": 1', '"trial": 1e400'), table[:-9]):
        file.write_text(spoiled)
        assert "the table of run" in plan("history", "--sweep", run["run_id"]).err
    file.write_text(json.dumps(json.loads(table.replace('"failure": ""', '"failure": "\\u001b[2J"'))))
    assert "\x1b" not in plan("history", "--sweep", run["run_id"]).out


def test_the_best_trial_is_named_with_its_values_and_what_it_reached(tmp_path: Path) -> None:
    job = read_job(tmp_path / "job.yaml")
    good = [Result(trial=3, epochs=epochs, accuracy=0.9, loss=0.4) for epochs in (1, 3, 9)]
    others = [Result(trial=one.number, epochs=1, accuracy=0.2, loss=2.0) for one in job.trials if one.number != 3]
    table = table_of(job, [*good, *others], ended_early=True)
    winner = "trial 3 of 9 (learning_rate 0.1, momentum 0.0): accuracy 90.00% after epoch 9"
    assert winner_text(table) == winner
    assert winner_text(table_of_json(sweep_json(table, "261128-00000000"), is_of_script=False)) == winner
    report = report_with_trials("# small\n\nTested on 9 test images.\n", table).splitlines()
    assert report[:3] == ["# small", "", f"Best of the sweep so far: {winner}; its trials are at the end."]
    assert report[-11:-8] == [
        "| trial | learning_rate | momentum | epoch 1 | epoch 3 | epoch 9 |",
        "| --- | --- | --- | --- | --- | --- |",
        "| 3 | 0.1 | 0.0 | 90.00% | 90.00% | 90.00% |",
    ]
    assert winner_text(table_of(job, [])) == "no trial of 9 has a result"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pilot", "job.yaml", "--budget", "1", *SIM), "a pilot measures one job, and this one has a sweep"),
        (("launch", "job.yaml", "--pilot", "1", "--yes", *SIM), "a pilot measures one job, and this one has a sweep"),
        (
            ("estimate", "job.yaml", "--compare", "optimizer.momentum=0.5", *SIM),
            "--compare optimizer.momentum=0.5: optimizer.momentum is swept, and each trial has its own",
        ),
        (
            ("export", "job.yaml", "--to", "kaggle", "--user", "me", "--out", "there"),
            "sweeps values of its keys, which is not exported",
        ),
        (("measure", "job.yaml", "--yes"), "plan measure measures one job, and this one has a sweep"),
        (("estimate", "job.yaml", "--nodes", "2", *SIM), "a sweep is trained on one machine"),
    ],
)
def test_a_sweep_is_not_measured_nor_trained_on_several_machines(words: tuple[str, ...], message: str) -> None:
    said = plan(*words)
    assert said.code == 2
    assert message in said.err
    assert plan("history").out.startswith("no runs yet")


def test_a_run_without_a_sweep_has_no_table(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB.partition("sweep:")[0])
    assert plan("launch", "job.yaml", *SIM, "--yes").code == 0
    (run,) = json.loads(plan("history", "--json").out)
    said = plan("history", "--sweep", run["run_id"])
    assert (said.code, "has no sweep" in said.err) == (2, True)
    assert "--sweep shows one run" in plan("history", "--sweep", run["run_id"], "--all").err


@pytest.mark.slow
def test_a_budget_that_ends_before_the_last_rung_brings_the_best_trial_so_far_home(tmp_path: Path) -> None:
    """Its machine is slower than was estimated. With more money it goes on where it was."""
    (tmp_path / "scenario.toml").write_text("start = 2026-11-21T12:00:00Z\nthroughput_factor = 0.4\n")
    job = JOB.replace("epochs: 9\n", "epochs: 270\non_slow: continue\n")
    (tmp_path / "job.yaml").write_text(job)
    cost = json.loads(plan("estimate", "job.yaml", *SIM, "--json").out)["candidates"][0]["cost_usd"]
    (tmp_path / "job.yaml").write_text(job.replace("budget_usd: 8", f"budget_usd: {1.2 * cost:.4f}"))
    said = plan("launch", "job.yaml", *SIM, "--yes")
    assert said.code == 8, said.err
    assert "the budget was reached before the last rung of the sweep: the model is that of trial 1" in said.err
    assert "goes on from the newest checkpoint" in said.err
    (run,) = json.loads(plan("history", "--json").out)
    assert (run["outcome"], run["receipt"]["actual_usd"] <= 1.2 * cost) == ("budget", True)
    folder = tmp_path / f"flowers-{run['run_id']}"
    assert run["receipt"]["model_folder"] == str(folder)
    first = (folder / "model.keras").read_bytes()
    shown = plan("history", "--sweep", run["run_id"])
    assert "best so far: trial 1, whose model is the run's; it ended before its last rung" in shown.out
    table = json.loads(plan("history", "--sweep", run["run_id"], "--json").out)
    assert table["ended_early"]
    assert sum(len(row["results"]) for row in table["trials"]) < 15
    (tmp_path / "job.yaml").write_text(job.replace("budget_usd: 8", "budget_usd: 80"))
    said = plan("launch", "job.yaml", *SIM, "--yes")
    assert said.code == 0, said.err
    assert (folder / "model.keras").read_bytes() != first
    table = json.loads(plan("history", "--sweep", run["run_id"], "--json").out)
    assert not table["ended_early"]
    assert sum(len(row["results"]) for row in table["trials"]) == 15


SCRIPT_JOB = """\
name: mine
script: train.py
framework: torch
args: {epochs: 3}
checkpoints: true
constraints: {deadline: 2h}
sweep:
  args.lr: [0.3, 0.1, 0.03]
  maximize: val_accuracy
"""


def test_arguments_of_a_script_are_swept_on_the_simulated_cloud(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "job.yaml").write_text(SCRIPT_JOB)
    said = plan("estimate", "job.yaml", "--provider", "sim")
    assert said.code == 0, said.err
    assert "sweep of args.lr: 3 trials; 3 to 1/3, 1 to the end: 1.67 whole trainings of the 3 of all trials" in said.out
    assert "up to 2h 00m" in said.out
    document = json.loads(plan("estimate", "job.yaml", "--provider", "sim", "--json").out)
    assert (document["sweep"]["trials"], document["sweep"]["grid_cost_usd"]) == (3, None)
    launched = plan("launch", "job.yaml", "--provider", "sim", "--yes")
    assert launched.code == 0, launched.err
    (run,) = json.loads(plan("history", "--json").out)
    table = plan("history", "--sweep", run["run_id"])
    assert "val_accuracy as the script reported it after each rung, the most is the best" in table.out
    assert table.out.splitlines()[1].split() == ["trial", "lr", "1/3", "whole", "end"]
    assert json.loads(plan("history", "--sweep", run["run_id"], "--json").out)["measure"] == "val_accuracy"
    assert not (tmp_path / "home" / "measurements.jsonl").exists(), "its rate is that of several jobs"
    assert run["receipt"]["sweep"].startswith("trial 1 of 3 (lr 0.3)")
    assert "100000" not in plan("report", run["run_id"]).out, (
        "steps of a sweep of scripts are parts, which nobody counts"
    )
    report = json.loads(plan("report", run["run_id"], "--json").out)
    assert report["job"]["script"].endswith("train.py")
    assert not {"source", "locked"} & set(report["job"]["read_script"]), "a report is for showing"
    assert plan("report", run["run_id"], "--html", "report.html").code == 0
    assert "import torch" not in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("command", [("pilot", "--budget"), ("launch", "--pilot")])
def test_a_script_that_reports_nothing_is_told_so_before_a_pilot_is_paid(
    tmp_path: Path, command: tuple[str, str]
) -> None:
    (tmp_path / "train.py").write_text("import torch\nimport loop\nloop.train()\n")
    (tmp_path / "loop.py").write_text("def train():\n    print('epoch 1')\n")
    (tmp_path / "job.yaml").write_text("name: mine\nscript: train.py\nconstraints: {deadline: 2h}\n")
    words = (command[0], "job.yaml", command[1], "5", "--provider", "sim", "--yes")
    said = plan(*words)
    assert said.code == 2
    assert said.error == "train.py reports nothing, so a pilot cannot measure it"
    assert "trainplan_run.report" in said.hint
    assert plan("history", "--json").json == []
    assert "the script reports nothing, so no pilot can measure it" in plan("estimate", "job.yaml", "--all").out
    (tmp_path / "loop.py").write_text("import trainplan_run\ndef train():\n    trainplan_run.report(1, 8, 100)\n")
    assert "reports nothing" not in plan(*words).err


def test_a_pilot_of_a_trial_gives_a_sweep_of_a_script_an_estimate(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nimport trainplan_run\n")
    (tmp_path / "job.yaml").write_text(SCRIPT_JOB)
    asked = ("estimate", "job.yaml", "--provider", "sim", "--all")
    assert "plan pilot measures a trial" in plan(*asked).out
    said = plan("pilot", "job.yaml", "--budget", "5", "--provider", "sim", "--yes")
    assert said.code == 0, said.err
    assert "a pilot trains trial 1 of the sweep alone: args.lr 0.3" in said.err
    document = json.loads(plan(*asked, "--json").out)
    first, sweep = document["candidates"][0], document["sweep"]
    (row,) = map(json.loads, (tmp_path / "home" / "measurements.jsonl").read_text().splitlines())
    trainings = row["total_images"] / row["images_per_second"]
    assert first["basis"] == "measured"
    assert first["total_low_seconds"] < first["total_seconds"] < first["total_high_seconds"] < 7200
    assert first["train_seconds"] > 5 / 3 * trainings
    assert sweep["grid_seconds"] > 3 * trainings
    # Not always dearer than the rungs: on a busy computer the pilot measures a slow start, and rungs start more often.
    assert sweep["grid_cost_usd"] > 0
    shown = plan(*asked)
    assert f"{row['total_images']:,} images in a whole training" in shown.out
    assert "if every trial trains as fast and as long as what was measured; all trials to their end would" in shown.out
    assert plan(*asked, "--html", "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "train.py --epochs 3, torch" in page
    assert "a sweep of 3 trials: 1.67 whole trainings of the 3 of all trials, if every trial trains as fast" in page
    launched = plan("launch", "job.yaml", "--provider", "sim", "--pilot", "5", "--yes")
    assert launched.code == 0, launched.err
    assert "no pilot is worth it" in launched.err
    proposed = next(line for line in launched.err.splitlines() if line.startswith("mine on sim"))
    assert "if every trial trains as fast and as long as what was measured" in proposed
