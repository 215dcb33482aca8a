"""Joins the processes of a group before the framework is used, where the framework can train over several."""

from __future__ import annotations

import importlib
import os
import signal
from typing import TYPE_CHECKING

from workloads.job import Framework
from workloads.trainer.errors import BadInputError, TrainerError

if TYPE_CHECKING:
    from workloads.trainer.process_group import ProcessGroup

_JOIN_SECONDS = 300
"""For the slowest node to begin: its image, its file system, its framework."""
_HEARTBEAT_SECONDS = 60
"""A process that is silent for so long is taken for dead, and ends the others."""


def join(group: ProcessGroup, framework: Framework) -> None:
    """Wait for the other processes of the group; nothing where this one is alone.

    Raises BadInputError for a framework that trains with one process, TrainerError where the others do not come.
    """
    if group.is_alone:
        return
    if framework is not Framework.JAX:
        raise BadInputError(
            f"{framework} trains with one process here, and there are {group.processes}; write framework: jax, or "
            "nodes: 1"
        )
    os.environ["KERAS_BACKEND"] = framework.value
    try:
        jax = importlib.import_module("jax")
    except ModuleNotFoundError as error:
        raise BadInputError(
            f"framework jax needs {error.name}, which is not installed where the trainer runs"
        ) from error
    try:
        jax.distributed.initialize(
            coordinator_address=group.coordinator,
            num_processes=group.processes,
            process_id=group.rank,
            initialization_timeout=_JOIN_SECONDS,
            heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
        )
    except RuntimeError as error:
        first = next(iter(str(error).splitlines()), "")[:200]
        raise TrainerError(
            f"the {group.processes} processes did not come together at {group.coordinator} within {_JOIN_SECONDS} s: "
            f"{first}"
        ) from error
    _take_signals_back()


def _take_signals_back() -> None:
    """jax.distributed has put a handler of its own in the place of ours (its preemption notifier), and a TERM would
    never reach the trainer: seen with JAX 0.10.2 on Slurm, 2026-11-23."""
    for number in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(number)
        if callable(handler):
            signal.signal(number, handler)
