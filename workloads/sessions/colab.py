"""The cells of the notebook that `plan export JOB --to colab` writes. Each can be run by itself, and again."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from trainplan.workloads.sessions import kept
from trainplan.workloads.sessions.session import DEADLINE, Place, SessionError, read_plan, records_of, write_result
from trainplan.workloads.sessions.session import train as train_session
from trainplan.workloads.sessions.telling import say

_DISK = Path("/content")
_GB = 1e9
T = TypeVar("T")


def check(folder: str) -> None:
    """Say what this session has, and how far the run is."""
    _guarded(lambda: _check(place(folder)))


def train(folder: str) -> None:
    """Train until the run is done or ten minutes before the session ends."""
    if _guarded(lambda: train_session(place(folder))) == DEADLINE:
        _flush()


def result(folder: str) -> None:
    """Write the figures of all sessions so far, and say where they are."""
    _guarded(lambda: say(f"figures: {write_result(place(folder))}\nmodel: {_model(place(folder))}"))


def place(folder: str) -> Place:
    """The folder on Drive, and the disk of this session."""
    path = Path(folder)
    disk = _DISK if _DISK.is_dir() else Path(tempfile.gettempdir())
    return Place(folder=path, kept=path / "run", work=disk / "trainplan" / path.name, downloads=path / "downloads")


def _check(where: Place) -> None:
    plan = read_plan(where.folder)
    free = shutil.disk_usage(where.folder).free / _GB
    say(f"{plan['name']}: {where.folder}, {free:,.1f} GB free there")
    say(f"accelerator: {_accelerator() or 'none (Runtime > Change runtime type)'}; planned: {plan['device']}")
    newest = next(iter(kept.whole_checkpoints(where.kept)), None)
    say(f"sessions so far: {len(records_of(where))}; newest checkpoint: {newest.name if newest else 'none'}")


def _accelerator() -> str:
    if Path("/dev/accel0").exists() or Path("/dev/vfio/0").exists():
        return "TPU"
    try:
        words = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip().replace("\n", ", ")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _model(where: Place) -> str:
    path = where.kept / kept.OUTPUT / "model.keras"
    return str(path) if path.is_file() else "not trained to the end yet"


def _flush() -> None:
    """Wait until Drive has what was written: the session ends soon."""
    drive = sys.modules.get("google.colab.drive")  # the cell has imported it, where it is on Colab
    if drive is None:
        return
    say("waiting until Drive has everything")
    drive.flush_and_unmount()


def _guarded(cell: Callable[[], T]) -> T | None:
    """What the cell gives; None where it said why it could not: a person reads a sentence, no traceback."""
    try:
        return cell()
    except SessionError as error:
        say(f"not possible: {error}")
    except OSError as error:
        say(f"not possible: {error}; see that Drive is mounted and has space, then run this cell again")
    return None
