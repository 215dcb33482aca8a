"""Bring the model home: every file of the manifest, checked by its hash, in one move at the end."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import TYPE_CHECKING

from planner.errors import ThisMachineError, TrainingFailedError

if TYPE_CHECKING:
    from pathlib import Path

    from providers.base import RunStore

MANIFEST = "output/manifest.json"


def collect(store: RunStore, target: Path) -> list[Path]:
    """Copy the run's output to the folder `target`, whole or not at all; doing it again changes nothing.

    Raises TrainingFailedError where the run left no complete output or a file differs from its manifest, and
    ThisMachineError where the folder cannot be written.
    """
    try:
        manifest = json.loads(store.get(MANIFEST))
    except (KeyError, ValueError):
        raise TrainingFailedError("the run left no complete output", "plan logs shows what it said last") from None
    partial = target.with_name(f".{target.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for entry in manifest:
            _fetch(store, entry, partial)
        _replace(partial, target)
    except OSError as error:
        raise ThisMachineError(
            f"cannot write the model to {target}: {error.strerror}",
            "the run directory still has it; free some space, then plan status brings it home",
        ) from None
    return sorted(path for path in target.rglob("*") if path.is_file())


def _fetch(store: RunStore, entry: dict[str, object], folder: Path) -> None:
    name = str(entry["path"])
    target = (folder / name).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise TrainingFailedError(f"the manifest names a file outside its folder: {name!r}")
    try:
        data = store.get(f"output/{name}")
    except KeyError:
        raise TrainingFailedError(f"the manifest names {name}, which is not there") from None
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise TrainingFailedError(
            f"{name} differs from its manifest", "plan launch trains it again from the checkpoint"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def _replace(partial: Path, target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)
    os.replace(partial, target)  # noqa: PTH105  replaces an empty folder where rename would not
