"""Whether an offer can be obtained: a grade with its ground, its date and its source. Pure, but for the table of notes.

Sources, the first that says something: the vendor's own score for an account; what this home's launches met, which
counts less with every hour; the dated notes of `data/obtainability.csv`. Otherwise it is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from trainplan.pricing.grades import Market

TABLE = Path(__file__).parent / "data" / "obtainability.csv"
NOTE_COLUMNS = ("provider", "region", "device", "market", "grade", "as_of", "ground", "source")
NOTE_HOLDS = timedelta(days=180)
"""How long a dated note counts (assumed): vendors extend the stock of an accelerator in a region by quarters."""
HALF_LIFE = timedelta(hours=6)
"""After this time an own refusal or success counts half (assumed). In 12 recorded zones of K80s and V100s on EC2
(2022-10 and 2023-02, skypilot-org/spot-traces) the median correlation between being available now and later is 0.56
after 1 h, 0.42 after 2 h, 0.22 after 8 h and 0.20 after 24 h: no single half-life says that, 6 h lies between."""
HAD_FOR = timedelta(days=30)
"""So long a machine that was obtained tells that its price is a real one (ADR 24)."""
LEAST_WEIGHT = 0.25
"""Evidence of less weight says nothing: a single refusal or success is forgotten after two half-lives (assumed)."""
_POOR_WEIGHT = 1.5
"""Refusals of less weight leave it uncertain: one refusal may be a bad moment (assumed)."""
GOOD_FROM, POOR_BELOW = 0.7, 0.3
"""Limits of the grades on a score from 0 to 1 (assumed): those of 1 to 10 that tell whether spot is up
(providers/aws/prices.py), as tenths."""


class ObtainabilityGrade(StrEnum):
    """How likely a create request is to get a machine."""

    GOOD = "good"
    UNCERTAIN = "uncertain"
    POOR = "poor"
    UNKNOWN = "unknown"


CHANCES = {ObtainabilityGrade.GOOD: 0.85, ObtainabilityGrade.UNCERTAIN: 0.5, ObtainabilityGrade.POOR: 0.15}
"""The share of create requests that get a machine: the middle of each grade's part of a score from 0 to 1. Assumed:
vendors say that a higher score is more likely, and not how likely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obtainability:
    """`ground` says in words what the grade rests on, `source` who says so, `as_of` the day of it (None: no ground)."""

    grade: ObtainabilityGrade
    ground: str
    as_of: date | None
    source: str

    @property
    def chance(self) -> float | None:
        """The share of create requests that get a machine; None where it is unknown."""
        return CHANCES.get(self.grade)

    @property
    def is_known(self) -> bool:
        """Whether anybody says something."""
        return self.grade is not ObtainabilityGrade.UNKNOWN


UNKNOWN = Obtainability(
    grade=ObtainabilityGrade.UNKNOWN, ground="nobody says whether it can be obtained", as_of=None, source=""
)


class MachinePlacement(NamedTuple):
    """What a create request asks for, but for the zone."""

    provider: str
    region: str
    instance_type: str
    market: str


class Evidence(NamedTuple):
    """One create request of this home: when it was answered, and whether it got a machine."""

    placement: MachinePlacement
    at: datetime
    was_obtained: bool


class Note(NamedTuple):
    """A dated note: it holds for every machine with the device, in one region and market."""

    provider: str
    region: str
    device: str
    market: str
    obtainability: Obtainability


def grade_of_score(score: float) -> ObtainabilityGrade:
    """The grade of a score from 0 to 1. Raises ValueError for another."""
    if not 0 <= score <= 1:
        raise ValueError(f"a score lies between 0 and 1, not at {score}")
    if score >= GOOD_FROM:
        return ObtainabilityGrade.GOOD
    return ObtainabilityGrade.POOR if score < POOR_BELOW else ObtainabilityGrade.UNCERTAIN


def weighed(evidence: Sequence[Evidence], now: datetime) -> Obtainability | None:
    """What this home's requests for one machine in one place come to; None where too little of it is recent.

    Each counts half after HALF_LIFE. A clock that was set back makes nothing count more than once.
    """
    weights = [(one, 0.5 ** (max(now - one.at, timedelta(0)) / HALF_LIFE)) for one in evidence]
    obtained = sum(weight for one, weight in weights if one.was_obtained)
    refused = sum(weight for one, weight in weights if not one.was_obtained)
    if obtained + refused < LEAST_WEIGHT:
        return None
    grade = grade_of_score(obtained / (obtained + refused))
    if grade is ObtainabilityGrade.POOR and refused < _POOR_WEIGHT:
        grade = ObtainabilityGrade.UNCERTAIN
    newest = max(one.at for one in evidence)
    successes = sum(one.was_obtained for one in evidence)
    ground = (
        f"{successes} of {len(evidence)} requests of this home got a machine, the newest answer at "
        f"{newest:%Y-%m-%d %H:%M} {newest.tzname()}; an answer counts half after {HALF_LIFE / timedelta(hours=1):.0f} h"
    )
    return Obtainability(grade=grade, ground=ground, as_of=newest.date(), source="this home's launches (journal)")


def had_on_spot(evidence: Sequence[Evidence], now: datetime) -> list[tuple[str, str, str]]:
    """Provider, region and type of each machine that this home had on spot within HAD_FOR (for Catalog.assume)."""
    placements = {
        one.placement[:3]
        for one in evidence
        if one.was_obtained and one.placement.market == Market.SPOT and timedelta(0) <= now - one.at <= HAD_FOR
    }
    return sorted(placements)


def parse_notes(text: str, name: str) -> tuple[Note, ...]:
    """The rows of a table of notes. Raises TableError for one that cannot be."""
    from trainplan.pricing.table_text import table_rows

    return tuple(table_rows(text, name, (NOTE_COLUMNS,), _note))


@cache
def shipped_notes() -> tuple[Note, ...]:
    """The project's own table."""
    return parse_notes(TABLE.read_text(encoding="utf-8"), TABLE.name)


def note_of(notes: Sequence[Note], key: tuple[str, str, str, str], today: date) -> Obtainability | None:
    """The newest note for provider, region, device and market that still counts on a day; None where there is none."""
    current = [
        note.obtainability
        for note in notes
        if note[:4] == key
        and note.obtainability.as_of is not None
        and timedelta(0) <= today - note.obtainability.as_of <= NOTE_HOLDS
    ]
    return max(current, key=lambda obtainability: obtainability.as_of or date.min, default=None)


def _note(row: dict[str, str]) -> Note:
    grade = ObtainabilityGrade(row["grade"])
    if grade is ObtainabilityGrade.UNKNOWN:
        raise ValueError("grade unknown: leave the row out")
    empty = [column for column in NOTE_COLUMNS if not row[column].strip()]
    if empty:
        raise ValueError(f"{empty[0]} is empty: a note has a ground, a day and a source")
    obtainability = Obtainability(
        grade=grade, ground=row["ground"], as_of=date.fromisoformat(row["as_of"]), source=row["source"]
    )
    return Note(row["provider"], row["region"], row["device"], Market(row["market"]), obtainability)
