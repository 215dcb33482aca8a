"""Whether an offer can be obtained: grades, the table of notes, and what this home's launches met."""

from __future__ import annotations

import csv
from dataclasses import FrozenInstanceError
from datetime import date, timedelta
from itertools import cycle
from pathlib import Path
from statistics import median

import pytest

from tests.doubles.clock import NOON
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.obtainability import (
    CHANCES,
    HALF_LIFE,
    NOTE_COLUMNS,
    NOTE_HOLDS,
    UNKNOWN,
    Evidence,
    MachinePlacement,
    Obtainability,
    ObtainabilityGrade,
    grade_of_score,
    had_on_spot,
    note_of,
    parse_notes,
    shipped_notes,
    weighed,
)
from trainplan.pricing.offers import OfferQuery
from trainplan.pricing.table_text import TableError

GOOD, UNCERTAIN, POOR = (ObtainabilityGrade(name) for name in ("good", "uncertain", "poor"))
PLACEMENT = MachinePlacement("gcp", "europe-north1", "a3-highgpu-1g", "spot")
SPELLS = Path(__file__).parents[2] / "data" / "spot_spells.csv"


def answers(obtained: str, *, hours_ago: float = 0.0) -> list[Evidence]:
    """One answer for each letter, `y` a machine and `n` a refusal."""
    at = NOON - timedelta(hours=hours_ago)
    return [Evidence(PLACEMENT, at, was_obtained=letter == "y") for letter in obtained]


@pytest.mark.parametrize(
    ("score", "grade"), [(0.0, POOR), (0.29, POOR), (0.3, UNCERTAIN), (0.69, UNCERTAIN), (0.7, GOOD), (1.0, GOOD)]
)
def test_a_score_has_a_grade(score: float, grade: ObtainabilityGrade) -> None:
    assert grade_of_score(score) is grade


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_score_beyond_its_scale_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        grade_of_score(score)


def test_the_chance_of_a_grade_lies_within_it_and_unknown_has_none() -> None:
    assert {grade: grade_of_score(chance) for grade, chance in CHANCES.items()} == {grade: grade for grade in CHANCES}
    assert UNKNOWN.chance is None
    assert not UNKNOWN.is_known


def test_a_value_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        UNKNOWN.grade = GOOD  # type: ignore[misc]


@pytest.mark.parametrize(
    ("obtained", "hours_ago", "grade"),
    [
        ("", 0, None),
        ("y", 0, GOOD),
        ("n", 0, UNCERTAIN),
        ("nn", 0, POOR),
        ("yn", 0, UNCERTAIN),
        ("ynnn", 0, POOR),
        ("yyyn", 0, GOOD),
        ("y", 12, GOOD),
        ("y", 12.1, None),
        ("n", 12.1, None),
        ("nn", 12, UNCERTAIN),
        ("n" * 12, 18, POOR),
        ("n" * 12, 36, None),
    ],
)
def test_own_answers_count_less_with_time(obtained: str, hours_ago: float, grade: ObtainabilityGrade | None) -> None:
    known = weighed(answers(obtained, hours_ago=hours_ago), NOON)
    assert (known.grade if known else None) is grade


def test_a_new_answer_outweighs_older_ones() -> None:
    known = weighed([*answers("nnn", hours_ago=18), *answers("y")], NOON)
    assert known == Obtainability(
        grade=GOOD,
        ground="1 of 4 requests of this home got a machine, the newest answer at 2026-11-21 12:00 UTC; an answer "
        "counts half after 6 h",
        as_of=NOON.date(),
        source="this home's launches (journal)",
    )


def test_an_answer_from_the_future_counts_once() -> None:
    known = weighed([*answers("y", hours_ago=-1000), *answers("n")], NOON)
    assert known is not None
    assert known.grade is UNCERTAIN


def test_the_machines_that_were_had_on_spot_within_a_month() -> None:
    month = timedelta(days=30) / timedelta(hours=1)
    on_demand = Evidence(PLACEMENT._replace(market="on_demand", region="us-central1"), NOON, was_obtained=True)
    assert had_on_spot([*answers("ny", hours_ago=month), on_demand], NOON) == [PLACEMENT[:3]]
    assert had_on_spot([*answers("y", hours_ago=month + 1), *answers("n")], NOON) == []


def test_the_half_life_lies_where_recorded_zones_put_it() -> None:
    """The figures that the docstring of HALF_LIFE states, from the recorded spells of 12 zones."""
    with SPELLS.open(encoding="utf-8", newline="") as text:
        rows = [row for row in csv.reader(text) if row[0].startswith("avail")]
    zones = [(states(row[2], row[3]), int(row[1])) for row in rows]
    assert len(zones) == 12
    medians = {hours: median(correlation(up, int(hours * 3600 / gap)) for up, gap in zones) for hours in (1, 2, 8, 24)}
    assert medians == {
        1: pytest.approx(0.56, abs=0.01), 2: pytest.approx(0.42, abs=0.01), 8: pytest.approx(0.22, abs=0.01),
        24: pytest.approx(0.20, abs=0.01),
    }  # fmt: skip
    assert 2 <= HALF_LIFE / timedelta(hours=1) <= 8


def states(first: str, spells: str) -> list[bool]:
    """Whether the zone was up at each tick."""
    kinds = cycle([first == "up", first != "up"])
    return [is_up for is_up, spell in zip(kinds, spells.split(), strict=False) for _ in range(int(spell))]


def correlation(up: list[bool], lag: int) -> float:
    """Between a tick and one so many later."""
    mean = sum(up) / len(up)
    pairs = zip(up[:-lag], up[lag:], strict=True)
    return sum((now - mean) * (later - mean) for now, later in pairs) / (len(up) - lag) / (mean * (1 - mean))


# --- the table of notes ------------------------------------------------------------------------------------------


def test_every_shipped_note_is_about_offers_of_the_catalog() -> None:
    with Catalog.open() as catalog:
        for note in shipped_notes():
            query = OfferQuery(
                providers=frozenset({note.provider}), regions=frozenset({note.region}),
                devices=frozenset({note.device}), markets=frozenset({note.market}),
            )  # fmt: skip
            assert catalog.offers(query, date(2026, 11, 23)), note


def test_the_note_on_h100_in_europe_north1() -> None:
    key = ("gcp", "europe-north1", "H100", "spot")
    note = note_of(shipped_notes(), key, date(2026, 11, 23))
    assert note is not None
    assert (note.grade, note.as_of) == (POOR, date(2026, 8, 14))
    assert note_of(shipped_notes(), ("gcp", "us-central1", "H100", "spot"), date(2026, 11, 23)) is None


def test_a_note_counts_from_its_day_for_half_a_year() -> None:
    row = "gcp,r1,T4,spot,{grade},{day},refused,https://example.org/note\n"
    text = ",".join(NOTE_COLUMNS) + "\n" + row.format(grade="poor", day="2026-01-01")
    notes = parse_notes(text + row.format(grade="good", day="2026-03-01"), "notes.csv")
    key = ("gcp", "r1", "T4", "spot")

    def grade_on(day: date) -> ObtainabilityGrade | None:
        note = note_of(notes, key, day)
        return note.grade if note else None

    assert grade_on(date(2025, 12, 31)) is None
    assert grade_on(date(2026, 2, 1)) is POOR
    assert grade_on(date(2026, 3, 1)) is GOOD
    assert grade_on(date(2026, 3, 1) + NOTE_HOLDS) is GOOD
    assert grade_on(date(2026, 3, 2) + NOTE_HOLDS) is None


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("gcp,r1,T4,spot,poor,2026-01-01,refused,", "source is empty"),
        ("gcp,r1,T4,spot,poor,,refused,x", "as_of is empty"),
        ("gcp,r1,T4,spot,unknown,2026-01-01,refused,x", "leave the row out"),
        ("gcp,r1,T4,spot,bad,2026-01-01,refused,x", "'bad' is not a valid"),
        ("gcp,r1,T4,cheap,poor,2026-01-01,refused,x", "'cheap' is not a valid"),
    ],
)
def test_a_note_that_cannot_be_is_refused(row: str, why: str) -> None:
    with pytest.raises(TableError, match=rf"notes\.csv:2: .*{why}"):
        parse_notes(f"{','.join(NOTE_COLUMNS)}\n{row}\n", "notes.csv")
