"""`plan history`: past runs, estimated against actual."""

from __future__ import annotations

import json
import sys
from datetime import timedelta

from planner.cli import build, options
from planner.render import Column, table
from planner.run import Run
from workloads.durations import format_duration

_COLUMNS = (
    Column("run"),
    Column("job"),
    Column("where"),
    Column("started"),
    Column("outcome"),
    Column("estimated", right=True),
    Column("actual", right=True),
    Column("images/s", right=True),
    Column("accuracy", right=True),
    Column("cost", right=True),
)
Record = dict[str, object]


def command(as_json: options.Json = False) -> None:
    """Print every run, newest first. Reads the journal, touches nothing else."""
    with build.journal(options.settings()) as journal:
        rows = [(run, journal.receipt(run.run_id) or {}) for run in journal.runs()]
    if as_json:
        sys.stdout.write(json.dumps([_json(run, receipt) for run, receipt in rows]) + "\n")
    elif not rows:
        sys.stdout.write("no runs yet; plan launch JOB.yaml --provider local makes the first\n")
    else:
        sys.stdout.write(table(_COLUMNS, [_row(run, receipt) for run, receipt in rows]) + "\n")


def _row(run: Run, receipt: Record) -> tuple[str, ...]:
    return (
        run.run_id,
        run.job_name,
        run.provider,
        f"{run.created_at.astimezone():%Y-%m-%d %H:%M}",
        run.outcome or run.phase,
        _seconds(receipt.get("estimated_seconds")),
        _seconds(receipt.get("actual_seconds")),
        _number(receipt.get("actual_images_per_second"), ",.0f"),
        _number(receipt.get("accuracy"), ".2%"),
        _number(receipt.get("actual_usd"), ".2f", "$"),
    )


def _seconds(value: object) -> str:
    return format_duration(timedelta(seconds=value)) if isinstance(value, int | float) else "-"


def _number(value: object, form: str, prefix: str = "") -> str:
    return f"{prefix}{value:{form}}" if isinstance(value, int | float) else "-"


def _json(run: Run, receipt: Record) -> Record:
    return {
        "run_id": run.run_id,
        "job_name": run.job_name,
        "provider": run.provider,
        "created_at": run.created_at.isoformat(),
        "phase": run.phase,
        "outcome": run.outcome,
        "receipt": receipt or None,
    }
