"""The results: every file of the container's output folder, and the manifest that vouches for them, last."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any, Callable

from trainplan.providers.agent.checkpoints import sha256_of
from trainplan.providers.agent.plain_file import NotPlainError, plain_bytes
from trainplan.providers.agent.schema import MANIFEST_BYTES, manifest_rows
from trainplan.providers.agent.store import Steps, Store, patiently, upload

FOLDER = "output"
MANIFEST = "manifest.json"


class OutputError(Exception):
    """The container ended well and left nothing that can be vouched for."""


def _nobody(manifest: bytes) -> Steps[None]:
    """Vouch for nothing: the run has no key."""
    del manifest
    yield from ()


def push(store: Store, folder: Path, vouched: Callable[[bytes], Steps[None]] = _nobody) -> Steps[int]:
    """Files, then manifest.json with path, size_bytes and sha256 of each; how many. Raises OutputError, OSError.

    `vouched` stores what vouches for the manifest. It comes before the manifest, which says that all of it is there.
    """
    promised = _promised(folder / MANIFEST)
    rows: list[dict[str, Any]] = []
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        digest = sha256_of(path)
        if promised.get(name, digest) != digest:
            raise OutputError(f"{name} is not what the trainer's manifest says")
        text = yield from upload(store, f"{FOLDER}/{name}", path)
        if text != digest:
            raise OutputError(f"{name} changed while it was sent")
        rows.append({"path": name, "size_bytes": path.stat().st_size, "sha256": digest})
    missing_names = sorted(set(promised) - {row["path"] for row in rows})
    if missing_names or not rows:
        raise OutputError(f"the container ended well, but left no {', '.join(missing_names) or 'output'}")
    manifest = json.dumps(rows, indent=1).encode()
    yield from vouched(manifest)
    yield from patiently(partial(store.put, f"{FOLDER}/{MANIFEST}", manifest))
    return len(rows)


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
