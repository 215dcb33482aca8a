"""Planted defects still fit the code that they change."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PLANTS_ALL = """
from tests.faults.clouds import NAMES
from tests.faults.planted import defects_of

planted = set()
for provider in NAMES:
    for defect in defects_of(provider):
        if defect.name not in planted:
            planted.add(defect.name)
            try:
                defect.plant()
            except Exception as error:
                print(f"{defect.name}: {type(error).__name__} {error}")
print(len(planted), "planted")
"""


@pytest.mark.sample
def test_every_defect_can_be_planted() -> None:
    """In a process of its own, as what is planted stays."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-c", _PLANTS_ALL]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    *wrong, last = ran.stdout.splitlines()
    assert wrong == []
    assert int(last.split()[0]) > 100


DEFECT_MODULES = sorted((ROOT / "tests/faults").glob("*defects.py"))


def assigned_attributes(tree: ast.Module) -> Iterator[tuple[object, str]]:
    """What a module of defects imports, and the attributes of it that a defect assigns to."""
    imports: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {name.asname: import_module(name.name) for name in node.names if name.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            module = import_module(node.module)
            # Names for type checkers only need not exist at run time.
            imports |= {name.asname or name.name: getattr(module, name.name, None) for name in node.names}
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in imports:
                yield imports[target.value.id], target.attr


@pytest.mark.parametrize("path", DEFECT_MODULES, ids=lambda path: path.stem)
def test_a_defect_replaces_what_exists(path: Path) -> None:
    """An assignment to a name that has moved raises nothing, and plants nothing."""
    attributes = list(assigned_attributes(ast.parse(path.read_text(encoding="utf-8"))))
    assert attributes or path.stem == "shared_defects"
    assert [(owner, name) for owner, name in attributes if not hasattr(owner, name)] == []


def test_an_assignment_to_a_name_that_is_gone_is_noticed() -> None:
    source = "import planner.runs.execution.executor as launch\nlaunch.adopted_before = None"
    ((owner, name),) = assigned_attributes(ast.parse(source))
    assert not hasattr(owner, name)
