"""Joins the processes of a group before the framework is used, where the framework can train over several."""

from __future__ import annotations

import importlib
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from trainplan.workloads.job import Framework
from trainplan.workloads.trainer.errors import BadInputError, TrainerError

if TYPE_CHECKING:
    from trainplan.workloads.trainer.process_group import ProcessGroup

JOIN_SECONDS = 300
"""For the slowest node to begin: its image, its file system, its framework."""
_HEARTBEAT_SECONDS = 60
"""A process that is silent for so long is taken for dead, and ends the others."""


def join(group: ProcessGroup, framework: Framework) -> None:
    """Wait for the other processes of the group; nothing where this one is alone, and on TensorFlow, whose strategy
    waits for them (workers.over_workers).

    Raises BadInputError for a framework that is not installed, and TrainerError where the others do not come.
    """
    if group.is_alone or framework is Framework.TENSORFLOW:
        return
    initialize = _join_jax if framework is Framework.JAX else _join_torch
    try:
        module = importlib.import_module(framework.value)
    except ModuleNotFoundError as error:
        raise BadInputError(
            f"framework {framework} needs {error.name}, which is not installed where the trainer runs"
        ) from error
    try:
        initialize(module, group)
    except RuntimeError as error:
        first = next(iter(str(error).splitlines()), "")[:200]
        raise TrainerError(
            f"the {group.processes} processes did not come together at {group.coordinator} within {JOIN_SECONDS} s: "
            f"{first}"
        ) from error


def _join_jax(jax: Any, group: ProcessGroup) -> None:
    jax.distributed.initialize(
        coordinator_address=group.coordinator,
        num_processes=group.processes,
        process_id=group.rank,
        initialization_timeout=JOIN_SECONDS,
        heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
    )
    take_signals_back()


def _join_torch(torch: Any, group: ProcessGroup) -> None:
    """NCCL between GPUs, gloo between CPUs. The same time holds for every exchange afterwards: while rank 0 writes a
    checkpoint, the others wait in the next one."""
    torch.distributed.init_process_group(
        "nccl" if torch.cuda.is_available() else "gloo",
        init_method=f"tcp://{group.coordinator}",
        rank=group.rank,
        world_size=group.processes,
        timeout=timedelta(seconds=JOIN_SECONDS),
    )


def take_signals_back() -> None:
    """jax.distributed and TensorFlow's strategy have put a handler of their own in the place of ours (the preemption
    notifier), and a TERM would never reach the trainer: seen with JAX 0.10.2 on Slurm, 2026-11-23, and with TensorFlow
    2.21 on loopback, 2026-11-24."""
    for number in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(number)
        if callable(handler):
            signal.signal(number, handler)
