"""The folder of a script, all of whose files travel with it: `script: {file: train.py, folder: src}`."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from trainplan.workloads.job_mistakes import JobFileError
from trainplan.workloads.regular_file import regular_bytes
from trainplan.workloads.script import PATH_OF_A_NEIGHBOUR
from trainplan.workloads.script_imports import MOST_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_OF_IT = ("__pycache__", "node_modules", "venv")
_FEWER = "name the folder of the sources alone; data has places of its own (docs/own-script.md)"


def texts_of(folder: Path, most_characters: int) -> dict[PurePosixPath, str]:
    """The files below the folder by their paths from there, but for hidden ones and what Python leaves.

    Raises JobFileError for a file that cannot travel, by name, and for too many.
    """
    found: dict[PurePosixPath, str] = {}
    for path in _files(folder):
        name = PurePosixPath(path.relative_to(folder).as_posix())
        if path.is_symlink() or not PATH_OF_A_NEIGHBOUR.fullmatch(str(name)):
            what = "a link" if path.is_symlink() else "no plain name (letters, digits, spaces, . _ + -)"
            raise JobFileError(f"{path} is {what}, and does not travel with the script", f"take it out, or {_FEWER}")
        try:
            found[name] = regular_bytes(path, 4 * most_characters + 1).decode("utf-8")
        except UnicodeDecodeError:
            raise JobFileError(f"{path} is no text in UTF-8; texts alone travel with a script", _FEWER) from None
        except OSError as error:
            raise JobFileError(f"cannot read {path}: {error.strerror}", "check its permissions") from None
        if len(found) > MOST_FILES or sum(map(len, found.values())) > most_characters:
            largest = max(found, key=lambda one: len(found[one]))
            raise JobFileError(
                f"{folder} has more than travels with a script: {MOST_FILES} files of together "
                f"{most_characters // 1024} KiB (the largest so far is {largest})",
                _FEWER,
            )
    return found


def _files(folder: Path) -> Iterator[Path]:
    """All that are no folders, in the order of their names."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(one for one in folders if one not in _NOT_OF_IT and not one.startswith("."))
        linked = [one for one in folders if Path(place, one).is_symlink()]
        yield from (Path(place, one) for one in sorted([*names, *linked]) if not one.startswith("."))
