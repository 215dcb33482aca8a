"""Bring the model home: every file of the manifest, checked by its hash, in one move at the end."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from planner.errors import ThisMachineError, TrainingFailedError
from planner.home import persons_files
from providers.agent.schema import MANIFEST_BYTES, manifest_rows
from providers.stores.bucket import DamagedError
from providers.stores.files import fetch, sha256_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from providers.base import RunStore

MANIFEST = "output/manifest.json"


def collect(store: RunStore, target: Path) -> list[Path]:
    """Copy the run's output to the folder `target`, whole or not at all; doing it again changes nothing.

    What was interrupted is gone on with: files that have arrived are not fetched again.
    Raises TrainingFailedError where the run left no complete output or a file differs from its manifest, and
    ThisMachineError where the folder cannot be written.
    """
    files = _manifest(store)
    partial = target.with_name(f".{target.name}.partial")
    try:
        with persons_files():
            _refuse_links(target.parent, (partial,))
            partial.mkdir(parents=True, exist_ok=True)
            for name, sha256 in files:
                _fetch(store, name, sha256, partial)
            _clear(partial, {name for name, _ in files})
            _replace(partial, target)
    except OSError as error:
        raise ThisMachineError(
            f"cannot write the model to {target}: {error.strerror}",
            "its last checkpoint is kept: make room, then plan launch goes on from it",
        ) from None
    return sorted(path for path in target.rglob("*") if path.is_file())


def _manifest(store: RunStore) -> list[tuple[str, str]]:
    """Path and SHA-256 of each file of the output."""
    try:
        files = manifest_rows(store.get(MANIFEST, size=MANIFEST_BYTES + 1))
    except KeyError:
        files = None
    if not files:
        raise TrainingFailedError("the run left no complete output", "plan logs shows what it said last")
    return files


def _fetch(store: RunStore, name: str, sha256: str, folder: Path) -> None:
    target = (folder / name).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise TrainingFailedError(f"the manifest names a file outside its folder: {name!r}")
    if target.is_file() and sha256_of(target) == sha256:
        return
    try:
        fetch(store, f"output/{name}", target, sha256)
    except KeyError:
        raise TrainingFailedError(f"the manifest names {name}, which is not there") from None
    except DamagedError:
        raise TrainingFailedError(
            f"{name} differs from its manifest", "plan launch trains it again from the checkpoint"
        ) from None


def _clear(partial: Path, wanted: set[str]) -> None:
    """Without what an earlier collecting of another output left."""
    for path in [path for path in partial.rglob("*") if path.is_file()]:
        if path.relative_to(partial).as_posix() not in wanted:
            path.unlink()


def _refuse_links(top: Path, folders: Sequence[Path]) -> None:
    """Raises ThisMachineError where a folder below `top` is a link: the model would be written somewhere else."""
    for folder in folders:
        below = [top / part for part in [folder.relative_to(top), *folder.relative_to(top).parents] if part.parts]
        for path in below:
            if path.is_symlink():
                raise ThisMachineError(
                    f"cannot write the model to {top}: {path} is a link to another folder",
                    "remove the link, then plan launch goes on from the last checkpoint",
                )


def _replace(partial: Path, target: Path) -> None:
    """The folder in one move; into one that is there file by file, so that nothing else in it is lost."""
    if not target.exists():
        partial.rename(target)
        return
    sources = [path for path in partial.rglob("*") if path.is_file()]
    _refuse_links(target, tuple((target / source.relative_to(partial)).parent for source in sources))
    for source in sources:
        place = target / source.relative_to(partial)
        place.parent.mkdir(parents=True, exist_ok=True)
        source.replace(place)
    shutil.rmtree(partial)
