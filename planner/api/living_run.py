"""A job that is launched while a run of it lives: attach to that run, launch another beside it, or neither."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.api.ask import Reply, Terminal, ask, confirm, terminal_here, unanswered
from trainplan.planner.clock import Clock, SystemClock
from trainplan.planner.errors import BadInputError, RefusedError
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.pricing.money import format_usd
from trainplan.workloads.durations import format_duration
from trainplan.workloads.wording import Command, Option, Text

if TYPE_CHECKING:
    from trainplan.planner.api.view import View
    from trainplan.planner.runs.runner import Runner
    from trainplan.providers.base import RunId
    from trainplan.workloads.job import TrainingJob

_ON_A_MACHINE = (Phase.BOOTING, Phase.RUNNING, Phase.COLLECTING, Phase.TEARING_DOWN)
_HINT = Text(Option.YES, " attaches to it, ", Option.ANOTHER, " launches another run of the job")
_LEFT_ALONE = "nothing was launched"


class Joined(Exception):
    """The job is not launched: `run` is a run of it that lives, and this command attaches to it, or one that was found
    to have ended, whose receipt it prints."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.run_id)
        self.run = run


class Known(NamedTuple):
    """What a launch knows of other runs: the journal's `version` when its command began, and the runs of its job that
    the person wants another one beside."""

    version: int
    agreed: frozenset[RunId] = frozenset()


class Beside:
    """Whether a launch rents a machine although a run of its job lives, or has succeeded since this command began.

    `another`: it does, whatever lives. `assume_yes`: it attaches, and nobody is asked. A run that another command has
    finished since the version that is `known` is not trained once more.
    """

    def __init__(
        self, runner: Runner, job: TrainingJob, view: View, known: Known, *, assume_yes: bool, another: bool
    ) -> None:
        self._runner = runner
        self._job = job
        self._view = view
        self._assume_yes = assume_yes
        self._another = another
        self.known = known

    def look(self) -> None:
        """Raises Joined to attach to a run that lives, DeclinedError where the person wants neither, BadInputError
        where nobody answers."""
        while (living := self._living()) is not None:
            self._decide(living)

    def begin(self, begin: Callable[[], Run]) -> Run:
        """The run that `begin` records, unless another launch of the job has begun one since the last look.

        Raises what `look` raises. Nobody is asked while the job's lock is held.
        """
        while True:
            with self._runner.deciding(self._job):
                living = self._living()
                if living is None:
                    return begin()
            self._decide(living)

    def _living(self) -> Run | None:
        if self._another:
            return None
        return self._runner.living(self._job, self.known.agreed) or self._finished_meanwhile()

    def _finished_meanwhile(self) -> Run | None:
        run = self._runner.journal.ended_of(self._job.digest())
        if run is None or run.outcome is not Outcome.SUCCEEDED:
            return None
        return run if self._runner.journal.has_ended_since(run.run_id, self.known.version) else None

    def _decide(self, living: Run) -> None:
        """Look at a run that has a machine before speaking of it. A run that has ended by itself is not launched once
        more, unless it can go on from its checkpoint."""
        if not self._runner.owns(living):
            raise RefusedError(
                f"{living_text(living)}; it is left to {self._runner.whose(living)}: {_LEFT_ALONE}",
                f"{Option.ANOTHER} launches another run of the job beside it; "
                f"{Command('attach', living.run_id, Option.CLIENT('any'))} takes it over",
            )
        if living.phase in _ON_A_MACHINE:
            living = self._runner.settle(living)
        if living.phase is Phase.DONE:
            self._view.show(Message(f"run {living.run_id} of this job had ended: {living.outcome}"))
            if living.outcome is None or not living.outcome.resumable:
                raise Joined(living)
            return
        if self._assume_yes:
            self._view.show(Message(f"{living_text(living)}: attaching to it ({Option.ANOTHER} launches another)"))
            raise Joined(living)
        self._view.pause_for(lambda: ask_about(living, terminal_here(), SystemClock()))
        self.known = self.known._replace(agreed=self.known.agreed | {living.run_id})


def living_text(run: Run) -> str:
    """What a person needs to know of the run: its id, where it is, since when, and where its model goes."""
    attempt = run.attempt
    where = attempt.target.where if attempt and attempt.target else run.provider
    since = f"{run.dated_at.astimezone():%Y-%m-%d %H:%M}"
    phase = run.phase.replace("_", " ")
    return f"run {run.run_id} of this job is {phase} at {where}, launched {since}, its model goes to {run.model_folder}"


def differing_text(run: Run, job: TrainingJob, output: Path | None) -> str:
    """Which limits and which folder of a run that a launch attaches to are others than the launch asked for; "" where
    none is. The run's own hold."""
    own, wanted = run.deadline - run.created_at, job.constraints.deadline
    differences = []
    if wanted is not None and wanted != own:
        differences.append(f"deadline {format_duration(own)} after its launch, not {format_duration(wanted)}")
    if job.budget_usd != run.budget_usd:
        budget, other = (format_usd(usd) if usd is not None else "none" for usd in (run.budget_usd, job.budget_usd))
        differences.append(f"budget {budget}, not {other}")
    if output is not None and run.model_folder and output.absolute() != Path(run.model_folder):
        differences.append(f"model to {run.model_folder}, not {output.absolute()}")
    return f"run {run.run_id} keeps what it was launched with: {'; '.join(differences)}" if differences else ""


def ask_about(living: Run, terminal: Terminal, clock: Clock) -> None:
    """Returns where the person wants another run. Raises what `Beside.look` raises."""
    text = living_text(living)
    reply = ask(f"{text}. Attach to it?", terminal, clock, default=True)
    if reply is Reply.YES:
        raise Joined(living)
    if reply is not Reply.NO:
        raise BadInputError(f"{text}; {unanswered(reply)}: {_LEFT_ALONE}", str(_HINT))
    question = "launch another run of it beside that one?"
    confirm(question, default=False, hint=str(_HINT), left_alone=_LEFT_ALONE, terminal=terminal)
