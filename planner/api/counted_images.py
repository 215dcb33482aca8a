"""The training images of a job's folder on this computer, counted before anything is estimated."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.errors import BadInputError

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob


def with_counted_images(job: TrainingJob) -> TrainingJob:
    """The job with the number of training images that its folder on this computer has, as a launch counts them.

    A job that says the number is believed where the folder is not here, cannot be read or takes long to count. Raises
    BadInputError where the number is another one, or where a job without it cannot be counted.
    """
    if job.data.path is None:
        return job
    from trainplan.workloads.data_folder.counts import count_images, is_quick
    from trainplan.workloads.data_folder.values import DataFolderError, wrong_count_text

    folder = Path(job.data.path)
    written = job.data.images
    try:
        if not folder.is_dir() or (written is not None and not is_quick(folder)):
            return job
        counted = count_images(folder).train
    except (DataFolderError, OSError) as error:
        if written is not None:
            return job
        raise BadInputError(str(error), "docs/data.md has the layouts that are read") from None
    if written not in (None, counted):
        raise BadInputError(
            wrong_count_text(written, counted), f"plan data check {shlex.quote(str(folder))} counts them by class"
        )
    return with_images(job, counted)


def with_images(job: TrainingJob, images: int) -> TrainingJob:
    """The job with so many training images."""
    return job.model_copy(update={"data": job.data.model_copy(update={"images": images})})
