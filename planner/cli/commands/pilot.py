"""`plan pilot`: measure candidate machines for cents, where that is expected to save more."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated

import typer

from trainplan.planner.api import build
from trainplan.planner.api.data_steps import check_at_launch
from trainplan.planner.api.job_files import read_job_file, with_limits
from trainplan.planner.api.pilot_page import PilotAnswer, pilot_json, proposal_page, result_page
from trainplan.planner.api.piloting import (
    DEFAULT_PILOTS,
    answer_with_pilots,
    answer_with_tries,
    cap_of,
    nothing_measured,
)
from trainplan.planner.cli import options
from trainplan.planner.cli.pilot_desk import pilot_desk
from trainplan.planner.cli.run_end import print_left
from trainplan.planner.cli.screen import show
from trainplan.planner.errors import ExitCode
from trainplan.planner.forecast.pilots import MOST_PILOTS
from trainplan.planner.runs.execution.executor import Detached
from trainplan.workloads.wording import Option


class BatchChoice(StrEnum):
    """What --batch may be."""

    AUTO = "auto"


def command(
    job_file: options.NeededJobFile,
    budget: Annotated[str, typer.Option("--budget", help="The most that all pilots together may cost, in USD")],
    top: Annotated[
        int, typer.Option("--top", min=1, max=MOST_PILOTS, help="Run at most so many pilots")
    ] = DEFAULT_PILOTS,
    batch: Annotated[
        BatchChoice | None,
        typer.Option(
            "--batch",
            help="auto: on one machine, try in how many parts a batch is best trained, and XLA, for two minutes",
        ),
    ] = None,
    provider: options.Providers = None,
    region: options.Regions = None,
    device: options.Devices = None,
    market: options.Markets = None,
    assume_available: options.AssumeAvailable = False,
    deadline: options.Deadline = None,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Measure machines in short runs, where that is expected to save more than it costs."""
    job = check_at_launch(with_limits(read_job_file(job_file, may_ask=not yes), deadline, None, None))
    cap = cap_of(Option.BUDGET, budget)
    query = options.where(provider, region, device, market)._replace(assume_available=assume_available)
    desk = pilot_desk(build.surroundings(options.settings()), is_agreed=yes)
    try:
        if batch is BatchChoice.AUTO:
            answer = answer_with_tries(job, query, cap, desk)
        else:
            answer = answer_with_pilots(job, query, cap, top, desk)
    except Detached as left:
        print_left(left.run, as_json)
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    _print(answer, as_json)
    if answer.was_stopped:
        raise typer.Exit(int(ExitCode.INTERRUPTED))
    if (error := nothing_measured(answer)) is not None:
        raise error


def _print(answer: PilotAnswer, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(pilot_json(answer)) + "\n")
    elif answer.results:
        show(result_page(answer))
    elif not answer.proposal.pilots.indices:
        show(proposal_page(answer.proposal))
