"""A process learns its rank from the environment, and the processes of a group read every batch exactly once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.unit.workloads.trainer.builders import numbered
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.feed import Schedule, epoch_order, training_batches
from trainplan.workloads.trainer.images import FileImages
from trainplan.workloads.trainer.process_group import ALONE, ProcessGroup, first_host, process_group

SCHEDULE = Schedule(batch_size=4, steps_per_epoch=5, epochs=3, seed=7)
GENERIC = {"TRAINPLAN_RANK": "1", "TRAINPLAN_PROCESSES": "2", "TRAINPLAN_COORDINATOR": "127.0.0.1:29500"}
SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_JOB_ID": "41234567",
    "SLURM_JOB_NODELIST": "gpu[003-004],gpu9",
}


class EveryProcessReadsTheFirstPart(ProcessGroup):
    """The planted defect: a run of several processes that trains on a part of every batch, and says nothing."""

    def part(
        self, rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return rows[: len(rows) // self.processes]


def groups(processes: int, kind: type[ProcessGroup] = ProcessGroup) -> list[ProcessGroup]:
    return [kind(rank=rank, processes=processes, coordinator="127.0.0.1:29500") for rank in range(processes)]


def joined(members: list[ProcessGroup], schedule: Schedule = SCHEDULE) -> list[list[int]]:
    """The labels of every batch, the parts of its processes in order of rank."""
    feeds = [training_batches(numbered(), schedule, member) for member in members]
    return [[int(label) for _, labels in parts for label in labels] for parts in zip(*feeds, strict=True)]


def alone(schedule: Schedule = SCHEDULE) -> list[list[int]]:
    return [labels.tolist() for _, labels in training_batches(numbered(), schedule)]


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_the_parts_of_all_processes_are_the_batches_of_one(processes: int) -> None:
    assert joined(groups(processes)) == alone()


def test_a_group_in_which_every_process_reads_the_same_half_is_told_from_one_process() -> None:
    assert joined(groups(2, EveryProcessReadsTheFirstPart)) != alone()


@pytest.mark.parametrize("step", [3, 7])
def test_a_group_that_goes_on_reads_what_was_still_to_come(step: int) -> None:
    going_on = Schedule(batch_size=4, steps_per_epoch=5, epochs=3, seed=7, first_step=step)
    assert joined(groups(2), going_on) == alone()[step:]


def test_the_parts_of_a_batch_that_is_trained_in_parts_are_each_divided() -> None:
    parts = Schedule(batch_size=4, steps_per_epoch=5, epochs=1, seed=7, accumulate=2)
    assert joined(groups(2), parts) == alone(parts)


def test_a_process_opens_no_file_of_another_part(tmp_path: Path) -> None:
    labels = np.arange(4, dtype=np.int32)
    images = FileImages(paths=tuple(str(tmp_path / f"{n}.png") for n in range(4)), labels=labels, size=2, channels=1)
    first, second = groups(2)
    schedule = Schedule(batch_size=4, steps_per_epoch=1, epochs=1, seed=0)
    for row in first.part(epoch_order(4, 0, 0)):
        Image.new("L", (2, 2), int(row)).save(tmp_path / f"{row}.png")
    assert len(list(training_batches(images, schedule, first))) == 1
    with pytest.raises(BadInputError, match="cannot be read: No such file"):
        next(training_batches(images, schedule, second))


def test_a_batch_without_equal_parts_is_refused() -> None:
    with pytest.raises(BadInputError, match="a batch of 4 images does not divide over 3 processes"):
        next(training_batches(numbered(), SCHEDULE, groups(3)[0]))


def test_without_variables_a_process_is_alone() -> None:
    assert process_group({}) == ALONE
    assert ALONE.is_alone


def test_the_generic_variables_tell_a_group() -> None:
    assert process_group(GENERIC) == ProcessGroup(rank=1, processes=2, coordinator="127.0.0.1:29500")


def test_slurms_variables_tell_a_group_whose_coordinator_is_on_the_first_node() -> None:
    assert process_group(SLURM) == ProcessGroup(rank=3, processes=4, coordinator="gpu003:24567")


def test_a_steps_own_nodes_count_before_the_jobs() -> None:
    assert process_group(SLURM | {"SLURM_STEP_NODELIST": "gpu9"}).coordinator == "gpu9:24567"


def test_an_address_of_ones_own_replaces_slurms_name_of_the_node() -> None:
    group = process_group(SLURM | {"TRAINPLAN_COORDINATOR": "10.0.0.5:4000"})
    assert (group.rank, group.coordinator) == (3, "10.0.0.5:4000")


def test_the_generic_variables_count_before_slurms() -> None:
    assert process_group(SLURM | GENERIC).processes == 2


def test_one_task_of_slurm_is_alone() -> None:
    assert process_group(SLURM | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}) == ALONE
    # A batch script has a rank too, and no step.
    assert process_group({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "1"}) == ALONE


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"TRAINPLAN_RANK": "1"}, "TRAINPLAN_PROCESSES is ''"),
        (GENERIC | {"TRAINPLAN_RANK": "-1"}, "TRAINPLAN_RANK is '-1'"),
        (GENERIC | {"TRAINPLAN_RANK": "2"}, "rank 2 of 2 processes"),
        (GENERIC | {"TRAINPLAN_PROCESSES": "0", "TRAINPLAN_RANK": "0"}, "rank 0 of 0 processes"),
        (GENERIC | {"TRAINPLAN_COORDINATOR": "somewhere"}, "'somewhere' is no HOST:PORT"),
        (SLURM | {"SLURM_JOB_NODELIST": ""}, "the coordinator '' is no HOST:PORT"),
        (SLURM | {"SLURM_JOB_ID": "x"}, "SLURM_JOB_ID is 'x'"),
    ],
)
def test_variables_that_tell_no_group_are_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        process_group(variables)


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("a", "a"),
        ("a,b", "a"),
        ("gpu[003-007,9],login", "gpu003"),
        ("r[1-2]n[04,6]", "r1n04"),
        ("n-1.x.org", "n-1.x.org"),
    ],
)
def test_the_first_host_of_slurms_list(hosts: str, first: str) -> None:
    assert first_host(hosts) == first
