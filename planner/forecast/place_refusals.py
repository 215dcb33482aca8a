"""Why a place that has machines of its own, and where nothing is launched from here, cannot be given a job: what
`plan export` refuses, and so what an estimate does not advise. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trainplan.workloads.pretrained import weights_address, weights_file
from trainplan.workloads.terms import DataName

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob


class PlaceRefusal(NamedTuple):
    """What stands in the way, and what to do instead."""

    message: str
    hint: str


def place_refusal(job: TrainingJob, name: str) -> PlaceRefusal | None:
    """Why no machine of the place `name` can be given the job; None where one can."""
    if job.sweep is not None:
        message = f"{job.name} sweeps values of its keys, which is not exported to {name}"
        return PlaceRefusal(message, "plan launch runs it")
    if job.nodes > 1:
        return PlaceRefusal(f"{name} gives one machine, and the job asks for {job.nodes}", "write nodes: 1")
    if job.data.name is DataName.IMAGENET:
        message = f"ImageNet (150 GB) does not fit {name}, which may not download it either"
        return PlaceRefusal(message, "train on a data set that fits, or rent a machine: plan estimate")
    if job.data.url is not None or weights_address(job) is not None:
        message = f"{name} fetches no address of a job"
        return PlaceRefusal(message, "name a data set, or a folder of this computer (data.path)")
    if weights_file(job) is not None:
        message = f"a model of this computer is not sent to {name}"
        return PlaceRefusal(message, "leave out model.weights, or write imagenet")
    if job.secrets or job.container is not None:
        return PlaceRefusal(f"{name} has neither containers nor secrets of a job", "leave out container and secrets")
    return None
