"""A run that was trained in sessions elsewhere (`plan export --to colab`), taken into the journal.

Its sessions bring a file home. Whoever wrote it may be a stranger: what stands in it is read by the readers of job
files, of progress and of receipts, and by nothing else.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.planner.errors import BadInputError
from trainplan.planner.runs.directory.progress import Story, story_of
from trainplan.planner.runs.receipt.receipt import Ending, Receipt, receipt_record, write_receipt
from trainplan.planner.runs.run import INTERRUPTIONS, OUTCOMES, Attempt, Outcome, Phase, Run
from trainplan.pricing.free_places import free_providers
from trainplan.providers.agent.schema import MOST_COUNT, instant, json_object
from trainplan.providers.base import EndKind, RunId
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.regular_file import hint_of, regular_bytes
from trainplan.workloads.sessions.records import FORMAT

if TYPE_CHECKING:
    from trainplan.planner.runs.journal.journal import Journal

MOST_BYTES = 64 * 1024 * 1024
_MOST_SESSIONS = 1_000
_RUN_ID = re.compile(r"[0-9]{6}-[0-9a-f]{8}")
_HINT = "bring the folder of the model home again: its sessions write the file"
_ENDS = {0: EndKind.DONE, 65: EndKind.BAD_JOB, 75: EndKind.STOPPED, 76: EndKind.DEADLINE, None: EndKind.LOST}
"""By the exit code of the trainer; None: nobody saw its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A run that was trained elsewhere, as the journal keeps it."""

    run: Run
    job: TrainingJob
    estimate: dict[str, Any]
    receipt: Receipt


def read_imported(file: Path) -> Imported:
    """The run in the file that sessions have written; its model is the one beside the file. Raises BadInputError."""
    try:
        raw = regular_bytes(file, MOST_BYTES + 1)
    except OSError as error:
        raise BadInputError(f"cannot read {file}: {error.strerror}", hint_of(error, _HINT)) from None
    document = json_object(raw, MOST_BYTES)
    if document is None or document.get("format") != FORMAT:
        raise BadInputError(f"{file} is not the history of a run in sessions", _HINT)
    try:
        return _imported(document, file.absolute().parent)
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise BadInputError(f"{file} cannot be taken in: {reason}", _HINT) from None


def take_in(imported: Imported, journal: Journal, now: datetime) -> bool:
    """Put the run into the journal; False where it is there already and nothing is newer. A run that was imported
    before gets what came later.

    Raises BadInputError where the journal has this run from somewhere else, or more of it than the file.
    """
    run = imported.run
    if not journal.has(run.run_id):
        journal.add_run(run, imported.job.to_json(), imported.estimate, now)
    else:
        there = journal.run(run.run_id)
        if there.provider != run.provider or there.job_digest != run.job_digest:
            raise BadInputError(
                f"the journal has a run {run.run_id} of {there.provider} already, which this file is not of", _HINT
            )
        if len(there.attempts) > len(run.attempts):
            raise BadInputError(
                f"the journal has {len(there.attempts)} sessions of run {run.run_id}, and the file {len(run.attempts)}",
                "import the newest file",
            )
        if journal.receipt(run.run_id) == imported.receipt.to_json():
            return False
        journal.save(run, now)
    journal.save_receipt(run.run_id, imported.receipt.to_json(), now)
    return True


def _imported(document: dict[str, Any], folder: Path) -> Imported:
    """Raises ValueError, with what cannot be."""
    place, run_id = document.get("place"), document.get("run_id")
    if place not in free_providers():
        raise ValueError(f"place: {', '.join(free_providers())} can be")
    if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
        raise ValueError("run_id is none")
    job = _job(document.get("job"))
    sessions = _sessions(document.get("sessions"))
    estimate = _estimate(document.get("estimate"))
    attempts = tuple(session.attempt for session in _with_lost_steps(sessions))
    outcome = _outcome(attempts[-1])
    ended_at = attempts[-1].ended_at
    assert attempts[0].asked_at is not None
    assert ended_at is not None
    run = Run(
        run_id=RunId(run_id),
        job_name=job.name,
        job_digest=job.digest(),
        provider=place,
        phase=Phase.DONE,
        created_at=attempts[0].asked_at,
        deadline=ended_at,
        model_folder=str(folder),
        project=job.project,
        attempts=attempts,
        outcome=outcome,
        checkpoint_seconds=job.checkpoint_every.total_seconds(),
        total_steps=sessions[-1].story.total_steps,
    )
    has_model = outcome is Outcome.SUCCEEDED and (folder / "model.keras").is_file()
    ending = Ending(asked_at=run.created_at, ended_at=ended_at, model_folder=str(folder) if has_model else None)
    receipt = write_receipt(run, _last_story(sessions), estimate, ending)
    # The hours between two sessions are not the training's.
    receipt = replace(
        receipt, actual_seconds=sum((session.lasted for session in sessions), timedelta()).total_seconds()
    )
    if receipt_record(receipt.to_json()) is None:
        raise ValueError("a figure of it cannot be")
    return Imported(run=run, job=job, estimate=estimate, receipt=receipt)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    attempt: Attempt
    story: Story

    @property
    def lasted(self) -> timedelta:
        assert self.attempt.asked_at is not None
        assert self.attempt.ended_at is not None
        return self.attempt.ended_at - self.attempt.asked_at


def _job(value: object) -> TrainingJob:
    from pydantic import ValidationError

    try:
        return TrainingJob.model_validate(value, strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise ValueError(f"job: {where}: {first['msg']}") from None


def _sessions(value: object) -> list[_Session]:
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_SESSIONS:
        raise ValueError(f"sessions: from 1 to {_MOST_SESSIONS:,} are expected")
    sessions = [_session(record) for record in value]
    instants = [(session.attempt.number, session.attempt.asked_at, session.attempt.ended_at) for session in sessions]
    for (number, _, ended_at), (following, began_at, _) in itertools.pairwise(instants):
        if following <= number or (began_at and ended_at and began_at < ended_at):
            raise ValueError("sessions: they are not one after the other")
    return sessions


def _session(record: object) -> _Session:
    if not isinstance(record, dict):
        raise ValueError("sessions: one of them is no record")
    number, code, progress = record.get("attempt"), record.get("exit_code"), record.get("progress")
    began_at, ended_at = instant(record.get("began_at")), instant(record.get("ended_at"))
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= MOST_COUNT:
        raise ValueError("sessions: attempt is no number")
    if began_at is None or ended_at is None or ended_at < began_at:
        raise ValueError(f"session {number}: began_at and ended_at are not two instants, one after the other")
    if code is not None and (isinstance(code, bool) or not isinstance(code, int)):
        raise ValueError(f"session {number}: exit_code is no number")
    if not isinstance(progress, str):
        raise ValueError(f"session {number}: progress is no text")
    story = story_of(_Lines(number, progress.encode(errors="replace")), number)
    end = _ENDS.get(code, EndKind.FAILED)
    attempt = Attempt(
        number=number, asked_at=began_at, ended_at=ended_at, end=end, exit_code=code, cleared=True, step=story.step
    )
    return _Session(attempt=attempt, story=story)


def _with_lost_steps(sessions: list[_Session]) -> list[_Session]:
    """The sessions, each that was interrupted with the steps that the next one trained again."""
    told = list(sessions)
    for number, (one, following) in enumerate(itertools.pairwise(sessions)):
        if one.attempt.end in INTERRUPTIONS and following.story.start is not None:
            lost = max(0, one.story.step - int(following.story.start.get("resumed_from_step", 0)))
            told[number] = replace(one, attempt=replace(one.attempt, lost_steps=lost))
    return told


def _last_story(sessions: list[_Session]) -> Story:
    """That of the newest session that trained."""
    return next((one.story for one in reversed(sessions) if one.story.start is not None), sessions[-1].story)


def _outcome(last: Attempt) -> Outcome:
    # Nobody is there to launch it again: the person does, with the same cell.
    outcome = OUTCOMES[last.end or EndKind.LOST]
    return Outcome.STOPPED if outcome is None else outcome


def _estimate(value: object) -> dict[str, Any]:
    """What was estimated when it was exported; without what is no figure."""
    record = value if isinstance(value, dict) else {}
    figures = {name: record.get(name) for name in ("seconds", "images_per_second")}
    known = {
        name: figure
        for name, figure in figures.items()
        if isinstance(figure, int | float) and not isinstance(figure, bool) and 0 <= figure <= MOST_COUNT
    }
    basis = record.get("basis")
    named = {"basis": basis} if basis in ("measured", "scaled", "anchored", "modelled") else {}
    return {**known, "usd": 0.0, **named}


class _Lines:
    """The progress of one session, as a run directory of this attempt alone."""

    def __init__(self, attempt: int, lines: bytes) -> None:
        self._path, self._lines = f"attempts/{attempt}/progress.jsonl", lines

    def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        if path != self._path:
            raise KeyError(path)
        return self._lines[start : None if size is None else start + size]
