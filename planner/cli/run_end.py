"""A run to its end: followed, its receipt printed, and the command left with the run's exit code."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

import typer

from trainplan.planner.api.after_run import after_run
from trainplan.planner.api.event_lines import bills_line
from trainplan.planner.cli.screen import show
from trainplan.planner.cli.typed import launch_again
from trainplan.planner.errors import ExitCode, LimitReachedError, StateError, TeardownUnverifiedError
from trainplan.planner.runs.execution.create import MakeRequest
from trainplan.planner.runs.execution.executor import Detached, ended_error
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.receipt.receipt import Receipt, receipt_from
from trainplan.planner.runs.receipt.receipt_text import receipt_text
from trainplan.planner.runs.run import Outcome, Run
from trainplan.planner.runs.runner import Runner
from trainplan.providers import interrupts


def follow(
    runner: Runner,
    run: Run,
    request: MakeRequest,
    as_json: bool,
    *,
    until_launched: bool = False,
    images: Path | None = None,
) -> None:
    """The run to its end, its receipt and what its job asks for then, or until the person lets go of it.

    Leaves with the run's exit code; with that of an interruption where the person lets go of a run that was to be
    followed to its end: what a script does next would find no model. `images` are the job's own, where they were
    sent to a bucket.
    """
    try:
        with interrupts.noted():
            run, receipt = runner.follow(run, request, until_launched=until_launched)
    except Detached as left:
        print_left(left.run, as_json)
        if until_launched:
            return
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    except TeardownUnverifiedError:
        # What may still bill, and until when, stands before the error.
        with suppress(StateError):  # a journal that cannot be read says nothing of it
            sys.stderr.write(f"{bills_line(runner.now(run))}\n")
        raise
    print_receipt(receipt, as_json)
    after_run(run, receipt, runner.journal, runner.settings, images)
    finish(run, is_told=not as_json)


def print_receipt(receipt: Receipt, as_json: bool) -> None:
    """Write the receipt to stdout, as text or as one JSON object."""
    if as_json:
        sys.stdout.write(json.dumps(receipt.to_json()) + "\n")
    else:
        show([receipt_text(receipt)])


def print_ended_receipt(run: Run, journal: Journal, as_json: bool) -> None:
    """The receipt of a run that had ended before anybody asked for it; leaves with the run's exit code."""
    receipt = journal.receipt(run.run_id)
    if receipt is not None:
        print_receipt(receipt_from(receipt), as_json)
    finish(run, is_told=receipt is not None and not as_json)


def print_left(run: Run, as_json: bool) -> None:
    """The last line of a run that goes on: what bills, until when, and what ends it."""
    if as_json:
        sys.stdout.write(json.dumps({"run_id": run.run_id, "phase": run.phase, "provider": run.provider}) + "\n")
    sys.stderr.write(f"{bills_line(run)}\nplan attach {run.run_id} follows it again\n")


def print_ended(run: Run, as_json: bool, text: str) -> None:
    """`text` to stderr, for a run that had ended before anybody asked for it; as JSON also how, and what had been
    ended of it."""
    sys.stderr.write(f"{text}\n")
    if not as_json:
        return
    ends = [attempt.ended_at for attempt in run.attempts if attempt.ended_at is not None]
    result = {
        "run_id": run.run_id,
        "phase": run.phase,
        "outcome": run.outcome,
        "message": run.message,
        "had_ended": True,
        "ended_at": max(ends).isoformat() if ends else None,
        "ended": [attempt.ref.id for attempt in run.attempts if attempt.ref is not None],
    }
    sys.stdout.write(json.dumps(result) + "\n")


def finish(run: Run, *, is_told: bool = False) -> None:
    """Leave with the run's exit code: nothing for a success, an error that says how to go on for the rest. `is_told`:
    the receipt above it says why."""
    if run.outcome is Outcome.SUCCEEDED:
        return
    goes_on = "goes on from the newest checkpoint, --fresh starts anew"
    if not run.may_have_checkpoint:
        goes_on = "starts from the beginning: no checkpoint was saved"
    again = f"{launch_again(run.provider)} {goes_on}"
    if run.outcome is Outcome.STOPPED:
        sys.stderr.write(f"stopped; {again}\n")
        raise typer.Exit(int(ExitCode.INTERRUPTED))
    error = ended_error(run)
    message = f"run {run.run_id} did not succeed: its receipt gives the reason" if is_told else error.message
    raise type(error)(message, again if isinstance(error, LimitReachedError) else error.hint)
