"""A run that is in the journal, followed again or ended: `plan attach` and `stop`, and the same from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.planner.errors import RunKeyError
from trainplan.planner.runs.run import Outcome, Phase

if TYPE_CHECKING:
    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.receipt.receipt import Receipt
    from trainplan.planner.runs.run import Run
    from trainplan.planner.runs.runner import Runner


def to_follow(run: Run, runner: Runner, journal: Journal) -> Run | None:
    """The run made ready to be followed; None where its end stands, whose receipt is in the journal then.

    One whose complete output still lies in its store is only brought home. One that was taken away with nobody there
    goes on, under its own limits and in its own places: these are what somebody has agreed to. Raises RefusedError for
    another client's, ProviderError where nobody can tell what is in its store.
    """
    if run.phase is not Phase.DONE:
        return run
    if runner.has_results(run):
        return runner.bring_home(run)
    if run.outcome is Outcome.INTERRUPTED:
        return runner.again(run, run, None)
    if journal.owes_receipt(run):
        runner.settle(run)
    return None


def stopped(run: Run, runner: Runner) -> tuple[Run, Receipt | None]:
    """The run, seen to its end with its newest checkpoint kept, and its receipt; None where it had ended by itself.

    Raises what `Runner.stop` raises.
    """
    try:
        run = runner.settle(run)
    except RunKeyError:  # what cannot be checked stays in its store
        run = runner.journal.run(run.run_id)
    if run.phase is Phase.DONE:
        return run, None
    return runner.stop(run)
