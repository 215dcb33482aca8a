"""What happens during a launch, as frozen values that a renderer shows and the journal keeps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from trainplan.planner.runs.run import Phase


@dataclass(frozen=True, slots=True)
class PhaseReached:
    """The run has entered a phase."""

    phase: Phase
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A line for the person: what the image build, the trainer or the teardown reports."""

    text: str


@dataclass(frozen=True, slots=True)
class Printed:
    """What a script of the person's own has printed since the last event of this kind, in lines."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerStarted:
    """The trainer has begun, or continues after `resumed_from_step`."""

    device: str
    strategy: str
    framework: str
    epochs: int
    total_steps: int
    resumed_from_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """`eta` until the last step; `usd_so_far` from the rate and the time since the instance was asked for.

    `validation_accuracy` is that of the last validation, as a share of 1. `half_width` is that of the 80 % interval of
    the rate, as a share of it (None: nobody tells).
    """

    epoch: int
    epochs: int
    step: int
    total_steps: int
    loss: float | None
    accuracy: float | None
    images_per_second: float | None
    eta: timedelta | None
    usd_so_far: Decimal
    validation_accuracy: float | None = None
    half_width: float | None = None


Event = PhaseReached | Message | Printed | TrainerStarted | Progressed
