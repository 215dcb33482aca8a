"""What CI installs is pinned with hashes, is audited, and is listed in each build."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.lock import LOCK, PYTHONS, TRACKERS_LOCK, locked, of_trackers, requirements
from tests.conftest import ROOT

ENVIRONMENT = {"sys_platform": "linux", "platform_machine": "x86_64"}


@pytest.mark.parametrize("lock", [LOCK, TRACKERS_LOCK], ids=lambda path: path.stem)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_all_that_the_project_asks_for(python: str, lock: Path) -> None:
    """After a change of pyproject.toml: make lock."""
    pins, lacking = locked(lock), []
    for line in (requirements() if lock == LOCK else of_trackers()).splitlines():
        asked = Requirement(line)
        if asked.marker is not None and not asked.marker.evaluate({**ENVIRONMENT, "python_version": python}):
            continue
        if pins.get(canonicalize_name(asked.name), "") not in asked.specifier:
            lacking.append(line)
    assert lacking == []


@pytest.mark.parametrize(("lock", "least"), [(LOCK, 100), (TRACKERS_LOCK, 50)], ids=["ci", "trackers"])
def test_every_pin_has_a_hash_and_no_address(lock: Path, least: int) -> None:
    entries = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").strip())[1:]
    assert len(entries) >= len(locked(lock)) > least
    assert all(re.fullmatch(r"[\w.-]+==[^\s:/]+( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+", e) for e in entries)


def test_set_up_installs_from_the_lock_with_hashes() -> None:
    """As make would do it here, without doing it."""
    ran = subprocess.run(
        ["make", "--dry-run", "--always-make", ".venv/.dev"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "--no-deps --require-hashes -r requirements/ci.txt" in ran.stdout


@pytest.mark.slow
def test_a_build_lists_every_part_with_its_hash(tmp_path: Path) -> None:
    """What scripts/build.sh does for each list, for the shortest one; the form is checked by the tool."""
    source = min((ROOT / "providers" / "cloud" / "data" / "pinned").glob("*.txt"), key=lambda path: path.stat().st_size)
    out = tmp_path / "parts.json"
    words = [sys.executable, "-m", "cyclonedx_py", "requirements", str(source), "--pyproject", "pyproject.toml"]
    subprocess.run([*words, "--output-file", str(out)], cwd=ROOT, check=True, capture_output=True, timeout=300)
    told = json.loads(out.read_text(encoding="utf-8"))
    assert told["bomFormat"] == "CycloneDX"
    assert told["metadata"]["component"]["name"] == "trainplan"
    pinned = set(re.findall(r"^([\w.-]+)==([^\s;]+)", source.read_text(encoding="utf-8"), re.MULTILINE))
    assert {(row["name"], row["version"]) for row in told["components"]} == pinned
    hashes = [ref.get("hashes") for row in told["components"] for ref in row["externalReferences"]]
    assert hashes
    assert all(hashes)
    assert "cyclonedx-py" in (ROOT / "scripts" / "build.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize(("status", "code"), [(0, 0), (1, 9)])
def test_an_audit_that_could_not_look_is_a_failure(tmp_path: Path, status: int, code: int) -> None:
    """pip-audit passes over a package of which it learns nothing, unless it is told to be strict."""
    stub = tmp_path / "pip-audit"
    stub.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/asked"\nexit {status}\n', encoding="utf-8")
    stub.chmod(0o755)
    ran = subprocess.run([ROOT / "scripts" / "audit.sh", tmp_path], capture_output=True, text=True, check=False)
    assert ran.returncode == code
    asked = (tmp_path / "asked").read_text(encoding="utf-8").split()
    assert {"--strict", "--require-hashes", "requirements/ci.txt"} <= set(asked)
    assert ("requirements/trackers.txt" in asked) == (not status)
    assert ("make lock" in ran.stderr) == bool(status)
