"""What this machine has been seen to do: measured throughput and overhead, kept by launch and measure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from planner.errors import ThisMachineError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMeasurement:
    """One run's figures. `shape` names what was trained and how (see `shape_of`); `machine` on what.

    `images_per_second` is the steady rate; `setup_seconds` from the request to the first step, `after_seconds`
    from the last step to the end (evaluation, saving, collecting), `per_epoch_seconds` what an epoch costs
    beside its steps; None where the run was too short to tell. `job` is what was trained, as JSON, from which the
    model tells what it would have predicted; "" in rows of earlier versions.
    """

    machine: str
    shape: str
    images_per_second: float
    setup_seconds: float | None
    per_epoch_seconds: float | None
    after_seconds: float | None
    measured_at: datetime
    run_id: str
    framework: str
    job: str = ""


def load_measurements(path: Path) -> list[OwnMeasurement]:
    """Every readable row, oldest first; a line that was cut off by a crash is passed over.

    Raises ThisMachineError where the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ThisMachineError(f"cannot read {path}: {error}", "move it away; new runs write a new one") from None
    return [row for row in map(_row, lines) if row is not None]


def add_measurement(path: Path, row: OwnMeasurement) -> None:
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


def _row(line: str) -> OwnMeasurement | None:
    try:
        values = json.loads(line)
        return OwnMeasurement(**{**values, "measured_at": datetime.fromisoformat(values["measured_at"])})
    except (ValueError, TypeError, KeyError):
        return None
