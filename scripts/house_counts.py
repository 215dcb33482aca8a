"""Counts of the house: modules and lines per folder, private functions called from one place, identical bodies.

`python -m scripts.house_counts` prints them for the four packages. They are read from the text of the modules alone:
nothing is imported. Numbers to compare before and after a rebuilding, not limits; limits are in
tests/unit/test_house.py.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PACKAGES = ("workloads", "pricing", "providers", "planner")
LEAST_BODY = 120
"""Characters of a body's syntax tree as text: shorter ones are alike by chance (`return self._name`)."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    path: Path
    tree: ast.Module
    lines: int

    @property
    def folder(self) -> str:
        return self.path.parent.relative_to(ROOT).as_posix()


def modules() -> list[Module]:
    """Every module of the packages, in the order of their paths."""
    module_rows = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            module_rows.append(Module(path, ast.parse(text), len(text.splitlines())))
    return module_rows


def functions(tree: ast.AST) -> Iterator[_Function]:
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            yield node


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def used_names(tree: ast.AST) -> Counter[str]:
    """How often each name is read, as a variable or as an attribute."""
    names: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names[node.id] += 1
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            names[node.attr] += 1
    return names


def called_once(module_rows: list[Module]) -> tuple[int, int]:
    """Private functions and methods of which the module has one use, and all private ones."""
    once = every = 0
    for module in module_rows:
        names = used_names(module.tree)
        for function in functions(module.tree):
            if is_private(function.name):
                every += 1
                once += names[function.name] == 1
    return once, every


def body_of(function: _Function) -> str:
    """The syntax tree of a body as text, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return ";".join(ast.dump(statement) for statement in body)


def identical_bodies(module_rows: list[Module]) -> list[list[str]]:
    """Groups of functions in more than one place whose bodies are the same."""
    groups: dict[str, list[str]] = defaultdict(list)
    for module in module_rows:
        for function in functions(module.tree):
            body = body_of(function)
            if len(body) >= LEAST_BODY:
                arguments = ast.dump(function.args)
                groups[f"{arguments}/{body}"].append(f"{module.path.relative_to(ROOT)}:{function.lineno}")
    return sorted(group for group in groups.values() if len(group) > 1)


def main() -> int:
    """Print every count."""
    module_rows = modules()
    write = sys.stdout.write
    by_folder: dict[str, list[int]] = defaultdict(list)
    for module in module_rows:
        by_folder[module.folder].append(module.lines)
    write(f"{'folder':32} modules  lines\n")
    for folder, lines in sorted(by_folder.items()):
        write(f"{folder:32} {len(lines):7} {sum(lines):6}\n")
    write(f"{'all':32} {len(module_rows):7} {sum(module.lines for module in module_rows):6}\n\n")
    once, every = called_once(module_rows)
    write(f"private functions called from one place: {once} of {every}\n")
    groups = identical_bodies(module_rows)
    write(f"identical bodies: {sum(map(len, groups))} functions in {len(groups)} groups\n")
    for group in groups:
        write(f"    {' = '.join(group)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
