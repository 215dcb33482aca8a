"""`python -m scripts.keep_home`: keep a home as this version writes it, for the tests of all later versions.

In tests/data/homes/VERSION: settings, the client, the key of runs, the journal as SQL (a text, so that a change of it
can be read), and what `plan history --json` tells of it. Run it once for each release, before its tag
(CONTRIBUTING.md), and never for one that has been published: a home of it is on somebody's computer.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from trainplan.planner import __version__

HOMES = Path(__file__).parent.parent / "tests" / "data" / "homes"
PERSON = "/home/ada"
"""In the place of the folder that the home was in."""
SETTINGS = """\
engine = "process"
usd_per_hour = 0.1
budget_usd_per_month = 100
project = "thesis"
tax_percent = 19
sim_speed = 0

[project_budgets_usd_per_month]
thesis = 50

[aws]
bucket = "ada-runs"
region = "us-east-1"
regions = ["us-east-1", "eu-west-1"]
"""
JOB = """\
name: {name}
model: {{preset: vgg16}}
data: {{name: cifar10}}
epochs: {epochs}
global_batch_size: 128
constraints: {{deadline: 8h, budget_usd: 5}}
"""
_PLAN = (sys.executable, "-P", "-c", "from trainplan.planner.cli.main import main; main()")
_KEPT = ("settings.toml", "client.json", "run-keys.json")


def main() -> int:
    """Write the home of this version. Raises OSError, and CalledProcessError where a command fails."""
    target = HOMES / __version__
    with tempfile.TemporaryDirectory(prefix="plan-home-") as name:
        folder = Path(name)
        home = folder / "plan"
        home.mkdir(mode=0o700)
        (home / "settings.toml").write_text(SETTINGS, encoding="utf-8")
        _launch(folder, "finished", 2)
        _launch(folder, "stopped", 3, "--detach")  # another job: what was trained is not launched again
        (live,) = [row["run_id"] for row in json.loads(_plan(folder, "history", "--json")) if row["phase"] != "done"]
        _plan(folder, "stop", live)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        kept = {file: (home / file).read_text(encoding="utf-8") for file in _KEPT}
        kept |= {"journal.sql": dumped(home / "journal.sqlite"), "history.json": _plan(folder, "history", "--json")}
        client = json.loads(kept["client.json"])["clients"][0]["computer"]
        for file, text in kept.items():
            for found, put in ((name, PERSON), (client["host_name"], "laptop"), (str(client["machine_id"]), "0" * 32)):
                text = text.replace(f'"{found}', f'"{put}').replace(f"'{found}", f"'{put}")
            (target / file).write_text(text, encoding="utf-8", newline="\n")
    sys.stdout.write(f"{target}: {sum(path.stat().st_size for path in target.iterdir())} bytes\n")
    return 0


def dumped(journal: Path) -> str:
    """A database as SQL, its version included."""
    with closing(sqlite3.connect(journal)) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        return "\n".join([*database.iterdump(), f"PRAGMA user_version = {version};", ""])


def _launch(folder: Path, name: str, epochs: int, *options: str) -> None:
    (folder / f"{name}.yaml").write_text(JOB.format(name=name, epochs=epochs), encoding="utf-8")
    _plan(folder, "launch", f"{name}.yaml", "--provider", "sim", "--yes", *options)


def _plan(folder: Path, *words: str) -> str:
    there = os.environ | {"PLAN_HOME": str(folder / "plan")}
    return subprocess.run([*_PLAN, *words], cwd=folder, env=there, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
