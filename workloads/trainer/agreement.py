"""When several processes end early: all at the same step, since one that went on would wait for the others for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from trainplan.workloads.job import Framework
from trainplan.workloads.trainer.errors import DeadlineReached, TrainerError, TrainingStopped
from trainplan.workloads.trainer.workers import over_tensorflow

if TYPE_CHECKING:
    from trainplan.workloads.trainer.backend import Toolkit
    from trainplan.workloads.trainer.devices import Devices
    from trainplan.workloads.trainer.process_group import ProcessGroup

_ASK_EVERY_SECONDS = 1.0
_MOST_STEPS = 10_000
_GO_ON, _STOP, _DEADLINE = 0, 1, 2


class Agreement:
    """What rank 0 decides, for every process of a group. A process that is alone decides for itself.

    `broadcast` gives every process the two numbers of rank 0; it waits until all have called it. It is called about
    once a second, at steps that rank 0 has named the time before, so that no step waits for it otherwise.
    """

    def __init__(
        self,
        group: ProcessGroup,
        broadcast: Callable[[tuple[int, int]], tuple[int, int]],
        monotonic: Callable[[], float],
    ) -> None:
        self._group = group
        self._broadcast = broadcast
        self._monotonic = monotonic
        self._last_request: tuple[int, float] | None = None
        self._next_step = 0

    @property
    def is_alone(self) -> bool:
        """Whether nobody else has to be asked."""
        return self._group.is_alone

    def is_due(self, step: int) -> bool:
        """Whether the processes agree after this step; steps in flight have to be waited for then."""
        return not self._group.is_alone and step >= self._next_step

    def of(self, step: int, reason: TrainerError | None) -> TrainerError | None:
        """The reason to end after this step, if all have one; `reason` is this process's own."""
        if self._group.is_alone:
            return reason
        if not self.is_due(step):
            return None
        code, self._next_step = self._broadcast((_code(reason), step + self._steps_ahead(step)))
        match code:
            case 0:
                return None
            case 1:
                return reason if isinstance(reason, TrainingStopped) else TrainingStopped("stopped with rank 0")
            case _:
                return DeadlineReached("the deadline is reached")

    def _steps_ahead(self, step: int) -> int:
        """How many steps about a second has, by those since the last time."""
        now, before = self._monotonic(), self._last_request
        self._last_request = (step, now)
        if before is None or now <= before[1]:
            return 1
        return max(1, min(_MOST_STEPS, int((step - before[0]) / (now - before[1]) * _ASK_EVERY_SECONDS)))


def _code(reason: TrainerError | None) -> int:
    if reason is None:
        return _GO_ON
    return _STOP if isinstance(reason, TrainingStopped) else _DEADLINE


def broadcast(toolkit: Toolkit, devices: Devices) -> Callable[[tuple[int, int]], tuple[int, int]]:
    """What gives every process rank 0's numbers, by the framework that has joined them."""
    match toolkit.framework:
        case Framework.TENSORFLOW:
            return over_tensorflow(toolkit.module, devices.strategy)
        case Framework.TORCH:
            return _over_torch
        case Framework.JAX:
            return _over_jax
        case _:
            assert_never(toolkit.framework)


def _over_torch(numbers: tuple[int, int]) -> tuple[int, int]:
    """Rank 0's numbers in every process of `torch.distributed`."""
    import torch

    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    values = torch.tensor(numbers, dtype=torch.int64, device=device)
    torch.distributed.broadcast(values, src=0)
    first, second = values.tolist()
    return first, second


def _over_jax(numbers: tuple[int, int]) -> tuple[int, int]:
    """Rank 0's numbers in every process of `jax.distributed`."""
    import numpy as np
    from jax.experimental import multihost_utils

    first, second = multihost_utils.broadcast_one_to_all(np.array(numbers, np.int32))
    return int(first), int(second)
