"""Take a refresh over into the shipped text, as a diff to be reviewed: `python -m trainplan.pricing.adopt
[STATE_FOLDER]`."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.pricing.catalog import REFRESHED, CatalogError
from trainplan.pricing.compile import TEXT_DIR
from trainplan.pricing.refresh import read_overlays
from trainplan.pricing.table_text import TableError
from trainplan.pricing.tables import SOURCE_COLUMNS, TYPE_COLUMNS, read_tables

if TYPE_CHECKING:
    from trainplan.pricing.overlay import Overlay


def adopt(overlays: Sequence[Overlay], text_dir: Path) -> list[Path]:
    """Write the offers of each overlay in the place of the shipped ones, new machine types and sources among the
    others; returns the files. Raises TableError where the whole cannot be read afterwards, OSError."""
    paths = []
    for overlay in overlays:
        offers = text_dir / "offers" / f"{overlay.provider}.csv"
        offers.write_text(overlay.offers, encoding="utf-8", newline="\n")
        types, sources = text_dir / "instance_types.csv", text_dir / "sources.csv"
        _add(types, overlay.types, TYPE_COLUMNS, 2)
        _add(sources, overlay.sources, SOURCE_COLUMNS, 1)
        paths += [offers, types, sources]
    read_tables(text_dir)
    return list(dict.fromkeys(paths))


def main() -> int:
    """Adopt what the state folder's catalog holds into this checkout."""
    home = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("PLAN_HOME", ""))
    try:
        overlays = list(read_overlays(home / REFRESHED).values())
        paths = adopt(overlays, TEXT_DIR)
    except (CatalogError, OSError, TableError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    for path in paths:
        sys.stdout.write(f"{path}\n")
    return 0 if paths else 2


def _add(path: Path, text: str, columns: Sequence[str], keys: int) -> None:
    """Put rows among those of a file, in order of their first columns; a row with the same ones is replaced."""
    rows = {tuple(row[:keys]): row for message in (path.read_text(encoding="utf-8"), text) for row in _rows(message)}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows[key] for key in sorted(rows))


def _rows(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines()))[1:]


if __name__ == "__main__":
    sys.exit(main())
