"""What network a machine type has, as its vendor states it. Pure, but for the table.

A bandwidth is the baseline that a machine keeps up, not the burst that some may take for minutes.
"""

from __future__ import annotations

import csv
from datetime import date
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).parent / "data" / "networks.csv"
NETWORK_COLUMNS = ("provider", "machine", "gbit_per_second", "as_of", "source", "note")


class StatedNetwork(NamedTuple):
    """The bandwidth of a machine between machines, in Gbit/s, who states it, and when that was so."""

    gbit_per_second: float
    as_of: date
    source: str
    note: str = ""


def network_of(provider: str, instance_type: str, family: str) -> StatedNetwork | None:
    """The network of a machine type, else of its family; None where no row states it. Raises OSError or ValueError
    where the shipped table is none."""
    rows = _networks()
    return rows.get((provider, instance_type)) or rows.get((provider, family))


@cache
def _networks() -> dict[tuple[str, str], StatedNetwork]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {
            (row["provider"], row["machine"]): StatedNetwork(
                float(row["gbit_per_second"]), date.fromisoformat(row["as_of"]), row["source"], row["note"]
            )
            for row in csv.DictReader(file)
        }
