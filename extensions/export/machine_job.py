"""A job on one rented machine that somebody else starts: its files, its time limit, and the text that trains it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from trainplan.extensions.export.export_files import Images
from trainplan.extensions.export.session_plan import MachineTime, exported_job
from trainplan.planner.errors import BadInputError
from trainplan.providers.cloud.trainer_wheel import WHEEL, pinned, wheel_bytes
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.sessions.needed import STOP_BEFORE_SECONDS
from trainplan.workloads.sessions.session import JOB

REQUIREMENTS = "requirements.txt"
_SPARE = 1.5
"""The limit beyond the high end of the estimate, where the job sets no deadline."""
_MINUTE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineJob:
    """`software` is a list of pinned packages (providers/cloud/data/pinned), `image` the container that they are for,
    `most_seconds` the high end of the estimate."""

    job: TrainingJob
    instance_type: str
    region: str
    time: MachineTime
    software: str
    image: str
    most_seconds: float
    images: Images | None

    @property
    def limit_seconds(self) -> int:
        """When everything ends, in whole minutes: the job's deadline, else half as much again as the estimate's high
        end, and an hour at least. Raises BadInputError for a deadline that leaves no time to train."""
        deadline = self.job.constraints.deadline
        seconds = max(3600.0, self.most_seconds * _SPARE) if deadline is None else deadline.total_seconds()
        minutes = -(-int(seconds) // _MINUTE)
        if minutes * _MINUTE <= STOP_BEFORE_SECONDS:
            raise BadInputError(
                f"a limit of {minutes} min leaves no time: the last {STOP_BEFORE_SECONDS / _MINUTE:.0f} min are for "
                "the checkpoint",
                "give the job a longer deadline",
            )
        return minutes * _MINUTE

    def files(self) -> dict[str, bytes]:
        """The job, the trainer and the packages, by name."""
        return {
            JOB: exported_job(self.job),
            WHEEL: wheel_bytes(),
            REQUIREMENTS: pinned(self.software).encode(),
        }

    def training_lines(self, folder: str, run_dir: str) -> list[str]:
        """Lines of sh that install from `folder`, unpack the images, and train into `run_dir` until the run is done or
        the limit is near. A run that begins again goes on from its newest checkpoint."""
        here, data = shlex.quote(folder), "/tmp/trainplan-data"
        unpack = f'mkdir -p {data} && for one in {here}/images-*.bin; do tar -x -f "$one" -C {data}; done'
        train = (
            f"exec /opt/trainplan/bin/python -P -m trainplan.workloads.trainer --job {here}/{JOB} "
            f"--run-dir {shlex.quote(run_dir)} --attempt 1 --data-dir {data} --deadline-unix "
            f'"$((began + {self.limit_seconds} - {STOP_BEFORE_SECONDS:.0f}))"'
        )
        return [
            "python3 -m venv /opt/trainplan",
            f"/opt/trainplan/bin/pip install --quiet --no-cache-dir --require-hashes -r {here}/{REQUIREMENTS}",
            f"/opt/trainplan/bin/pip install --quiet --no-deps {here}/{WHEEL}",
            *([unpack] if self.images is not None else []),
            train,
        ]
