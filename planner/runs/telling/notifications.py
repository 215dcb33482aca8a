"""Which events of a run are told to the person's own command or web address: its end, an interruption, and that it
leaves the interval of its estimate. Each is told once, which the journal records before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from trainplan.planner.errors import PlanError
from trainplan.planner.runs.events import Event, Message, PhaseReached
from trainplan.planner.runs.run import INTERRUPTIONS, Outcome, Phase, Run
from trainplan.planner.runs.telling.delivery import Delivery
from trainplan.pricing.money import format_usd
from trainplan.workloads.durations import format_duration

if TYPE_CHECKING:
    from trainplan.planner.clock import Clock
    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.settings import Settings


class Notice(StrEnum):
    """What is told of a run."""

    ENDED = "ended"
    INTERRUPTED = "interrupted"
    OUTSIDE_ESTIMATE = "outside_estimate"


class Notifications:
    """What one command line tells of its runs. Without the setting `notify` it does nothing at all."""

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        clock: Clock,
        listen: Callable[[Event], None],
        delivery: Delivery | None = None,
    ) -> None:
        self._is_on = bool(settings.notify)
        self._journal = journal
        self._clock = clock
        self._listen = listen
        self._delivery = delivery or Delivery(settings.notify)
        # What this command line need not ask the journal about at every event.
        self._known_notices: set[tuple[str, Notice]] = set()

    def over(self, run: Run) -> Callable[[Event], None]:
        """Who listens to the events of a run: the person, and what tells of them elsewhere."""
        if not self._is_on or not run.model_folder:  # a run of plan measure
            return self._listen

        late_at = self._late_at(run)

        def hear(event: Event) -> None:
            self._listen(event)
            self._report(self._delivery.failures())
            is_news = isinstance(event, PhaseReached) and event.phase in (Phase.INTERRUPTED, Phase.DONE)
            if is_news or (
                self._clock.now() > late_at and (run.run_id, Notice.OUTSIDE_ESTIMATE) not in self._known_notices
            ):
                self._look_again(run)

        return hear

    def look(self, run: Run) -> None:
        """Tell what is to be told of a run as it stands. Nothing is raised."""
        if not self._is_on or not run.model_folder:
            return
        try:
            for notice, text in self._notices(run):
                # First the record: what was cut off in between is told never, and not twice.
                is_first = self._journal.notify(run.run_id, notice, self._clock.now())
                self._known_notices.add((run.run_id, notice))
                if is_first:
                    self._delivery.send(self._record(run, notice, text))
        except PlanError as error:
            self._report([f"notify: nothing is told of run {run.run_id}: {error.message}"])

    @contextmanager
    def sent(self) -> Iterator[None]:
        """When the block is over, however it ends, waits for what is being delivered, a bounded time."""
        try:
            yield
        finally:
            self._report(self._delivery.failures(is_last=True))

    def _look_again(self, run: Run) -> None:
        try:
            run = self._journal.run(run.run_id)
        except PlanError:
            return  # the command that follows the run reports that its journal cannot be read
        self.look(run)

    def _report(self, lines: list[str]) -> None:
        for line in lines:
            self._listen(Message(line))

    def _notices(self, run: Run) -> Iterator[tuple[Notice, str]]:
        took, (low, high) = self._seconds(run), self._interval(run)
        name = f"run {run.run_id} of {run.job_name}"
        attempt = run.attempt
        if run.phase is Phase.INTERRUPTED and attempt is not None and attempt.end in INTERRUPTIONS:
            reason = f": {attempt.reason}" if attempt.reason else ""
            yield Notice.INTERRUPTED, f"{name} was interrupted at {run.provider}{reason}"
        # An estimate is of the whole run: of one that was launched again it says nothing.
        if run.again_at is None and took > high:
            verb = "took" if run.phase is Phase.DONE else "has taken"
            text = f"{name} {verb} {_duration(took)}, longer than the slow end of its estimate, {_duration(high)}"
            yield Notice.OUTSIDE_ESTIMATE, text
        if run.phase is not Phase.DONE:
            return
        if run.again_at is None and run.outcome is Outcome.SUCCEEDED and took < low:
            text = f"{name} took {_duration(took)}, shorter than the fast end of its estimate, {_duration(low)}"
            yield Notice.OUTSIDE_ESTIMATE, text
        now, run = self._clock.now(), run.at_latest
        usd = ("at most " if run.is_at_most(now) else "") + format_usd(run.total_usd(now))
        why = f": {run.message}" if run.message else ""
        yield Notice.ENDED, f"{name} ended ({run.outcome}) after {_duration(took)}, {usd}{why}"

    def _record(self, run: Run, notice: Notice, text: str) -> dict[str, Any]:
        """What is sent; docs/settings.md lists the keys."""
        estimate = self._journal.estimate(run.run_id)
        keys = ("low_seconds", "seconds", "high_seconds", "usd")
        return {
            "event": str(notice),
            "run_id": run.run_id,
            "job": run.job_name,
            "provider": run.provider,
            "state": str(run.phase),
            "outcome": None if run.outcome is None else str(run.outcome),
            "text": text,
            "seconds_so_far": round(self._seconds(run), 1),
            "usd_so_far": float(run.total_usd(self._clock.now())),
            "estimate": {key: estimate.get(key) for key in keys} if estimate else None,
        }

    def _seconds(self, run: Run) -> float:
        """Since the run was launched."""
        return (self._clock.now() - run.created_at).total_seconds()

    def _late_at(self, run: Run) -> datetime:
        """When the run has taken longer than the slow end of its estimate."""
        return run.created_at + timedelta(seconds=min(self._interval(run)[1], _NEVER_SECONDS))

    def _interval(self, run: Run) -> tuple[float, float]:
        """The ends of the estimate in seconds; everything is within it where there is none."""
        try:
            estimate: Mapping[str, Any] = self._journal.estimate(run.run_id)
        except PlanError:
            estimate = {}
        low, high = (estimate.get(key) for key in ("low_seconds", "high_seconds"))
        if isinstance(low, int | float) and isinstance(high, int | float):
            return float(low), float(high)
        return 0.0, _NEVER_SECONDS


_NEVER_SECONDS = 1e9


def _duration(seconds: float) -> str:
    return format_duration(timedelta(seconds=round(seconds)))
