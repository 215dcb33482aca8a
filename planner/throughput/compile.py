"""Compiles the measurements from their text tables into an SQLite file that opens in a millisecond.

Run it with `python -m trainplan.planner.throughput.compile`; building a wheel does it too. Nothing but the standard
library and this project's tables is imported, so that a build can load this file by itself.
"""

from __future__ import annotations

import csv
import hashlib
import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from trainplan.planner.throughput.columns import COLUMNS, wrong_with
from trainplan.pricing.device_text import read_devices
from trainplan.pricing.table_text import TableError

DATA = Path(__file__).parent / "data"
TARGET = DATA / "measurements.sqlite"
MEASUREMENTS = "measurements.csv"
NETWORKS = "networks.csv"
"""Further measurements of the same columns, to which the model of VGG nets is not fitted."""
SOURCES = "sources.csv"
DEVICES = Path(__file__).parents[2] / "pricing" / "data" / "devices.toml"
COLUMNS_PAGE = "docs/measurements.md"
SCHEMA_VERSION = "1"

_SOURCE_COLUMNS = ("source", "address", "rows")


class BadTableError(ValueError):
    """A text table that cannot be compiled; the message names the file, the line and what to do."""


def compile_measurements(text_dir: Path, target: Path) -> None:
    """Writes `target` from `measurements.csv`, `networks.csv` and `sources.csv` in `text_dir`, whole or not at all.

    Raises BadTableError where the text is not a table of these columns, or a row cannot be true, and TableError where
    the table of devices is none.
    """
    sources = [list(cells) for _, cells in _lines(text_dir / SOURCES, _SOURCE_COLUMNS)]
    known = {str(cells[0]) for cells in sources}
    rows = [row for name in (MEASUREMENTS, NETWORKS) for row in _measurements(text_dir / name, known)]
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=target.name, suffix=".partial", dir=target.parent)
    os.close(descriptor)
    partial = Path(name)
    try:
        _write(partial, rows, sources, text_digest(text_dir))
        # mkstemp makes a file that its owner alone may read: a package is read by others too.
        partial.chmod(0o644)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def text_digest(text_dir: Path) -> str:
    """The SHA-256 of the text files, as kept in the compiled file's `meta` table."""
    digest = hashlib.sha256(SCHEMA_VERSION.encode())
    for name in (MEASUREMENTS, NETWORKS, SOURCES):
        digest.update((text_dir / name).read_bytes())
    return digest.hexdigest()


def _lines(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line behind the header. Raises BadTableError."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = tuple(next(reader, ()))
        if header != columns:
            raise BadTableError(f"{path.name}: the columns are {header}, expected {columns}")
        for row in reader:
            if len(row) != len(columns):
                raise BadTableError(f"{path.name}, line {reader.line_num}: {len(row)} cells, expected {len(columns)}")
            yield reader.line_num, row


def _measurements(path: Path, sources: set[str]) -> list[list[str | None]]:
    """The rows, each one held against what its columns allow. Raises BadTableError for the first that is refused."""
    devices = read_devices(DEVICES)[0]
    rows = []
    for line, cells in _lines(path, tuple(COLUMNS)):
        row = dict(zip(COLUMNS, cells, strict=True))
        wrong = wrong_with(row, devices) or _wrong_source(row["source"], sources)
        if wrong:
            raise BadTableError(f"{path.name}, line {line}: {wrong}")
        rows.append([_cell(name, cell) for name, cell in row.items()])
    return rows


def _wrong_source(name: str, sources: set[str]) -> str:
    return "" if name in sources else f"source {name!r} is not in {SOURCES}: add a row there"


def _cell(name: str, cell: str) -> str | None:
    """An empty cell of a number column is unknown; an empty text is an empty text."""
    return cell if cell or COLUMNS[name].sqlite.startswith("TEXT") else None


def _write(path: Path, rows: list[list[str | None]], sources: list[list[str]], digest: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        database.execute("CREATE TABLE sources (source TEXT PRIMARY KEY, address TEXT NOT NULL, rows INTEGER)")
        definition = ", ".join(f"{name} {column.sqlite}" for name, column in COLUMNS.items())
        database.execute(f"CREATE TABLE measurements ({definition})")
        try:
            database.executemany(_insert("measurements", len(COLUMNS)), rows)
            database.executemany(_insert("sources", len(_SOURCE_COLUMNS)), sources)
        except sqlite3.IntegrityError as error:
            raise BadTableError(f"{MEASUREMENTS} and {NETWORKS}: {error}") from error
        database.execute("CREATE INDEX by_device ON measurements (device)")
        meta = (("schema_version", SCHEMA_VERSION), ("text_sha256", digest))
        database.executemany(_insert("meta", 2), meta)
        database.commit()


def _insert(table: str, width: int) -> str:
    return f"INSERT INTO {table} VALUES ({', '.join('?' * width)})"


def main() -> int:
    """Compile the table of measurements. Returns the exit code: 2 where a line of the text is wrong."""
    try:
        compile_measurements(DATA, TARGET)
    except (BadTableError, TableError, OSError) as error:
        print(f"error: {error}\nhint: mend that line; {COLUMNS_PAGE} has what each column takes", file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
