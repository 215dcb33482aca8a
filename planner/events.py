"""What happens during a launch, as frozen values that a renderer shows and the journal keeps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from planner.run import Phase


@dataclass(frozen=True, slots=True)
class PhaseReached:
    phase: Phase
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A line for the person: what the image build, the trainer or the teardown reports."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerStarted:
    device: str
    strategy: str
    framework: str
    epochs: int
    total_steps: int
    resumed_from_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """`eta` until the last step; `usd_so_far` from the rate and the time since the instance was asked for."""

    epoch: int
    epochs: int
    step: int
    total_steps: int
    loss: float | None
    accuracy: float | None
    images_per_second: float | None
    eta: timedelta | None
    usd_so_far: Decimal


Event = PhaseReached | Said | TrainerStarted | Progressed
