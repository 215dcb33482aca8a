"""What two seconds of training on this machine's processor say of jobs nobody has run here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.forecast.estimate import Workload
from trainplan.planner.planning.own_measurements import MOST_OTHERS, left_by
from trainplan.planner.planning.own_rows import load_rows
from trainplan.planner.throughput.values import Basis, Throughput
from trainplan.workloads.job import TrainingJob, job_from_json
from trainplan.workloads.terms import DataName

if TYPE_CHECKING:
    from trainplan.planner.planning.processor import Cores
    from trainplan.providers.hardware import HostHardware, MeasuredSpeed

# Seconds that a step of a calibration may take at most by the model: eight of them within two seconds.
STEP_SECONDS = 0.25
# The same net and batch for two seconds and then for 40, on 2 cores of an AMD EPYC (Zen 4) of which other programs had
# half to three quarters, 2026-11-23: 1,068 and 1,054 images/s, 1,129 and 1,275, 1,112 and 1,187. Where the load changed
# in between (a mean of 6 to 10 threads), 0.59 to 1.36 times as many; the interval has the load apart from this.
SAME_NET_SPREAD = 1.2
# Once a processor's speed is known, a shape is met within 20 % four times out of five (planner/throughput/host.py).
SHAPE_SPREAD = 1.25
# More than two seconds of training can use up.
_EPOCHS = 1_000
_BATCHES = 4
"""Images of a calibration, in batches: enough that they do not all stay in a cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What one processor did with `job` (as JSON) for two seconds. `processor` names it, with its number of logical
    processors; `others` is the share of them that other programs had meanwhile; `framework` with its version."""

    processor: str
    images_per_second: float
    others: float
    framework: str
    measured_at: datetime
    job: str

    @property
    def idle_images_per_second(self) -> float:
        """What it would have been on an idle machine, if the scheduler shares the processors out evenly: others that
        keep half of them busy are half as many threads as there are processors, and leave two thirds to a training
        with a thread on each. Most of the time that `others` is of, the framework is imported on one processor."""
        return self.images_per_second / self.free_share

    @property
    def free_share(self) -> float:
        """The share of the processors, 0 to 1, that others left to the training."""
        return 1 / (1 + self.others)


def load_calibrations(path: Path) -> list[Calibration]:
    """Every readable row, oldest first. Raises ThisMachineError where the file cannot be read."""
    return load_rows(path, Calibration, lambda row: row.images_per_second > 0 and 0 <= row.others <= 1)


def calibration_of(speed: MeasuredSpeed, processor: str, job: TrainingJob, now: datetime) -> Calibration:
    """A measured speed as it is kept."""
    return Calibration(
        processor=processor,
        images_per_second=speed.images_per_second,
        others=speed.others,
        framework=speed.framework,
        measured_at=now,
        job=job.to_json(),
    )


def processor_key(cores: Cores, machine: HostHardware) -> str:
    """What calibrations are kept under: the processor, and how many of them there are to train on."""
    return f"{cores.key or machine.fingerprint}-{machine.vcpus}"


def newest(rows: Sequence[Calibration], processor: str, framework: str) -> Calibration | None:
    """The newest calibration of a processor under a framework; of those on a machine at rest, where there are any."""
    own = [row for row in rows if row.processor == processor and row.framework.partition(" ")[0] == framework]
    rested = [row for row in own if row.others <= MOST_OTHERS]
    return next(reversed(rested or own), None)


def evidence_of(row: Calibration | None) -> tuple[str, ...]:
    """A calibration as the evidence of an estimate."""
    return () if row is None else (f"calibration of {row.measured_at:%Y-%m-%d %H:%M}",)


def calibration_job(job: TrainingJob, images_per_second: float) -> TrainingJob:
    """The job's net, optimizer and precision on images that are made up, in batches small enough for some steps within
    two seconds if the model is right that the machine does so many images a second."""
    batch = max(1, min(job.global_batch_size, int(STEP_SECONDS * images_per_second)))
    values = json.loads(job.to_json())
    values |= {
        "name": "calibration",
        "data": {"name": DataName.SYNTHETIC.value, "images": _BATCHES * batch, "channels": job.channels},
        "model": values["model"] | {"classes": job.classes, "image_size": job.image_size},
        "epochs": _EPOCHS,
        "global_batch_size": batch,
        "accumulate": 1,
        "validation": {},
        "constraints": {},
        "secrets": {},
        "container": None,
    }
    return job_from_json(json.dumps(values))


def calibrated(
    work: Workload, answer: Throughput, row: Calibration, predict: Callable[[Workload], Throughput | None]
) -> Throughput:
    """The model's answer times what the processor did of what the model says of the calibration, on an idle machine."""
    try:
        base = Workload(job_from_json(row.job))
    except ValueError:  # of another version
        return answer
    is_same_network = _is_same_network(base.job, work.job)
    if not teaches(base.job, work.job) or (row.others > MOST_OTHERS and not is_same_network):
        return answer
    prediction = predict(base)
    if prediction is None:
        return answer
    factor = row.idle_images_per_second / prediction.images_per_second
    same = is_same_network and base.job.global_batch_size == work.job.global_batch_size
    spread = SAME_NET_SPREAD if same else SHAPE_SPREAD
    rate = answer.images_per_second * factor
    return replace(
        answer,
        images_per_second=rate,
        # What others had of the machine is known, what that cost the training is less so: at least nothing, at most all
        # of it, as where they go first (201 images/s beside others with 83 %, then 1,412; AMD EPYC, 2026-11-28).
        low=rate / spread * row.free_share,
        high=rate * spread * row.free_share / left_by(row.others),
        basis=Basis.SCALED,
        evidence=evidence_of(row),
        note=f"two seconds of training here did {factor:.2f} times what the model predicts",
    )


def teaches(measured: TrainingJob, asked: TrainingJob) -> bool:
    """Whether what a machine did of one job tells how fast it is at the other: what it did of a network with operators
    that are not known tells nothing of other networks, of one with products of matrices nothing of those without."""
    if _is_same_network(measured, asked):
        return True
    graph = measured.graph()
    return not graph.unknown and (not graph.has_products or asked.graph().has_products)


def _is_same_network(one: TrainingJob, other: TrainingJob) -> bool:
    if one.is_layer_list and other.is_layer_list:
        return one.net().layers == other.net().layers  # whatever the size of its images
    return one.graph().digest == other.graph().digest
