"""How a run stands: brought up to date, with how far it has come and what it has cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.api import build
from trainplan.planner.errors import PlanError, TeardownUnverifiedError
from trainplan.planner.runs.directory.progress import story_of, unreadable_text
from trainplan.planner.runs.run import Run
from trainplan.providers.errors import CredentialsError, PermissionDeniedError, ProviderError

if TYPE_CHECKING:
    from trainplan.planner.clock import Clock
    from trainplan.planner.home.client import Client
    from trainplan.planner.runs.events import Event
    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.settings import Settings
    from trainplan.providers.base import Provider


class Progress(NamedTuple):
    """How far a run has come: in words, and in optimizer steps (None: not known)."""

    text: str
    step: int | None = None
    total_steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A run as it stands, and why it could not be brought further (None: it could). `usd` is what it has cost, where
    `is_at_most` no more than that: nobody told when something of it ended."""

    run: Run
    progress: Progress
    usd: float
    is_at_most: bool
    error: PlanError | None


def standing_of(
    run: Run, journal: Journal, settings: Settings, client: Client, make_provider: Callable[[str], Provider]
) -> Standing:
    """Bring a run up to date. An error is kept in the result, so that other runs are still read."""
    try:
        make_provider(run.provider)
    except ProviderError as missing:  # a package that is not installed any more, say
        return _unasked(run, journal, missing)
    error: PlanError | None = None
    if client.owns(run) and (run.live or journal.owes_receipt(run)):
        runner = build.runner(journal, settings, lambda _: None, run.provider, make_provider=make_provider)
        try:
            run = runner.settle(run)
        except PlanError as trouble:
            error, run = trouble, runner.with_end(journal.run(run.run_id))
    usd, is_at_most = _cost(run, journal, build.clock_of(make_provider(run.provider)))
    progress, blind = _progress(run, make_provider)
    return Standing(run=run, progress=progress, usd=usd, is_at_most=is_at_most, error=error or blind)


def ask_records_again(
    journal: Journal, settings: Settings, make_provider: Callable[[str], Provider], listen: Callable[[Event], None]
) -> None:
    """Correct the receipts of ended runs that have "at most", where the records of their providers show more by now."""
    silent: set[str] = set()
    for run, written_at in journal.unsure():
        if run.provider in silent:
            continue
        try:
            runner = build.runner(journal, settings, listen, run.provider, make_provider=make_provider)
            runner.ask_again(run, written_at)
        except (ProviderError, PlanError):  # nobody is signed in there, say: a later command asks
            silent.add(run.provider)


def _cost(run: Run, journal: Journal, clock: Clock) -> tuple[float, bool]:
    """What a run has cost in USD, and whether that is the most it can have; of one that is done, as on its receipt."""
    if run.live:
        run, now = run.at_latest, clock.now()
        return float(run.total_usd(now)), run.is_at_most(now)
    receipt = journal.receipt(run.run_id) or {}
    return float(receipt.get("actual_usd", 0.0)), bool(receipt.get("at_most"))


def _unasked(run: Run, journal: Journal, missing: ProviderError) -> Standing:
    """A run whose provider cannot be asked at all: as the journal has it."""
    progress = _unread(run)
    error = _blind(run, missing) if run.bills else None
    usd, is_at_most = _cost(run, journal, build.clock())
    return Standing(run=run, progress=progress, usd=usd, is_at_most=is_at_most, error=error)


def _blind(run: Run, error: ProviderError) -> TeardownUnverifiedError:
    text = f"run {run.run_id} may still exist, but its provider cannot be read: {error.message}"
    return TeardownUnverifiedError(text, error.hint)


def _unread(run: Run) -> Progress:
    """How far a run has come whose store does not answer: what is to be recorded of a live one may not come to be."""
    return Progress("no answer" if run.live else run.outcome or "-")


def _progress(run: Run, factory: Callable[[str], Provider]) -> tuple[Progress, PlanError | None]:
    """How far the run has come. Also an error where its cloud may still bill and can no longer be asked, since the
    sign-in is gone."""
    if not run.attempts:
        return Progress(run.outcome or "-"), None
    waits = run.live and run.attempts[-1].queued
    if waits and run.attempts[-1].bills_from is None:
        return Progress("waits for a machine"), None
    try:
        story = story_of(factory(run.provider).store(run.run_id), run.attempts[-1].number)
    except (CredentialsError, PermissionDeniedError) as error:
        return _unread(run), _blind(run, error) if run.live else None
    except ProviderError:
        return _unread(run), None
    steps = f"step {story.step} of {'?' if story.total_steps is None else story.total_steps}"
    if story.unreadable:
        steps += f", {unreadable_text(story.unreadable)}"
    before = "lost its machine and waits for another" if waits else "" if run.live else run.outcome
    text = f"{before}, {steps}" if before else steps
    return Progress(text, story.step, story.total_steps), None
