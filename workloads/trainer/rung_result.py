"""What a trial of a sweep hands to the sweep when it pauses."""

from __future__ import annotations

from pathlib import Path

from trainplan.workloads.trainer.progress import write_atomically
from trainplan.workloads.values import Value

_NAME = "rung.json"


class RungResult(Value):
    """Figures on the test images, the accuracy as a share of 1, or the `figure` of a script, which had done the
    share `reached` of its steps; `failure` says why there are none."""

    accuracy: float | None = None
    loss: float | None = None
    figure: float | None = None
    reached: float = 0.0
    failure: str = ""


def write_result(folder: Path, result: RungResult) -> None:
    """Leave the result in the trial's folder. Raises OSError."""
    write_atomically(folder / _NAME, result.model_dump_json())


def read_result(folder: Path) -> RungResult:
    """The result in the trial's folder. Raises OSError or ValueError where there is none that can be read."""
    return RungResult.model_validate_json((folder / _NAME).read_bytes())


def forget_result(folder: Path) -> None:
    """Remove the result of an earlier rung. Raises OSError."""
    (folder / _NAME).unlink(missing_ok=True)
