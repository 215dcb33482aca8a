"""Checkpoints that survive a kill at any moment: each is written to a new folder and valid once its mark is written."""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from trainplan.workloads.trainer.errors import BadInputError, TrainerError
from trainplan.workloads.trainer.progress import write_atomically
from trainplan.workloads.values import Value

MOST_CHECKPOINTS = 2  # if the newest is damaged, training continues from the one before
_MARK = "complete.json"
_STATE = "state.npz"
_HISTORY = "history.json"
_PREFIX = "step-"

Array = npt.NDArray[Any]


class Position(Value):
    """The position of a run: `step` counts over the whole run, and `epoch` (from 1) is the epoch of that step.

    `job_digest`, `images` and `steps_per_epoch` identify the run: the order of its images depends on them.
    """

    step: int
    epoch: int
    job_digest: str
    images: int
    steps_per_epoch: int


class Complete(Value):
    """The content of complete.json, which is written last. `files` has the SHA-256 in hex of each file by its name."""

    position: Position
    step: int
    epoch: int
    files: dict[str, str]
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """`history` is the text that was saved; "" in a checkpoint of an earlier version."""

    position: Position
    arrays: tuple[Array, ...]
    history: str = ""


class Checkpoints:
    """The folder of one run's checkpoints, of which the newest two are kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, position: Position, arrays: Iterable[Array], history: str = "") -> int:
        """Write one and drop the older ones; returns its bytes. `arrays` are read one at a time.

        Raises OSError (a full disk, say), and what `arrays` raises, after removing what it had begun: the older ones
        stay.
        """
        target = self._folder / f"{_PREFIX}{position.step:08}"
        try:
            _discard(target)
            size = _write(target, position, arrays, history)
        except (OSError, TrainerError):
            _discard(target)
            raise
        self._prune()
        return size

    def save_files(self, position: Position, text: tuple[str, str], files: Mapping[str, Path]) -> None:
        """Write one of a text, as (name, content), and of whole files by the names that they get; drop the older ones.
        The files are on disk already and never written again: they are linked.

        Raises OSError after removing what it had begun.
        """
        target = self._folder / f"{_PREFIX}{position.step:08}"
        try:
            _discard(target)
            target.mkdir(parents=True)
            write_atomically(target / text[0], text[1])
            for name, file in files.items():
                linked(file, target / name)
            names = (text[0], *files)
            size = sum((target / name).stat().st_size for name in names)
            _mark(target, position, names, size)
        except OSError:
            _discard(target)
            raise
        self._prune()

    def newest_files(self, job_digest: str, warn: Callable[[str], None]) -> tuple[Path, Complete] | None:
        """The folder of the newest complete checkpoint of this job with its mark, or None. `warn` gets a line for each
        one that is skipped."""
        for folder in self._folders():
            try:
                mark = _checked_mark(folder)
            except (OSError, ValueError) as error:
                warn(f"checkpoint {folder.name} is passed over: {error}")
                continue
            if mark.position.job_digest == job_digest:
                return folder, mark
            warn(f"checkpoint {folder.name} is passed over: it is of another job")
        return None

    @property
    def newest_folder(self) -> Path | None:
        """The folder of the newest complete checkpoint, whatever its job and unread; None without one."""
        return next((folder for folder in self._folders() if (folder / _MARK).is_file()), None)

    def newest(self, position: Position, warn: Callable[[str], None]) -> Loaded | None:
        """The newest complete checkpoint of this run, or None."""
        return next(self.newest_first(position, warn), None)

    def newest_first(self, position: Position, warn: Callable[[str], None]) -> Iterator[Loaded]:
        """The complete checkpoints of this run. `warn` gets a line for each one that is skipped.

        `position` identifies the run. Raises BadInputError if the data has changed since: the steps that are done
        would have used other images.
        """
        for folder in self._folders():
            try:
                loaded = _read(folder)
            except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
                warn(f"checkpoint {folder.name} is passed over: {error}")
                continue
            if loaded.position.job_digest != position.job_digest:
                warn(f"checkpoint {folder.name} is passed over: it is of another job")
                continue
            _same_data(loaded.position, position, folder)
            yield loaded

    def _folders(self) -> list[Path]:
        """Newest first."""
        return sorted(self._folder.glob(f"{_PREFIX}*"), reverse=True)

    def _prune(self) -> None:
        # Folders without a mark are remains of a killed write, and are deleted too.
        whole = [folder for folder in self._folders() if (folder / _MARK).is_file()]
        for folder in self._folders():
            if folder not in whole[:MOST_CHECKPOINTS]:
                _discard(folder)


def _write(target: Path, position: Position, arrays: Iterable[Array], history: str) -> int:
    target.mkdir(parents=True)
    state = target / _STATE
    with state.open("wb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for number, array in enumerate(arrays):
                with archive.open(f"{number:05}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
        # The data has to be on disk before the mark that declares it complete, also if the machine loses power.
        file.flush()
        os.fsync(file.fileno())
    write_atomically(target / _HISTORY, history)
    size = state.stat().st_size
    _mark(target, position, (_STATE, _HISTORY), size)
    return size


def _mark(target: Path, position: Position, names: Iterable[str], size: int) -> None:
    """Declare a checkpoint complete, whose files are all on disk. Raises OSError."""
    files = {name: _sha256(target / name) for name in names}
    mark = Complete(position=position, step=position.step, epoch=position.epoch, files=files, size_bytes=size)
    write_atomically(target / _MARK, mark.model_dump_json(indent=1))
    _sync_folder(target)
    _sync_folder(target.parent)


def _read(folder: Path) -> Loaded:
    """Read and check a checkpoint. Raises OSError or ValueError with the reason why it cannot be used."""
    mark = _checked_mark(folder)
    history = (folder / _HISTORY).read_text(encoding="utf-8") if _HISTORY in mark.files else ""
    with np.load(folder / _STATE, allow_pickle=False) as state:
        arrays = tuple(state[name] for name in sorted(state.files))
    return Loaded(position=mark.position, arrays=arrays, history=history)


def _checked_mark(folder: Path) -> Complete:
    """The mark of a checkpoint whose files are what it says. Raises OSError or ValueError with the reason."""
    mark_file = folder / _MARK
    if not mark_file.is_file():
        raise ValueError(f"it has no {_MARK}; it was being written when the trainer ended")
    try:
        mark = Complete.model_validate_json(mark_file.read_bytes())
    except ValidationError as error:
        raise ValueError(f"its {_MARK} is damaged") from error
    for name, digest in mark.files.items():
        if _sha256(folder / name) != digest:
            raise ValueError(f"{name} is not what was written (sha256 differs)")
    return mark


def linked(file: Path, name: Path) -> None:
    """Give a file that is never written again a second name; a copy where the file system has no links. Raises
    OSError."""
    name.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, name)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(file, name)
        with name.open("rb") as copied:
            os.fsync(copied.fileno())


def _same_data(position: Position, expected: Position, folder: Path) -> None:
    if (position.images, position.steps_per_epoch) != (expected.images, expected.steps_per_epoch):
        raise BadInputError(
            f"the data has {expected.images} training images, but {folder.name} was written with {position.images}; "
            "put the data back as it was, or start afresh"
        )


def assign(variables: Sequence[Any], arrays: Sequence[Array]) -> None:
    """Set every variable. Raises BadInputError, before any is changed, where they do not fit the model."""
    shapes = [tuple(variable.shape) for variable in variables]
    if shapes != [array.shape for array in arrays]:
        raise BadInputError(
            "the checkpoint does not fit this model: it was written by another version of the trainer or framework; "
            "start afresh"
        )
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


def _discard(folder: Path) -> None:
    # The mark goes first: a folder half removed must not look whole.
    with suppress(FileNotFoundError):
        (folder / _MARK).unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    """Flush a folder, since a new name is on disk only after that. Windows neither allows nor needs it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
