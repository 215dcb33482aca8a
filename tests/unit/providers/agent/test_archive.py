"""agent.pyz: small, the same bytes every time, and understood by the oldest Python that an image may bring."""

from __future__ import annotations

import ast
import io
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import trainplan.providers.agent
import trainplan.workloads.output_files
from tests.rows import each_row
from trainplan.providers.cloud.agent_archive import agent_bytes, agent_sha256, reading_source

MOST_BYTES = 215_000
"""A machine fetches it once from its store; what it may not do is grow unnoticed."""
SOURCES = sorted(Path(trainplan.providers.agent.__path__[0]).glob("*.py"))
BESIDE = Path(trainplan.workloads.output_files.__file__)
OLDEST = (3, 8)


def test_the_bytes_are_the_same_every_time() -> None:
    assert agent_bytes() == agent_bytes()
    assert len(agent_sha256()) == 64


def test_it_is_small() -> None:
    size = len(agent_bytes())
    print(f"agent.pyz: {size} bytes")  # noqa: T201  the figure for whoever reads along
    assert size < MOST_BYTES


def test_it_holds_the_agent_and_nothing_else() -> None:
    names = set(zipfile.ZipFile(io.BytesIO(agent_bytes())).namelist())
    expected = {f"trainplan/providers/agent/{path.name}" for path in SOURCES}
    folders = {f"trainplan/{folder}__init__.py" for folder in ("", "providers/", "workloads/")}
    assert names == expected | folders | {"__main__.py", "trainplan/workloads/output_files.py"}


@each_row("path", [*SOURCES, BESIDE], ids=lambda path: path.stem)
def test_old_pythons_can_read_it(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=OLDEST)
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert imported <= {*sys.stdlib_module_names, "trainplan"}


def test_the_first_boots_part_stands_alone() -> None:
    assert b"trainplan.providers" not in reading_source()


def _pythons() -> list[str]:
    """This one, and the oldest where there is one that works."""
    old = shutil.which(f"python{OLDEST[0]}.{OLDEST[1]}")
    works = old and subprocess.run([old, "-c", ""], capture_output=True, check=False).returncode == 0
    return [sys.executable, *([old] if old and works else [])]


@pytest.mark.parametrize("python", _pythons(), ids=lambda path: Path(path).name)
def test_it_runs(python: str, tmp_path: Path) -> None:
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(agent_bytes())
    ran = subprocess.run([python, archive, "nonsense"], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    modules = [f"trainplan.providers.agent.{path.stem}" for path in SOURCES if path.stem != "__init__"]
    code = (
        f"import sys, importlib; sys.path.insert(0, {str(archive)!r}); [importlib.import_module(m) for m in {modules}]"
    )
    ran = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("python", _pythons(), ids=lambda path: Path(path).name)
def test_old_pythons_run_an_attempt(python: str, tmp_path: Path) -> None:
    """A whole attempt, of the tests' own machine, in that Python."""
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(agent_bytes())
    (tmp_path / "drive.py").write_text(_DRIVE)
    words = [python, str(tmp_path / "drive.py"), str(archive), str(tmp_path)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == ["failed", "IMAGE_NOT_PULLED"]


_DRIVE = """
import hashlib, json, pathlib, sys
sys.path.insert(0, sys.argv[1])
root = pathlib.Path(sys.argv[2])
from trainplan.providers.agent.agent import Agent
from trainplan.providers.agent.machine import AgentMachine
from trainplan.providers.agent.clock import Clock, stamp
from trainplan.providers.agent.processes import MachineProcesses
from trainplan.providers.agent.requests import Access
from trainplan.providers.agent.spec import Paths, read_spec

class Quick(Clock):
    past = 0.0
    def now(self): return super().now() + self.past
    def steady(self): return super().steady() + self.past
    def sleep(self, seconds): self.past += seconds

class Store:
    objects = {"job.json": b"{}"}
    def put(self, path, data): self.objects[path] = data
    def get(self, path, start=0, size=None): return self.objects[path]
    def list(self, prefix): return {}

for name in ("docker", "iptables"):
    (root / name).write_text("#!/bin/sh\\n[ $1 != pull ]\\n")
    (root / name).chmod(0o755)
clock, store = Quick(), Store()
spec = json.dumps({
    "run_id": "r", "attempt": 1, "images": ["x@sha256:" + "0" * 64], "command": ["true"],
    "device": {"kind": "cpu", "name": "cpu", "count": 1},
    "deadline": stamp(clock.now() + 9000), "boot_deadline": stamp(clock.now() + 3000),
    "job_sha256": hashlib.sha256(b"{}").hexdigest(),
})
access = Access({"cloud": "gcp", "run_uri": "gs://b/p"}, send=lambda *a, **k: (404, {}, b""), now=clock.now)
processes = MachineProcesses({"PATH": str(root) + ":/usr/bin:/bin"})
machine = AgentMachine(read_spec(spec), Paths(root / "disk", root / "memory"), clock, processes, access, store)
Agent(machine).run()
said = json.loads(store.objects["attempts/1/status.json"])
print(json.dumps([said["state"], said["reason"]]))
"""
