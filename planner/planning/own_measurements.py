"""What machines have been seen to do: measured throughput and overhead, kept by launch, measure and pilot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trainplan.planner.planning.own_rows import load_rows
from trainplan.pricing.devices import machines_text

MOST_OTHERS = 0.25
"""A measurement while other programs had more than this share of the processors counts until there is a better one, and
for its own job alone."""
_LEAST_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMeasurement:
    """One run's figures. `shape` names what was trained and how (see `shape_of`); `machine` on what.

    `images_per_second` is the steady rate; `setup_seconds` from the request to the first step, `after_seconds`
    from the last step to the end (evaluation, saving, collecting), `per_epoch_seconds` what an epoch costs
    beside its steps; None where the run was too short to tell. `job` is what was trained, as JSON, from which the
    model tells what it would have predicted. `others` is the share of the processors, 0 to 1, that other programs had
    meanwhile; 0 where the trainer could not tell.

    A rented `machine` is its provider and type (`rented_name`), with the `device`, and how many, that it has; "" for
    this computer. `half_width` is that of the 80 % interval of the rate, as a share of it (None: too few windows tell),
    `input_bound` whether its host handed over images no faster than that. `total_images` are those of the whole run of
    a script, as it told (None: it did not, or this is no script's), and `checkpoints` says whether it wrote any.
    `boot_seconds` is from the request to the beginning of the trainer, its image included, and `start_seconds` what
    framework, building the net and first step took (None: nobody told).
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
    others: float = 0.0
    device: str = ""
    device_count: int = 1
    half_width: float | None = None
    input_bound: bool = False
    total_images: int | None = None
    checkpoints: bool = False
    boot_seconds: float | None = None
    start_seconds: float | None = None

    @property
    def idle_images_per_second(self) -> float:
        """What it would have been on a machine at rest."""
        return self.images_per_second / left_by(self.others)


def left_by(others: float) -> float:
    """The share of the processors that a training had while others had this one, if it used all that it got; a
    twentieth at least, since of less nothing follows. A row keeps the rate as it was; this corrects it, once."""
    return max(_LEAST_SHARE, 1 - others)


def rented_name(provider: str, instance_type: str, machines: int = 1) -> str:
    """The name of a rented machine, or of several that train together, in a measurement; no fingerprint of a computer
    has a slash."""
    return f"{provider}/{machines_text(instance_type, machines)}"


def load_measurements(path: Path) -> list[OwnMeasurement]:
    """Every readable row, oldest first. Raises ThisMachineError where the file cannot be read."""
    return load_rows(path, OwnMeasurement, lambda row: 0 <= row.others <= 1)


def at_rest(rows: Sequence[OwnMeasurement]) -> list[OwnMeasurement]:
    """Those that were taken on a machine at rest; all of them where none was."""
    return [row for row in rows if row.others <= MOST_OTHERS] or list(rows)
