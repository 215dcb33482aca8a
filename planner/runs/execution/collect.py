"""Bring the model home: every file of the manifest, checked by its hash, in one move at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.errors import ThisMachineError, TrainingFailedError
from trainplan.planner.home.files import persons_files
from trainplan.providers import interrupts
from trainplan.providers.agent.schema import MANIFEST_BYTES, MOST_TEXT, json_object, manifest_rows, manifest_sizes
from trainplan.providers.agent.signatures import OUTPUT_MANIFEST as MANIFEST
from trainplan.providers.stores.bucket import DamagedError
from trainplan.providers.stores.files import FileStore, fetch, sha256_of
from trainplan.workloads.sweep import STATE

if TYPE_CHECKING:
    from trainplan.planner.runs.directory.proofs import Vouched
    from trainplan.providers.base import RunStore


OUTPUT = "output"
MODEL = "model.keras"
_METRICS = "metrics.json"
_METRICS_BYTES = 4_000_000
"""A thousand classes with long names, and more."""
_BROUGHT_EARLY = ".brought-early.json"
"""What a sweep that ended before its last rung has brought, as its manifest says: once it has gone on, another trial
may have left other files."""
_AGAIN = "plan launch trains it again from the checkpoint"


def collect(store: RunStore, target: Path, vouched: Vouched | None = None) -> list[Path]:
    """Copy the run's output to the folder `target`, whole or not at all; doing it again changes nothing.

    An interrupted collection is continued: files that have arrived are not fetched again. With `vouched`, the manifest
    is checked before anything of it is used.
    Raises TrainingFailedError where the run left no complete output, a file differs from its manifest, or the manifest
    from what was vouched for, and ThisMachineError where the folder cannot be written.
    """
    files, sizes = _manifest(store, vouched)
    _refuse_other_sizes(store, sizes)
    partial = partial_folder(target)
    try:
        with persons_files():
            _refuse_links(partial.parent, (partial,))
            partial.mkdir(parents=True, exist_ok=True)
            for name, sha256 in files:
                interrupts.ask()
                _fetch(store, name, sha256, partial)
            _clear(partial, {name for name, _ in files})
            _remove_what_was_brought_early(target, {name for name, _ in files})
            if _has_ended_early(partial):
                rows = [{"path": name, "sha256": sha256} for name, sha256 in files]
                (partial / _BROUGHT_EARLY).write_text(json.dumps(rows), encoding="utf-8")
            _replace(partial, target)
    except OSError as error:
        raise ThisMachineError(
            f"cannot write the model to {target}: {error.strerror}",
            "it stays in the store and nothing is trained again: make room, then plan attach RUN brings it home",
        ) from None
    return sorted(path for path in target.rglob("*") if path.is_file() and path.name != _BROUGHT_EARLY)


def partial_folder(target: Path) -> Path:
    """Where the files of a model that goes to `target` are collected, so that the last step is a rename within one file
    system: beside it, and in it where it is there, since it may be a disk of its own."""
    return (target if target.is_dir() else target.parent) / f".{target.name}.partial"


class Failure(NamedTuple):
    """Why a run that left results has not succeeded: it diverged, and the model is that of an earlier step, or its
    script failed, was stopped by a person or ended at its deadline, and these are the files that it had saved.
    `outcome` is "failed", "stopped" or "deadline"."""

    text: str
    outcome: str = "failed"


def failure_of(folder: Path) -> Failure | None:
    """What the figures of the results that lie in a folder say of a failure; None where there was none, or nothing says
    so."""
    try:
        with (folder / _METRICS).open("rb") as file:
            figures = json_object(file.read(_METRICS_BYTES + 1), _METRICS_BYTES) or {}
    except OSError:
        return None
    text = figures.get("failure")
    if not isinstance(text, str) or not text:
        return None
    outcome = figures.get("outcome")
    return Failure(text[:MOST_TEXT], outcome if outcome in ("stopped", "deadline") else "failed")


def is_whole_model(folder: Path, job_digest: str, *, simulated: bool) -> bool:
    """Whether the folder has the trained model of the job with this digest, by its own figures."""
    try:
        with (folder / _METRICS).open("rb") as file:
            figures = json_object(file.read(_METRICS_BYTES + 1), _METRICS_BYTES) or {}
    except OSError:
        return False
    is_of_job = figures.get("job_digest") == job_digest and (figures.get("simulated") is True) is simulated
    is_whole = (folder / MODEL).is_file() and not failure_of(folder) and not _has_ended_early(folder)
    return is_of_job and is_whole


class _Manifest(NamedTuple):
    """Path and SHA-256 of each file of the output, and the bytes of those for which they are told."""

    files: list[tuple[str, str]]
    sizes: dict[str, int]


def _manifest(store: RunStore, vouched: Vouched | None) -> _Manifest:
    try:
        # One byte more than is allowed tells a manifest that is too large, and bounds what is read of it.
        data = vouched.manifest(store) if vouched else store.get(MANIFEST, size=MANIFEST_BYTES + 1)
    except KeyError:
        data = b""
    files = manifest_rows(data)
    if not files:
        raise TrainingFailedError("the run left no complete output", "plan logs shows the end of its output")
    return _Manifest(files, manifest_sizes(data))


def _refuse_other_sizes(store: RunStore, sizes: dict[str, int]) -> None:
    """A file that somebody has made longer is not fetched to be found wrong. Raises TrainingFailedError."""
    if isinstance(store, FileStore):
        counts = store.sizes(OUTPUT)
        for name, size in sizes.items():
            if counts.get(f"{OUTPUT}/{name}", size) != size:
                raise _differs(name)


def _fetch(store: RunStore, name: str, sha256: str, folder: Path) -> None:
    # A rented machine wrote the manifest: a name such as ../x must not lead out of the folder.
    target = (folder / name).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise TrainingFailedError(f"the manifest names a file outside its folder: {name!r}")
    # A collection that was interrupted continues: a file that has arrived is not downloaded and paid for again.
    if target.is_file() and sha256_of(target) == sha256:
        return
    try:
        fetch(store, f"{OUTPUT}/{name}", target, sha256)
    except KeyError:
        raise TrainingFailedError(f"the manifest names {name}, which is not there", _AGAIN) from None
    except DamagedError:
        raise _differs(name) from None


def _differs(name: str) -> TrainingFailedError:
    return TrainingFailedError(f"{name} differs from its manifest", _AGAIN)


def _clear(partial: Path, names: set[str]) -> None:
    """Remove what an earlier collection of another output has left."""
    for path in [path for path in partial.rglob("*") if path.is_file()]:
        if path.relative_to(partial).as_posix() not in names:
            path.unlink()


def _has_ended_early(folder: Path) -> bool:
    """Whether the output is of a sweep that may go on."""
    try:
        with (folder / STATE).open("rb") as file:
            table = json_object(file.read(_METRICS_BYTES + 1), _METRICS_BYTES)
    except OSError:
        return False
    return table is not None and table.get("ended_early") is True


def _remove_what_was_brought_early(target: Path, names: set[str]) -> None:
    """Remove what is left of the trial that was brought home early: files that the new output did not replace and that
    nobody has changed since."""
    record = target / _BROUGHT_EARLY
    if not record.is_file() or record.is_symlink():
        return
    for name, sha256 in manifest_rows(record.read_bytes()[: MANIFEST_BYTES + 1]) or []:
        path = target / name
        if name in names or not path.resolve().is_relative_to(target.resolve()) or not path.is_file():
            continue
        if sha256_of(path) == sha256:
            path.unlink()
            for folder in list(path.relative_to(target).parents)[:-1]:
                with suppress(OSError):  # it has other files
                    (target / folder).rmdir()
    record.unlink()


def _refuse_links(top: Path, folders: Sequence[Path]) -> None:
    """Raises ThisMachineError where a folder below `top` is a link: the model would be written somewhere else."""
    for folder in folders:
        below = [top / part for part in [folder.relative_to(top), *folder.relative_to(top).parents] if part.parts]
        for path in below:
            if path.is_symlink():
                raise ThisMachineError(
                    f"cannot write the model to {top}: {path} is a link to another folder",
                    "it stays in the store: remove the link, then plan attach RUN brings it home",
                )


def _replace(partial: Path, target: Path) -> None:
    """The folder in one move; into one that is there file by file, so that nothing else in it is lost."""
    if not target.exists():
        partial.rename(target)
        return
    sources = [path for path in partial.rglob("*") if path.is_file()]
    _refuse_links(target, tuple((target / source.relative_to(partial)).parent for source in sources))
    for source in sources:
        placement = target / source.relative_to(partial)
        placement.parent.mkdir(parents=True, exist_ok=True)
        source.replace(placement)
    shutil.rmtree(partial)
