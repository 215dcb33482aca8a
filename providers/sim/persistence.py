"""Keeps the simulated cloud on disk, so that it goes on after its process ended: one SQLite file, one owner."""

from __future__ import annotations

import sqlite3
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from providers.sim.tables import State, Table
from providers.sim.values import Fault, Incident, SimMachine, Thing

if TYPE_CHECKING:
    from pathlib import Path

_KINDS: dict[str, TypeAdapter[Any]] = {
    "machines": TypeAdapter(SimMachine),
    "things": TypeAdapter(Thing),
    "faults": TypeAdapter(Fault),
    "incidents": TypeAdapter(Incident),
    "consoles": TypeAdapter(str),
    "counts": TypeAdapter(int),
    "notes": TypeAdapter(str),
}
_BYTES = "objects"


class WorldInUseError(Exception):
    """Another process has this world."""


class Keeper:
    """The rows of a State in a file that nobody else can open meanwhile. Use from one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Makes the file. Raises WorldInUseError."""
        self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            # The lock lasts as long as the process. Nothing here has to outlive a power cut.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = OFF")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS row (kind TEXT, key TEXT, value BLOB, PRIMARY KEY (kind, key))"
            )
            self._db.execute("BEGIN EXCLUSIVE")
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._db.close()
            raise WorldInUseError(str(error)) from None

    def load(self) -> State:
        """What was saved last, in the order in which it was made."""
        rows: dict[str, dict[str, Any]] = {field.name: {} for field in fields(State)}
        for kind, key, value in self._db.execute("SELECT kind, key, value FROM row ORDER BY rowid"):
            rows[kind][key] = bytes(value) if kind == _BYTES else _KINDS[kind].validate_json(value)
        return State(**{kind: Table(entries) for kind, entries in rows.items()})

    def save(self, state: State) -> None:
        """Everything that changed since the last time, whole or not at all."""
        changed = [
            (kind.name, key, row) for kind in fields(State) for key, row in getattr(state, kind.name).drain().items()
        ]
        self._db.execute("BEGIN")
        for kind, key, row in changed:
            if row is None:
                self._db.execute("DELETE FROM row WHERE kind = ? AND key = ?", (kind, key))
            else:
                value = row if kind == _BYTES else _KINDS[kind].dump_json(row)
                self._db.execute(
                    "INSERT INTO row VALUES (?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value",
                    (kind, key, value),
                )
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the database."""
        self._db.close()
