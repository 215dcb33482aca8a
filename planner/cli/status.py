"""`plan status`: how runs stand; one that nobody follows any more is taken on from where it is."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from planner.cli import build, options
from planner.journal import Journal
from planner.progress import story_of
from planner.render import Column, table
from planner.run import Phase, Run
from planner.settings import Settings

_COLUMNS = (Column("run"), Column("job"), Column("where"), Column("phase"), Column("progress"), Column("ends by"))


def command(
    name: Annotated[str | None, typer.Argument(metavar="[RUN]", help="A run, or the beginning of its id")] = None,
    as_json: options.Json = False,
) -> None:
    """Look what became of the runs that are not done, then print them."""
    settings = options.settings()
    with build.journal(settings) as journal:
        runs = [journal.run(name)] if name else list(journal.live())
        runs = [_brought_up(run, journal, settings) for run in runs]
        rows = [(run, _progress(run, settings)) for run in runs]
    if as_json:
        sys.stdout.write(json.dumps([_json(run, progress) for run, progress in rows]) + "\n")
    elif not rows:
        sys.stdout.write("nothing is running, and nothing of ours is left\n")
    else:
        sys.stdout.write(table(_COLUMNS, [_row(run, progress) for run, progress in rows]) + "\n")


def _brought_up(run: Run, journal: Journal, settings: Settings) -> Run:
    if run.phase is Phase.DONE:
        return run
    return build.runner(journal, settings, lambda _: None).settle(run)


def _progress(run: Run, settings: Settings) -> str:
    if not run.attempts:
        return run.outcome or "-"
    story = story_of(build.provider(run.provider, settings).store(run.run_id), run.attempts[-1].number)
    total = story.start["total_steps"] if story.start else "?"
    steps = f"step {story.step} of {total}"
    return f"{run.outcome}, {steps}" if run.outcome else steps


def _row(run: Run, progress: str) -> tuple[str, ...]:
    ends = f"{run.deadline.astimezone():%Y-%m-%d %H:%M}"
    return (run.run_id, run.job_name, run.provider, run.phase, progress, ends)


def _json(run: Run, progress: str) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "job_name": run.job_name,
        "provider": run.provider,
        "phase": run.phase,
        "outcome": run.outcome,
        "message": run.message,
        "progress": progress,
        "deadline": run.deadline.isoformat(),
        "attempts": len(run.attempts),
    }
