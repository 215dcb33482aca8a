"""What an executor writes down and says: a run's moves, kept even where the journal cannot be written for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from trainplan.planner.errors import ThisMachineError
from trainplan.planner.runs.events import Event, Message, PhaseReached
from trainplan.providers.errors import CredentialsError, ProviderError

if TYPE_CHECKING:
    from trainplan.planner.clock import Clock
    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.run import Phase, Run
    from trainplan.planner.runs.targets import Refusal
    from trainplan.providers.base import RunId


NOTE_EVERY = timedelta(minutes=1)
"""Well below the time after which a follower that writes nothing counts as one that hangs (planner/runs/runner.py)."""


class Recorder:
    """One process's view of one run: the journal where it can be written, memory where not."""

    def __init__(self, journal: Journal, clock: Clock, listen: Callable[[Event], None]) -> None:
        self.journal = journal
        self.clock = clock
        self.listen = listen
        self._unsaved: Run | None = None
        self._stop_asked: datetime | None = None
        self._told_to_stop: dict[int, datetime] = {}
        self._noted_at: datetime | None = None
        self._noted: set[tuple[str, str]] = set()

    def moved(self, run: Run, phase: Phase, detail: str = "") -> Run:
        """The run in its next phase, on disk and told."""
        detail = detail or run.message or ""
        run = self.keep(run.moved(phase), detail)
        self.listen(PhaseReached(phase, detail))
        return run

    def keep(self, run: Run, detail: str) -> Run:
        """The run in the journal. One that cannot be written is no reason to leave a machine alone: it goes on."""
        try:
            self.journal.save(run, self.clock.now(), detail)
            self._unsaved = None
        except ThisMachineError as error:
            # Reported once: the saves that follow fail for the same reason.
            if self._unsaved is None:
                self.say(f"{error.message}; going on without it, to bring the run to its end")
            self._unsaved = run
        return run

    @property
    def is_kept(self) -> bool:
        """Whether the run's last move is on disk."""
        return self._unsaved is None

    def fresh(self, run: Run) -> Run:
        """The run as the journal has it: what another command has asked is in there; else as it is known here."""
        # The journal is older than what this process has done since: its row would undo these moves.
        if self._unsaved is not None:
            run = self._unsaved
        else:
            try:
                run = self.journal.run(run.run_id)
            except ThisMachineError as error:
                self.say_once(f"{error.message}; going on without it, to bring the run to its end")
        return replace(run, stop_asked=run.stop_asked or self._stop_asked)

    def ask_to_stop(self, run: Run) -> Run:
        """The run with the person's wish to end it, which other commands see where the journal can be written."""
        try:
            self.journal.ask_to_stop(run.run_id, self.clock.now())
        except ThisMachineError:
            # Ctrl-C has to work when the disk is full, so the request is kept in memory.
            self._stop_asked = self.clock.now()
        return self.fresh(run)

    def told_to_stop(self, run: Run) -> None:
        """Note that the newest attempt's machine was told to stop."""
        if run.attempt is not None and self.told_to_stop_at(run) is None:
            self._note_stop(run.run_id, run.attempt.number)

    def still_stopping(self, run: Run) -> None:
        """Note each minute that a machine which was told to stop is waited for: so others know that this one reacts."""
        if run.attempt is None or self.told_to_stop_at(run) is None:
            return
        if self._noted_at is None or self.clock.now() - self._noted_at >= NOTE_EVERY:
            self._note_stop(run.run_id, run.attempt.number)

    def _note_stop(self, run_id: RunId, number: int) -> None:
        self._noted_at = now = self.clock.now()
        try:
            self.journal.told_to_stop(run_id, number, now)
        except ThisMachineError:
            self._told_to_stop.setdefault(number, now)

    def told_to_stop_at(self, run: Run) -> datetime | None:
        """When the newest attempt's machine was first told to stop; None: nobody has, as far as is known here."""
        if run.attempt is None:
            return None
        number = run.attempt.number
        try:
            told_at = self.journal.told_to_stop_at(run.run_id, number)
        except ThisMachineError:
            told_at = None
        return told_at or self._told_to_stop.get(number)

    def refusals(self) -> tuple[Refusal, ...]:
        """The placements that said no lately; none where the journal cannot be read."""
        try:
            return self.journal.refusals(self.clock.now())
        except ThisMachineError as error:
            self.say_once(error.message)
            return ()

    def remember(self, refusal: Refusal) -> None:
        """A placement that said no, for later runs too."""
        try:
            self.journal.refuse(refusal, self.clock.now())
        except ThisMachineError as error:
            self.say_once(error.message)

    def say(self, text: str) -> None:
        """Pass a message on to whoever listens."""
        self.listen(Message(text))

    def say_once(self, text: str, of: str = "") -> None:
        """Report a text once, and not again until the provider it is about has answered (`note_answer`)."""
        if (of, text) not in self._noted:
            self._noted.add((of, text))
            self.say(text)

    def note_answer(self, of: str = "") -> None:
        """The provider, or its part `of`, answers again: what was said of it may be said once more."""
        self._noted = {pair for pair in self._noted if pair[0] != of}

    def report_no_answer(self, error: ProviderError, of: str = "") -> None:
        """Report each text once. An expired sign-in is reported as an action for the person."""
        if isinstance(error, CredentialsError):
            self.say_once(
                f"THE SIGN-IN HAS ENDED: {error.message}. What runs goes on, and ends itself at its deadline. "
                f"{error.hint}".rstrip(),
                of,
            )
        else:
            self.say_once(f"no answer: {error.message}; trying again", of)
