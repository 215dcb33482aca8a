"""One run as data: its phases, the moves between them, and what to do next. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import assert_never

from providers.base import EndKind, Instance, InstanceRef, InstanceState, RunId

BOOT_GRACE = timedelta(minutes=15)


class Phase(StrEnum):
    PLANNED = "planned"
    LAUNCHING = "launching"
    BOOTING = "booting"
    RUNNING = "running"
    COLLECTING = "collecting"
    TEARING_DOWN = "tearing_down"
    INTERRUPTED = "interrupted"
    DONE = "done"


class Outcome(StrEnum):
    """How a run ended. STOPPED and DEADLINE keep their checkpoint: the same job can go on from it."""

    SUCCEEDED = "succeeded"
    STOPPED = "stopped"
    DEADLINE = "deadline"
    FAILED = "failed"

    @property
    def resumable(self) -> bool:
        return self is not Outcome.SUCCEEDED


# Every move a run may make; DONE is left only when the person launches the same job again.
MOVES: dict[Phase, frozenset[Phase]] = {
    Phase.PLANNED: frozenset({Phase.LAUNCHING, Phase.TEARING_DOWN}),
    Phase.LAUNCHING: frozenset({Phase.BOOTING, Phase.TEARING_DOWN, Phase.INTERRUPTED}),
    Phase.BOOTING: frozenset({Phase.RUNNING, Phase.COLLECTING, Phase.TEARING_DOWN, Phase.INTERRUPTED}),
    Phase.RUNNING: frozenset({Phase.COLLECTING, Phase.TEARING_DOWN, Phase.INTERRUPTED}),
    Phase.COLLECTING: frozenset({Phase.TEARING_DOWN}),
    Phase.TEARING_DOWN: frozenset({Phase.DONE}),
    Phase.INTERRUPTED: frozenset({Phase.LAUNCHING, Phase.TEARING_DOWN}),
    Phase.DONE: frozenset({Phase.LAUNCHING}),
}

# What an ended instance means for the run; DONE still has to be collected.
OUTCOMES: dict[EndKind, Outcome] = {
    EndKind.DONE: Outcome.SUCCEEDED,
    EndKind.STOPPED: Outcome.STOPPED,
    EndKind.DEADLINE: Outcome.DEADLINE,
    EndKind.BAD_JOB: Outcome.FAILED,
    EndKind.FAILED: Outcome.FAILED,
    EndKind.OUT_OF_MEMORY: Outcome.FAILED,
    EndKind.KILLED: Outcome.FAILED,
    EndKind.LOST: Outcome.FAILED,
}


class MoveError(ValueError):
    """A move that no run may make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    number: int
    ref: InstanceRef | None = None
    exit_code: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`attempts` in order, the last is the live one. `model_folder` is where the model goes on the person's computer
    (empty: a measuring run, which leaves none),    `stop_asked` when the person asked the run to end."""

    run_id: RunId
    job_name: str
    job_digest: str
    provider: str
    phase: Phase
    created_at: datetime
    deadline: datetime
    usd_per_hour: Decimal
    model_folder: str
    attempts: tuple[Attempt, ...] = ()
    outcome: Outcome | None = None
    message: str | None = None
    stop_asked: datetime | None = None

    @property
    def attempt(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def live(self) -> bool:
        return self.phase is not Phase.DONE

    def moved(self, phase: Phase) -> Run:
        """The run in its next phase. Raises MoveError for a move that is not in MOVES."""
        if phase not in MOVES[self.phase]:
            raise MoveError(f"run {self.run_id} cannot go from {self.phase} to {phase}")
        return replace(self, phase=phase)

    def with_attempt(self, attempt: Attempt) -> Run:
        """The run with this attempt in the place of the one of its number, or behind the others."""
        kept = tuple(known for known in self.attempts if known.number != attempt.number)
        return replace(self, attempts=(*kept, attempt))


@dataclass(frozen=True, slots=True)
class Launch:
    """Ask for an instance for attempt `number`; asking twice gives the same one."""

    number: int


@dataclass(frozen=True, slots=True)
class Wait:
    pass


@dataclass(frozen=True, slots=True)
class AskToStop:
    """Tell the trainer to write a checkpoint and end."""


@dataclass(frozen=True, slots=True)
class Collect:
    """Bring the model home."""


@dataclass(frozen=True, slots=True)
class End:
    """Delete everything of the run, and look until nothing is left; `outcome` is what it will have been."""

    outcome: Outcome
    message: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """The run is done."""


Action = Launch | Wait | AskToStop | Collect | End | Nothing


def next_action(run: Run, seen: Instance | None, now: datetime) -> Action:
    """What to do next with a run, from what is recorded and what the provider says of its live attempt.

    `seen` is None where the provider knows no instance of the attempt.
    """
    match run.phase:
        case Phase.PLANNED | Phase.INTERRUPTED:
            return Launch(len(run.attempts) + 1)
        case Phase.LAUNCHING:
            return Launch(run.attempts[-1].number if run.attempts else 1)
        case Phase.BOOTING | Phase.RUNNING:
            return _while_training(run, seen, now)
        case Phase.COLLECTING:
            return Collect()
        case Phase.TEARING_DOWN:
            return End(run.outcome or Outcome.FAILED, run.message or "")
        case Phase.DONE:
            return Nothing()
        case _:
            assert_never(run.phase)


def _while_training(run: Run, seen: Instance | None, now: datetime) -> Action:
    if seen is None:
        return End(Outcome.FAILED, "the instance disappeared")
    match seen.state:
        case InstanceState.ENDED:
            return _after_training(run, seen)
        case InstanceState.PENDING | InstanceState.RUNNING | InstanceState.STOPPING:
            return _still_training(run, seen, now)
        case _:
            assert_never(seen.state)


def _after_training(run: Run, seen: Instance) -> Action:
    end = seen.end or EndKind.LOST
    if end is EndKind.DONE:
        return Collect() if run.model_folder else End(Outcome.SUCCEEDED, "")
    return End(OUTCOMES[end], seen.reason or end)


def _still_training(run: Run, seen: Instance, now: datetime) -> Action:
    # The instance ends itself at the deadline; when it has not, some time later, it is ended from here.
    if now > run.deadline + BOOT_GRACE:
        return End(Outcome.DEADLINE, "the deadline has passed")
    if run.stop_asked is not None and seen.state is not InstanceState.STOPPING:
        return AskToStop()
    return Wait()
