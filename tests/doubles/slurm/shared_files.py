"""The cluster's shared file system in memory: the scripts that the provider's store sends, answered without a shell.

tests/faults/test_slurm_double.py holds it to the same scripts in a real shell.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import trainplan.providers.slurm.doctor as doctor
import trainplan.providers.slurm.store as store
from trainplan.providers.sim.objects import RunFiles
from trainplan.providers.sim.tables import Table
from trainplan.providers.slurm.api import Completed

_NO_FILE = Completed(exit_code=66)
_SUCCESS = Completed(exit_code=0)
_SCRIPTS = {
    store._PUT: "put",
    store._GET: "get",
    store._GET_PART: "get a part",
    store._LIST: "list",
    doctor._WRITABLE: "try the folder",
    'exec rm -rf -- "$1"': "remove",
    'for path; do [ ! -e "$path" ] || printf "%s\\0" "$path"; done': "which are there",
}


def script_name(command: Sequence[str]) -> str:
    """What a script of the store does; raises LookupError for any other command."""
    if tuple(command[:2]) != ("sh", "-c") or command[2] not in _SCRIPTS:
        raise LookupError(f"the double does not know {list(command[:3])}")
    return _SCRIPTS[command[2]]


class SharedFiles:
    """The files below `root`, which is the folder of all run directories."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.objects: Table[bytes] = Table()
        self.runs = RunFiles(self.objects)
        self.written_at: dict[str, datetime] = {}

    def sh(self, command: Sequence[str], data: bytes, at: datetime) -> Completed:
        """Answer a script of the store."""
        name, words = script_name(command), [*command[4:]]
        if name == "try the folder":
            return Completed(exit_code=0, stdout=b"/dev/shared 1000000 10 900000000 1% /shared\n")
        if name == "put":
            self.objects[self._key(words[0])] = data
            self.written_at.setdefault(self._key(words[0]), at)
            return _SUCCESS
        if name in ("get", "get a part"):
            known = self.objects.get(self._key(words[0]))
            if known is None:
                return _NO_FILE
            start = int(words[1]) - 1
            end = start + int(words[2]) if name == "get a part" else None
            return Completed(exit_code=0, stdout=known[start:end])
        if name == "list":
            below = self._key(words[0]) + "/"
            rows = [
                f"{len(known)} {key.removeprefix(below)}\0"
                for key, known in self.objects.items()
                if key.startswith(below)
            ]
            return Completed(exit_code=0, stdout="".join(rows).encode())
        if name == "remove":
            for key in [key for key in self.objects if self._is_in(key, self._key(words[0]))]:
                del self.objects[key]
            return _SUCCESS
        there = [word for word in words if any(self._is_in(key, self._key(word)) for key in self.objects)]
        return Completed(exit_code=0, stdout="".join(f"{word}\0" for word in there).encode())

    def _key(self, path: str) -> str:
        assert path.startswith(f"{self.root}/"), f"{path} is not below {self.root}"
        return path.removeprefix(f"{self.root}/")

    @staticmethod
    def _is_in(key: str, folder: str) -> bool:
        return key == folder or key.startswith(f"{folder}/")
