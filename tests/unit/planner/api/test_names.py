"""The names of the Python API with their signatures: who uses them finds them as they are until the next version."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from tests.conftest import Golden
from trainplan.planner import errors
from trainplan.planner.api import ERRORS, PUBLIC


def test_names_and_signatures_are_frozen(golden: Golden) -> None:
    lines = []
    for name, module in PUBLIC.items():
        lines += _lines(
            name, getattr(import_module(f"{import_module('trainplan.planner.api').__name__}.{module}"), name)
        )
    for name in ERRORS:
        kind = getattr(errors, name)
        lines.append(f"{name}({', '.join(base.__name__ for base in kind.__bases__)})")
    golden.check("api/names.txt", "\n".join(lines) + "\n")


def _lines(name: str, value: Any) -> list[str]:
    if not inspect.isclass(value):
        return [f"{name}{inspect.signature(value)}"]
    if issubclass(value, tuple) or hasattr(value, "__dataclass_fields__"):
        fields = [f"  {field}: {kind}" for field, kind in value.__annotations__.items() if not field.startswith("_")]
    else:
        fields = []
    members = [(key, member) for key, member in vars(value).items() if not key.startswith("_")]
    return [f"{name}({', '.join(base.__name__ for base in value.__bases__)})", *fields, *_of_members(members, fields)]


def _of_members(members: list[tuple[str, Any]], fields: list[str]) -> list[str]:
    lines = []
    for name, member in members:
        if any(line.startswith(f"  {name}:") for line in fields):
            continue
        if isinstance(member, property):
            returned = member.fget.__annotations__["return"]
            lines.append(f"  {name} -> {returned}")
        elif isinstance(member, classmethod):
            lines.append(f"  classmethod {name}{inspect.signature(member.__func__)}")
        elif inspect.isfunction(member):
            lines.append(f"  {name}{inspect.signature(member)}")
    return lines
