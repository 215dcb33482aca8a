"""Places that train at no cost, and their limits: how long a session lasts, how many hours a week has.

A row is a machine of an offers table that costs nothing. What its vendor does not publish is named in `assumed`.
"""

from __future__ import annotations

import csv
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

FREE_PLACES = "free_places.csv"
TABLE = Path(__file__).parent / "data" / FREE_PLACES
_HOURS = ("session_hours", "planned_hours", "weekly_hours")
_WHOLE = ("idle_minutes", "storage_gb", "data_gb")
FREE_PLACE_COLUMNS = ("provider", "instance_type", *_HOURS, *_WHOLE, "assumed", "as_of", "source")


class FreePlace(NamedTuple):
    """The limits of a machine that costs nothing.

    `session_hours` is the longest that a session lasts, `planned_hours` what is counted on: their mean where sessions
    are known to end sooner, nobody knows when. `weekly_hours` what a week has of them together. A session without
    input ends after `idle_minutes`. `storage_gb` keep checkpoints from one session to the next, `data_gb` the images
    (10^9 bytes). `assumed` are the columns that the vendor does not publish.
    """

    provider: str
    instance_type: str
    session_hours: float
    planned_hours: float
    weekly_hours: float
    idle_minutes: int
    storage_gb: int
    data_gb: int
    assumed: frozenset[str]
    as_of: date
    source: str

    @property
    def session(self) -> timedelta:
        """The part of a session that is counted on."""
        return timedelta(hours=self.planned_hours)

    @property
    def ends_at_random(self) -> bool:
        """Whether sessions end before the longest, nobody knows when."""
        return self.planned_hours < self.session_hours

    @property
    def has_one_store(self) -> bool:
        """Whether images and checkpoints share what is kept: on Drive they do; Kaggle keeps images as data sets."""
        return self.provider == "colab"

    @property
    def week(self) -> timedelta:
        """What a week has of sessions."""
        return timedelta(hours=self.weekly_hours)


def parse_free_place(row: dict[str, str]) -> FreePlace:
    """A row of the table. Raises ValueError saying what is wrong with it."""
    session, planned, weekly = (_above_nothing(name, float(row[name])) for name in _HOURS)
    idle, storage, data = (int(_above_nothing(name, int(row[name]))) for name in _WHOLE)
    assumed = frozenset(row["assumed"].split())
    if not assumed <= {*_HOURS, *_WHOLE}:
        raise ValueError(f"assumed {row['assumed']!r}: {', '.join((*_HOURS, *_WHOLE))} can be")
    if planned > min(session, weekly):
        raise ValueError("planned_hours is more than session_hours or than weekly_hours")
    if not row["source"]:
        raise ValueError("who says so?")
    return FreePlace(
        provider=row["provider"],
        instance_type=row["instance_type"],
        session_hours=session,
        planned_hours=planned,
        weekly_hours=weekly,
        idle_minutes=idle,
        storage_gb=storage,
        data_gb=data,
        assumed=assumed,
        as_of=date.fromisoformat(row["as_of"]),
        source=row["source"],
    )


def free_place(provider: str, instance_type: str) -> FreePlace | None:
    """The limits of a machine; None for one that costs money. Raises OSError or ValueError where the shipped table is
    none."""
    return _places().get((provider, instance_type))


def roomiest(provider: str) -> FreePlace | None:
    """The machine of a provider beside which most can be kept; None where its machines cost money."""
    machines = [place for place in _places().values() if place.provider == provider]
    return max(machines, key=lambda place: (place.data_gb, place.storage_gb), default=None)


@cache
def free_providers() -> tuple[str, ...]:
    """Return the names of those whose machines cost nothing."""
    return tuple(sorted({provider for provider, _ in _places()}))


@cache
def _places() -> dict[tuple[str, str], FreePlace]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        places = [parse_free_place(row) for row in csv.DictReader(file)]
    return {(place.provider, place.instance_type): place for place in places}


def _above_nothing(name: str, value: float) -> float:
    if not 0 < value < 10_000:
        raise ValueError(f"{name} {value!r} is not above 0")
    return value
