"""What happens to a run while its person is asked something: a wish to stop from another command, or its end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from trainplan.planner.errors import PlanError
from trainplan.planner.runs.run import Phase, Run
from trainplan.providers.base import InstanceState, Provider
from trainplan.providers.errors import InstanceNotFoundError, ProviderError

if TYPE_CHECKING:
    from trainplan.planner.clock import Clock
    from trainplan.planner.runs.journal.journal import Journal

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
        """Say why a question about the run is no longer needed; "" while it is, or where the state is not known."""
        now = self._clock.now()
        text = ""
        if self._read_at is None or now - self._read_at >= READ_JOURNAL_EVERY:
            self._read_at = now
            text = self._in_journal(run)
        if not text and (self._asked_at is None or now - self._asked_at >= ASK_PROVIDER_EVERY):
            self._asked_at = now
            text = self._at_provider(run)
        return text

    def _in_journal(self, run: Run) -> str:
        try:
            the_run = self._journal.run(run.run_id)
        except PlanError:
            return ""
        if the_run.phase is Phase.DONE:
            return f"run {run.run_id} has ended meanwhile"
        return f"run {run.run_id}: another command has asked it to stop" if the_run.stop_asked is not None else ""

    def _at_provider(self, run: Run) -> str:
        attempt = run.attempt
        if attempt is None or attempt.ref is None or run.phase not in (Phase.BOOTING, Phase.RUNNING):
            return ""
        text = f"the machine of run {run.run_id} has ended meanwhile"
        try:
            state = self._provider_of(attempt.ref.provider).get(attempt.ref).state
        except InstanceNotFoundError:
            return text
        except ProviderError:
            return ""
        return text if state is InstanceState.ENDED else ""
