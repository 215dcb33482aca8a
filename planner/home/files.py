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
_WRITTEN_BY_OTHERS = 0o022
_PERSONS: list[int] = []
"""The umask that the person set, while files are created for nobody else."""
NAMES = frozenset(
    {
        "asked-refresh", "calibrations.jsonl", "catalog.sqlite", "client.damaged", "client.json", "client.lock",
        "converted", "data_sets", "datasets", "drills", "journal.sqlite", "journal.sqlite-journal", "last-cleanup.json",
        "local", "locks", "measurements.jsonl", "networks", "prices.lock", "run-keys.json", "runs", "settings.toml",
        "sim", "uploads",
    }
)  # fmt: skip
"""What commands put into a home. A folder with anything else in it is not plan's alone."""


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


def why_no_home(home: Path) -> str:
    """Why commands keep nothing at this place; "" where they do, or where there is nothing yet.

    In a folder that others may write to they could replace settings, which name commands that are run, and the journal.
    """
    try:
        status = home.stat()
        if not stat.S_ISDIR(status.st_mode):
            return f"{home} is a file"
        if os.name != "posix" or not status.st_mode & _WRITTEN_BY_OTHERS or status.st_mode & stat.S_ISVTX:
            return ""
        return "" if not _not_its_own(home, status) else f"other users may write to {home} (mode {_mode(status):04o})"
    except OSError:
        return ""  # the read or write that follows tells the error


def mended(home: Path) -> str:
    """Make a home private that others could read. A line on what was done or cannot be; "" where nothing was to do.

    A folder that holds anything else, or that its group shares, stays as it is, and so does all that is in it. Costs a
    look at the folder itself where it is private: nobody gets past it then.
    """
    if os.name != "posix":  # elsewhere a user's folders have lists of who may read them
        return ""
    try:
        status = home.stat()
    except OSError:
        return ""  # none yet
    if not stat.S_ISDIR(status.st_mode) or not _mode(status) & _OTHERS:
        return ""
    mode = f"mode {_mode(status):04o}"
    why = _not_its_own(home, status)
    if why:
        return (
            f"other users of this computer can read {home} ({mode}), which stays as it is: {why}; what commands put "
            "there is private; set PLAN_HOME to a folder of its own"
        )
    open_to_others = f"{home} could be read by other users of this computer ({mode})"
    failed = sum(not _closed(home / name) for name in sorted(NAMES))
    try:
        home.chmod(_mode(status) & ~_OTHERS)
    except OSError as error:
        part = f"{failed} of its entries can still be read" if failed else "what commands keep in it is private"
        return f"{open_to_others} and cannot be made private: {error.strerror or error}; {part}"
    if not failed:
        return f"{open_to_others}; it is private now"
    return f"{open_to_others}; the folder is private now, {failed} of its entries still have their old modes"


def _mode(status: os.stat_result) -> int:
    return stat.S_IMODE(status.st_mode)


def _not_its_own(home: Path, status: os.stat_result) -> str:
    """Why the folder is not of plan alone, so that it must stay as it is; "" where it is. Raises OSError."""
    if status.st_mode & stat.S_ISVTX:
        return "everybody may write there"
    if status.st_mode & stat.S_ISGID:
        return "a group shares it"
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    with suppress(RuntimeError):
        if home.samefile(Path.home()):
            return "it is a whole home folder"
    others = min((entry.name for entry in home.iterdir() if entry.name not in NAMES), default=None)
    return "" if others is None else f"it has other things in it ({others!r})"


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
