"""What lies in a data folder: files in one order on every machine, and a tally of what is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trainplan.workloads.data_folder.values import LeftOut

HIDDEN = "hidden, or made by the computer itself"
NO_FILE = "only regular files are read, no pipes, sockets, devices and dangling links"
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
    """Return the sub-folders by name, links to folders included, hidden ones left out."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    hidden = [name for name in names if is_hidden(name)]
    for name in hidden if tally is not None else ():
        tally.add(HIDDEN, folder / name)  # type: ignore[union-attr]  # not None: see above
    return [folder / name for name in names if not is_hidden(name)]


def files_in(folder: Path, tally: Tally) -> list[Path]:
    """The regular files that lie in it, not deeper, by name."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if not _is_folder(entry))
    return list(_regular((folder / name for name in names), tally))


def files_below(folder: Path, tally: Tally) -> list[Path]:
    """Every regular file below it, by path; links to files count, links to folders below it do not."""
    paths: list[Path] = []
    for root, folders, names in os.walk(folder):
        for name in filter(is_hidden, folders):
            tally.add(HIDDEN, Path(root) / name)
        folders[:] = [name for name in folders if not is_hidden(name)]
        paths += _regular((Path(root) / name for name in names), tally)
    return sorted(paths)


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
