"""What this computer writes down of each attempt it started: where it runs, and that it was asked to stop."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainplan.providers.base import InstanceRef, RunId
from trainplan.providers.errors import BadRequestError, InstanceNotFoundError, MachineError
from trainplan.providers.local.api import EngineName
from trainplan.providers.local.offers import PROVIDER, REGION
from trainplan.providers.local.store import write_whole

PROCESS = "process"
HOSTS = (PROCESS, *EngineName)

_PREFIX = "trainplan-"
_RUN_ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptKey:
    """One attempt of one run; `name` is what its container or its process is called."""

    run_id: RunId
    attempt: int

    @property
    def name(self) -> str:
        """The name of its container and folder."""
        return f"{_PREFIX}{self.run_id}-{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLocation:
    """An attempt, and what it runs in: `docker`, `podman` or `process`."""

    host: str
    key: AttemptKey

    @property
    def ref(self) -> InstanceRef:
        """The reference by which the attempt is looked up."""
        return InstanceRef(provider=PROVIDER, region=REGION, id=f"{self.host}:{self.key.name}")


def attempt_key(run_id: RunId, attempt: int) -> AttemptKey:
    """Raises BadRequestError for a run id that no engine takes as a name."""
    if not _RUN_ID.fullmatch(run_id) or attempt < 1:
        raise BadRequestError(f"run {run_id!r}, attempt {attempt}: letters, digits, _ . - and a count from 1")
    return AttemptKey(run_id=run_id, attempt=attempt)


def location_of(provider_id: str) -> AttemptLocation:
    """What `AttemptLocation.ref` made this id of. Raises InstanceNotFoundError for any other id."""
    host, _, name = provider_id.partition(":")
    run_id, _, attempt = name.removeprefix(_PREFIX).rpartition("-")
    if host not in HOSTS or not name.startswith(_PREFIX) or not run_id or not attempt.isdigit():
        raise InstanceNotFoundError(f"this machine never had an instance {provider_id!r}")
    return AttemptLocation(host=host, key=AttemptKey(run_id=RunId(run_id), attempt=int(attempt)))


class Records:
    """A folder for each attempt that may still exist, removed when the attempt is deleted."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, key: AttemptKey) -> Path:
        """The folder of the attempt's record."""
        return self._root / key.name

    def host_of(self, key: AttemptKey) -> str | None:
        """What the attempt was started in; None: it was not, or it was deleted."""
        try:
            return (self.folder(key) / "host").read_text(encoding="ascii").strip()
        except OSError:
            return None

    def keep(self, location: AttemptLocation) -> None:
        """Written before anything is asked for. Raises MachineError where the disk does not take it."""
        folder = self.folder(location.key)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / "host", location.host.encode())
        except OSError as error:
            raise MachineError(f"{folder}: {error.strerror}", hint="free some space; nothing was started") from error

    def ask_to_stop(self, key: AttemptKey) -> None:
        """Remember that it was asked; for an attempt without a record, nothing."""
        folder = self.folder(key)
        if folder.is_dir():
            (folder / "stop").touch()

    def asked_to_stop(self, key: AttemptKey) -> bool:
        """Whether the attempt was asked to stop."""
        return (self.folder(key) / "stop").exists()

    def forget(self, key: AttemptKey) -> None:
        """Remove the record in one step, so that nobody who is about to write into it can bring half of it back."""
        with (
            contextlib.suppress(FileNotFoundError),
            tempfile.TemporaryDirectory(prefix=".gone-", dir=self._root) as text,
        ):
            self.folder(key).rename(Path(text) / key.name)

    def locations(self) -> Iterator[AttemptLocation]:
        """Every attempt that was started and not deleted."""
        for folder in sorted(self._root.glob(f"{_PREFIX}*-*")):
            run_id, _, attempt = folder.name.removeprefix(_PREFIX).rpartition("-")
            key = AttemptKey(run_id=RunId(run_id), attempt=int(attempt) if attempt.isdigit() else 0)
            if host := self.host_of(key):
                yield AttemptLocation(host=host, key=key)
