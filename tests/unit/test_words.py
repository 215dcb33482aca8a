"""Names against the glossary of CONTRIBUTING.md: none is a bare participle, and no word has two entries."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("workloads", "pricing", "providers", "planner")
FOLDERS = (*PACKAGES, "scripts", "benchmarks", "tests")
PARTICIPLES = {
    "found", "known", "asked", "told", "made", "given", "seen", "wanted", "said", "taken", "kept", "left", "held",
    "done", "gone", "heard", "brought", "needed", "looked", "listed", "named", "begun", "ended", "chosen", "shown",
    "meant", "missing", "standing", "bringing", "caught", "tried",
}  # fmt: skip
"""Words that say what happened to a value, not what it is."""


STORED = {"providers/sim/values.py:Fault.seen", "tests/faults/verdict.py:Verdict.kept"}
"""Names that files of earlier versions hold, and docs/reliability.md with its figures."""


def names_of(path: str, tree: ast.Module) -> Iterator[str]:
    """The module, its classes, their fields, functions, their parameters, constants and attributes of `self`.

    Each as `path:Class.name(parameter)`. Local variables are left out, and so are the members of an enumeration: a
    state may be called `ENDED`.
    """
    yield path.rpartition("/")[2].removesuffix(".py")
    yield from (f"{path}:{name}" for name in _names_in(tree.body, ""))


def _names_in(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name
            is_enum = any(isinstance(base, ast.Name) and base.id.endswith("Enum") for base in node.bases)
            members = [part for part in node.body if not (is_enum and isinstance(part, ast.Assign))]
            yield from _names_in(members, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield prefix + node.name
            arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            yield from (f"{prefix}{node.name}({argument.arg})" for argument in arguments)
            yield from (f"{prefix}{name}" for name in _attributes_set_in(node))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (
                prefix + name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
            )


def _attributes_set_in(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def is_participle(name: str) -> bool:
    """Whether the last word of a name that `names_of` wrote is a bare participle."""
    last = re.split(r"[:.(]", name.rstrip(")"))[-1]
    return last.lower().lstrip("_") in PARTICIPLES


def test_no_name_is_a_bare_participle() -> None:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    names = {
        name
        for path in paths
        for name in names_of(path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        if is_participle(name)
    }
    assert names == STORED, "name the value by what it is: see the glossary in CONTRIBUTING.md"


@pytest.mark.parametrize(
    "source",
    [
        "def found(): ...",
        "def _found(): ...",
        "class Known: ...",
        "def f(asked): ...",
        "class A:\n def f(self, *, told): ...",
        "class A:\n kept: int",
        "class A:\n def f(self): self._seen = 1",
        "_NEEDED = 1",
        "SIZE, _LEFT = 1, 2",
    ],
)
def test_a_bare_participle_is_noticed(source: str) -> None:
    assert any(map(is_participle, names_of("a/b.py", ast.parse(source))))


@pytest.mark.parametrize(
    "source",
    [
        "def found_offers(): ...",
        "class A:\n def f(self, offers): ...",
        "class State(StrEnum):\n ENDED = 'ended'",
        "def f():\n done = 1",
    ],
)
def test_a_name_that_says_what_it_is_passes(source: str) -> None:
    assert not any(map(is_participle, names_of("a/b.py", ast.parse(source))))


def undocumented(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Public modules, classes, functions and methods without a docstring.

    A method needs none where a base class documents it, or a protocol whose every member its class has.
    """
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    by_name = {node.name: node for node in classes}
    promises = [_promise(node, by_name) for node in classes if "Protocol" in _base_names(node)]
    for path, tree in trees.items():
        if tree.body and not ast.get_docstring(tree):
            yield path
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                if not ast.get_docstring(node):
                    yield f"{path}:{node.name}"
                if isinstance(node, ast.ClassDef):
                    documented = _documented_elsewhere(node, promises, by_name)
                    yield from (
                        f"{path}:{node.name}.{method.name}"
                        for method in _functions(node)
                        if not (method.name.startswith("_") or method.name in documented or ast.get_docstring(method))
                    )


def _documented_elsewhere(
    node: ast.ClassDef, promises: list[tuple[set[str], set[str]]], by_name: dict[str, ast.ClassDef]
) -> set[str]:
    family = _family(node, by_name)
    members = {name for one in family for name in _members(one)}
    names = {method.name for one in family[1:] for method in _functions(one) if ast.get_docstring(method)}
    return names.union(*(documented for promise, documented in promises if promise <= members))


def _promise(protocol: ast.ClassDef, by_name: dict[str, ast.ClassDef]) -> tuple[set[str], set[str]]:
    """The names of a protocol's methods, and of those that have a docstring."""
    methods = [method for one in _family(protocol, by_name) for method in _functions(one)]
    return {method.name for method in methods}, {method.name for method in methods if ast.get_docstring(method)}


def _family(node: ast.ClassDef, by_name: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """The class and its base classes, as far as they are of this project."""
    bases = [by_name[name] for name in _base_names(node) if name in by_name and by_name[name] is not node]
    return [node, *(one for base in bases for one in _family(base, by_name))]


def _base_names(node: ast.ClassDef) -> list[str]:
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return [base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in bases]


def _members(node: ast.ClassDef) -> Iterator[str]:
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            yield part.name
            yield from _attributes_set_in(part)
        elif isinstance(part, ast.Assign | ast.AnnAssign):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _functions(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [method for method in node.body if isinstance(method, ast.FunctionDef)]


def test_everything_public_has_a_docstring() -> None:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    assert list(undocumented(trees)) == []


def test_a_missing_docstring_is_noticed() -> None:
    source = '"""A module."""\nclass A:\n "A class."\n def f(self): ...\n def g(self):\n  "Text."\ndef h(): ...'
    assert list(undocumented({"a.py": ast.parse(source), "b.py": ast.parse("x = 1")})) == ["a.py:A.f", "a.py:h", "b.py"]


def test_a_method_needs_no_docstring_where_its_protocol_has_one() -> None:
    protocol = '"""M."""\nclass P(Protocol):\n "A."\n def f(self):\n  "Text."\n def g(self):\n  "Text."\n'
    whole = 'class Whole:\n "A."\n def f(self): ...\n def g(self): ...\n'
    part = 'class Part:\n "A."\n def f(self): ...\n'
    heir = 'class Heir(P):\n "A."\n def f(self): ...\n'
    assert list(undocumented({"a.py": ast.parse(protocol + whole + part + heir)})) == ["a.py:Part.f"]


def test_the_glossary_has_each_word_once() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("## Glossary")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")][1:]
    words = [word.strip() for row in rows for word in row.split(",")]
    assert len(words) == len(set(words)) > 25
