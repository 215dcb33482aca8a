"""The same figures are read back from every tracker, offline, in an environment that has their libraries."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import ROOT
from tests.extensions.track.test_push import JOB, a_receipt
from trainplan.extensions.track.push import write_run
from trainplan.extensions.track.run_record import FIGURES, run_record
from trainplan.planner.errors import ThisMachineError
from trainplan.workloads.terms import Tracker

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = ROOT / ".build" / "trackers" / "bin" / "python"
pytestmark = pytest.mark.skipif(
    not PYTHON.exists() and os.environ.get("CI") != "true", reason="make check installs the trackers' environment"
)
READERS = {
    Tracker.MLFLOW: """
import mlflow
client = mlflow.MlflowClient()
experiment = client.get_experiment_by_name("cats")
(run,) = client.search_runs([experiment.experiment_id])
loss = [[row.step, row.value] for row in client.get_metric_history(run.info.run_id, "loss")]
files = [row.path for row in client.list_artifacts(run.info.run_id)]
told = run.data.metrics, run.data.params, loss, files
""",
    Tracker.TRACKIO: """
import trackio
storage = trackio.SQLiteStorage
(run,) = storage.get_runs("cats")
rows = storage.get_logs("cats", run)
loss = [[row["step"], row["loss"]] for row in rows if "loss" in row]
files = [row["name"].partition("-")[2].partition("-")[2] for row in storage.get_artifacts("cats")]
told = rows[-1], storage.get_run_config("cats", run), loss, files
""",
    # The file is a log of LevelDB's form: blocks of 32 KiB, each record with a check sum, its length and its kind.
    Tracker.WANDB: """
import glob, json, os, struct
from wandb.proto import wandb_internal_pb2
(path,) = glob.glob(os.environ["WANDB_DIR"] + "/wandb/offline-run-*/*.wandb")
data, place, part, records = open(path, "rb").read(), 7, b"", []
while place + 7 <= len(data):
    if 32768 - place % 32768 < 7:
        place += 32768 - place % 32768
        continue
    _, length, kind = struct.unpack_from("<IHB", data, place)
    part += data[place + 7 : place + 7 + length]
    place += 7 + length
    if kind in (1, 4):
        records.append(wandb_internal_pb2.Record.FromString(part))
        part = b""
def values(items):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
figures, params, loss, files = {}, {}, [], []
for record in records:
    figures.update(values(record.summary.update))
    params.update(values(record.config.update))
    params.update(values(record.run.config.update))
    history = values(record.history.item)
    if "loss" in history:
        loss.append([history["step"], history["loss"]])
    files += [entry.path for entry in record.request.log_artifact.artifact.manifest.contents]
    files += [entry.path for entry in record.artifact.manifest.contents]
told = figures, params, loss, files
""",
}


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tracker writes into a folder; nothing is reached."""
    for name, value in {
        "MLFLOW_TRACKING_URI": (tmp_path / "mlruns").as_uri(),
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(tmp_path),
        "TRACKIO_DIR": str(tmp_path / "trackio"),
        "HF_HUB_OFFLINE": "1",
        "HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)


def read_back(tracker: Tracker) -> tuple[dict[str, Any], dict[str, Any], list[list[float]], list[str]]:
    script = f"{READERS[tracker]}\nprint('\\n' + json.dumps(told, default=str))"
    command = [str(PYTHON), "-P", "-c", f"import json{script}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    figures, params, loss, files = json.loads(ran.stdout.splitlines()[-1])
    return figures, params, loss, files


@pytest.mark.parametrize("tracker", Tracker)
def test_twelve_figures_curves_and_files_are_read_back(tracker: Tracker, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "metrics.csv").write_text("epoch,step,loss\n1,10,2.5\n2,20,1.25\n")
    (folder / "model.keras").write_bytes(b"a model")
    record = run_record(JOB, replace(a_receipt(folder), top5=0.99))
    assert len(record["figures"]) == len(FIGURES) == 12
    # Written twice: the second takes the place of the first (of Weights & Biases' offline form: beside it).
    for _ in range(1 if tracker is Tracker.WANDB else 2):
        assert write_run(tracker, record, "cats", python=(str(PYTHON),))
    figures, params, loss, files = read_back(tracker)
    assert {name: figures[name] for name in FIGURES} == record["figures"]
    assert {name: str(params[name]) for name in record["params"]} == record["params"]
    assert loss == [[10, 2.5], [20, 1.25]]
    assert "model.keras" in files


def test_a_tracker_that_nobody_signed_in_to_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "false")
    with pytest.raises(ThisMachineError, match="mlflow: The filesystem tracking backend"):
        write_run(Tracker.MLFLOW, run_record(JOB, a_receipt(None)), python=(str(PYTHON),))
