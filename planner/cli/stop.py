"""`plan stop`: end a run; its newest checkpoint is kept."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from planner.cli import build, options
from planner.cli.launch import print_left, print_receipt
from planner.cli.live import LiveView
from planner.cli.person import hang_up_detaches
from planner.launch import Detached
from planner.run import Phase


def command(
    name: Annotated[str, typer.Argument(metavar="RUN", help="A run, or the beginning of its id")],
    as_json: options.Json = False,
) -> None:
    """Ask the trainer for a last checkpoint, see everything removed, print the receipt."""
    settings = options.settings()
    with LiveView(sys.stderr, build.clock().now) as view, build.journal(settings) as journal:
        run = journal.run(name)
        if run.phase is Phase.DONE:
            sys.stderr.write(f"run {run.run_id} has ended already: {run.outcome}\n")
            return
        runner = build.runner(journal, settings, view.show, run.provider)
        run = runner.settle(run)
        if run.phase is Phase.DONE:
            sys.stderr.write(f"run {run.run_id} had ended: {run.outcome}\n")
            return
        try:
            with hang_up_detaches():
                run, receipt = runner.stop(run)
        except Detached as left:
            print_left(left.run, as_json)
            return
    print_receipt(receipt, as_json)
