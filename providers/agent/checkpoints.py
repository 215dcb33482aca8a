"""Checkpoints between the machine's disk and the store: each whole or not there, the newest two kept."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.providers.agent import signatures
from trainplan.providers.agent.plain_file import (
    NotPlainError,
    is_plain,
    open_plain,
    plain_folder,
    remove_below,
    written_whole,
)
from trainplan.providers.agent.signatures import Vouching
from trainplan.providers.agent.store import Steps, Store, download, patiently, upload
from trainplan.workloads.output_files import stored_names

if TYPE_CHECKING:
    from trainplan.providers.agent.clock import Clock

FOLDER = "checkpoints"
MARK = "complete.json"
MOST_CHECKPOINTS = 2
_PREFIX = "step-"
_NAME = re.compile(f"{_PREFIX}([0-9]{{1,12}})")
_NO_KEY = Vouching("", "")


class NotVouchedError(Exception):
    """A stored checkpoint is not, byte for byte, what a machine of this run has stored."""


class Checkpoints:
    """`local` is the run directory's own folder; what is on its way is linked into `spool`: the trainer prunes."""

    def __init__(self, store: Store, local: Path, spool: Path, clock: Clock, key: Vouching = _NO_KEY) -> None:
        self.stored = ""
        """The newest that is whole in the store, by name."""
        self.under_way = ""
        self.bad: set[str] = set()
        """Those on the disk that are not what their mark says."""
        self.remark = ""
        """What a person has to know of the checkpoints that were found; "" for nothing."""
        self._vouching = key
        self.bytes_per_second: float | None = None
        self._store = store
        self._local = local
        self._top = local.parent
        self._spool = spool
        self._clock = clock

    def restore(self) -> Steps[str]:
        """Bring the newest whole one to the disk; its name, "" where there is none."""
        counts = yield from patiently(partial(self._store.list, FOLDER))
        for name in sorted(_whole(counts), key=_step, reverse=True):
            before = self.stored
            self.stored = self.stored or name
            if (self._local / name / MARK).is_file():
                return name
            try:
                if (yield from self._fetch(name, counts)):
                    if not self._vouching.is_on:
                        self.remark = f"checkpoint {name} is not vouched for: the run began without a key"
                    return name
            except NotVouchedError:
                # Whoever planted it must not keep what is trained from being stored under a lower number.
                self.stored = before
                self.remark = f"checkpoint {name} in the store is not what this run has stored: it was not used"
        return ""

    def waiting(self) -> str:
        """The newest whole one on the disk that the store has not got; "" for none."""
        whole = [path.parent.name for path in self._local.glob(f"{_PREFIX}*/{MARK}") if _is_name(path.parent.name)]
        newest = max((name for name in whole if name not in self.bad), key=_step, default="")
        return newest if _step(newest) > _step(self.stored) else ""

    def push(self, name: str) -> Steps[bool]:
        """Upload a checkpoint, its mark last, then delete those before the newest two. Return False for a checkpoint
        that was removed meanwhile or is damaged.
        """
        self.under_way = name
        try:
            folder = self._linked(name)
            began, sent_bytes = self._clock.steady(), 0
            digests = _digests((folder / MARK).read_bytes())
            sent_digests: dict[str, str] = {}  # by the files' own names
            names = stored_names(sorted(path.name for path in folder.iterdir()))
            for path in sorted(folder.iterdir(), key=lambda path: (path.name == MARK, path.name)):
                if path.name == MARK and self._vouching.is_on:
                    sent_digests[MARK] = sha256_of(path)
                    record = self._vouching.record(name, sent_digests)
                    yield from patiently(partial(self._store.put, f"{FOLDER}/{name}/{signatures.NAME}", record))
                digest = yield from upload(self._store, f"{FOLDER}/{name}/{names[path.name]}", path)
                if digests.get(path.name, digest) != digest:
                    self.bad.add(name)
                    return False
                sent_digests[path.name] = digest
                sent_bytes += path.stat().st_size
            self.stored = name
            self.bytes_per_second = sent_bytes / max(0.001, self._clock.steady() - began)
        except (FileNotFoundError, NotPlainError):
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
        # The container runs meanwhile: what is linked is looked at here, where it writes nothing.
        with plain_folder(self._top, self._local / name) as folder:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
            for entry in names:
                os.link(entry, self._spool / entry, src_dir_fd=folder, follow_symlinks=False)
        for path in list(self._spool.iterdir()):
            if not is_plain(path) or path.name == signatures.NAME:
                remove_below(self._spool, path)
        if not (self._spool / MARK).is_file():
            raise FileNotFoundError(name)
        return self._spool

    def _prune(self) -> Steps[None]:
        counts = yield from patiently(partial(self._store.list, FOLDER))
        names = sorted(_whole(counts), key=_step, reverse=True)[:MOST_CHECKPOINTS]
        stored = _step(self.stored)
        old = [path for path in counts if (name := _name_of(path)) and name not in names and _step(name) < stored]
        # The mark goes first: what is half removed must not look whole.
        for path in sorted(old, key=lambda path: (not path.endswith("/" + MARK), path)):
            yield from patiently(partial(self._store.delete, path))

    def _fetch(self, name: str, counts: dict[str, int]) -> Steps[bool]:
        target = self._local / name
        remove_below(self._top, target)
        paths = [path for path in counts if _name_of(path) == name]
        try:
            mark = yield from patiently(partial(self._store.get, f"{FOLDER}/{name}/{MARK}"))
            digests = yield from self._promised(name, mark)
            own_names = {stored: own for own, stored in stored_names(sorted(digests)).items()}
            for path in paths:
                stored = path.split("/", 2)[2]
                file = own_names.get(stored, stored)
                if file not in (MARK, signatures.NAME) and Path(file).name == file:
                    if self._vouching.is_on and file not in digests:
                        raise NotVouchedError(path)
                    digest = yield from download(self._store, path, target / file, counts[path], self._top)
                    if digests.get(file, digest) != digest:
                        if self._vouching.is_on:
                            raise NotVouchedError(path)
                        raise ValueError(f"{path} is not what was written")
            if any(not (target / file).is_file() for file in digests):
                if self._vouching.is_on:
                    raise NotVouchedError(name)
                raise ValueError(f"{name} is not complete")
        except (KeyError, ValueError):
            remove_below(self._top, target)
            return False
        except NotVouchedError:
            remove_below(self._top, target)
            raise
        with written_whole(self._top, target / MARK) as marked:
            marked.write(mark)
        return True

    def _promised(self, name: str, mark: bytes) -> Steps[dict[str, str]]:
        """The SHA-256 of each file of a stored checkpoint but its mark. Raises NotVouchedError, and ValueError."""
        if not self._vouching.is_on:
            return _digests(mark)
        path = f"{FOLDER}/{name}/{signatures.NAME}"
        try:
            raw = yield from patiently(partial(self._store.get, path, 0, signatures.MOST_BYTES + 1))
        except KeyError:
            raw = b""
        files = self._vouching.files(name, raw)
        if files is None or files.get(MARK) != hashlib.sha256(mark).hexdigest():
            raise NotVouchedError(name)
        return {file: digest for file, digest in files.items() if file != MARK}


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with open_plain(path) as file:
        for data in iter(partial(file.read, 1024 * 1024), b""):
            digest.update(data)
    return digest.hexdigest()


def _digests(mark: bytes) -> dict[str, str]:
    """What complete.json says of its files; a container of the person's need not say it. Raises ValueError."""
    document = json.loads(mark)
    files = document.get("files") if isinstance(document, dict) else None
    return files if isinstance(files, dict) else {}


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _step(name: str) -> int:
    """-1 for no name. Those of more than eight digits are not in order as texts."""
    return int(name[len(_PREFIX) :] or -1)


def _name_of(path: str) -> str:
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == FOLDER and _is_name(parts[1]) else ""


def _whole(counts: dict[str, int]) -> set[str]:
    return {name for path in counts if path.endswith("/" + MARK) and (name := _name_of(path))}
