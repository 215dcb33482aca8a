"""Runs that another client launched: the journal of a copied home has those of the home that it was copied from."""

from __future__ import annotations

import sys

from trainplan.planner.home.client import Client
from trainplan.planner.runs.run import Run
from trainplan.planner.runs.runner import Runner


def take_over(runner: Runner, run: Run) -> Run:
    """A run as this home's own with all that any client made for it, as `--client any` says; whose it was is told."""
    if not runner.owns(run):
        attempt = run.attempts[-1]
        machine = f"{attempt.ref.id} in {attempt.ref.region}" if attempt.ref else f"attempt {attempt.number}"
        sys.stderr.write(
            f"run {run.run_id} ({run.job_name}, {machine} at {run.provider}) was launched by client {run.client}; "
            "this home takes it over\n"
        )
    return run if run.taken_over else runner.take_over(run)


def others_line(runs: list[Run], client: Client) -> str:
    """A line on live runs that are left to the clients that launched them."""
    whose = ", ".join(dict.fromkeys(client.whose(run.client) for run in runs))
    names = ", ".join(run.run_id for run in runs)
    return f"left to {whose}: {names}; plan attach RUN --client any takes one over, plan stop RUN --client any ends it"
