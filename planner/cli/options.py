"""The options that several commands share, as typer reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.jobs import (
    DEFAULT_BATCH,
    DEFAULT_EPOCHS,
    any_client,
    job_from_options,
    markets,
    max_cost,
    read_job_file,
    settings,
    with_limits,
)
from workloads.datasets import DATASETS
from workloads.job import Objective, Preset

__all__ = [
    "DEFAULT_BATCH",
    "DEFAULT_EPOCHS",
    "any_client",
    "job_from_options",
    "markets",
    "max_cost",
    "read_job_file",
    "settings",
    "with_limits",
]

JobFile = Annotated[Path | None, typer.Argument(metavar="[JOB.yaml]", help="A job file; plan init writes one")]
NeededJobFile = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="A job file; plan init writes one")]
Model = Annotated[str | None, typer.Option("--model", help=f"Without a job file: {', '.join(Preset)}")]
Dataset = Annotated[str | None, typer.Option("--dataset", help=f"Without a job file: {', '.join(DATASETS)}")]
Epochs = Annotated[int | None, typer.Option("--epochs", min=1)]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Global batch size")]
Providers = Annotated[list[str] | None, typer.Option("--provider", help="Only this one; repeat for more")]
Regions = Annotated[list[str] | None, typer.Option("--region", help="Only this one; repeat for more")]
Devices = Annotated[list[str] | None, typer.Option("--device", help="Only this one (T4, A100, cpu); repeat for more")]
Markets = Annotated[list[str] | None, typer.Option("--market", help="on_demand or spot")]
Deadline = Annotated[str | None, typer.Option("--deadline", help="The whole run within, e.g. 8h")]
Budget = Annotated[str | None, typer.Option("--budget", help="The whole run for at most, in USD")]
Goal = Annotated[Objective | None, typer.Option("--objective", help="What comes first (default: the job's, cost)")]
Client = Annotated[
    str | None,
    typer.Option("--client", metavar="any", help="any: act on the run although another client launched it"),
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable, to stdout")]
