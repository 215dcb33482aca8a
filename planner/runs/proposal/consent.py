"""What a job brings along that is not of this installation: a person agrees to it before a launch, line by line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trainplan.planner.datasets.storage_costs import format_bytes
from trainplan.providers.registry import is_here
from trainplan.workloads.addresses import shown_address
from trainplan.workloads.pretrained import weights_address, weights_lines

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer
    from trainplan.workloads.job import TrainingJob

_TPU = "TPU"
"""What the name of each TPU in the table of devices begins with."""


def foreign_parts(job: TrainingJob) -> list[str]:
    """One line for each part of the job that was made elsewhere: image, data address, secrets. Empty where none was.

    Whose an image or an address is cannot be told from its name, so each that the job names counts. Secrets count
    because the container gets their values, and may send them anywhere; so does a folder of this computer that an
    image of somebody else's is given to read.
    """
    lines = []
    if job.container is not None:
        lines.append(f"image: {job.container}, named by the job; its program runs with the data and the internet")
    if job.data.url is not None:
        lines.append(f"data: {shown_address(job.data.url)}, named by the job")
    address = weights_address(job)
    if address is not None:
        lines.append(f"weights: {shown_address(address)}, named by the job")
    if job.data.path is not None and job.container is not None:
        lines.append(f"data: the folder {job.data.path} of this computer; the image's program reads all of it")
    lines += [
        f"secret: {name} from {reference}; {_reader(job)} reads its value"
        for name, reference in sorted(job.secrets.items())
    ]
    return lines


def brought_lines(job: TrainingJob) -> tuple[str, ...]:
    """A line for each file that the run begins with: weights, and the person's Python, which runs unconfined there."""
    if job.script is not None:
        return (f"runs {job.script}{_neighbours(job)} where it trains, with the full rights of a program there",)
    if job.model.file is None:
        return weights_lines(job)
    return (*weights_lines(job), f"runs {job.model.file} where it trains, with the full rights of the trainer there")


def _neighbours(job: TrainingJob) -> str:
    """The files that travel with a script, and how much they are."""
    files = () if job.read_script is None else job.read_script.files
    if not files:
        return ""
    size = format_bytes(sum(len(file.source.encode()) for file in files))
    names = ", ".join(file.path for file in files[:3]) + (", …" if len(files) > 3 else "")
    return f" and files beside it ({names}: {size})"


def readers(job: TrainingJob, offers: Iterable[Offer]) -> list[str]:
    """Return who could read data, secrets and results of the job, where it has parts that were made elsewhere."""
    if not foreign_parts(job):
        return []
    rented = [offer for offer in offers if not is_here(offer.provider)]
    who = [f"{_reader(job)}, which may send what it reads anywhere"]
    if rented:
        who.append("whoever may read the bucket of run directories (model, logs, data sent there)")
    if rented and job.secrets:
        who.append("every machine of the account whose role reads such secrets, not this run's alone")
    if any(offer.device.startswith(_TPU) for offer in rented):
        who.append("on a TPU that program as the machine itself: other runs too, and all that machines may read")
    return [f"who can read what it uses: {'; '.join(who)}"]


def _reader(job: TrainingJob) -> str:
    return "the image's program" if job.container is not None else "the trainer"
