"""Checkpoints between the machine's disk and the store: each whole or not there, the newest two kept."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from providers.agent.store import Steps, download, patiently, upload

if TYPE_CHECKING:
    from providers.agent.clock import Clock
    from providers.agent.store import Store

FOLDER = "checkpoints"
MARK = "complete.json"
KEPT = 2
_PREFIX = "step-"


class Checkpoints:
    """`local` is the run directory's own folder; what is on its way is linked into `spool`: the trainer prunes."""

    def __init__(self, store: Store, local: Path, spool: Path, clock: Clock) -> None:
        self.stored = ""
        """The newest that is whole in the store, by name."""
        self.under_way = ""
        self.bad: set[str] = set()
        """Those on the disk that are not what their mark says."""
        self.bytes_per_second: float | None = None
        self._store = store
        self._local = local
        self._spool = spool
        self._clock = clock

    def restore(self) -> Steps[str]:
        """Bring the newest whole one to the disk; its name, "" where there is none."""
        found = yield from patiently(partial(self._store.list, FOLDER))
        for name in sorted(_whole(found), reverse=True):
            self.stored = self.stored or name
            if (self._local / name / MARK).is_file() or (yield from self._fetch(name, found)):
                return name
        return ""

    def waiting(self) -> str:
        """The newest whole one on the disk that the store has not got; "" for none."""
        whole = [path.parent.name for path in self._local.glob(f"{_PREFIX}*/{MARK}") if _is_name(path.parent.name)]
        newest = max((name for name in whole if name not in self.bad), default="")
        return newest if newest > self.stored else ""

    def push(self, name: str) -> Steps[bool]:
        """To the store, its mark last; then those before the newest two go. False: taken away meanwhile, or damaged."""
        self.under_way = name
        try:
            folder = self._linked(name)
            began, sent = self._clock.steady(), 0
            digests = _digests((folder / MARK).read_bytes())
            for path in sorted(folder.iterdir(), key=lambda path: (path.name == MARK, path.name)):
                digest = yield from upload(self._store, f"{FOLDER}/{name}/{path.name}", path)
                if digests.get(path.name, digest) != digest:
                    self.bad.add(name)
                    return False
                sent += path.stat().st_size
            self.stored = name
            self.bytes_per_second = sent / max(0.001, self._clock.steady() - began)
        except FileNotFoundError:
            return False
        finally:
            self.under_way = ""
            shutil.rmtree(self._spool, ignore_errors=True)
        yield from self._prune()
        return True

    def seconds_for(self, name: str) -> float:
        """What it takes to send it, as far as can be told: 0 before one was sent."""
        try:
            size = sum(path.stat().st_size for path in (self._local / name).iterdir())
        except OSError:
            return 0.0
        return size / self.bytes_per_second if self.bytes_per_second else 0.0

    def _linked(self, name: str) -> Path:
        shutil.rmtree(self._spool, ignore_errors=True)
        self._spool.mkdir(parents=True)
        for path in _plain_files(self._local / name):
            os.link(path, self._spool / path.name)
        if not (self._spool / MARK).is_file():
            raise FileNotFoundError(name)
        return self._spool

    def _prune(self) -> Steps[None]:
        found = yield from patiently(partial(self._store.list, FOLDER))
        kept = sorted(_whole(found), reverse=True)[:KEPT]
        old = [path for path in found if (name := _name_of(path)) and name not in kept and name < self.stored]
        # The mark goes first: what is half removed must not look whole.
        for path in sorted(old, key=lambda path: (not path.endswith("/" + MARK), path)):
            yield from patiently(partial(self._store.delete, path))

    def _fetch(self, name: str, found: dict[str, int]) -> Steps[bool]:
        target = self._local / name
        shutil.rmtree(target, ignore_errors=True)
        paths = [path for path in found if _name_of(path) == name]
        try:
            mark = yield from patiently(partial(self._store.get, f"{FOLDER}/{name}/{MARK}"))
            digests = _digests(mark)
            for path in paths:
                file = path.split("/", 2)[2]
                if file != MARK and Path(file).name == file:
                    digest = yield from download(self._store, path, target / file, found[path])
                    if digests.get(file, digest) != digest:
                        raise ValueError(f"{path} is not what was written")
            if any(not (target / file).is_file() for file in digests):
                raise ValueError(f"{name} is not complete")
        except (KeyError, ValueError):
            shutil.rmtree(target, ignore_errors=True)
            return False
        target.mkdir(parents=True, exist_ok=True)
        (target / MARK).write_bytes(mark)
        return True


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for data in iter(partial(file.read, 1024 * 1024), b""):
            digest.update(data)
    return digest.hexdigest()


def _digests(mark: bytes) -> dict[str, str]:
    """What complete.json says of its files; a container of the person's need not say it. Raises ValueError."""
    found = json.loads(mark)
    files = found.get("files") if isinstance(found, dict) else None
    return files if isinstance(files, dict) else {}


def _plain_files(folder: Path) -> list[Path]:
    """No links: what the container writes must not lead to a file of the machine."""
    if folder.is_symlink():
        return []
    return [path for path in folder.iterdir() if path.is_file() and not path.is_symlink()]


def _is_name(name: str) -> bool:
    return name.startswith(_PREFIX) and name[len(_PREFIX) :].isdigit()


def _name_of(path: str) -> str:
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == FOLDER and _is_name(parts[1]) else ""


def _whole(found: dict[str, int]) -> set[str]:
    return {name for path in found if path.endswith("/" + MARK) and (name := _name_of(path))}
