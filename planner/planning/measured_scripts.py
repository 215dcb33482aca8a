"""What a run of a script has told of its work, for the next estimate of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.planner.errors import BadInputError
from trainplan.planner.forecast.script_work import cap_of
from trainplan.planner.planning.this_machine import shapes_of
from trainplan.providers.registry import is_simulated
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from trainplan.planner.planning.own_measurements import OwnMeasurement
    from trainplan.workloads.job import TrainingJob


def with_measured_work(
    job: TrainingJob, rows: Sequence[OwnMeasurement], providers: Collection[str] = ()
) -> TrainingJob:
    """A script's job with the images that its newest measured run trains on in all, and with checkpoints where that run
    wrote them; any other job as it is. Of a sweep the images of the trial that trains on the most of those that were
    measured.

    What the simulated cloud made up counts for an estimate of it alone. Raises BadInputError for a script without a
    deadline.
    """
    if job.script is None:
        return job
    try:
        cap_of(job)
    except ValueError as error:
        raise BadInputError(
            f"{job.name}: {error}", f"{Option.DEADLINE('4h')}, or constraints: {{deadline: 4h}} in a job file"
        ) from None
    shapes = shapes_of(job)
    may_be_simulated = bool(providers) and all(map(is_simulated, providers))
    newest = {
        row.shape: (row.total_images, row.checkpoints)
        for row in rows
        if row.shape in shapes
        and row.total_images
        and (may_be_simulated or not is_simulated(row.machine.partition("/")[0]))
    }
    if not newest:
        return job
    images, writes_checkpoints = max(newest.values())
    return job.with_work(images).model_copy(update={"checkpoints": job.checkpoints or writes_checkpoints})
