"""Places that people still name and where nothing can be rented any more: since when, and what to take instead."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).parent / "data" / "retired_places.csv"
_BETWEEN_WORDS = str.maketrans("", "", " -_.")


class RetiredPlace(NamedTuple):
    """`until` is the day or month of its end ("": the source has none), `what` became of it, `instead` what to take."""

    title: str
    until: str
    what: str
    instead: str
    source: str

    @property
    def text(self) -> str:
        """`FloydHub closed (2021-08)`."""
        return f"{self.title} {self.what}{f' ({self.until})' if self.until else ''}"


def retired_place(name: str) -> RetiredPlace | None:
    """The place of this name, capitals and what stands between its words aside; None for any other. Raises OSError or
    ValueError where the shipped table is none."""
    return _places().get(name.lower().translate(_BETWEEN_WORDS))


@cache
def _places() -> dict[str, RetiredPlace]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {
            row["name"]: RetiredPlace(row["title"], row["until"], row["what"], row["instead"], row["source"])
            for row in csv.DictReader(file)
        }
