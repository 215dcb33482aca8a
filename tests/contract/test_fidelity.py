"""Every behaviour of a double has its ground in tests/doubles/behaviours.csv, and docs/maintainers counts them."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.conftest import ROOT
from trainplan.extensions.drill.behaviours import SETTLES
from trainplan.extensions.drill.grounds import FOLDER, ground_text, results

DOUBLES = {"sim", "engine", "yard"} | {path.parent.name for path in (ROOT / "tests" / "doubles").glob("*/__init__.py")}
"""The simulated cloud, the container engine, the container that plays a machine, and the folder of each vendor's
double: a new one brings its own rows."""
BASES = {"documented", "recorded", "reported", "ours", "assumed"}
TABLE = ROOT / "tests" / "doubles" / "behaviours.csv"
_COUNTS = re.compile(
    r"(\d+)\s+behaviours:\s+(\d+)\s+vendor-documented,\s+(\d+)\s+recorded\s+live,\s+(\d+)\s+assumed,\s+(\d+)\s+others"
)


@dataclass(frozen=True, slots=True)
class Row:
    double: str
    behaviour: str
    basis: str
    where: str


def rows() -> list[Row]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return [Row(**cells) for cells in csv.DictReader(file)]


def stated(name: str) -> list[tuple[int, ...]]:
    """The counts that a text gives: all, documented, recorded, assumed, others."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return [tuple(map(int, found)) for found in _COUNTS.findall(text)]


def counted() -> tuple[int, ...]:
    by = Counter(row.basis for row in rows())
    return (len(rows()), by["documented"], by["recorded"], by["assumed"], by["reported"] + by["ours"])


def test_every_behaviour_has_its_ground() -> None:
    assert rows()
    for row in rows():
        assert row.double in DOUBLES, row
        assert row.basis in BASES, row
        assert row.where, row
        if row.basis == "documented":
            assert row.where.startswith("https://"), row
        if row.basis == "recorded":
            (test,) = re.findall(r"tests/[\w/.]+", row.where)[:1]
            assert (ROOT / test).exists(), row


def test_nothing_stands_there_twice() -> None:
    behaviours = [(row.double, row.behaviour) for row in rows()]
    assert len(set(behaviours)) == len(behaviours)
    assert {row.double for row in rows()} == DOUBLES


@pytest.mark.parametrize("name", ["docs/maintainers/fidelity.md", "README.md"])
def test_the_counts_that_are_stated_are_right(name: str) -> None:
    given = stated(name)
    assert given or name == "README.md"
    assert set(given) <= {counted()}


def test_the_table_of_the_bases_is_right() -> None:
    page = (ROOT / "docs" / "maintainers" / "fidelity.md").read_text(encoding="utf-8")
    told = {basis: int(count) for basis, count in re.findall(r"^\| ([a-z]+) \| (\d+) \|", page, re.MULTILINE)}
    assert told == Counter(row.basis for row in rows())


def test_what_a_drill_settles_is_a_behaviour() -> None:
    known = {f"{row.double}: {row.behaviour}" for row in rows()}
    assert {name for told in SETTLES.values() for name in told} - known == set()


def test_what_drills_have_settled_is_what_their_results_say() -> None:
    """Every result in docs/drills is read: one that names an account, or is none, ends here."""
    text = (ROOT / "docs" / "maintainers" / "fidelity.md").read_text(encoding="utf-8")
    assert text.partition("<!-- drills -->\n")[2].partition("\n<!-- /drills -->")[0] == ground_text(results(ROOT))
    listed = {path.name for path in (ROOT / FOLDER).iterdir()}
    assert {name for name in listed if not name.endswith(".json")} == {"README.md"}
