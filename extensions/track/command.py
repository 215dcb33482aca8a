"""`plan track`: the figures, the curves and the model of a run, written to a tracker of experiments."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from trainplan.extensions.track.push import PROJECT, write_run
from trainplan.extensions.track.run_record import run_record
from trainplan.planner.api import build
from trainplan.planner.api.names import one_of
from trainplan.planner.cli import options
from trainplan.planner.errors import BadInputError
from trainplan.planner.runs.journal.reader import recorded_job
from trainplan.planner.runs.receipt.receipt import receipt_from
from trainplan.workloads.terms import Tracker


def command(
    name: options.RunName,
    to: Annotated[str, typer.Option("--to", help=f"Trackers, with commas between: {', '.join(Tracker)}")],
    project: Annotated[
        str | None,
        typer.Option(
            "--project", help=f"The tracker's project or experiment (default: that of the job, else {PROJECT})"
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write a run that has ended to trackers, from this computer, signed in as their own libraries are here."""
    trackers = [Tracker(one_of("--to", one.strip(), [*Tracker])) for one in to.split(",")]
    with build.journal(options.settings()) as journal:
        run = journal.run(name)
        receipt = journal.receipt(run.run_id)
        if receipt is None:
            raise BadInputError(f"run {run.run_id} has no receipt yet", "it is written when the run has ended")
        job = recorded_job(journal, run.run_id)
    record, project = run_record(job, receipt_from(receipt)), project or job.project or PROJECT
    rows = [{"tracker": tracker, "where": write_run(tracker, record, project)} for tracker in dict.fromkeys(trackers)]
    if as_json:
        sys.stdout.write(json.dumps({"run_id": run.run_id, "written": rows}) + "\n")
        return
    for row in rows:
        sys.stdout.write(f"{row['tracker']}: {row['where']}\n")
