"""What an export writes, and the writing of it: small files from memory, images packed as they are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from trainplan.planner.datasets.pack import Item, grouped, pack
from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.workloads.wording import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The files of `source` as tar archives in the folder `into` of the export, images-00000.bin and on: a name that
    no place unpacks by itself."""

    source: Path
    items: tuple[Item, ...]
    into: str = ""

    @property
    def size_bytes(self) -> int:
        """Without the headers of the archives."""
        return sum(item.size_bytes for item in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A JSON file at `path` that names the SHA-256 of each other file, by its last name, under `files`, and the
    archives of images under `data`. It is written last."""

    path: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFiles:
    """`files` by path below the folder; `commands` begin the training, in order; `notes` say what is still to be done
    or known. `sessions` are those that the run is expected to need (None: the place does not end them)."""

    files: Mapping[str, bytes]
    commands: tuple[str, ...]
    notes: tuple[str, ...] = ()
    images: Images | None = None
    sealed: Sealed | None = None
    sessions: int | None = None


def write_export(export: ExportFiles, folder: Path, *, force: bool, report: Callable[[int], None]) -> tuple[str, ...]:
    """Write everything below `folder`; the paths, sorted. `report` hears of the bytes of images that are packed.

    Raises BadInputError, before anything is written, where a file is there already and may not be overwritten, and
    where the folder holds files and none that an export to this place writes; ThisMachineError where the disk refuses.
    """
    sealed = () if export.sealed is None else (export.sealed.path,)
    there = [name for name in (*export.files, *sealed) if (folder / name).exists()]
    if there and not force:
        raise BadInputError(
            f"{folder / there[0]} is there already", f"give another folder, or {Option.FORCE} to overwrite it"
        )
    try:
        if not there and (other := _other_file(folder)):
            raise BadInputError(
                f"{folder} holds other files, {other} for example", "give a folder that is new or empty"
            )
        folder.mkdir(parents=True, exist_ok=True)
        archives = {} if export.images is None else _write_images(export.images, folder, report)
        for name, data in export.files.items():
            _place(folder, name).write_bytes(data)
        if export.sealed is not None:
            digests = {_last(name): hashlib.sha256(data).hexdigest() for name, data in export.files.items()}
            _write_sealed(export.sealed, folder, digests, {_last(name): sum_ for name, sum_ in archives.items()})
    except OSError as error:
        raise ThisMachineError(
            f"{folder}: {error.strerror or error}", f"give another folder with {Option.OUT}"
        ) from None
    return tuple(sorted((*export.files, *archives, *sealed)))


def _other_file(folder: Path) -> str:
    """The name of something in the folder, hidden files (`.DS_Store`) left out; "" where there is nothing."""
    names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
    return next((name for name in names if not name.startswith(".")), "")


def _write_images(images: Images, folder: Path, report: Callable[[int], None]) -> dict[str, str]:
    for old in _place(folder, f"{images.into}/x").parent.glob("images-*.bin"):
        old.unlink()  # of an export that is overwritten: there may have been more
    digests = {}
    for number, items in enumerate(grouped(images.items)):
        name = str(PurePosixPath(images.into) / f"images-{number:05}.bin")
        with _place(folder, name).open("wb") as file:
            to = _Hashed(file, report)
            pack(images.source, items, to)
        digests[name] = to.digest.hexdigest()
    return digests


def _write_sealed(sealed: Sealed, folder: Path, digests: Mapping[str, str], archives: Mapping[str, str]) -> None:
    named = {name: digest for name, digest in digests.items() if name in sealed.fields["files"]}
    document = {**sealed.fields, "files": {**named, **archives}, "data": sorted(archives)}
    _place(folder, sealed.path).write_text(json.dumps(document, indent=1), encoding="utf-8")


def _place(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _last(name: str) -> str:
    return PurePosixPath(name).name


@dataclass(slots=True)
class _Hashed:
    """Writes and hashes."""

    file: IO[bytes]
    report: Callable[[int], None]
    digest: Any = field(default_factory=hashlib.sha256)

    def write(self, data: bytes, /) -> int:
        self.digest.update(data)
        self.report(len(data))
        return self.file.write(data)
