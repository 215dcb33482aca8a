"""The run directory on a cluster, while the run changes it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from trainplan.providers.errors import MachineError
from trainplan.providers.slurm.api import ANSWER_SECONDS, NO_STREAMS, Completed, ShellHere, Streams
from trainplan.providers.slurm.store import ShellStore

GONE = "find: '/shared/runs/r/.trainer.1': No such file or directory"


class _FolderGoes:
    """A shell in which a folder is renamed under the first listings: find says so, and has listed a part."""

    def __init__(self, times: int) -> None:
        self.times = times
        self._here = ShellHere(dict(os.environ))

    def run(
        self, command: Sequence[str], streams: Streams = NO_STREAMS, timeout_seconds: float = ANSWER_SECONDS
    ) -> Completed:
        completed = self._here.run(command, streams, timeout_seconds)
        if self.times and "find" in command[2]:
            self.times -= 1
            return Completed(exit_code=1, stdout=b"", stderr=GONE)
        return completed


def test_a_folder_that_goes_while_it_is_listed_is_no_error(tmp_path: Path) -> None:
    store = ShellStore(_FolderGoes(2), str(tmp_path))
    store.put("attempts/1/status.json", b"{}")
    assert store.sizes() == {"attempts/1/status.json": 2}


def test_what_cannot_be_listed_again_and_again_is_an_error(tmp_path: Path) -> None:
    store = ShellStore(_FolderGoes(3), str(tmp_path))
    with pytest.raises(MachineError, match="No such file"):
        store.sizes()
