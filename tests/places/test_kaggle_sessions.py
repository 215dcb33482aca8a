"""The script of `plan export --to kaggle`, session after session, each with the output of the one before mounted."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.unit.planner.cli.command import plan

JOB = """\
name: digits
model: {layers: [8, M, 16, M], dense: [16], image_size: 8, dropout: 0.2}
data: {name: digits}
epochs: 40
global_batch_size: 16
framework: jax
checkpoint_every: 1s
"""
FIRST_SECONDS = 8
"""Of the first session, before the ten minutes that are left free; each later one has twice as many: the first ends
early on any machine, and one of them ends late enough on a slow one."""
SCRIPT = "import sys; from pathlib import Path; from trainplan.workloads.sessions.kaggle import train; "
SCRIPT += "sys.exit(train(Path(sys.argv[1]), Path(sys.argv[2])))"
MOST_SESSIONS = 7


@pytest.mark.e2e
@pytest.mark.train
@pytest.mark.slow
def test_sessions_go_on_from_the_output_of_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    job, out, inputs = tmp_path / "job.yaml", tmp_path / "out", tmp_path / "input"
    job.write_text(JOB, encoding="utf-8")
    assert plan("export", job, "--to", "kaggle", "--user", "ada", "--out", out).code == 0
    shutil.copytree(out / "trainer", inputs / "digits-trainer")
    sealed = json.loads((inputs / "digits-trainer" / "sessions.json").read_text(encoding="utf-8"))
    for number in range(MOST_SESSIONS):
        sealed["session_seconds"] = 600 + FIRST_SECONDS * 2**number
        (inputs / "digits-trainer" / "sessions.json").write_text(json.dumps(sealed), encoding="utf-8")
        working = tmp_path / f"working-{number}"
        working.mkdir()
        words = [sys.executable, "-c", SCRIPT, str(inputs), str(working)]
        said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert said.returncode == 0, said.stdout + said.stderr
        if (working / "run" / "output" / "model.keras").is_file():
            break
        assert "next: kaggle kernels push -p" in said.stdout
        shutil.rmtree(inputs / "last", ignore_errors=True)
        shutil.copytree(working, inputs / "last")
    assert number >= 1
    (run,) = plan("history", "import", working / "run" / "output" / "history.json", "--json").json
    assert (run["outcome"], run["receipt"]["attempts"], run["receipt"]["steps"]) == ("succeeded", number + 1, 3560)
