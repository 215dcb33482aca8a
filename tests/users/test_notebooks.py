"""Do the notebooks of examples/ run from their first cell to their last, on this computer and at no cost?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from tests.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
MOST_SECONDS = 400


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLAN_ENGINE", "process")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    folder = tmp_path / "work"
    folder.mkdir()
    play = [sys.executable, "-m", "tests.places.play", str(notebook)]
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    played = subprocess.run(play, cwd=folder, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    assert played.returncode == 0, played.stderr
    if "predict" in notebook.stem:
        assert "it is a 3" in played.stdout
        assert "succeeded 0" in played.stdout
        assert list(folder.glob("digits-*/model.keras"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(notebook: Path) -> None:
    cells = nbformat.read(notebook, as_version=4).cells  # type: ignore[no-untyped-call]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]


CELL = """
import trainplan
plan = trainplan.estimate(trainplan.Job.read({job!r}), providers=["sim"])
try:
    print(trainplan.launch(plan[0], max_cost_usd=1).stop(quiet=True).outcome)
except trainplan.TrainplanError as error:
    print(type(error).__name__, error.hint)
"""
CELL_SECONDS = 60


def test_the_question_of_a_launch_is_put_into_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    try:
        answers = {answer: _printed(client, answer) for answer in ("y", "n", None)}
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert answers["y"] == "stopped\n"
    assert answers["n"].startswith("DeclinedError")
    assert answers[None] == "BadInputError yes=True launches without asking\n"


def _printed(client: BlockingKernelClient, answer: str | None) -> str:
    """What the cell prints where its question is answered so; None: by a front end that has no field for an answer."""
    printed: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            assert message["content"]["name"] == "stdout", "what a call shows is red in a notebook"
            printed.append(message["content"]["text"])

    client.execute_interactive(
        CELL.format(job=str(ROOT / "examples" / "digits-vgg.yaml")),
        allow_stdin=answer is not None,
        stdin_hook=lambda _: client.input(answer or ""),
        output_hook=hear,
        timeout=CELL_SECONDS,
    )
    return "".join(printed)
