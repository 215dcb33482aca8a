"""Compiles the measurements from their text tables into an SQLite file that opens in a millisecond.

Run it with `python -m planner.throughput.compile`; building a wheel does it too. Nothing but the standard library
is imported, so that a build can load this file by itself.
"""

from __future__ import annotations

import csv
import hashlib
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

DATA = Path(__file__).parent / "data"
TARGET = DATA / "measurements.sqlite"
MEASUREMENTS = "measurements.csv"
SOURCES = "sources.csv"
SCHEMA_VERSION = "1"

# Every column of the text table, in order, with its SQLite type. A table with other columns is refused.
COLUMNS: dict[str, str] = {
    "id": "TEXT PRIMARY KEY",
    "source": "TEXT NOT NULL",
    "source_section": "TEXT NOT NULL",
    "model": "TEXT NOT NULL",
    "parameters_million": "REAL",
    "image_size_px": "INTEGER NOT NULL",
    "mode": "TEXT NOT NULL",
    "device": "TEXT NOT NULL",
    "device_as_stated": "TEXT NOT NULL",
    "device_memory_gb": "REAL",
    "interconnect": "TEXT NOT NULL",
    "device_count": "INTEGER NOT NULL",
    "node_count": "INTEGER NOT NULL",
    "precision": "TEXT NOT NULL",
    "xla": "TEXT NOT NULL",
    "batch_per_device": "INTEGER",
    "framework": "TEXT NOT NULL",
    "framework_version": "TEXT NOT NULL",
    "data": "TEXT NOT NULL",
    "images_per_second": "REAL NOT NULL",
    "spread_fraction": "REAL",
    "optimizer_step": "TEXT NOT NULL",
    "parallelism": "TEXT NOT NULL",
    "layout": "TEXT NOT NULL",
    "quality": "TEXT NOT NULL",
    "measured_on": "TEXT NOT NULL",
    "note": "TEXT NOT NULL",
}
_SOURCE_COLUMNS = ("source", "address", "rows")


class BadTableError(ValueError):
    """A text table that cannot be compiled; the message names the file, the line and what to do."""


def compile_measurements(text_dir: Path, target: Path) -> None:
    """Writes `target` from `measurements.csv` and `sources.csv` in `text_dir`, whole or not at all.

    Raises BadTableError where the text is not a table of these columns.
    """
    rows = _rows(text_dir / MEASUREMENTS, tuple(COLUMNS))
    sources = _rows(text_dir / SOURCES, _SOURCE_COLUMNS)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=target.name, suffix=".partial", dir=target.parent)
    os.close(descriptor)
    partial = Path(name)
    try:
        _write(partial, rows, sources, text_digest(text_dir))
        partial.chmod(0o644)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def text_digest(text_dir: Path) -> str:
    """The SHA-256 of both text files, as kept in the compiled file's `meta` table."""
    digest = hashlib.sha256(SCHEMA_VERSION.encode())
    for name in (MEASUREMENTS, SOURCES):
        digest.update((text_dir / name).read_bytes())
    return digest.hexdigest()


def _rows(path: Path, columns: tuple[str, ...]) -> list[list[str | None]]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = tuple(next(reader, ()))
        if header != columns:
            raise BadTableError(f"{path.name}: the columns are {header}, expected {columns}")
        return [_row(path, reader.line_num, row, columns) for row in reader]


def _row(path: Path, line: int, row: list[str], columns: tuple[str, ...]) -> list[str | None]:
    if len(row) != len(columns):
        raise BadTableError(f"{path.name}, line {line}: {len(row)} cells, expected {len(columns)}")
    # An empty cell of a number column is unknown; an empty text is an empty text.
    return [
        None if not cell and not COLUMNS.get(column, "TEXT").startswith("TEXT") else cell
        for cell, column in zip(row, columns, strict=True)
    ]


def _write(path: Path, rows: list[list[str | None]], sources: list[list[str | None]], digest: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        database.execute("CREATE TABLE sources (source TEXT PRIMARY KEY, address TEXT NOT NULL, rows INTEGER)")
        definition = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())
        database.execute(f"CREATE TABLE measurements ({definition})")
        try:
            database.executemany(_insert("measurements", len(COLUMNS)), rows)
            database.executemany(_insert("sources", len(_SOURCE_COLUMNS)), sources)
        except sqlite3.IntegrityError as error:
            raise BadTableError(f"{MEASUREMENTS}: {error}") from error
        database.execute("CREATE INDEX by_device ON measurements (device)")
        meta = (("schema_version", SCHEMA_VERSION), ("text_sha256", digest))
        database.executemany(_insert("meta", 2), meta)
        database.commit()


def _insert(table: str, width: int) -> str:
    return f"INSERT INTO {table} VALUES ({', '.join('?' * width)})"


def main() -> int:
    try:
        compile_measurements(DATA, TARGET)
    except (BadTableError, OSError) as error:
        print(f"error: {error}\nhint: restore planner/throughput/data from git", file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
