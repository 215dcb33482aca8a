"""What the compiler of the Edge TPU (Coral) is known to refuse, held against the operations of a file.

The compiler is closed, and runs nowhere here: nothing is compiled. `data/edge_tpu.csv` says from which version on an
operation is refused: `refused` as users report it of version 16.0.384591198 of the compiler, the newest; `newer` where
the operation's version came after TensorFlow 2.6, of the summer of 2021 in which the compiler was made (assumed to be
refused as well).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from trainplan.workloads.exported.record import EdgeTpu, Operation

COMPILER = "edgetpu_compiler 16.0.384591198"
_TABLE = Path(__file__).parent / "data" / "edge_tpu.csv"


class Refusal(NamedTuple):
    """An operation that is refused from a version on; `is_reported`: somebody's compiler has said so."""

    operation: str
    from_version: int
    is_reported: bool
    source: str
    date: str


@cache
def refusals() -> tuple[Refusal, ...]:
    """The table."""
    with _TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(
            Refusal(row["operation"], int(row["from_version"]), row["ground"] == "refused", row["source"], row["date"])
            for row in csv.DictReader(file)
        )


def edge_tpu(operations: Iterable[Operation], file: str) -> EdgeTpu:
    """What the table says of these operations, and the command that compiles `file`."""
    refused = [
        f"{one.name} version {one.version}: {_ground(row)}"
        for one in operations
        for row in refusals()
        if row.operation == one.name and one.version >= row.from_version
    ]
    return EdgeTpu(compiler=COMPILER, refused=tuple(refused), command=f"edgetpu_compiler -s {file}")


def _ground(row: Refusal) -> str:
    if row.is_reported:
        return f"version {row.from_version} was refused ({row.source}, {row.date})"
    return f"version {row.from_version} is newer than the compiler (assumed to be refused; {row.source}, {row.date})"
