"""Do the notebooks of examples/ run from their first cell to their last, on this computer and at no cost?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

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
