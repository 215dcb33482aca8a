"""What lies in a data folder: files in one order on every machine, and a tally of what is left out."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from trainplan.workloads.data_folder.values import LeftOut

HIDDEN = "hidden or system files"
NO_FILE = "only regular files are read, no pipes, sockets, devices and dangling links"
LEADS_BACK = "a link to a folder that it lies in"
MOST_LINKED_FOLDERS = 100_000
"""Folders with links to each other have more paths than anybody can read."""
# Left by macOS, Windows, Linux' file systems, Android, network disks of Synology and QNAP, and Python.
_OF_THE_COMPUTER = frozenset(
    {
        *("__macosx", "icon\r", "network trash folder", "temporary items"),
        *("thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", "recycler", "recycled", "found.000"),
        *("system volume information", "lost+found", "lost.dir", "aquota.user", "aquota.group"),
        *("@eadir", "#recycle", "#snapshot", "@recycle", "@recently-snapshot", "__pycache__"),
    }
)


class Tally:
    """Counts what is left out of one folder, by reason."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: dict[str, int] = {}
        self._examples: dict[str, str] = {}
        self._loose: dict[str, str] = {}

    def add(self, reason: str, path: Path) -> None:
        """Count a file under the reason why it is left out, and keep the first such path as the example."""
        self._entries[reason] = self._entries.get(reason, 0) + 1
        self._examples.setdefault(reason, path.relative_to(self._folder).as_posix())

    def add_loose(self, path: Path) -> None:
        """Count an image that lies in no class folder, by the folder that it lies in."""
        root = path.parent.relative_to(self._folder).as_posix()
        name = "the data folder itself" if root == "." else f"{root}/"
        reason = f"move each into the sub-folder of its class, {'' if root == '.' else name}CLASS/"
        self._loose[reason] = name
        self.add(reason, path)

    def left_out(self) -> tuple[LeftOut, ...]:
        """Return what is left out by reason, the most entries first."""
        ordered = sorted(self._entries.items(), key=lambda row: (-row[1], row[0]))
        return tuple(
            LeftOut(reason=why, entries=count, example=self._examples[why], loose_in=self._loose.get(why, ""))
            for why, count in ordered
        )


def is_hidden(name: str) -> bool:
    """Whether a name is none that a person gave: it begins with a dot, or a computer leaves it everywhere."""
    return name.startswith(".") or is_of_the_computer(name)


def is_of_the_computer(name: str) -> bool:
    """Whether a computer leaves an entry of this name everywhere (`lost+found`, `$RECYCLE.BIN`, `__MACOSX`)."""
    return name.lower() in _OF_THE_COMPUTER


def folders_in(folder: Path, tally: Tally | None = None) -> list[Path]:
    """Return the sub-folders by name: links to folders too, but for those that lead back; hidden ones are left out."""
    with os.scandir(folder) as entries:
        kept = _folders(entries, (os.path.realpath(folder),), is_hidden, tally)
    return [folder / name for name, _ in kept]


def files_in(folder: Path, tally: Tally) -> list[Path]:
    """The regular files that lie in it, not deeper, by name."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if not _is_folder(entry))
    return list(_regular((folder / name for name in names), tally))


def files_below(folder: Path, tally: Tally) -> list[Path]:
    """Every regular file below it, by path; links to files are files."""
    paths: list[Path] = []
    for root, names in walked(folder, tally=tally):
        paths += _regular((root / name for name in names), tally)
    return sorted(paths)


def walked(
    folder: Path, is_left_out: Callable[[str], bool] = is_hidden, tally: Tally | None = None
) -> Iterator[tuple[Path, list[str]]]:
    """The folder and each below it, with the names of what is no folder in it. Links to folders are folders, but for
    those that lead back to one that they lie in.

    Raises OSError, also where links lead to more than MOST_LINKED_FOLDERS.
    """
    waiting: list[tuple[Path, tuple[str, ...]]] = [(folder, (os.path.realpath(folder),))]
    top, linked = str(folder), 0
    while waiting:
        folder, real_paths = waiting.pop()
        linked += real_paths[-1] != real_paths[0] + str(folder)[len(top) :]
        if linked > MOST_LINKED_FOLDERS:
            why = f"links lead to more than {MOST_LINKED_FOLDERS:,} folders; put the images there in place of the links"
            raise OSError(errno.ELOOP, why, top)
        with os.scandir(folder) as entries:
            found = list(entries)
        yield folder, sorted(entry.name for entry in found if not _is_folder(entry))
        below = _folders(found, real_paths, is_left_out, tally)
        waiting += [(folder / name, (*real_paths, real_path)) for name, real_path in reversed(below)]


def _folders(
    entries: Iterable[os.DirEntry[str]],
    real_paths: Sequence[str],
    is_left_out: Callable[[str], bool],
    tally: Tally | None,
) -> list[tuple[str, str]]:
    """Name and real path of the folders among the entries of the last of `real_paths`, the folders on the way to it."""
    kept = []
    for entry in sorted(filter(_is_folder, entries), key=lambda entry: entry.name):
        real_path = os.path.realpath(entry.path) if entry.is_symlink() else f"{real_paths[-1]}{os.sep}{entry.name}"
        if is_left_out(entry.name):
            why = HIDDEN
        elif any(f"{path}{os.sep}".startswith(real_path.rstrip(os.sep) + os.sep) for path in real_paths):
            why = LEADS_BACK
        else:
            kept.append((entry.name, real_path))
            continue
        if tally is not None:
            tally.add(why, Path(entry.path))
    return kept


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _regular(paths: Iterator[Path], tally: Tally) -> Iterator[Path]:
    for path in paths:
        if is_hidden(path.name):
            tally.add(HIDDEN, path)
        elif not os.path.isfile(path):  # noqa: PTH113  # Path.is_file may raise
            tally.add(NO_FILE, path)
        else:
            yield path
