"""The simulated object store: the files of every run directory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from trainplan.providers.sim.api import RefusedError
from trainplan.providers.sim.training import KEPT_CHECKPOINTS
from trainplan.providers.sim.values import Code

if TYPE_CHECKING:
    from trainplan.providers.sim.tables import Table

_MARK = re.compile(r"checkpoints/(step-\d{8})/complete\.json")


class RunFiles:
    """Files by run and relative path, each written whole or not at all."""

    def __init__(self, objects: Table[bytes]) -> None:
        self._objects = objects

    def write(self, run: str, path: str, data: bytes, *, append: bool = False) -> None:
        """Write an object as a machine does, which deletes all but its newest checkpoints."""
        key = f"{run}/{path}"
        self._objects[key] = self._objects.get(key, b"") + data if append else data
        if _MARK.fullmatch(path):
            self._prune(run)

    def read(self, run: str, path: str) -> bytes:
        """Raises RefusedError where there is no such file."""
        try:
            return self._objects[f"{run}/{path}"]
        except KeyError:
            raise RefusedError(Code.NO_OBJECT, f"{run} has no file {path}") from None

    def find(self, run: str, path: str) -> bytes | None:
        """The file; None where there is none."""
        return self._objects.get(f"{run}/{path}")

    def paths(self, run: str, prefix: str) -> list[str]:
        """Every path that is the prefix or below it, sorted; all with an empty one."""
        whole = prefix.strip("/")
        start = len(run) + 1
        mine = (key[start:] for key in self._objects if key.startswith(f"{run}/"))
        return sorted(path for path in mine if not whole or path == whole or path.startswith(f"{whole}/"))

    def delete(self, run: str, prefix: str) -> None:
        """Delete the run's files whose path begins so."""
        for path in self.paths(run, prefix):
            del self._objects[f"{run}/{path}"]

    def job_json(self, run: str) -> str | None:
        """The job of a run; None where its run directory has none."""
        data = self._objects.get(f"{run}/job.json")
        return None if data is None else data.decode()

    def marks(self, run: str) -> Iterator[bytes]:
        """The complete.json of each checkpoint that also has its weights."""
        for path in self._marked(run):
            if f"{run}/{path.removesuffix('complete.json')}weights" in self._objects:
                yield self._objects[f"{run}/{path}"]

    def _prune(self, run: str) -> None:
        whole = {path.removesuffix("/complete.json") for path in self._marked(run)}
        names = sorted(whole, reverse=True)[:KEPT_CHECKPOINTS]
        for folder in whole.difference(names):
            self.delete(run, folder)

    def _marked(self, run: str) -> Iterable[str]:
        return [path for path in self.paths(run, "checkpoints") if _MARK.fullmatch(path)]
