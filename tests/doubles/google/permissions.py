"""Which permissions each method takes, for the double that refuses a call without them.

`permissions.csv` was not written from the product's own table. Source `iam-dataset`: github iann0036/iam-dataset,
commit 2073fa52ac00 of 2026-08-22 (MIT), which was collected from Google's reference pages. Other sources are named
in the row. `when` names the condition of a permission that not every call of the method takes.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE = Path(__file__).parent / "permissions.csv"
NOT_ASKED = frozenset(
    {"projection=full", "a legacy network without subnetworks", "an image of the caller's own projects"}
)
"""Conditions that no call of this project meets."""
ON_ACCOUNT = "iam.serviceAccounts.actAs"
"""Granted on the service account, not by a role of the project."""


class Row(NamedTuple):
    method: str
    permission: str
    when: str
    source: str


@cache
def rows() -> tuple[Row, ...]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(Row(**row) for row in csv.DictReader(file))


@cache
def all_names() -> frozenset[str]:
    """Every permission name that this double knows."""
    return frozenset(row.permission for row in rows())


@cache
def by_method() -> Mapping[str, tuple[str, ...]]:
    """The permissions that this project's call of each method takes."""
    found: dict[str, tuple[str, ...]] = {}
    for row in rows():
        if row.when not in NOT_ASKED:
            found[row.method] = (*found.get(row.method, ()), row.permission)
    return found


def lacking(method: str, granted: frozenset[str] | None, denied: set[str]) -> str | None:
    """The first permission that a caller lacks for a method; None: it may. `granted` None stands for an owner, who has
    all but what is `denied`."""
    for name in by_method().get(method, ()):
        allowed = granted is None or name in granted or name == ON_ACCOUNT
        if name in denied or not allowed:
            return name
    return None
