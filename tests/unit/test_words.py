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
PARTICIPLES = {
    "found", "known", "asked", "told", "made", "given", "seen", "wanted", "said", "taken", "kept", "left", "held",
    "done", "gone", "heard", "brought", "needed", "looked", "listed", "named", "begun", "ended", "chosen", "shown",
    "meant", "missing", "standing", "bringing", "caught", "tried",
}  # fmt: skip
"""Words that say what happened to a value, not what it is."""


STORED = {"providers/sim/values.py:Fault.seen"}
"""Names that files of earlier versions hold."""


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
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
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

    A method needs none where a method of its name has one elsewhere: that of the protocol or class it implements.
    """
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    documented = {method.name for node in classes for method in _functions(node) if ast.get_docstring(method)}
    for path, tree in trees.items():
        if tree.body and not ast.get_docstring(tree):
            yield path
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                if not ast.get_docstring(node):
                    yield f"{path}:{node.name}"
                methods = _functions(node) if isinstance(node, ast.ClassDef) else ()
                yield from (
                    f"{path}:{node.name}.{method.name}"
                    for method in methods
                    if not method.name.startswith("_") and method.name not in documented
                )


def _functions(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [method for method in node.body if isinstance(method, ast.FunctionDef)]


def test_everything_public_has_a_docstring() -> None:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    assert list(undocumented(trees)) == []


def test_a_missing_docstring_is_noticed() -> None:
    source = '"""A module."""\nclass A:\n "A class."\n def f(self): ...\n def g(self):\n  "Text."\ndef h(): ...'
    assert list(undocumented({"a.py": ast.parse(source), "b.py": ast.parse("x = 1")})) == ["a.py:A.f", "a.py:h", "b.py"]


def test_the_glossary_has_each_word_once() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("## Glossary")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")][1:]
    words = [word.strip() for row in rows for word in row.split(",")]
    assert len(words) == len(set(words)) > 25
