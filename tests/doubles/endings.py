"""Who ended a machine of a double, why, and what it had been doing: as the double's ledger sends it, and read again.

A double's ledger is JSON where the double is another process. `told` makes the part of a row that `fields_of` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from tests.faults.harness import EndedBy, Work

TRAINERS_FILES = ("progress.jsonl", "status.json")
"""What a trainer writes into its attempt's folder of the run directory, and nobody else while it trains."""


def is_sign_of_training(path: str | None) -> bool:
    """Whether what is written to this path of a run directory shows that a trainer is alive; None is the console."""
    return path is not None and path.startswith("attempts/") and path.endswith(TRAINERS_FILES)


def end_record(by: EndedBy | None, why: str, work: Work | None) -> dict[str, Any]:
    """The part of a ledger's row that tells of the machine's end and of its work, for JSON."""
    known = {} if work is None else {field.name: getattr(work, field.name) for field in fields(Work)}
    return {
        "ended_by": None if by is None else by.value,
        "why": why,
        "work": None
        if work is None
        else {name: value.isoformat() if isinstance(value, datetime) else value for name, value in known.items()},
    }


def fields_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a Lived that `told` has put into a machine's row.

    Raises AssertionError for a machine that has ended without anybody who ended it, or the other way round: a double
    that does not know who ends its machines proves nothing.
    """
    work, by = row["work"], row["ended_by"]
    ended = row["ended_at"] is not None
    assert ended == (by is not None), f"{row['id']}: ended at {row['ended_at']}, by {by}: the double has to say by whom"
    assert not ended or row["why"], f"{row['id']}: ended at {row['ended_at']} by {by}, for no reason that is known"
    known: dict[str, Any] = {
        name: datetime.fromisoformat(value) if isinstance(value, str) else value for name, value in (work or {}).items()
    }
    return {
        "ended_by": None if by is None else EndedBy(by),
        "why": row["why"],
        "work": None if work is None else Work(**known),
    }
