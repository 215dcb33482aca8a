"""The wheel beside packages of other people that have the names of our folders: both are untouched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOLDERS = ("extensions", "planner", "pricing", "providers", "workloads")
FOREIGN = 'raise RuntimeError("somebody else\'s package was imported")\n'
BUILD = "import sys; from hatchling import build; print(build.build_wheel(sys.argv[1]))"
MODULES = (
    "import json, sys, trainplan; from trainplan.planner.cli.main import run; "
    "code = run(['estimate', '--model', 'vgg16', '--dataset', 'cifar10', '--json']); "
    "print(json.dumps([code, [getattr(one, '__file__', '') for name, one in sys.modules.items() "
    "if name.partition('.')[0] == 'trainplan']]), file=sys.stderr)"
)
VERSION = "import sys; sys.argv[1:] = ['--version']; from trainplan.planner.cli.main import main; main()"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a checkout without links, as on some Windows, unpacked beside four packages of somebody else's."""
    copy, target = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("site")
    for name in (*FOLDERS, "scripts"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.sqlite"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copyfile(ROOT / name, copy / name)
    (copy / "src" / "trainplan").mkdir(parents=True)
    for path in (ROOT / "src" / "trainplan").iterdir():
        if path.is_symlink() or path.is_file():
            text = str(path.readlink()) if path.is_symlink() else path.read_text(encoding="utf-8")
            (copy / "src" / "trainplan" / path.name).write_text(text, encoding="utf-8")
    for name in FOLDERS:
        (target / name).mkdir()
        (target / name / "__init__.py").write_text(FOREIGN, encoding="utf-8")
    wheel = target / python(BUILD, copy, str(target), cwd=copy).stdout.split()[-1]
    with zipfile.ZipFile(wheel) as archive:
        assert {name.partition("/")[0].partition("-")[0] for name in archive.namelist()} == {"trainplan"}
        archive.extractall(target)
    return target


def python(code: str, path: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    there = os.environ | {"PYTHONPATH": str(path), "PLAN_HOME": str(cwd / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        cwd=cwd, env=there, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip


def test_plan_works_beside_packages_of_the_same_names(site: Path, tmp_path: Path) -> None:
    assert python(VERSION, site, cwd=tmp_path).stdout.startswith("plan ")
    said = python(MODULES, site, cwd=tmp_path)
    assert '"candidates"' in said.stdout
    assert said.stderr.splitlines()[-1].startswith("[0, ")
    files = said.stderr.splitlines()[-1].count(f'"{site}/trainplan/')
    assert files > 50
    assert files == said.stderr.splitlines()[-1].count('.py"'), "a module is not the wheel's"


@pytest.mark.parametrize("name", FOLDERS)
def test_packages_of_the_same_names_are_untouched(name: str, site: Path, tmp_path: Path) -> None:
    assert [path.name for path in (site / name).iterdir()] == ["__init__.py"]
    with pytest.raises(subprocess.CalledProcessError) as caught:
        python(f"import {name}", site, cwd=tmp_path)
    assert "somebody else's package was imported" in caught.value.stderr
