"""`plan stop`: end a run; its newest checkpoint is kept."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trainplan.planner.api import build
from trainplan.planner.api.following import stopped
from trainplan.planner.cli import options
from trainplan.planner.cli.foreign_runs import take_over
from trainplan.planner.cli.live_view import LiveView
from trainplan.planner.cli.run_end import print_ended, print_left, print_receipt
from trainplan.planner.cli.stop_by_label import StopQuery, is_run_id, stop_labelled
from trainplan.planner.errors import RunKeyError, StateError, UnknownRunError
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.run import Phase, Run
from trainplan.planner.runs.runner import FollowerSilentError
from trainplan.planner.settings import Settings
from trainplan.providers import interrupts

BUSY_SECONDS = 5.0
"""So long a journal that another process writes is waited for; then machines are ended by their label."""


def command(
    name: options.RunName,
    client: options.Client = None,
    give_up_results: Annotated[
        bool,
        typer.Option(
            "--give-up-results",
            help="Do not wait for a store that is gone: what the run left there is given up",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Ask the trainer for a last checkpoint, see everything removed, print the receipt.

    Where the journal does not know the run or cannot be used, and where another process holds the run and does not
    react, its machines are ended by their label.
    """
    settings = options.settings()
    anyone = options.any_client(client)
    name = name.strip().lower()  # as labels have it
    try:
        _stop(name, settings, anyone=anyone, gives_up=give_up_results, as_json=as_json)
    except UnknownRunError as error:
        if not is_run_id(name):
            raise
        why = f"the journal {settings.journal} has no run {name}"
        stop_labelled(StopQuery(name, why, is_any_client=anyone), settings, error, as_json=as_json)
    except RunKeyError:
        raise  # the journal can be used, and has the run as it is: nothing of it bills
    except StateError as error:
        if not is_run_id(name):
            raise
        stop_labelled(StopQuery(name, error.message, is_any_client=anyone), settings, None, as_json=as_json)
    except FollowerSilentError as silent:
        run = silent.run
        why = (
            "another process follows the run and does not respond; it records the end when it continues, or plan "
            "status does once that process has ended"
        )
        query = StopQuery(run.run_id, why, _providers(run), is_any_client=anyone)
        stop_labelled(query, settings, None, as_json=as_json)


def _stop(name: str, settings: Settings, *, anyone: bool, gives_up: bool, as_json: bool) -> None:
    with LiveView(sys.stderr, build.clock().now) as view, build.journal(settings, BUSY_SECONDS) as journal:
        run = journal.run(name)
        if run.phase is Phase.DONE:
            print_ended(run, as_json, f"run {run.run_id} has ended already: {run.outcome}")
            return
        runner = build.runner(journal, settings, view.show, run.provider)
        if anyone:
            run = take_over(runner, run)
        if gives_up:
            runner.give_up_results(run)
        try:
            with interrupts.noted():
                run, receipt = stopped(run, runner)
        except Detached as left:
            print_left(left.run, as_json)
            return
    if receipt is None:
        print_ended(run, as_json, f"run {run.run_id} had ended: {run.outcome}")
        return
    print_receipt(receipt, as_json)


def _providers(run: Run) -> tuple[str, ...]:
    return tuple(sorted({attempt.ref.provider for attempt in run.attempts if attempt.ref} | {run.provider}))
