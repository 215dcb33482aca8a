"""Grants and free tiers with accelerators: what, up to which limit, whether a card is asked for, and who says so."""

from __future__ import annotations

import csv
from datetime import date
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).parent / "data" / "free.csv"
GRANT_COLUMNS = ("name", "provider", "what", "limit", "card", "as_of", "source")


class Grant(NamedTuple):
    """`provider` is where it is spent, "" for a place of its own; `wants_card`: a card or a billing account is asked
    for."""

    name: str
    provider: str
    what: str
    limit: str
    wants_card: bool
    as_of: date
    source: str

    @property
    def text(self) -> str:
        """`Kaggle (2 x T4 in notebooks; 30 h a week; no card)`."""
        return f"{self.name} ({self.what}; {self.limit}; {'a card' if self.wants_card else 'no card'})"


def grants() -> tuple[Grant, ...]:
    """Return all of the table, in its order. Raises OSError or ValueError where the shipped table is none."""
    return _grants()


def grants_beside(provider: str) -> tuple[Grant, ...]:
    """Those that help somebody whose account at a provider has no quota: places of their own first, then what is spent
    at that provider."""
    return tuple(one for own in ("", provider) for one in grants() if one.provider == own)


@cache
def _grants() -> tuple[Grant, ...]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return tuple(_grant(row) for row in csv.DictReader(file))


def _grant(row: dict[str, str]) -> Grant:
    if row["card"] not in ("yes", "no") or not row["source"]:
        raise ValueError(f"{row['name']}: card is yes or no, and somebody says so")
    return Grant(
        name=row["name"],
        provider=row["provider"],
        what=row["what"],
        limit=row["limit"],
        wants_card=row["card"] == "yes",
        as_of=date.fromisoformat(row["as_of"]),
        source=row["source"],
    )
