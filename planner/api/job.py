"""The job of the Python API."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.planner.api.calls import library_call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainplan.workloads.job import TrainingJob


class Job:
    """What is to be trained: model, data, epochs, batch, limits. It does not change.

    `Job.read` takes a job file, `Job.from_dict` the keys of one (docs/training.md).
    """

    __slots__ = ("_training_job",)

    def __init__(self, training_job: TrainingJob) -> None:
        """Only for this package: `read` and `from_dict` make jobs."""
        self._training_job = training_job

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, run_file: bool = False) -> Job:
        """The job in a job file, or in a script that describes one.

        A file of the person's own that has to run once so that its network is known is asked about; `run_file=True`
        agrees to that in code. Raises BadInputError.
        """
        from trainplan.planner.api.job_files import read_job_file

        with library_call():
            return cls(read_job_file(Path(path), run_file=run_file))

    @classmethod
    def from_dict(cls, keys: Mapping[str, Any], *, run_file: bool = False) -> Job:
        """The job with the keys of a job file; paths are whole, or relative to the current folder.

        `run_file` as above. A job of a script is read from its file alone. Raises BadInputError, which names every
        mistake.
        """
        from trainplan.planner.api.job_files import job_of_keys

        with library_call():
            return cls(job_of_keys(keys, run_file=run_file))

    @property
    def name(self) -> str:
        """Its name, which its runs have too."""
        return self._training_job.name

    def to_dict(self) -> dict[str, Any]:
        """All its keys with their values, as `plan estimate --json` shows a job."""
        from trainplan.workloads.job import shown_job

        return shown_job(self._training_job)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self._training_job == other._training_job

    def __hash__(self) -> int:
        return hash(self._training_job.digest())

    def __repr__(self) -> str:
        from trainplan.planner.report.estimate_page import job_line

        return f"<Job {job_line(self._training_job)}>"
