"""Which of a run's processes this one is, from the environment, and its part of every batch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainplan.workloads.trainer.errors import BadInputError

RANK = "TRAINPLAN_RANK"
PROCESSES = "TRAINPLAN_PROCESSES"
COORDINATOR = "TRAINPLAN_COORDINATOR"
_FIRST_PORT = 20_000
_PORTS = 10_000

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGroup:
    """The `processes` that train one model together. `rank` counts from 0; `coordinator` is HOST:PORT of rank 0,
    and "" where a process is alone."""

    rank: int = 0
    processes: int = 1
    coordinator: str = ""

    def __post_init__(self) -> None:
        """Raises BadInputError where no such process can be."""
        if self.processes < 1 or not 0 <= self.rank < self.processes:
            raise BadInputError(
                f"rank {self.rank} of {self.processes} processes cannot be; ranks count from 0 to one less than the "
                "number of processes"
            )
        if self.processes > 1 and not re.fullmatch(r".+:\d{1,5}", self.coordinator):
            raise BadInputError(
                f"the coordinator {self.coordinator!r} is no HOST:PORT; write {COORDINATOR} as rank 0's host and a "
                "free port there"
            )

    @property
    def is_alone(self) -> bool:
        """Whether one process trains by itself."""
        return self.processes == 1

    def part(self, rows: Rows) -> Rows:
        """This process's rows of a batch: equal and contiguous, so that the parts in order of rank are the batch.

        Raises BadInputError where a batch has no equal parts.
        """
        size, rest = divmod(len(rows), self.processes)
        if rest:
            raise BadInputError(f"a batch of {len(rows):,} images does not divide over {self.processes} processes")
        return rows[self.rank * size : (self.rank + 1) * size]


ALONE = ProcessGroup()


def process_group(environment: Mapping[str, str]) -> ProcessGroup:
    """The group that `environment` tells: by TRAINPLAN_RANK, TRAINPLAN_PROCESSES and TRAINPLAN_COORDINATOR, or else
    by Slurm's variables of a job step, of which srun sets SLURM_PROCID for each process. A process that a batch script
    starts without srun is no step's, and alone.

    TRAINPLAN_COORDINATOR alone replaces the address that is made of Slurm's host names, which need not resolve.
    Raises BadInputError where the variables do not tell a group.
    """
    if RANK in environment or PROCESSES in environment:
        rank, processes = _whole_number(environment, RANK), _whole_number(environment, PROCESSES)
        return _group(rank, processes, environment.get(COORDINATOR, ""))
    if "SLURM_PROCID" in environment and "SLURM_STEP_NUM_TASKS" in environment:
        rank, processes = _whole_number(environment, "SLURM_PROCID"), _whole_number(environment, "SLURM_STEP_NUM_TASKS")
        return _group(rank, processes, environment.get(COORDINATOR) or _slurm_coordinator(environment))
    return ALONE


def _group(rank: int, processes: int, coordinator: str) -> ProcessGroup:
    return ProcessGroup(rank=rank, processes=processes, coordinator=coordinator if processes > 1 else "")


def _whole_number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise BadInputError(f"{name} is {text!r}; write a whole number, or unset it to train with one process")
    return int(text)


def _slurm_coordinator(environment: Mapping[str, str]) -> str:
    hosts = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST", "")
    # A port for each job, below Linux' usual ephemeral ports (32768 on): two jobs may share a node.
    port = _FIRST_PORT + _whole_number(environment, "SLURM_JOB_ID") % _PORTS
    return f"{first_host(hosts)}:{port}" if hosts else ""


def first_host(hosts: str) -> str:
    """The first host of a list in Slurm's form: `gpu[003-007,9],login` is `gpu003`."""
    head = re.match(r"(?:[^,\[\]]|\[[^\]]*\])*", hosts)
    return re.sub(r"\[(\w+)[^\]]*\]", r"\1", head.group() if head else "")
