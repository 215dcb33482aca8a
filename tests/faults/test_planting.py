"""Planted defects still fit the code that they change."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import trainplan.planner.runs.decision.next_action as next_action
from tests.conftest import ROOT
from tests.faults.cases import CASES, Then
from tests.faults.clouds import NAMES
from tests.faults.defects import Defect
from tests.faults.last_caught import CaughtAt, caught_at, read
from tests.faults.plant_all import wrong_with
from tests.faults.planted import defects_of, how_it_breaks_down
from tests.faults.points import MOST_POINTS, Points
from tests.faults.verdict import Trial, Verdict

ENDLESS = "a client goes on after 5000 points"
DEFECT_MODULES = sorted((ROOT / "tests/faults").glob("*defects.py"))


@pytest.mark.sample
def test_every_defect_changes_something_into_what_takes_the_same_calls() -> None:
    """In a process of its own, which imports every vendor's library."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.faults.plant_all"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    *wrong, last = ran.stdout.splitlines()
    assert wrong == []
    assert int(last.split()[0]) > 100


@pytest.mark.sample
@pytest.mark.parametrize("provider", NAMES)
def test_every_defect_has_a_point_where_it_is_tried_first(provider: str) -> None:
    """Without one it is searched for at every point, which takes minutes."""
    recorded = {row.defect for row in read() if row.provider == provider}
    assert [one.name for one in defects_of(provider) if one.name not in recorded] == [], (
        f"python -m tests.faults --provider {provider} --share 0 --defects NAME --keep writes them"
    )


def _raises() -> None:
    raise RuntimeError("it does not fit")


def _takes_less() -> None:
    next_action.next_action = lambda run: run  # type: ignore[misc]


def _under_a_new_name() -> None:
    next_action.next_actions = next_action.next_action


@pytest.mark.sample
@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (_raises, "RuntimeError it does not fit"),
        (lambda: None, "it changes nothing"),
        (_takes_less, "is replaced by (run): "),
        (_under_a_new_name, "next_actions: there is no such name"),
    ],
)
def test_a_defect_that_is_none_is_told_and_leaves_nothing_changed(plant: Callable[[], None], message: str) -> None:
    before = dict(vars(next_action))
    (text,) = wrong_with(Defect("planted", plant))
    assert message in text
    assert vars(next_action) == before


def used_attributes(tree: ast.Module) -> Iterator[tuple[object, str]]:
    """What a module of defects imports, with the attributes of it that are set or used there; and the classes into
    which a defect puts methods, with what such a method uses of itself."""
    imports: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {name.asname: import_module(name.name) for name in node.names if name.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            module = import_module(node.module)
            # Names for type checkers only need not exist at run time.
            imports |= {name.asname or name.name: getattr(module, name.name, None) for name in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and imports.get(node.value.id):
            yield imports[node.value.id], node.attr
    for plant in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        functions = {one.name: one for one in plant.body if isinstance(one, ast.FunctionDef)}
        for node in (one for one in ast.walk(plant) if isinstance(one, ast.Assign)):
            method = functions.get(node.value.id) if isinstance(node.value, ast.Name) else None
            for target in node.targets if method else ():
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    owner = imports.get(target.value.id)
                    yield from ((owner, name) for name in _own_names(method) if inspect.isclass(owner))


def _own_names(method: ast.FunctionDef | None) -> Iterator[str]:
    for node in ast.walk(method) if method else ():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr


def _has(owner: Any, name: str) -> bool:
    if hasattr(owner, name) or name in getattr(owner, "__dataclass_fields__", {}):
        return True
    # What a class that is no dataclass sets in its __init__.
    return inspect.isclass(owner) and f"self.{name} = " in inspect.getsource(owner)


@pytest.mark.parametrize("path", DEFECT_MODULES, ids=lambda path: path.stem)
@pytest.mark.sample
def test_a_defect_uses_what_exists(path: Path) -> None:
    """An assignment to a name that has moved raises nothing, and plants nothing; a use of one raises where it is at
    work, which would be noticed of any code."""
    attributes = list(used_attributes(ast.parse(path.read_text(encoding="utf-8"))))
    assert attributes
    assert [(owner, name) for owner, name in attributes if not _has(owner, name)] == []


@pytest.mark.sample
@pytest.mark.parametrize(
    "source",
    [
        "import trainplan.planner.runs.execution.executor as launch\nlaunch.adopted_before = None",
        "import trainplan.providers.azure.listing as listing\ndef _():\n    listing.no_such_name()",
        "from trainplan.providers.gcp.compute import Machines\ndef _():\n    def send(self):\n"
        "        return self._made()\n    Machines.launch = send",
    ],
)
def test_a_use_of_a_name_that_is_gone_is_noticed(source: str) -> None:
    assert [name for owner, name in used_attributes(ast.parse(source)) if not _has(owner, name)]


@pytest.mark.sample
@pytest.mark.parametrize(
    ("told", "is_broken"),
    [
        ("Traceback (most recent call last):\nTypeError: fetched() got an unexpected keyword argument 'size'", True),
        (f'Traceback (most recent call last):\n  File "{DEFECT_MODULES[0]}", line 1\nKeyError: 1 (plan stop)', True),
        ("Traceback (most recent call last):\nplanner.errors.StateError: the journal is in use", False),
        (f'Traceback (most recent call last):\n  File "{DEFECT_MODULES[0]}", line 1\nAssertionError: {ENDLESS}', False),
        ("the run is still launching: TypeError: as the test wants it", False),
    ],
)
def test_a_client_that_its_defect_breaks_is_no_notice(told: str, is_broken: bool) -> None:
    assert bool(how_it_breaks_down(Verdict(trial=Trial(CASES[0], Then.STATUS), unrecorded=told))) is is_broken


@pytest.mark.sample
def test_where_each_defect_was_noticed_is_kept() -> None:
    """`python -m tests.faults --provider NAME --defects all --keep` writes it; one without a line is looked for."""
    kept = {(row.provider, row.defect) for row in read()}
    assert kept - {(name, defect.name) for name in NAMES for defect in defects_of(name)} == set()
    assert {provider for provider, _ in kept} == set(NAMES)


@pytest.mark.sample
def test_a_client_that_goes_on_for_ever_is_ended() -> None:
    points = Points(names=["before get"] * MOST_POINTS)
    with pytest.raises(AssertionError, match=ENDLESS), points.around("get"):
        pass


@pytest.mark.sample
def test_a_point_is_found_again_by_its_name() -> None:
    names = ("before put", "before create", "after create", "before create", "after create")
    trial = Trial(CASES[0], Then.ATTACH, 4)
    row = caught_at("sim", "a defect", trial, names)
    assert row == CaughtAt("sim", "a defect", "plain", "killed, then plan attach", "after create 2")
    assert row.trial(names) == trial
    assert row.trial(names[1:]) == Trial(CASES[0], Then.ATTACH, 3)
    assert row.trial(names[:4]) is None
    for undisturbed in (Trial(CASES[0], Then.STATUS), Trial(CASES[0], Then.LEFT, 3)):
        assert caught_at("sim", "a defect", undisturbed, names).trial(names) == undisturbed
