"""Running the trainer on a script of a person's own, in a process of its own, and seeing what is left of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from trainplan.workloads.job_mistakes import validated_job
from trainplan.workloads.script_file import read_script_file


def command(folder: Path, source: str, *options: str, attempt: int = 1, **keys: Any) -> list[str]:
    """The trainer's command line for a script, whose job lies in the run directory `folder`."""
    folder.mkdir(exist_ok=True)
    file = folder.parent / "train.py"
    file.write_text(source, encoding="utf-8")
    read = read_script_file(file)
    values = {
        "name": "mine",
        "script": str(file),
        "read_script": {"sha256": read.sha256, "source": read.source},
        **keys,
    }
    (folder / "job.json").write_text(validated_job(values, "job").to_json(), encoding="utf-8")
    words = ["--job", str(folder / "job.json"), "--run-dir", str(folder), "--attempt", str(attempt)]
    return [sys.executable, "-P", "-m", "trainplan.workloads.trainer", *words, *options]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1", "MARK": str(folder)}


def run(folder: Path, source: str, *options: str, **keys: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, source, *options, **keys),
        env=environment(folder), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def lines(folder: Path, attempt: int = 1) -> list[dict[str, Any]]:
    path = folder / "attempts" / str(attempt) / "progress.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def left(folder: Path) -> list[str]:
    """What still runs of a run directory, by the mark in its environment."""
    mark = f"MARK={folder}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append((path.parent / "cmdline").read_text())
        except OSError:
            continue
    return found


def until_stopped(source: str, step: int) -> str:
    """The script, which warns behind a step and waits there until it is asked to end, however late the signal is. It
    does not where it goes on from a checkpoint, or `WHOLE` is set."""
    return f"""\
import os, time, trainplan_run
def report(step, *figures, told=trainplan_run.report, **more):
    told(step, *figures, **more)
    if step != {step} or "WHOLE" in os.environ or trainplan_run._here().resumed_step:
        return
    trainplan_run._here().event("warning", message="waits")
    while not trainplan_run.should_stop():
        time.sleep(0.05)
trainplan_run.report = report
{source}"""
