"""The folder that outlives a session: checkpoints and output, copied whole or not at all.

On Google Drive what is deleted stays in the trash for 30 days, and counts: a file is emptied before it is deleted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

CHECKPOINTS, OUTPUT = "checkpoints", "output"
_MARK = "complete.json"
"""Written last by the trainer (workloads/trainer/checkpoint.py): a folder without it is half a checkpoint."""
_MOST = 2
_UNFINISHED = ".new-"


def whole_checkpoints(folder: Path) -> list[Path]:
    """The complete ones of a run's folder, newest first."""
    found = (folder / CHECKPOINTS).glob("step-*")
    whole = (path for path in found if (path / _MARK).is_file())
    return sorted(whole, key=lambda path: (len(path.name), path.name), reverse=True)  # of more than eight digits too


def restore(source: Path, run_dir: Path) -> int:
    """Copy the complete checkpoints of `source` that the run directory lacks; returns how many. Raises OSError."""
    missing = [path for path in whole_checkpoints(source) if not (run_dir / CHECKPOINTS / path.name / _MARK).is_file()]
    for path in missing:
        _copy(path, run_dir / CHECKPOINTS)
    return len(missing)


class Keeper:
    """Copies what a run directory has that is new to the folder that is kept. `warn` hears why something could not be
    copied, once: the training goes on, and the next checkpoint is tried again."""

    def __init__(self, run_dir: Path, kept: Path, warn: Callable[[str], None]) -> None:
        self._run_dir, self._kept, self._warn = run_dir, kept, warn
        self._has_warned = False
        for remains in (kept / CHECKPOINTS).glob(f"{_UNFINISHED}*"):
            _delete(remains)

    def keep_checkpoint(self) -> bool:
        """Copy the newest checkpoint where it is not kept yet, and delete those before the last two; whether one was
        copied."""
        newest = next(iter(whole_checkpoints(self._run_dir)), None)
        if newest is None or (self._kept / CHECKPOINTS / newest.name / _MARK).is_file():
            return False
        try:
            _copy(newest, self._kept / CHECKPOINTS)
            for old in whole_checkpoints(self._kept)[_MOST:]:
                _delete(old)
        except OSError as error:
            # The trainer deletes its older checkpoints meanwhile: that this one is gone is no mistake.
            if newest.exists():
                self._tell(f"checkpoint {newest.name} could not be kept: {error.strerror or error}")
            return False
        return True

    def keep_output(self) -> None:
        """Copy the model and what lies beside it. Raises OSError."""
        _copy(self._run_dir / OUTPUT, self._kept)

    def _tell(self, message: str) -> None:
        if not self._has_warned:
            self._warn(f"{message}; training goes on, and the next one is tried")
        self._has_warned = True


def _copy(source: Path, into: Path) -> None:
    """Copy a folder under another name, and rename it when it is whole. Raises OSError."""
    into.mkdir(parents=True, exist_ok=True)
    unfinished = into / f"{_UNFINISHED}{source.name}"
    _delete(unfinished)
    try:
        shutil.copytree(source, unfinished)
        for path in unfinished.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        _delete(into / source.name)
        unfinished.rename(into / source.name)
    except OSError:
        _delete(unfinished)
        raise


def _delete(folder: Path) -> None:
    if not folder.is_dir():
        return
    # The mark goes first: a folder half deleted must not look whole.
    for path in sorted(folder.iterdir(), key=lambda path: path.name != _MARK):
        with suppress(OSError):
            os.truncate(path, 0)
            path.unlink()
    shutil.rmtree(folder, ignore_errors=True)
