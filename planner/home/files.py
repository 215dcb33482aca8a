"""The home is for its user alone: what commands create is private, and what an earlier version left open is mended."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHERS = 0o077
"""What a group and everybody else may do."""
_PERSONS: list[int] = []
"""The umask that the person set, while files are created for nobody else."""
NAMES = frozenset(
    {
        "asked-refresh", "catalog.sqlite", "client.damaged", "client.json", "client.lock", "data_sets", "datasets",
        "journal.sqlite", "journal.sqlite-journal", "last-sweep.json", "local", "locks", "measurements.jsonl",
        "prices.lock", "run-keys.json", "runs", "settings.toml", "sim", "uploads",
    }
)  # fmt: skip
"""What commands put into a home. Nothing else is touched: a home may be a folder that has other things in it."""


@contextmanager
def private_files() -> Iterator[None]:
    """Create files and folders readable by their user alone, in this process and those that it starts, until the block
    ends.
    """
    before = os.umask(_OTHERS)
    _PERSONS.append(before)
    try:
        yield
    finally:
        _PERSONS.pop()
        os.umask(before)


@contextmanager
def persons_files() -> Iterator[None]:
    """Files outside the home (a model, a job file) have the modes that the person's umask gives them."""
    before = os.umask(_PERSONS[-1]) if _PERSONS else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)


def mended(home: Path) -> str:
    """Make a home private that others could read. A line on what was done or cannot be; "" where nothing was to do.

    Costs a look at the folder itself where it is private: nobody gets past it then.
    """
    if os.name != "posix":  # elsewhere a user's folders have lists of who may read them
        return ""
    try:
        mode = stat.S_IMODE(home.stat().st_mode)
    except OSError:
        return ""  # none yet
    if not mode & _OTHERS:
        return ""
    open_to_others = f"{home} could be read by other users of this computer (mode {mode:04o})"
    failed = sum(not _closed(home / name) for name in sorted(NAMES))
    why = _not_its_own(home, mode)
    try:
        if not why:
            home.chmod(mode & ~_OTHERS)
    except OSError as error:
        why = error.strerror or str(error)
    if not why and not failed:
        return f"{open_to_others}; it is private now"
    if not why:
        return f"{open_to_others}; the folder is private now, {failed} of its entries still have their old modes"
    part = f"{failed} of its entries can still be read" if failed else "what commands keep in it is private"
    return f"{open_to_others} and cannot be made private: {why}; {part}; set PLAN_HOME to a folder of its own"


def _not_its_own(home: Path, mode: int) -> str:
    """Why the folder itself must stay as it is."""
    if mode & stat.S_ISVTX:
        return "everybody may write there"
    with suppress(RuntimeError, OSError):
        if home.samefile(Path.home()) or home.samefile("/"):
            return "it contains files that are not of plan"
    return ""


def _closed(path: Path) -> bool:
    """Whether a file, or everything in a folder, is for its user alone now. Links are not followed."""
    is_done = _closed_alone(path)
    if path.is_symlink() or not path.is_dir():
        return is_done
    for folder, folders, files in os.walk(path):
        # A list, which `all` cannot cut short: every entry is closed, also behind one that could not be.
        is_done = all([_closed_alone(Path(folder) / name) for name in (*folders, *files)]) and is_done
    return is_done


def _closed_alone(path: Path) -> bool:
    try:
        status = path.lstat()
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & _OTHERS:
            path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
