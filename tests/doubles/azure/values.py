"""What there is in the double: groups, what is in them, rights, operations, timers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from tests.faults.harness import EndedBy


class ArmError(Exception):
    """A refusal as Resource Manager tells it."""

    def __init__(self, status: int, code: str, message: str, details: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = {
            "error": {"code": code, "message": message, **({"details": details} if details else {})}
        }


@dataclass
class Group:
    """`goes_at` is when its deletion is done, None where nobody asked for it; `ended_by` and `why` say who did."""

    id: str
    name: str
    location: str
    tags: dict[str, str]
    created_at: datetime
    goes_at: datetime | None = None
    ended_at: datetime | None = None
    ended_by: EndedBy | None = None
    why: str = ""


@dataclass
class Thing:
    """Anything in a group. Kept for ever, for the ledger; `ended_at` is when it was gone.

    `stopped_at` is when a machine stopped to bill its compute, `ended_by` and `why` say who did that, in which words.
    `life` is its name among the machines that live.
    """

    id: str
    type: str
    name: str
    group: str
    location: str
    body: dict[str, Any]
    tags: dict[str, str]
    created_at: datetime
    usd_per_hour: float = 0.0
    ready_at: datetime | None = None
    goes_at: datetime | None = None
    ended_at: datetime | None = None
    stopped_at: datetime | None = None
    power: str = ""
    error: dict[str, str] | None = None
    life: str | None = None
    evicted: bool = False
    ended_by: EndedBy | None = None
    why: str = ""
    parts: list[str] = field(default_factory=list)

    def stops(self, at: datetime, by: EndedBy, why: str) -> None:
        """A machine's compute bills no more. Who was the first to end it is kept."""
        if self.stopped_at is None:
            self.stopped_at, self.ended_by, self.why = at, by, why

    def state(self, now: datetime) -> str:
        if self.goes_at is not None:
            return "Deleting"
        if self.ready_at is not None and now < self.ready_at:
            return "Creating"
        return "Failed" if self.error else "Succeeded"


@dataclass
class Right:
    """A role assignment."""

    id: str
    scope: str
    role: str
    principal: str
    body: dict[str, Any]
    created_at: datetime
    ended_at: datetime | None = None


@dataclass
class Operation:
    """A long-running one: what it comes to at `ready_at`."""

    id: str
    ready_at: datetime
    error: dict[str, str] | None = None


@dataclass
class Timer:
    """A deallocate: a schedule's (`by` the cloud's timer), or one that a client asked for at once."""

    at: datetime
    machine: str
    correlation: str
    by: EndedBy
    is_done: bool = False


@dataclass(frozen=True)
class Request:
    """One request, its path without the query."""

    method: str
    path: str
    query: dict[str, str]
    body: Any


class Answer(NamedTuple):
    """Status, JSON, headers."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = {}
