"""The document of a run: what `plan report RUN --json` prints, and what its page is made of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.planner.errors import PlanError, StateError, ThisMachineError
from trainplan.planner.report.sweep_page import sweep_json
from trainplan.planner.runs.directory.progress import ProgressReader, Story, unreadable_text
from trainplan.planner.runs.journal.reader import recorded_job
from trainplan.planner.runs.receipt.legs import with_passed_over
from trainplan.planner.runs.report.curves import Curves
from trainplan.planner.runs.report.dollars import dollars_over_time
from trainplan.planner.runs.report.held_out import classes_at_home, epochs_at_home
from trainplan.planner.runs.run import INTERRUPTIONS, Attempt, Phase, Run
from trainplan.planner.runs.sweep_table import read_table
from trainplan.providers.errors import ProviderError
from trainplan.providers.registry import is_simulated
from trainplan.workloads.job import shown_job

if TYPE_CHECKING:
    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.journal.rows import LoggedEvent
    from trainplan.providers.base import RunStore

MOST_EVENTS = 500
"""Of the journal, the newest; a run that waits for a placement notes each look."""


class Sources(NamedTuple):
    """Where a document is read from. `store` is the run directory; None: nobody could open it, and `why_no_store` says
    why. `now` is the time that the run's provider goes by."""

    journal: Journal
    store: RunStore | None
    now: datetime
    why_no_store: str = ""


def run_document(run: Run, sources: Sources) -> dict[str, Any]:
    """Everything that is known of a run, as JSON values: times are ISO 8601 with their zone, money is USD before tax,
    accuracies are shares of 1. `gaps` are sentences on what the document lacks, and why.

    Reads the journal, the run directory and the folder of the model; writes nothing.
    Raises StateError where the journal cannot be read.
    """
    events = sources.journal.events(run.run_id)
    gaps: list[str] = []
    curves, stories = _progress(run, sources, gaps)
    story = next((one for one in reversed(stories.values()) if one.start is not None), Story())
    run = with_passed_over(run, stories)
    receipt = _receipt(run, sources.journal, gaps)
    until = _until(run, events, sources.now)
    dollars = dollars_over_time(run, until)
    job = _job(run, sources.journal, gaps)
    return {
        "run": _run(run, until),
        "job": job,
        "made_at": sources.now.isoformat(),
        "currency": "USD",
        "bills": bills_figures(run),
        "estimate": sources.journal.estimate(run.run_id) or None,
        "actual": _actual(run, story, until, receipt),
        "attempts": [_attempt(run, attempt, until) for attempt in run.attempts],
        "interruptions": _interruptions(run),
        "epochs": _epochs(run, curves, gaps, has_epochs="script" not in (job or {})),
        "progress": curves.by_time(),
        "dollars": dollars,
        "sweep": _sweep(run, sources, gaps),
        "held_out": _held_out(run, story, gaps),
        "events": [event._asdict() | {"at": event.at.isoformat()} for event in events[-MOST_EVENTS:]],
        "warnings": curves.warnings,
        "receipt": receipt,
        "gaps": gaps,
    }


def _run(run: Run, until: datetime) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "job_name": run.job_name,
        "provider": run.provider,
        "simulated": is_simulated(run.provider),
        "phase": run.phase,
        "outcome": run.outcome,
        "message": run.message,
        "unverified": run.unverified,
        "created_at": run.dated_at.isoformat(),
        "clock_ahead_seconds": (run.created_at - run.dated_at).total_seconds(),
        "until": until.isoformat(),
        "deadline": run.deadline.isoformat(),
        "budget_usd": None if run.budget_usd is None else float(run.budget_usd),
        "stop_asked": _iso(run.stop_asked),
        "model_folder": run.model_folder or None,
    }


def bills_figures(run: Run) -> dict[str, Any]:
    """What is charged at this moment as far as is known, and when that ends at the latest."""
    attempt = run.attempt
    is_over = not run.bills or attempt is None
    return {
        "bills": not is_over,
        "usd_per_hour": float(run.bills_usd_per_hour),
        "until": None
        if is_over or attempt is None
        else min(attempt.deadline or run.deadline, run.deadline).isoformat(),
    }


def _actual(run: Run, story: Story, until: datetime, receipt: dict[str, Any] | None) -> dict[str, Any]:
    """So far, or as the receipt of a run that is done has it."""
    receipt = receipt or {}
    asked = [attempt.asked_at for attempt in run.attempts if attempt.asked_at is not None]
    seconds = (until - min(asked)).total_seconds() if asked else None
    return {
        "seconds": receipt.get("actual_seconds", seconds),
        "usd": receipt.get("actual_usd", round(float(run.total_usd(until)), 6)),
        "images_per_second": receipt.get("actual_images_per_second", story.images_per_second),
        "step": receipt.get("steps", story.step),
        "total_steps": receipt.get("total_steps") or story.total_steps or run.total_steps,
        "device": receipt.get("device") or story.device,
        "framework": receipt.get("framework") or story.framework,
    }


def _attempt(run: Run, attempt: Attempt, until: datetime) -> dict[str, Any]:
    target = attempt.target
    return {
        "number": attempt.number,
        "where": target.where if target else run.provider,
        "market": str(target.offer.market) if target else None,
        "usd_per_hour": float(attempt.usd_per_hour),
        "asked_at": _iso(attempt.asked_at),
        "ended_at": _iso(attempt.ended_at),
        "had_machine": attempt.had_instance,
        "end": attempt.end,
        "reason": attempt.reason,
        "step": attempt.step or None,
        "lost_steps": attempt.lost_steps,
        "usd": round(float(run.attempt_usds(until)[attempt.number]), 6),
    }


def _interruptions(run: Run) -> list[dict[str, Any]]:
    """Ends of machines that trained on elsewhere, or were to: `next` is the attempt that came after."""
    rows = []
    for attempt, following in zip(run.attempts, [*run.attempts[1:], None], strict=True):
        if attempt.end in INTERRUPTIONS:
            rows.append(
                {
                    "attempt": attempt.number,
                    "at": _iso(attempt.ended_at),
                    "end": attempt.end,
                    "reason": attempt.reason,
                    "where": attempt.target.where if attempt.target else run.provider,
                    "step": attempt.step or None,
                    "lost_steps": attempt.lost_steps,
                    "next": following.number if following else None,
                }
            )
    return rows


def _progress(run: Run, sources: Sources, gaps: list[str]) -> tuple[Curves, dict[int, Story]]:
    """The curves of all attempts, and the story of each, by its number."""
    curves, stories = Curves(), dict[int, Story]()
    if sources.store is None:
        gaps.append(f"the run directory was not read, so that the curves over time are missing: {sources.why_no_store}")
        return curves, stories
    for attempt in run.attempts:
        reader, story = ProgressReader(sources.store, attempt.number), Story()
        try:
            for line in reader.new_lines():
                story.add(line)
                curves.add(attempt.number, line)
        except ProviderError as error:
            gaps.append(f"the progress of attempt {attempt.number} is missing: {error.message}")
        if reader.unreadable:
            gaps.append(f"attempt {attempt.number}: {unreadable_text(reader.unreadable)}")
        stories[attempt.number] = story
    return curves, stories


def _epochs(run: Run, curves: Curves, gaps: list[str], *, has_epochs: bool) -> list[dict[str, Any]]:
    """Of the progress; of metrics.csv beside the model, where there is none. Of a script nobody expects any."""
    epochs = curves.by_epoch() or (epochs_at_home(Path(run.model_folder)) if run.model_folder else [])
    if is_simulated(run.provider):
        gaps.append("the run is simulated: no net was trained, so that there is no loss, no accuracy and no class")
    elif not epochs and run.attempts and has_epochs:
        gaps.append("no whole epoch has been reported")
    return epochs


def _sweep(run: Run, sources: Sources, gaps: list[str]) -> dict[str, Any] | None:
    """The trials of the run's sweep, the best first, as far as they are; None without a sweep."""
    try:
        job = recorded_job(sources.journal, run.run_id)
        if job.sweep is None:
            return None
        return sweep_json(read_table(run, job, sources.store), run.run_id)
    except StateError:  # that the job cannot be read is a gap already
        return None
    except (PlanError, ProviderError) as error:
        gaps.append(f"the table of the sweep is missing: {error.message}")
        return None


def _held_out(run: Run, story: Story, gaps: list[str]) -> dict[str, Any] | None:
    """What the model reached on images that it was not trained on; None before it was tested."""
    end = story.end or {}
    if run.outcome is None or not run.model_folder or is_simulated(run.provider):
        return None
    classes = classes_at_home(Path(run.model_folder))
    if classes is None and end.get("hold_out_accuracy") is None:
        return None
    if classes is None:
        gaps.append(
            "there is no confusion.csv beside the model: the trainer counts classes with Keras 3, up to 1,000 of them"
        )
    return {
        "accuracy": end.get("hold_out_accuracy"),
        "top5": end.get("hold_out_top5"),
        "images": end.get("hold_out_images"),
        "most_frequent": end.get("hold_out_most_frequent"),
        "best_epoch": end.get("best_epoch"),
        **(classes or {"classes": None, "confusion": None}),
    }


def _receipt(run: Run, journal: Journal, gaps: list[str]) -> dict[str, Any] | None:
    try:
        return journal.receipt(run.run_id)
    except ThisMachineError as error:
        gaps.append(error.message)
        return None


def _job(run: Run, journal: Journal, gaps: list[str]) -> Any:
    try:
        return shown_job(recorded_job(journal, run.run_id))
    except StateError as error:
        gaps.append(error.message)
        return None


def _until(run: Run, events: Sequence[LoggedEvent], now: datetime) -> datetime:
    """Now; when it was done, for a run that is."""
    done = [event.at for event in events if event.kind == Phase.DONE]
    return done[-1] if run.phase is Phase.DONE and done else now


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
