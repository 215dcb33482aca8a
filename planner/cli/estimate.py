"""`plan estimate` as typer reads it; planner.cli.plain reads the usual command lines without typer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import options
from planner.cli.answer import DEFAULT_ROWS, Asked, answer


def command(
    job_file: options.JobFile = None,
    model: options.Model = None,
    dataset: options.Dataset = None,
    epochs: options.Epochs = None,
    batch: options.Batch = None,
    provider: options.Providers = None,
    region: options.Regions = None,
    device: options.Devices = None,
    market: options.Markets = None,
    deadline: options.Deadline = None,
    budget: options.Budget = None,
    objective: options.Goal = None,
    every: Annotated[bool, typer.Option("--all", help="Every offer of every place")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows of the table")] = DEFAULT_ROWS,
    include_retired: Annotated[bool, typer.Option("--include-retired", help="Retired machines too, marked")] = False,
    explain_row: Annotated[int | None, typer.Option("--explain", min=1, help="Where row N's numbers come from")] = None,
    check: Annotated[bool, typer.Option("--check", help="Ask the providers what this account can launch")] = False,
    catalog: Annotated[Path | None, typer.Option("--catalog", help="Another catalog file", hidden=True)] = None,
    as_json: options.Json = False,
) -> None:
    """Parse, plan, print."""
    answer(Asked(**locals()))
