"""The names of the Python API with their signatures: who uses them finds them as they are until the next version."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from functools import cached_property
from typing import Any, Literal, get_args, get_origin

import pytest

import trainplan
from tests.conftest import ROOT, Golden
from trainplan.planner.runs.run import Outcome, Phase

MOST_SECONDS = 0.15
SDKS = {
    "boto3",
    "botocore",
    "google",
    "azure",
    "tensorflow",
    "keras",
    "jax",
    "torch",
    "numpy",
    "pandas",
    "typer",
    "rich",
    "pydantic",
}
IMPORT = """
import json, sys, time
before, began = {*sys.modules}, time.process_time()
import trainplan
seconds = time.process_time() - began
print(json.dumps([seconds, sorted({name.partition(".")[0] for name in {*sys.modules} - before})]))
"""


def test_names_and_signatures_are_frozen(golden: Golden) -> None:
    lines = [line for name in trainplan.__all__ for line in _lines(name, getattr(trainplan, name))]
    golden.check("api/names.txt", "\n".join(lines) + "\n")


def test_the_import_is_quick_and_loads_no_sdk() -> None:
    told = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout
    seconds, modules = json.loads(told)
    assert seconds < MOST_SECONDS
    assert not SDKS & {*modules}
    assert "trainplan" in modules


def test_phases_and_outcomes_are_those_of_runs() -> None:
    assert get_args(trainplan.Phase) == tuple(Phase)
    assert get_args(trainplan.Outcome) == tuple(Outcome)


def test_every_error_is_in_the_index_of_the_page() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    rows = [line.split("`")[1] for line in page.splitlines() if re.match(r"\| `\w+Error` \|", line)]
    assert rows == sorted(name for name in trainplan.__all__ if name.endswith("Error"))


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lunch'"):
        trainplan.lunch  # noqa: B018
    assert {*trainplan.__all__} <= {*dir(trainplan)}


def _lines(name: str, value: Any) -> list[str]:
    if get_origin(value) is Literal:
        return [f"{name} = {' | '.join(get_args(value))}"]
    if not inspect.isclass(value):
        return [f"{name}{inspect.signature(value)}"]
    head = f"{name}({', '.join(base.__name__ for base in value.__bases__)})"
    if issubclass(value, Exception):
        return [head]
    is_record = issubclass(value, tuple) or hasattr(value, "__dataclass_fields__")
    kinds = {key: kind for key, kind in value.__annotations__.items() if is_record and not key.startswith("_")}
    fields = [f"  {key}: {getattr(kind, '__forward_arg__', kind)}" for key, kind in kinds.items()]
    members = [(key, member) for key, member in vars(value).items() if not key.startswith("_") and key not in kinds]
    return [head, *fields, *(line for key, member in members for line in _of_member(key, member))]


def _of_member(name: str, member: Any) -> list[str]:
    if isinstance(member, property | cached_property):
        read = member.fget if isinstance(member, property) else member.func
        assert read is not None
        returned = read.__annotations__["return"]
        return [f"  {name} -> {returned}"]
    if isinstance(member, classmethod):
        return [f"  classmethod {name}{inspect.signature(member.__func__)}"]
    return [f"  {name}{inspect.signature(member)}"] if inspect.isfunction(member) else []
