"""Text tables: a file with a fixed header becomes rows, and a row that cannot be true is refused with its place."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from trainplan.pricing.grades import PriceGrade


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where prices were read, and what kind of price that makes them."""

    id: str
    kind: PriceGrade
    text: str


UNFILLED = frozenset(("REGION", "MACHINE", "USD", "DAY", "DEVICE", "GIB", "VCPUS", "KIND", "WHERE", "SECONDS"))
"""What `python -m scripts.new_provider` leaves for a person to fill in."""
T = TypeVar("T")
K = TypeVar("K")
Kind = TypeVar("Kind", bound=StrEnum)


class TableError(ValueError):
    """A row of a text table that cannot be true; the message names file, line and value."""


def read_table(path: Path, parse: Callable[[str, str], list[T]]) -> list[T]:
    """What `parse` makes of a file's text and name. Raises TableError, and OSError for a file that is not there."""
    with path.open(encoding="utf-8", newline="") as text:
        return parse(text.read(), path.name)


def table_rows(
    text: str, name: str, columns: Sequence[Sequence[str]], parse: Callable[[dict[str, str]], T]
) -> Iterator[T]:
    """Each row as `parse` makes it; `columns` are the headers that will do. Raises TableError."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    if tuple(reader.fieldnames or ()) not in columns:
        raise TableError(f"{name}: the columns must be {','.join(columns[0])}")
    for row in reader:
        try:
            _check_filled(row)
            yield parse(row)
        except (KeyError, TypeError, ValueError, InvalidOperation) as error:
            raise TableError(f"{name}:{reader.line_num}: {error}") from error


def _check_filled(row: Mapping[str, object]) -> None:
    left = [f"{column} {cell}" for column, cell in row.items() if isinstance(cell, str) and cell in UNFILLED]
    if left:
        raise ValueError(f"to be filled in: {', '.join(left)}")


def look_up(entries: Mapping[K, T], key: K, what: str) -> T:
    """The row that a cell names. Raises ValueError saying what it is, where it is missing, and what is there."""
    if key not in entries:
        raise ValueError(f"{what}: add a row there")
    return entries[key]


def member(row: Mapping[str, str], column: str, kinds: type[Kind]) -> Kind:
    """A cell that is one of a few words. Raises ValueError naming the column and the words."""
    try:
        return kinds(row[column])
    except ValueError as error:
        raise ValueError(f"{column} {row[column]!r} is not one of {', '.join(kinds)}") from error


def whole(row: Mapping[str, str], column: str) -> int:
    """A cell that is a whole number. Raises ValueError naming the column."""
    try:
        return int(row[column])
    except ValueError as error:
        raise ValueError(f"{column} {row[column]!r} is not a whole number") from error


def number(row: Mapping[str, str], column: str) -> float | None:
    """A cell that is a number; None where it is empty. Raises ValueError naming the column."""
    try:
        return float(row[column]) if row[column] else None
    except ValueError as error:
        raise ValueError(f"{column} {row[column]!r} is not a number") from error


def date_of(row: Mapping[str, str], column: str) -> date | None:
    """A cell that is a day as 2026-11-23; None where it is empty. Raises ValueError naming the column."""
    try:
        return day_of(row[column])
    except ValueError as error:
        raise ValueError(f"{column} {row[column]!r} is not a day as 2026-11-23") from error


def usd(row: Mapping[str, str], column: str, *, is_free: bool = False) -> Decimal | None:
    """A cell that is a price, or nothing for what `is_free`; None where it is empty or not there. Raises ValueError
    naming the column."""
    text = row.get(column, "")
    if not text:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{column} {text!r} is not a number") from error
    if is_free and value == 0:
        return value
    if not (value.is_finite() and value > 0):
        raise ValueError(f"{column}: a price is above 0, not {text}")
    return value


def day_of(text: str) -> date | None:
    """A day as 2026-11-23; None where the column is empty. Raises ValueError."""
    return date.fromisoformat(text) if text else None
