"""`plan estimate`: what a job takes and costs everywhere, once it is known what was asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from planner.cli import jobs
from planner.clock import SystemClock
from planner.errors import BadInputError
from planner.gather import Wanted, make_plan, nothing_left

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from planner.doctoring import Judged
    from planner.plan import Plan
    from planner.settings import Settings
    from workloads.job import Objective, TrainingJob

DEFAULT_ROWS = 15
SIMULATED = "sim"


class Asked(NamedTuple):
    """The options of `plan estimate`, by the names that its command gives them; the defaults are those not given."""

    job_file: Path | None = None
    model: str | None = None
    dataset: str | None = None
    epochs: int | None = None
    batch: int | None = None
    provider: Sequence[str] | None = None
    region: Sequence[str] | None = None
    device: Sequence[str] | None = None
    market: Sequence[str] | None = None
    deadline: str | None = None
    budget: str | None = None
    objective: Objective | None = None
    every: bool = False
    limit: int = DEFAULT_ROWS
    include_retired: bool = False
    explain_row: int | None = None
    check: bool = False
    catalog: Path | None = None
    as_json: bool = False


def answer(asked: Asked) -> None:
    """Plan and print."""
    if asked.as_json and asked.explain_row is not None:
        raise BadInputError("--explain is words and --json is figures", "give one of the two")
    job = jobs.with_limits(_job(asked), asked.deadline, asked.budget, asked.objective)
    settings = jobs.settings()
    wanted = _wanted(asked)
    if wanted.providers == (SIMULATED,):
        from planner.cli import build

        wanted = wanted._replace(given=build.given(wanted.providers, settings))
    plan = make_plan(job, wanted, settings, SystemClock().now(), _tell)
    sys.stdout.writelines(_texts(plan, asked, _checked(plan, settings) if asked.check else None))
    sys.stdout.write("\n")
    if not plan.ranking and not _answered_here(plan, wanted):
        raise nothing_left(plan)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _wanted(asked: Asked) -> Wanted:
    return Wanted(
        providers=tuple(asked.provider or ()),
        regions=tuple(asked.region or ()),
        devices=tuple(asked.device or ()),
        markets=jobs.markets(asked.market),
        include_retired=asked.include_retired,
        every_place=asked.as_json or asked.every,
        limit=_rows(asked),
        prices=asked.as_json,
        catalog=asked.catalog,
    )


def _rows(asked: Asked) -> int | None:
    """How many rows are looked up in full: those of the table, or those of the JSON that are asked about."""
    if asked.as_json:
        return asked.limit if asked.check else 0
    return None if asked.every else max(asked.limit, asked.explain_row or 0)


def _answered_here(plan: Plan, wanted: Wanted) -> bool:
    """Whether only this machine was asked about, and its line says what it takes."""
    return wanted.providers == ("local",) and plan.this_machine is not None and plan.this_machine.time is not None


def _checked(plan: Plan, settings: Settings) -> Mapping[int, Judged]:
    from planner.cli.checking import checked

    return checked(plan.candidates, settings)


def _texts(plan: Plan, asked: Asked, checked: Mapping[int, Judged] | None) -> Iterable[str]:
    """What is printed, in pieces where it may be long."""
    if not asked.as_json:
        return (_text(plan, asked, checked),)
    from planner.render_json import json_pieces

    return json_pieces(plan, checked)


def _text(plan: Plan, asked: Asked, checked: Mapping[int, Judged] | None) -> str:
    from planner.render import estimate_table

    if asked.explain_row is None or not plan.ranking:
        return estimate_table(plan, checked)
    if asked.explain_row > len(plan.candidates):
        raise BadInputError(f"--explain {asked.explain_row}: there are {len(plan.candidates)} rows")
    from planner.explain import explain

    return explain(plan, plan.candidates[asked.explain_row - 1])


def _job(asked: Asked) -> TrainingJob:
    if asked.job_file is None:
        return jobs.job_from_options(asked.model, asked.dataset, asked.epochs, asked.batch, to_estimate=True)
    if (asked.model, asked.dataset, asked.epochs, asked.batch) != (None, None, None, None):
        raise BadInputError("--model, --dataset, --epochs and --batch are for estimates without a job file")
    return jobs.read_job_file(asked.job_file, to_estimate=True)
