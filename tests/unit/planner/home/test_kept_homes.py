"""A home that a release has written opens in this version: settings, journal, receipts. `python -m scripts.keep_home`
keeps one for each release (CONTRIBUTING.md)."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scripts.keep_home import HOMES, JOB
from tests.unit.planner.cli.command import plan
from trainplan.planner import __version__
from trainplan.planner.settings import load_settings

KEPT = sorted(path for path in HOMES.iterdir() if path.is_dir())


@pytest.fixture(params=KEPT, ids=lambda path: path.name)
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a release, of which `PLAN_HOME` is now the home."""
    folder: Path = request.param
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    for name in ("settings.toml", "client.json", "run-keys.json"):
        shutil.copyfile(folder / name, home / name)
    with closing(sqlite3.connect(home / "journal.sqlite")) as database:
        database.executescript((folder / "journal.sql").read_text(encoding="utf-8"))
    for path in home.iterdir():
        path.chmod(0o600)
    monkeypatch.setenv("PLAN_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return folder


def test_this_version_has_one() -> None:
    """Until it is released it may be written anew; from then on never."""
    assert KEPT[-1].name == __version__


def test_its_runs_are_told_as_they_were(kept: Path) -> None:
    then = json.loads((kept / "history.json").read_text(encoding="utf-8"))
    now = plan("history", "--json").json
    assert {row["outcome"] for row in then} == {"succeeded", "stopped"}
    assert [{name: row[name] for name in before} for row, before in zip(now, then, strict=True)] == then
    for row in then:
        assert plan("report", row["run_id"], "--json").code == 0
    assert plan("status").out.startswith("no active runs;")


def test_its_settings_are_read(kept: Path) -> None:
    settings = load_settings(os.environ)
    assert (settings.tax_percent, settings.project, float(settings.usd_per_hour)) == (19, "thesis", 0.1)
    assert settings.clouds["aws"]["bucket"] == "ada-runs"


def test_a_run_is_launched_from_it(kept: Path, tmp_path: Path) -> None:
    """On the simulated cloud, which has none of the regions that the settings name for AWS."""
    (tmp_path / "job.yaml").write_text(JOB.format(name="another", epochs=2), encoding="utf-8")
    done = plan("launch", "job.yaml", "--provider", "sim", "--yes")
    assert done.code == 0, done.err
    assert {row["job_name"] for row in plan("history", "--json").json} == {"another", "stopped", "finished"}
