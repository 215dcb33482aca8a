"""What a run of a script has told of its work, for the next estimate of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.planner.errors import BadInputError
from trainplan.planner.forecast.script_work import cap_of
from trainplan.planner.planning.this_machine import shape_of
from trainplan.providers.registry import is_simulated

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from trainplan.planner.planning.own_measurements import OwnMeasurement
    from trainplan.workloads.job import TrainingJob


def with_measured_work(
    job: TrainingJob, rows: Sequence[OwnMeasurement], providers: Collection[str] = ()
) -> TrainingJob:
    """A script's job with the images that its newest measured run trains in all, and with checkpoints where that run
    wrote them; any other job as it is.

    What the simulated cloud made up counts for an estimate of it alone. Raises BadInputError for a script without a
    deadline.
    """
    if job.script is None:
        return job
    try:
        cap_of(job)
    except ValueError as error:
        raise BadInputError(f"{job.name}: {error}", "constraints: {deadline: 4h}") from None
    shape = shape_of(job)
    may_be_simulated = bool(providers) and all(map(is_simulated, providers))
    told = [
        row
        for row in rows
        if row.shape == shape
        and row.total_images
        and (may_be_simulated or not is_simulated(row.machine.partition("/")[0]))
    ]
    if not told or told[-1].total_images is None:
        return job
    measured = job.with_work(told[-1].total_images)
    return measured.model_copy(update={"checkpoints": job.checkpoints or told[-1].checkpoints})
