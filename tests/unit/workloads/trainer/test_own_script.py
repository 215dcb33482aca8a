"""A script of the person's own, as the trainer runs it: to its end, to its cap, interrupted and resumed."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.doubles.own_script import command, environment, left, lines, run
from tests.doubles.waiting import until
from trainplan.workloads.output_files import STOPPED_FOR_GOOD
from trainplan.workloads.trainer.descendants import descendants
from trainplan.workloads.trainer.devices import cpu_name
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.script_reports import Reports
from trainplan.workloads.trainer.script_trial import result_of
from trainplan.workloads.trainer.watch import Limits

pytestmark = pytest.mark.slow

REPORTING = """\
import sys, time
import trainplan_run
from pathlib import Path
folder = trainplan_run.resume_from()
value, done = (0, 0) if folder is None else (int((folder / name).read_text()) for name in ("value", "step"))
for step in range(done + 1, 41):
    value = (value * 31 + step) % 1_000_003
    time.sleep({pause})
    trainplan_run.report(step, images=4, total_steps=40, loss=1 / step)
    if trainplan_run.should_stop() or step == 10:
        with trainplan_run.checkpoint_folder() as folder:
            (folder / "value").write_text(str(value))
            (folder / "step").write_text(str(step))
    if trainplan_run.should_stop():
        sys.exit(trainplan_run.EXIT_STOPPED)
Path("value.txt").write_text(str(value))
Path("data").mkdir(exist_ok=True)
Path("data/set.bin").write_text("large")
Path(".hidden").write_text("h")
"""


def test_a_script_that_reports_trains_to_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = run(folder, REPORTING.format(pause=0.01))
    assert done.returncode == 0, done.stderr
    start = next(line for line in lines(folder) if line["event"] == "start")
    assert (start["total_steps"], start["images"], start["resumed_from_step"]) == (40, 160, 0)
    end = lines(folder)[-1]
    assert (end["event"], end["state"], end["step"]) == ("end", "done", 40)
    assert end["images_per_second"] > 0
    manifest = json.loads((folder / "output" / "manifest.json").read_text())
    assert [row["path"] for row in manifest] == ["metrics.json", "value.txt"]
    assert not left(folder)


def test_a_script_deeper_in_its_folder_imports_from_its_own_place_and_from_the_top(tmp_path: Path) -> None:
    source = (
        "import json, sys\nfrom pathlib import Path\nimport near\nfrom config.sizes import WIDTH\n"
        "Path('out.txt').write_text(f'{near.DEPTH} {WIDTH} {Path(__file__).parent.name}')\n"
    )
    # A module of a standard name at the top is the script's alone.
    texts = {"scripts/near.py": "DEPTH = 2", "config/sizes.py": "WIDTH = 3", "select.py": "raise SystemExit(9)"}
    files = [{"path": path, "source": text} for path, text in texts.items()]
    read = {"sha256": "0" * 64, "source": source, "inside": "scripts", "files": files}
    done = run(tmp_path / "run", source, read_script=read)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "output" / "out.txt").read_text() == "2 3 scripts"


def test_its_files_of_names_that_the_run_needs_come_home_under_others(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    names = ("metrics.json", "manifest.json", "sweep.json")
    source = f"from pathlib import Path\nfor name in {names}: Path(name).write_text('mine')\n"
    assert run(folder, source).returncode == 0
    output = folder / "output"
    assert [(output / f"script-{name}").read_text() for name in names] == ["mine"] * 3
    assert json.loads((output / "metrics.json").read_text())["name"] == "mine"


def test_a_folder_that_is_no_step_is_no_checkpoint(tmp_path: Path) -> None:
    source = (
        "import os, pathlib\nplace = pathlib.Path(os.environ['TRAINPLAN_RUN_DIR']) / 'checkpoints' / 'step-²'\n"
        "place.mkdir(parents=True)\n(place / 'complete.json').write_text('{}')\nraise SystemExit(3)\n"
    )
    done = run(tmp_path / "run", source)
    assert done.returncode == 70
    assert "the script ended with exit code 3" in done.stderr


def test_it_is_interrupted_and_goes_on_to_the_same_result(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert run(whole, REPORTING.format(pause=0)).returncode == 0
    folder = tmp_path / "run"
    process = subprocess.Popen(command(folder, REPORTING.format(pause=0.1)), env=environment(folder))
    until(lambda: any(line["event"] == "checkpoint" for line in lines(folder)), "a checkpoint", seconds=60)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 75
    status = json.loads((folder / "attempts" / "1" / "status.json").read_text())
    assert "its newest checkpoint is that of step" in status["message"]
    again = run(folder, REPORTING.format(pause=0), attempt=2)
    assert again.returncode == 0, again.stderr
    start = next(line for line in lines(folder, 2) if line["event"] == "start")
    assert start["resumed_from_step"] >= 10
    assert (folder / "output" / "value.txt").read_text() == (whole / "output" / "value.txt").read_text()


def test_a_script_that_says_nothing_runs_to_its_cap(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    began = time.monotonic()
    done = run(folder, "import time\nprint('here', flush=True)\ntime.sleep(300)\n", "--deadline-unix",
               f"{time.time() + 4:.0f}")  # fmt: skip
    assert done.returncode == 76
    assert time.monotonic() - began < 60
    assert "here" in done.stdout
    assert not left(folder)


def test_a_script_that_fails_says_so(tmp_path: Path) -> None:
    done = run(tmp_path / "run", "raise ValueError('no such file of mine')\n")
    assert done.returncode == 70
    assert "no such file of mine" in done.stdout
    assert "error: the script ended with exit code 1\n" in done.stderr


def test_what_a_script_leaves_comes_home_whatever_it_is_called_and_what_links_lead_to(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    source = """\
import os
os.mkdir("runs"); os.mkdir(".cache")
open("runs/epoch=3.ckpt", "w").write("weights")
open(".cache/blob", "w").write("blob")
os.symlink("runs/epoch=3.ckpt", "last.ckpt")
os.symlink(".cache/blob", "model.bin")
os.symlink("runs", "latest")
os.symlink("/etc/hostname", "outside")
os.symlink("nowhere", "dangling")
open("09:42:22.log", "w").write("log")
open(os.fsdecode(bytes([99, 97, 102, 233])), "w").write("latin")
"""
    done = run(folder, source)
    assert done.returncode == 0, done.stderr
    rows = json.loads((folder / "output" / "manifest.json").read_text())
    contents = {row["path"]: (folder / "output" / row["path"]).read_text() for row in rows}
    del contents["metrics.json"]
    assert contents == {
        "09%3A42%3A22.log": "log", "caf%E9": "latin", "last.ckpt": "weights", "model.bin": "blob",
        "runs/epoch=3.ckpt": "weights",
    }  # fmt: skip
    warnings = [line["message"] for line in lines(folder) if line["event"] == "warning"]
    hidden, broken, elsewhere, renamed = warnings
    assert ".cache (1 file)" in hidden
    assert "'dangling' to 'nowhere'" in broken
    assert all(name in elsewhere for name in ("'latest'", "'outside'"))
    assert renamed.startswith("comes home under a name that every system takes")


def test_a_script_that_fails_after_it_saved_leaves_what_it_saved_and_has_failed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = run(folder, "open('model.pt', 'w').write('ten hours')\nimport plotting_of_nobody\n")
    assert done.returncode == 77
    assert "error: the script ended with exit code 1\n" in done.stderr
    metrics = json.loads((folder / "output" / "metrics.json").read_text())
    assert (metrics["failure"], metrics["outcome"]) == ("the script ended with exit code 1", "failed")
    assert (folder / "output" / "model.pt").read_text() == "ten hours"
    assert (folder / "work" / "model.pt").exists()  # where the run may go on
    again = run(folder, "import os\nos.rename('model.pt', 'better.pt')\n", attempt=2)
    assert again.returncode == 0, again.stderr
    assert sorted(path.name for path in (folder / "output").iterdir()) == ["better.pt", "manifest.json", "metrics.json"]


ENDS_WELL_WHEN_ASKED = """\
import os, signal, sys, time
import trainplan_run
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
folder = trainplan_run.resume_from()
done = int((folder / "step").read_text()) if folder else 0
for step in range(done + 1, {steps} + 1):
    trainplan_run.report(step, 4, total_steps=10)
    while {waits} and step == {steps} and not asked:
        open(".waits", "w").close()
        time.sleep(0.05)
    if asked and step < 10:
        open("best.pt", "w").write("so far")
        with trainplan_run.checkpoint_folder(step) as new:
            (new / "step").write_text(str(step))
        sys.exit(0)
open("model.pt", "w").write("whole")
"""


@pytest.mark.parametrize(("steps", "code"), [(5, 75), (10, 0)])
def test_a_script_that_ends_well_when_it_is_asked_is_done_where_all_its_steps_are(
    tmp_path: Path, steps: int, code: int
) -> None:
    folder, waits = tmp_path / "run", ENDS_WELL_WHEN_ASKED.format(steps=steps, waits=True)
    process = subprocess.Popen(command(folder, waits), env=environment(folder))
    until((folder / "work" / ".waits").exists, "it waits", seconds=60)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == code
    again = run(folder, ENDS_WELL_WHEN_ASKED.format(steps=10, waits=False), attempt=2)
    assert again.returncode == 0, again.stderr
    start = next((line for line in lines(folder, 2) if line["event"] == "start"), {})
    assert start.get("resumed_from_step") == (5 if code else 0)


def test_a_script_that_ends_well_at_its_deadline_has_reached_it_and_leaves_what_it_saved(tmp_path: Path) -> None:
    """A rented machine asks three minutes before its deadline."""
    folder, source = tmp_path / "run", ENDS_WELL_WHEN_ASKED.format(steps=5, waits=True)
    deadline = f"{time.time() + 170:.0f}"
    process = subprocess.Popen(command(folder, source, "--deadline-unix", deadline), env=environment(folder))
    until((folder / "work" / ".waits").exists, "it waits", seconds=60)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 77
    metrics = json.loads((folder / "output" / "metrics.json").read_text())
    assert metrics["outcome"] == "deadline"
    assert metrics["failure"] == "its newest checkpoint is that of step 5"
    assert (folder / "output" / "best.pt").read_text() == "so far"


def test_a_script_that_a_person_stops_for_good_leaves_what_it_saved(tmp_path: Path) -> None:
    folder, source = tmp_path / "run", ENDS_WELL_WHEN_ASKED.format(steps=5, waits=True)
    process = subprocess.Popen(command(folder, source), env=environment(folder))
    until((folder / "work" / ".waits").exists, "it waits", seconds=60)
    (folder / "attempts" / "1" / STOPPED_FOR_GOOD).touch()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 77
    metrics = json.loads((folder / "output" / "metrics.json").read_text())
    assert (metrics["outcome"], metrics["failure"]) == ("stopped", "its newest checkpoint is that of step 5")
    assert (folder / "output" / "best.pt").read_text() == (folder / "work" / "best.pt").read_text() == "so far"


def test_what_it_needs_that_pip_cannot_install_is_a_bad_job(tmp_path: Path) -> None:
    folder, source = tmp_path / "run", "print(1)\n"
    command(folder, source)
    job = json.loads((folder / "job.json").read_text())
    job["read_script"]["locked"] = f"no-such-package-of-mine==1.0 --hash=sha256:{'0' * 64}\n"
    words = command(folder, source, read_script=job["read_script"])
    place = {**environment(folder), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    done = subprocess.run(words, env=place, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 65
    assert "pip could not install what the script needs" in done.stderr


def test_a_pilot_ends_once_it_knows_the_rate_and_leaves_figures_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    endless = REPORTING.format(pause=0.02).replace("41", "100_000").replace("total_steps=40", "total_steps=99_999")
    done = run(folder, endless, "--max-steps", "60", "--until-steady")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (folder / "output").iterdir() if path.name != "manifest.json"] == ["measurement.json"]
    figures = json.loads((folder / "output" / "measurement.json").read_text())
    assert 4 / 0.5 < figures["images_per_second"] < 4 / 0.02
    assert not (folder / "checkpoints").exists()


def test_nothing_is_left_when_the_trainer_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    source = "import os, time\nos.fork()\nos.setsid() if os.getppid() == 1 else None\ntime.sleep(300)\n"
    process = subprocess.Popen(command(folder, source), env=environment(folder))
    until(lambda: len(descendants(process.pid)) >= 3, "the script runs", seconds=60)
    process.kill()
    process.wait()
    until(lambda: not left(folder), "all has ended", seconds=30)


@pytest.mark.check  # in make test an example goes on in jobs of Slurm (providers/slurm/test_example_scripts.py)
@pytest.mark.train
@pytest.mark.keras_3
def test_the_example_for_keras_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    source = (ROOT / "examples" / "scripts" / "keras_images.py").read_text()
    ours = [line for line in source.splitlines() if "trainplan_run" in line]
    assert len(ours) == 3
    keys: dict[str, Any] = {"args": {"epochs": 12, "images": 256}, "checkpoints": True}
    whole, folder = tmp_path / "whole", tmp_path / "run"
    assert run(whole, source, **keys).returncode == 0
    process = subprocess.Popen(command(folder, source, **keys), env=environment(folder))
    until(lambda: any(line["event"] == "checkpoint" for line in lines(folder)), "a checkpoint", seconds=100)
    process.send_signal(signal.SIGTERM)
    if process.wait(60) == 75:  # else it was faster than the signal
        again = run(folder, source, attempt=2, **keys)
        assert again.returncode == 0, again.stderr
        start = next((line for line in lines(folder, 2) if line["event"] == "start"), None)
        assert start is None or start["resumed_from_step"] >= 8  # None: it was stopped after its last epoch
    import keras

    one, other = (keras.models.load_model(place / "output" / "model.keras") for place in (whole, folder))
    for weights, same in zip(one.get_weights(), other.get_weights(), strict=True):
        assert (weights == same).all()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_example_for_torch_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    """In the middle of an epoch. What stands in for PyTorch elsewhere (test_reporting.py) is asked for the same."""
    source = (ROOT / "examples" / "scripts" / "torch_images.py").read_text()
    assert sum("trainplan_run" in line for line in source.splitlines()) == 3
    keys: dict[str, Any] = {"args": {"epochs": 6, "images": 2048}, "checkpoints": True, "framework": "torch"}
    whole, folder = tmp_path / "whole", tmp_path / "run"
    assert run(whole, source, **keys).returncode == 0
    process = subprocess.Popen(command(folder, source, **keys), env=environment(folder))
    until(lambda: any(line["event"] == "step" for line in lines(folder)), "it trains", seconds=100)
    process.send_signal(signal.SIGTERM)
    if process.wait(60) == 75:
        again = run(folder, source, attempt=2, **keys)
        assert again.returncode == 0, again.stderr
    import torch

    one, other = (torch.load(place / "output" / "model.pt") for place in (whole, folder))
    assert all((one[name] == other[name]).all() for name in one)


@pytest.mark.parametrize("content", [b"\n" * 10, b"{}\n[]\nnull\n", b'{"event": "step", "step": -1}\n', b"x" * 40_000])
def test_what_a_script_writes_beside_the_protocol_is_passed_over(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "progress.jsonl"
    good = b'{"event": "step", "step": 3, "images_per_second": 5.0, "loss": NaN}\n'
    path.write_bytes(content + b"\n" + good + b'{"event": "step", "step": 4, "images_per_second": "NaN"}\n')
    reports = Reports(path)
    for _ in range(3):
        reports.read(1.0)
    assert (reports.step, reports.images_per_second, reports.figures) == (4, 5.0, {})


def test_a_figure_of_any_name_is_in_its_results_and_in_the_line_of_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    source = (
        "import trainplan_run as tr\nfor epoch in range(2):\n  for step in range(3):\n    tr.report(step, 4, 9)\n"
        "  tr.figures(val_accuracy=0.5 + epoch / 10, state=3, hold_out_accuracy=0.99, loss=1.5)\n"
        "tr.figures(**{'Performance/Test accuracy': 0.5})\n"
    )
    assert run(folder, source).returncode == 0
    figures = {
        "val_accuracy": 0.6,
        "state": 3.0,
        "hold_out_accuracy": 0.99,
        "loss": 1.5,
        "Performance/Test accuracy": 0.5,
    }
    assert json.loads((folder / "output" / "metrics.json").read_text())["figures"] == figures
    end = next(line for line in lines(folder) if line["event"] == "end")
    assert {name: end[f"figure.{name}"] for name in figures} == figures
    assert (end["state"], end["loss"], "hold_out_accuracy" in end) == ("done", 1.5, False)
    warnings = [line["message"] for line in lines(folder) if line["event"] == "warning"]
    assert any(text.startswith("the steps that the script told began anew after 2") for text in warnings)


def test_more_steps_than_there_are_is_told_and_few_names_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    many = {f"f{number}": number for number in range(50)} | {"\x1b[31m": 1, "truth": True}
    rows = [{"event": "start", "total_steps": 10}, {"event": "step", "step": 200, **many}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    reports = Reports(path)
    reports.read(1.0)
    assert reports.remarks()[0] == "the script told 200 steps, and total_steps=10 as all that it does"
    assert reports.remarks()[1].startswith("figures that are not kept: 'f20', 'f21', 'f22', …; the first 20 are")
    assert list(reports.figures) == [f"f{number}" for number in range(20)]


def test_a_figure_whose_name_looks_like_a_secret_is_not_kept_nor_shown(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    name = "hf" + "_" + "abcdefghijklmnopqrstuvwxyzabcdefgh"
    path.write_text(json.dumps({"event": "step", "step": 2, name: 1.0, "loss": 2.0}) + "\n")
    reports = Reports(path)
    reports.read(1.0)
    assert reports.figures == {"loss": 2.0}
    assert "figures that are not kept: '…'" in reports.remarks()[0]


def test_a_script_that_is_done_is_not_ended_while_python_ends(tmp_path: Path) -> None:
    source = (
        "import os, signal, sys, trainplan_run\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, number=os.getpid(), term=signal.SIGTERM): kill(number, term)\n"
        "sys.late = Late()\n"
        "trainplan_run.report(1, 4, 1)\n"
        "trainplan_run.should_stop()\n"
        "open('model.txt', 'w').write('m')\n"
    )
    done = run(tmp_path / "run", source)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "output" / "model.txt").exists()


def test_the_step_of_a_checkpoint_is_a_step_that_is_done(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text('{"event": "step", "step": 50}\n{"event": "checkpoint", "step": 84, "seconds": 0.1}\n')
    reports = Reports(path)
    reports.read(1.0)
    assert (reports.step, reports.count, reports.checkpoint_seconds) == (84, 1, 0.1)


def test_what_a_script_says_that_it_trains_with_is_text_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    start = {"event": "start", "framework": "x" * 1000, "device_kind": 5, "device_name": None, "total_steps": [1]}
    path.write_text(json.dumps(start | {"resumed_from_step": True}) + "\n")
    reports = Reports(path)
    reports.read(1.0)
    assert (reports.trained_with, reports.resumed_step) == ({"framework": "x" * 100, "device_name": cpu_name()}, 0)
    assert reports.total_steps is None


@pytest.mark.parametrize(
    ("figure", "call"), [("score", "figures(score=...)"), ("val/acc", 'figures(**{"val/acc": ...})')]
)
def test_a_figure_that_was_never_reported_is_asked_for_as_python_takes_it(
    tmp_path: Path, figure: str, call: str
) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text('{"event": "start", "total_steps": 9}\n{"event": "step", "step": 9, "loss": 1.0}\n')
    reports = Reports(path, figure=figure)
    reports.read(1.0)
    with pytest.raises(BadInputError) as refused:
        result_of(
            Limits(checkpoint_every_seconds=600.0, until_share=Fraction(1, 3), figure=figure), reports, has_ended=True
        )
    assert call in str(refused.value)
