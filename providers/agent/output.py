"""The results: every file of the container's output folder, and the manifest that vouches for them, last."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Callable, Iterator

from trainplan.providers.agent.checkpoints import sha256_of
from trainplan.providers.agent.plain_file import NotPlainError, plain_bytes
from trainplan.providers.agent.schema import MANIFEST_BYTES, manifest_rows
from trainplan.providers.agent.store import Steps, Store, patiently, upload
from trainplan.workloads.output_files import arranged, write_archive

FOLDER = "output"
MANIFEST = "manifest.json"


class OutputError(Exception):
    """The container ended well and left nothing that can be vouched for."""


def _nobody(manifest: bytes) -> Steps[None]:
    """Vouch for nothing: the run has no key."""
    del manifest
    yield from ()


def push(
    store: Store,
    folder: Path,
    vouched: Callable[[bytes], Steps[None]] = _nobody,
    remark: Callable[[str], None] = lambda _: None,
) -> Steps[int]:
    """Files, then manifest.json with path, size_bytes and sha256 of each; how many. Raises OutputError, OSError.

    Files whose names not every store takes, or that are too many, are stored otherwise, and `remark` hears of it.
    `vouched` stores what vouches for the manifest. It comes before the manifest, which says that all of it is there.
    """
    promised = _promised(folder / MANIFEST)
    sources = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
    missing_names = sorted(set(promised) - set(sources))
    if missing_names or not sources:
        raise OutputError(f"the container ended well, but left no {', '.join(missing_names) or 'output'}")
    for name, digest in promised.items():
        if sha256_of(sources[name]) != digest:
            raise OutputError(f"{name} is not what the trainer's manifest says")
    arrangement = arranged(sources, (MANIFEST,))
    for text in arrangement.remarks:
        remark(text)
    rows: list[dict[str, Any]] = []
    for name, path in arrangement.files.items():
        rows.append((yield from _sent(store, name, path)))
    for name, members in arrangement.archives.items():
        with _spooled(folder) as archive:
            write_archive(archive, members)
            rows.append((yield from _sent(store, name, archive)))
    manifest = json.dumps(rows, indent=1).encode()
    yield from vouched(manifest)
    yield from patiently(partial(store.put, f"{FOLDER}/{MANIFEST}", manifest))
    return len(rows)


def _sent(store: Store, name: str, path: Path) -> Steps[dict[str, Any]]:
    """The row of the manifest for a file that was sent."""
    digest = sha256_of(path)
    text = yield from upload(store, f"{FOLDER}/{name}", path)
    if text != digest:
        raise OutputError(f"{name} changed while it was sent")
    return {"path": name, "size_bytes": path.stat().st_size, "sha256": digest}


@contextmanager
def _spooled(folder: Path) -> Iterator[Path]:
    """Where an archive is written until it is sent: beside the output, where its container writes nothing any more."""
    place = Path(mkdtemp(prefix=".archive-", dir=str(folder.parent)))
    try:
        yield place / "archive.tar"
    finally:
        rmtree(str(place), ignore_errors=True)


def _promised(manifest: Path) -> dict[str, str]:
    """What the container's own manifest says; a container of the person's need not write one."""
    try:
        rows = manifest_rows(plain_bytes(manifest, MANIFEST_BYTES + 1))
    except FileNotFoundError:
        return {}
    except (NotPlainError, OSError):
        rows = None
    if rows is None:
        raise OutputError(f"the container's {MANIFEST} cannot be read: it is no list of paths with their sha256")
    return dict(rows)


def _files(folder: Path) -> list[Path]:
    """Yield the files of the output folder, without links and without hidden files, which are unfinished."""
    files: list[Path] = []
    if folder.is_symlink():
        return files
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = (Path(root) / name for name in names if not name.startswith("."))
        files += [path for path in paths if path.is_file() and not path.is_symlink()]
    return sorted(path for path in files if path != folder / MANIFEST)
