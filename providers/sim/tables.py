"""What the simulated cloud remembers: tables by key that know which of their rows changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from trainplan.providers.sim.values import Fault, Incident, SimMachine, Thing

Row = TypeVar("Row")


class Table(MutableMapping[str, Row], Generic[Row]):
    """Rows in the order in which they were made."""

    def __init__(self, rows: Mapping[str, Row] | None = None) -> None:
        self._rows = dict(rows or {})
        self._changed: dict[str, None] = {}

    def __getitem__(self, key: str) -> Row:
        return self._rows[key]

    def __setitem__(self, key: str, row: Row) -> None:
        self._rows[key] = row
        self._changed[key] = None

    def __delitem__(self, key: str) -> None:
        del self._rows[key]
        self._changed[key] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def drain(self) -> dict[str, Row | None]:
        """What changed since the last time, in order; None: the row is gone."""
        changed, self._changed = self._changed, {}
        return {key: self._rows.get(key) for key in changed}


@dataclass(slots=True)
class State:
    """Everything that outlives the process. `objects` by `RUN/PATH`, `consoles` by machine, `counts` of calls by
    operation; `notes` are texts by name: when the world `began`, when it is `now`, and its `scenario`."""

    machines: Table[SimMachine] = field(default_factory=Table)
    things: Table[Thing] = field(default_factory=Table)
    objects: Table[bytes] = field(default_factory=Table)
    consoles: Table[str] = field(default_factory=Table)
    faults: Table[Fault] = field(default_factory=Table)
    incidents: Table[Incident] = field(default_factory=Table)
    counts: Table[int] = field(default_factory=Table)
    notes: Table[str] = field(default_factory=Table)
