"""Keeps the simulated cloud on disk, in one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from trainplan.providers.sim.tables import State, Table
from trainplan.providers.sim.values import Fault, Incident, SimMachine, Thing

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


_PATIENCE_SECONDS = 60.0
"""Fifty clients may be calling, each for some milliseconds."""


class Keeper:
    """The rows of a State in a file that several processes change, one at a time. Use from one thread."""

    def __init__(self, path: Path) -> None:
        """Makes the file. Raises sqlite3.Error."""
        self._db = sqlite3.connect(path, timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False)
        self._version = 0
        try:
            # Nothing here has to outlive a power cut.
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = OFF")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS row (kind TEXT, key TEXT, value BLOB, PRIMARY KEY (kind, key))"
            )
        except sqlite3.Error:
            self._db.close()
            raise

    @contextmanager
    def changing(self) -> Iterator[bool]:
        """Let nobody else change the file meanwhile; tells whether somebody has since the last time.

        What is saved in the block is on disk when it ends, also by an Exception; any other end takes it back.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            before, (self._version,) = self._version, self._db.execute("PRAGMA data_version").fetchone()
            yield before != self._version
        except Exception:
            self._db.execute("COMMIT")
            raise
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        else:
            self._db.execute("COMMIT")

    def load(self) -> State:
        """What was saved last, in the order in which it was made."""
        rows: dict[str, dict[str, Any]] = {field.name: {} for field in fields(State)}
        for kind, key, value in self._db.execute("SELECT kind, key, value FROM row ORDER BY rowid"):
            rows[kind][key] = bytes(value) if kind == _BYTES else _KINDS[kind].validate_json(value)
        return State(**{kind: Table(entries) for kind, entries in rows.items()})

    def save(self, state: State) -> None:
        """Everything that changed since the last time."""
        changed = [
            (kind.name, key, row) for kind in fields(State) for key, row in getattr(state, kind.name).drain().items()
        ]
        for kind, key, row in changed:
            if row is None:
                self._db.execute("DELETE FROM row WHERE kind = ? AND key = ?", (kind, key))
            else:
                value = row if kind == _BYTES else _KINDS[kind].dump_json(row)
                self._db.execute(
                    "INSERT INTO row VALUES (?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value",
                    (kind, key, value),
                )

    def close(self) -> None:
        """Close the database."""
        self._db.close()
