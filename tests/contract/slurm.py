"""The world of the Slurm provider: a double of the commands, whose jobs are processes of this machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.doubles.slurm.cluster import Cluster
from trainplan.providers.base import VendorRequest
from trainplan.providers.slurm.api import ANSWER_SECONDS, NO_STREAMS, Completed, Shell, Streams
from trainplan.providers.slurm.provider import SlurmProvider
from trainplan.providers.slurm.settings import SlurmSettings

TRAINER = Path(__file__).parent.parent / "doubles" / "fake_trainer.py"
_PYTHON = """#!/bin/sh
case "$*" in
*trainplan.workloads.trainer*) shift 3; exec {python} {trainer} "$@" ;;
*) exec {python} "$@" ;;
esac
"""


@dataclass
class Recorder:
    """A shell in front of another one, which remembers what was submitted through it."""

    shell: Shell
    sent: list[VendorRequest]

    def run(
        self, command: Sequence[str], streams: Streams = NO_STREAMS, timeout_seconds: float = ANSWER_SECONDS
    ) -> Completed:
        if command[0] == "sbatch" and "--parsable" in command:
            parameters: dict[str, object] = {"arguments": list(command[1:]), "script": streams.data.decode()}
            self.sent.append(VendorRequest(service="slurm", operation="sbatch", parameters=parameters))
        return self.shell.run(command, streams, timeout_seconds)


class SlurmHarness:
    provider_name = "slurm"
    keeps_ended = False
    tells_training = True

    def __init__(self, home: Path) -> None:
        python = home / "python"
        python.write_text(_PYTHON.format(python=sys.executable, trainer=TRAINER), encoding="utf-8")
        python.chmod(0o755)
        self.settings = SlurmSettings(directory=str(home / "shared"), python=str(python))
        self.cluster = Cluster(home / "cluster")
        self._sent: list[VendorRequest] = []

    def provider(self) -> SlurmProvider:
        return SlurmProvider(
            settings=self.settings, shell=Recorder(self.cluster, self._sent), now=_now, device=lambda _: None
        )

    def sent(self) -> Sequence[VendorRequest]:
        return self._sent

    def break_launch(self) -> None:
        self.cluster.refuses = "Invalid account or account/partition combination specified"

    def break_listing(self) -> None:
        self.cluster.is_silent = True

    def lose_reply(self) -> None:
        self.cluster.loses_reply = True

    def clean(self) -> None:
        """End what a failed test left."""
        self.cluster.is_silent = False
        self.cluster.end_all()


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  what is started here lives in real time
