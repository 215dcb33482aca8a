"""What a job brings along that is not of this installation: a person agrees to it before a launch, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workloads.job import TrainingJob


def foreign_parts(job: TrainingJob) -> list[str]:
    """One line for each part of the job that was made elsewhere: image, data address, secrets. Empty where none was.

    Whose an image or an address is cannot be told from its name, so each that the job names counts. Secrets count
    because the container gets their values, and may send them anywhere.
    """
    lines = []
    if job.container is not None:
        lines.append(f"image: {job.container}, named by the job; its program runs with the data and the internet")
    if job.data.url is not None:
        lines.append(f"data: {job.data.url}, named by the job")
    lines += [
        f"secret: {name} from {reference}; {_reader(job)} reads its value"
        for name, reference in sorted(job.secrets.items())
    ]
    return lines


def _reader(job: TrainingJob) -> str:
    return "the image's program" if job.container is not None else "the trainer"
