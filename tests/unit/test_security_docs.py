"""docs/security.md: every statement names a test that exists, or says that it is not proven."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
_TEST_NAME = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
_WHO = (
    "stranger's job", "container", "machine's root", "another run", "another user of this computer", "stolen sign-in",
    "network", "dependency",
)  # fmt: skip
_HEADS = ("| what they could want |", "|---|")


@cache
def _tests_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def statements() -> list[str]:
    """Rows of tables without their heads, points of lists and paragraphs; each is one statement."""
    rows = [line for line in TEXT.splitlines() if line.startswith("|") and not line.startswith(_HEADS)]
    prose = "\n".join(line for line in TEXT.splitlines() if not line.startswith(("|", "#")))
    return [*rows, *(part.strip() for part in re.split(r"\n\n+|\n(?=- )", prose) if part.strip())]


def test_every_test_that_is_named_exists() -> None:
    named = _TEST_NAME.findall(TEXT)
    assert len(named) > 50
    assert [f"{path}::{name}" for path, name in named if name not in _tests_of(path)] == []


@pytest.mark.parametrize("statement", statements(), ids=lambda text: text[:60])
def test_every_statement_has_a_test_or_is_not_proven(statement: str) -> None:
    shown_by = statement.rstrip("| ").rpartition("|")[2] if statement.startswith("|") else statement
    assert _TEST_NAME.search(shown_by) or "not proven" in shown_by.lower()


@pytest.mark.parametrize("who", _WHO)
def test_everybody_who_could_do_harm_has_a_table(who: str) -> None:
    assert any(who in line.lower() for line in TEXT.splitlines() if line.startswith("## "))


def test_no_statement_that_was_found_false_is_back() -> None:
    """A review found these untrue."""
    for words in ("make anything that bills, or reach", "delete any instance", "read data sets there"):
        assert words not in TEXT
