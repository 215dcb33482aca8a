"""The double in a process of its own: `python -m tests.doubles.azure FOLDER` writes its address to stdout, and serves
until its stdin is closed. FOLDER gets the certificates of its authority, `authority.pem`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.contract.sim import NamedTrainer
from tests.doubles import quick_headers
from tests.doubles.azure.authority import make_authority
from tests.doubles.azure.server import AzureServer

if TYPE_CHECKING:
    from trainplan.providers.sim.training import Write
    from trainplan.providers.sim.values import Course, Ending

BAD_JOB = 65


class Agent(NamedTrainer):
    """Says in the run directory what a rented machine's agent says: also why a job could not be trained."""

    def finishes(self, course: Course, ending: Ending) -> Iterator[Write]:
        for write in super().finishes(course, ending):
            bad = ending.exit_code == BAD_JOB and write.path is not None and write.path.endswith("status.json")
            told = {**json.loads(write.data), "reason": "BAD_JOB"} if bad else None
            yield replace(write, data=json.dumps(told).encode()) if told else write


def main(folder: Path) -> None:
    quick_headers.install()
    _, pem = make_authority(folder)
    server = AzureServer(pem, trainer=Agent())
    server.start()
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
