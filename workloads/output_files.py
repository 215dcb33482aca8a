"""The files of an output as they are stored: under names that every store, file system and manifest takes, and no more
of them than a manifest lists.

Used by the trainer of scripts and, on a rented machine, by the agent: standard library and Python 3.8 alone.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections import defaultdict
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Callable, Collection, Iterable, Mapping, NamedTuple

MOST_FILES = 10_000
MOST_MANIFEST_BYTES = 3_500_000
"""Below what is read of a manifest (providers/agent/schema.py)."""
_ROW_BYTES = 160
"""Of a row of a manifest without its path: a hash, a size, and their keys."""
_MOST_COMPONENT_BYTES = 200
"""A file system takes 255; what is written gets a longer name until it is whole."""
_MOST_PATH_BYTES = 700
"""S3, Google Cloud Storage and Azure Blob Storage take 1,024 with the run's own folder in front (their documentation of
object names, read 2026-11)."""
_RESERVED = frozenset(':\\*?"<>|')
"""What no file name on Windows may hold (Microsoft, "Naming Files, Paths, and Namespaces")."""
_DEVICES = frozenset(
    ("CON", "PRN", "AUX", "NUL", *(f"{port}{number}" for port in ("COM", "LPT") for number in range(10)))
)
"""What Windows takes for a device, whatever follows a dot (the same page)."""
_MOST_NAMED = 5
STOPPED_FOR_GOOD = "stopped-for-good"
"""A file in the folder of an attempt, written before what trains is asked to end for good, by a person or since it is
slower than estimated: the run does not go on elsewhere, and what a script has saved is brought home now."""


class Arrangement(NamedTuple):
    """Where the files of an output come from: `files` by the name that each is stored under, `archives` by the name of
    each tar file: its members by their own names. `remarks` are lines for the person: what has another name."""

    files: dict[str, Path]
    archives: dict[str, dict[str, Path]]
    remarks: list[str]


def first_of(why: str, names: list[str], log: Callable[[str], None] | None = None) -> str:
    """A line of the first names, and how many more there are; `log` gets a line for each where these are not all."""
    more = len(names) - _MOST_NAMED
    line = f"{why}: {', '.join(names[:_MOST_NAMED])}"
    if more <= 0:
        return line
    if log is None:
        return f"{line} and {more:,} more"
    for name in names:
        log(f"{why}: {name}")
    return f"{line} and {more:,} more (plan logs lists all)"


def arranged(
    sources: Mapping[str, Path],
    taken: Collection[str] = (),
    most_files: int = MOST_FILES,
    log: Callable[[str], None] | None = None,
) -> Arrangement:
    """The files of an output by their paths in it (with `/`), as they are to be stored. `taken`: names that the run
    needs for itself. `log` gets each name of a remark that has only the first."""
    groups = _crowded(list(sources), most_files)
    packed = {path for paths in groups.values() for path in paths}
    names = stored_names([*(path for path in sources if path not in packed), *groups], taken)
    remarks = [
        f"{len(paths):,} files come home as {names[archive]}: an output has {most_files:,} files at most"
        for archive, paths in groups.items()
    ]
    for why, is_of_run in (
        ("renamed, because trainplan writes its own", True),
        ("comes home under a name that every system takes", False),
    ):
        renamed = [
            f"{path!r} as {name!r}" for path, name in names.items() if path != name and (path in taken) is is_of_run
        ]
        if renamed:
            remarks.append(first_of(why, renamed, log))
    return Arrangement(
        {names[path]: source for path, source in sources.items() if path not in packed},
        {names[archive]: {path: sources[path] for path in paths} for archive, paths in groups.items()},
        remarks,
    )


def stored_names(paths: Iterable[str], taken: Collection[str] = ()) -> dict[str, str]:
    """The name under which each path is stored, none of them twice. Characters that a store, a file system or a
    manifest refuses, and bytes that are no UTF-8, are written as in addresses (%3A); what is too long ends in a hash.
    A name that the run needs gets `script-` in front."""
    names: dict[str, str] = {}
    used = {name.casefold() for name in taken}  # Windows and macOS hold names apart by more than case alone
    # What keeps its name comes first: nothing that is renamed takes it.
    for path in sorted(paths, key=lambda path: _portable(path) != path):
        name = wanted = f"script-{path}" if path in taken else _portable(path)
        number = 1
        while name.casefold() in used:
            number += 1
            pure = PurePosixPath(wanted)
            name = str(pure.with_name(f"{pure.stem}~{number}{pure.suffix}"))
        used.add(name.casefold())
        names[path] = name
    return names


def write_archive(target: Path, members: Mapping[str, Path]) -> None:
    """Write a tar file of the members, under their own names; nothing is left of one that is not whole. Raises
    OSError."""
    try:
        with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
            for name, source in members.items():
                archive.add(str(source), arcname=name, recursive=False)
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def _crowded(paths: list[str], most_files: int) -> dict[str, list[str]]:
    """What goes into archives, so that the rest is few enough: the fullest folders, whole, and of files that lie in
    none those of one suffix; by the name of the archive."""
    groups: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        folder, _, below = path.partition("/")
        groups[f"{folder}.tar" if below else f"files{PurePosixPath(path).suffix}.tar"].append(path)
    count, size = len(paths), sum(map(_row_bytes, paths))
    packed: dict[str, list[str]] = {}
    for archive, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        if count <= most_files and size <= MOST_MANIFEST_BYTES:
            return packed
        if len(members) == 1:  # so are all that follow
            rest = [path for group in groups.values() if len(group) == 1 for path in group]
            return {**packed, "files.tar": [*packed.get("files.tar", []), *rest]}
        packed[archive] = members
        count += 1 - len(members)
        size -= sum(map(_row_bytes, members))
    return packed


def _row_bytes(path: str) -> int:
    return _ROW_BYTES + len(json.dumps(_portable(path)))


def _portable(path: str) -> str:
    parts = [_portable_component(part) for part in path.split("/")]
    name = "/".join(parts)
    if len(name.encode()) <= _MOST_PATH_BYTES:
        return name
    return f"{_digest(path)}/{parts[-1]}"


def _portable_component(part: str) -> str:
    name = "".join(char if _is_plain(char) else _escaped(char) for char in part)
    if name.partition(".")[0].rstrip(" ").upper() in _DEVICES:
        name = _escaped(name[0]) + name[1:]
    if name[-1:] in (".", " "):
        name = name[:-1] + _escaped(name[-1])
    if len(name.encode()) <= _MOST_COMPONENT_BYTES:
        return name
    suffix = PurePosixPath(name).suffix if len(PurePosixPath(name).suffix.encode()) <= 16 else ""
    head = name.encode()[:150].decode(errors="ignore")
    return f"{head}~{_digest(part)}{suffix}"


def _is_plain(char: str) -> bool:
    code = ord(char)
    return char not in _RESERVED and code >= 0x20 and not 0x7F <= code < 0xA0 and not 0xD800 <= code < 0xE000


def _escaped(char: str) -> str:
    # A byte that is no UTF-8 is half a surrogate pair in a name that Python has read (os.fsdecode).
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
