"""`plan history`: past runs, estimated against actual."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from trainplan.planner.api import build
from trainplan.planner.cli import options
from trainplan.planner.cli.screen import show
from trainplan.planner.errors import BadInputError
from trainplan.planner.report.page import Column, Table
from trainplan.planner.report.run_answer import estimate_texts
from trainplan.planner.report.sweep_page import sweep_json, sweep_page
from trainplan.planner.runs.journal.reader import recorded_job
from trainplan.planner.runs.journal.rows import RunSummary
from trainplan.planner.runs.run import Outcome
from trainplan.planner.runs.sweep_table import read_table
from trainplan.pricing.money import format_usd
from trainplan.providers.base import RunId
from trainplan.providers.cloud.invoice import Part
from trainplan.providers.registry import is_simulated
from trainplan.workloads.durations import format_duration

_COLUMNS = (
    Column("run"),
    Column("job", shrinks=True),
    Column("where", rank_of_need=1),
    Column("started", rank_of_need=4),
    Column("outcome"),
    Column("estimated", right=True, rank_of_need=2),
    Column("actual", right=True),
    Column("off", right=True),
    Column("images/s", right=True, rank_of_need=5),
    Column("accuracy", right=True, rank_of_need=3),
    Column("cost", right=True),
    Column("billed", right=True, rank_of_need=6),
)
SHOWN = 50
"""Runs that are shown without --all, the newest first."""
NEWEST = 5
Record = Mapping[str, object]


_CSV_FIELDS = ("estimated_seconds", "actual_seconds", "actual_images_per_second", "accuracy", "actual_usd", "at_most")


def command(
    what: Annotated[
        str | None,
        typer.Argument(metavar="import", help="import FILE: take in a run that was trained with plan export --to"),
    ] = None,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="history.json, beside the model")] = None,
    every: Annotated[bool, typer.Option("--all", help=f"Every run, not the newest {SHOWN} alone")] = False,
    project: Annotated[str | None, typer.Option("--project", help="Only runs whose job names this project")] = None,
    sweep: Annotated[
        str | None,
        typer.Option("--sweep", metavar="RUN", help="The trials of this run's sweep, with their figures"),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one CSV row for each run")] = False,
    wide: options.Wide = False,
    as_json: options.Json = False,
) -> None:
    """Print past runs, newest first, or the trials of one. import adds one to the journal; else nothing is touched."""
    taken_in = _taken_in(what, file)
    if as_csv and as_json:
        raise BadInputError("--csv and --json are two formats", "give one of them")
    if sweep is not None:
        _print_sweep(sweep, is_alone=not (every or project or as_csv), as_json=as_json, wide=wide)
        return
    with build.journal(options.settings()) as journal:
        is_all = every or project is not None or taken_in is not None
        runs = journal.summaries(_tell, None if is_all else SHOWN)
        older = 0 if is_all else max(0, journal.launched() - SHOWN)
    if taken_in is not None:
        runs = [run for run in runs if run.run_id == taken_in]
    if project is not None:
        runs = [run for run in runs if run.project == project]
    left_out = [f"not shown: {older:,} older run{'s' if older > 1 else ''} (--all)"] if older else []
    if as_json or as_csv:
        for line in left_out:  # the program that reads them sees only what is there
            _tell(line)
    if as_json:
        sys.stdout.write(json.dumps([_json(run) for run in runs]) + "\n")
    elif as_csv:
        _write_csv(runs)
    elif not runs:
        none = "no runs yet; plan launch JOB.yaml --provider local makes the first"
        sys.stdout.write(f"{none if project is None else f'no run names the project {project!r}'}\n")
    else:
        show(
            [
                Table(_COLUMNS, [_row(run) for run in runs]),
                *_over_time([run.receipt for run in runs if not is_simulated(run.provider)]),
                *left_out,
            ],
            wide=wide,
        )


def _taken_in(what: str | None, file: Path | None) -> RunId | None:
    """The run of the file that is to be imported; None: nothing is. Raises BadInputError."""
    if what is None:
        return None
    if what != "import" or file is None:
        raise BadInputError(
            "a file is missing" if what == "import" else f"plan history has no place for: {what}",
            "plan history import FILE, or plan history alone",
        )
    from trainplan.planner.runs.imported import read_imported, take_in

    imported = read_imported(file)
    with build.journal(options.settings()) as journal:
        is_new = take_in(imported, journal, build.clock().now())
    run_id = imported.run.run_id
    _tell(f"run {run_id} is in the journal" if is_new else f"run {run_id} was in the journal; nothing is newer")
    return run_id


def _print_sweep(name: str, *, is_alone: bool, as_json: bool, wide: bool) -> None:
    """The table of a run's sweep, as far as it is. Raises BadInputError where other options were typed."""
    if not is_alone:
        raise BadInputError("--sweep shows one run", "leave out --all, --project and --csv")
    settings = options.settings()
    with build.journal(settings) as journal:
        run = journal.run(name)
        job = recorded_job(journal, run.run_id)
    store, why = build.store_of(run, settings)
    table = read_table(run, job, store)
    if as_json:
        sys.stdout.write(json.dumps(sweep_json(table, run.run_id)) + "\n")
    else:
        show(sweep_page(table, f"{job.name}, run {run.run_id}: {run.outcome or run.phase}"), wide=wide)
    if why and not any(row.results for row in table.trials):
        _tell(why)


def _write_csv(runs: Sequence[RunSummary]) -> None:
    """One row for each run. Empty cells are figures that the run does not have; `off` is a share of the estimate."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(
        ("run_id", "job_name", "provider", "created_at", "phase", "outcome", "off", "project", *_CSV_FIELDS)
    )
    for run in runs:
        record = _json(run)
        cells = [
            record[name]
            for name in ("run_id", "job_name", "provider", "created_at", "phase", "outcome", "off", "project")
        ]
        writer.writerow([*cells, *(run.receipt.get(name) for name in _CSV_FIELDS)])


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _row(run: RunSummary) -> tuple[str, ...]:
    receipt, simulated = run.receipt, is_simulated(run.provider)
    return (
        run.run_id,
        run.job_name,
        f"{run.provider} (simulated)" if simulated else run.provider,
        f"{run.created_at.astimezone():%Y-%m-%d %H:%M}",
        "measured" if _only_measured(receipt) else run.outcome or run.phase,
        "-" if _only_measured(receipt) else _estimated(receipt),
        _seconds(receipt.get("actual_seconds")),
        # A simulated speed is made up: how far an estimate was from it says nothing.
        "-" if simulated else _percent(_off(receipt)),
        _number(receipt.get("actual_images_per_second"), ",.1f"),
        _number(receipt.get("accuracy"), ".2%"),
        _usd(receipt),
        _billed(receipt),
    )


def _usd(receipt: Record) -> str:
    usd = receipt.get("actual_usd")
    if not isinstance(usd, int | float):
        return "-"
    return f"{'at most ' if receipt.get('at_most') else ''}{format_usd(Decimal(str(usd)))}"


def _billed(receipt: Record) -> str:
    """What plan bill was told last, before credits; a + where the vendor may still add to it."""
    parts, currency = receipt.get("billed"), receipt.get("billed_currency")
    if not isinstance(parts, dict) or not parts:
        return "-"
    amount = sum(value for part, value in parts.items() if part != Part.CREDIT and isinstance(value, int | float))
    more = "" if receipt.get("billed_whole") else "+"
    return f"${amount:.2f}{more}" if currency == "USD" else f"{amount:.2f} {currency}{more}"


def _off(receipt: Record) -> float | None:
    """(actual - estimated) / estimated time, of a run that trained every step, as estimates do."""
    estimated, actual = receipt.get("estimated_seconds"), receipt.get("actual_seconds")
    if receipt.get("outcome") != Outcome.SUCCEEDED or _has_some_steps(receipt):
        return None
    if not isinstance(estimated, int | float) or not estimated:
        return None
    return (actual - estimated) / estimated if isinstance(actual, int | float) else None


def _only_measured(receipt: Record) -> bool:
    """Whether it was a run of `plan measure` or a pilot: it succeeded after some of its steps, and leaves no model.
    The estimate that it was launched with is that of all steps."""
    is_model_expected = receipt.get("model_folder") or receipt.get("kept")
    return receipt.get("outcome") == Outcome.SUCCEEDED and _has_some_steps(receipt) and not is_model_expected


def _has_some_steps(receipt: Record) -> bool:
    """Whether it was trained for fewer steps than it has: it only measured, or ended early."""
    steps, total = receipt.get("steps"), receipt.get("total_steps")
    return isinstance(steps, int) and isinstance(total, int) and steps < total


def _over_time(receipts: list[Record]) -> list[str]:
    """How far estimates were off, of the newest runs and of those before; empty where there are none.

    Runs of a simulated cloud say nothing of that: its speed is made up.
    """
    values = [abs(off) for off in map(_off, receipts) if off is not None]
    if len(values) < 2 * NEWEST:
        return [f"estimates were off by {median(values):.0%} (median of {len(values)})"] if values else []
    newest, before = values[:NEWEST], values[NEWEST:]
    return [
        f"estimates were off by {median(newest):.0%} in the newest {NEWEST} runs, by {median(before):.0%} in the "
        f"{len(before)} before"
    ]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.0%}"


def _estimated(receipt: Record) -> str:
    """As it was shown before the launch: with as many digits as its interval bears."""
    values = [receipt.get(f"estimated_{end}seconds") for end in ("", "low_", "high_")]
    seconds, low, high = (value if isinstance(value, int | float) else None for value in values)
    return estimate_texts(seconds, low, high)[0]


def _seconds(value: object) -> str:
    return format_duration(timedelta(seconds=value)) if isinstance(value, int | float) else "-"


def _number(value: object, form: str, prefix: str = "") -> str:
    return f"{prefix}{value:{form}}" if isinstance(value, int | float) else "-"


def _json(run: RunSummary) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "job_name": run.job_name,
        "provider": run.provider,
        "created_at": run.created_at.isoformat(),
        "phase": run.phase,
        "outcome": run.outcome,
        "off": _off(run.receipt),
        "project": run.project,
        "receipt": dict(run.receipt) or None,
    }
