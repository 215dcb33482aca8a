"""What happens to a run while its person is asked something: a wish to stop from another command, or its end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from planner.errors import PlanError
from planner.run import Phase
from providers.base import InstanceState
from providers.errors import InstanceNotFoundError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from planner.clock import Clock
    from planner.journal import Journal
    from planner.run import Run
    from providers.base import Provider

READ_JOURNAL_EVERY = timedelta(seconds=1)
"""A local file: a wish to stop is noticed within a second."""
ASK_PROVIDER_EVERY = timedelta(seconds=10)
"""The same as between two looks at a run that is followed: a cloud counts the calls."""


class News:
    """Looks at a run while a question waits. `clock` is this computer's."""

    def __init__(self, journal: Journal, provider: Callable[[str], Provider], clock: Clock) -> None:
        self._journal = journal
        self._provider_of = provider
        self._clock = clock
        self._read_at: datetime | None = None
        self._asked_at: datetime | None = None

    def of(self, run: Run) -> str:
        """In a sentence what makes a question about the run pointless; "" while nothing does, or nobody can tell."""
        now = self._clock.now()
        told = ""
        if self._read_at is None or now - self._read_at >= READ_JOURNAL_EVERY:
            self._read_at = now
            told = self._in_journal(run)
        if not told and (self._asked_at is None or now - self._asked_at >= ASK_PROVIDER_EVERY):
            self._asked_at = now
            told = self._at_provider(run)
        return told

    def _in_journal(self, run: Run) -> str:
        try:
            kept = self._journal.run(run.run_id)
        except PlanError:
            return ""
        if kept.phase is Phase.DONE:
            return f"run {run.run_id} has ended meanwhile"
        return f"run {run.run_id}: another command has asked it to stop" if kept.stop_asked is not None else ""

    def _at_provider(self, run: Run) -> str:
        attempt = run.attempt
        if attempt is None or attempt.ref is None or run.phase not in (Phase.BOOTING, Phase.RUNNING):
            return ""
        ended = f"the machine of run {run.run_id} has ended meanwhile"
        try:
            state = self._provider_of(attempt.ref.provider).get(attempt.ref).state
        except InstanceNotFoundError:
            return ended
        except ProviderError:
            return ""
        return ended if state is InstanceState.ENDED else ""
