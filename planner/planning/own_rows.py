"""Files of what this computer has seen: one row of JSON in a line, added at the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from trainplan.planner.errors import ThisMachineError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    class _Measured(DataclassInstance, Protocol):
        @property
        def measured_at(self) -> datetime: ...


Row = TypeVar("Row")


def load_rows(path: Path, make: Callable[..., Row], is_true: Callable[[Row], bool]) -> list[Row]:
    """Every row that can be read and is true, oldest first; a line that was cut off by a crash is passed over.

    Raises ThisMachineError where the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):  # a service account may have /dev/null for a home
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ThisMachineError(f"cannot read {path}: {error}", "move it away; the next run writes a new one") from None
    return [row for row in (_row(line, make, is_true) for line in lines) if row is not None]


def add_row(path: Path, row: _Measured) -> None:
    """Append one row. Raises ThisMachineError where it cannot be written."""
    text = json.dumps(asdict(row) | {"measured_at": row.measured_at.isoformat()}, sort_keys=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A line that a crash cut off must not take this one with it.
        cut_off = path.is_file() and path.read_bytes()[-1:] not in (b"", b"\n")
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" * cut_off + text + "\n")
    except OSError as error:
        raise ThisMachineError(f"cannot write {path}: {error}", "the run itself is not affected") from None


def _row(line: str, make: Callable[..., Row], is_true: Callable[[Row], bool]) -> Row | None:
    try:
        values: dict[str, Any] = json.loads(line)
        row = make(**{**values, "measured_at": datetime.fromisoformat(values["measured_at"])})
        return row if is_true(row) else None
    except (ValueError, TypeError, KeyError):
        return None
