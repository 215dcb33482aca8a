"""Writes a run to a tracker in a process of its own and in bounded time, once nothing of the run bills any more."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.extensions.track.run_record import run_record
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.runs.telling.delivery import kill_with_children
from trainplan.workloads.extras import install_hint
from trainplan.workloads.terms import Tracker
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainplan.planner.runs.receipt.receipt import Receipt
    from trainplan.workloads.job import TrainingJob

PROJECT = "trainplan"
PATIENCE_SECONDS = 300.0
"""How long a tracker may take: it gets the model too."""
_SCRIPT = Path(__file__).with_name("write.py")


def write_ended_run(tracker: str, job: TrainingJob, receipt: Receipt) -> str:
    """What the job's `track` asks for when its run has ended: an entry point of planner/extensions.py.

    Raises ThisMachineError as `write_run` does."""
    return write_run(Tracker(tracker), run_record(job, receipt), job.project or PROJECT)


def write_run(
    tracker: Tracker,
    record: Mapping[str, Any],
    project: str = PROJECT,
    *,
    python: Sequence[str] = (),
    patience_seconds: float = PATIENCE_SECONDS,
) -> str:
    """Where the run is to be seen. `python` has the tracker's library (none: this Python).

    Raises ThisMachineError where the library is not there, the tracker refuses, or does not answer in time.
    """
    if not python and find_spec(tracker) is None:
        raise ThisMachineError(f"the library of {tracker} is not installed", install_hint(tracker))
    again = f"{Command('track', str(record['run_id']), Option.TO(tracker))} tries again"
    with subprocess.Popen(
        [*(python or (sys.executable,)), "-P", str(_SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            question = json.dumps({**record, "tracker": tracker, "project": project})
            out, err = process.communicate(question, timeout=patience_seconds)
        except subprocess.TimeoutExpired:
            raise ThisMachineError(f"{tracker} did not answer within {patience_seconds:g} s", again) from None
        finally:
            # Also at Ctrl-C: the process has a session of its own, and would go on.
            kill_with_children(process)
    if process.returncode:
        *_, last = ["it said nothing", *err.strip().splitlines()]
        raise ThisMachineError(f"{tracker}: {last.removeprefix('error: ')}", again)
    return str(json.loads(out)["where"])
