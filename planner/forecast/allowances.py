"""What a run takes around its training, by where it trains."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from trainplan.providers.registry import CLUSTER

# From the request to a machine that can start a container, in seconds: middle of the ranges for CPU hosts
# (1 min), GPU hosts with a driver in the image (2-3 min) and TPU hosts (5-10 min) that were reported in 2022-2026
# for EC2, GKE and TPU VMs (ec2-coldboot-research 2026-02-01, selkies-vdi #1, ml-testing-accelerators #870).
BOOT_SECONDS = {"cpu": 60, "gpu": 150, "tpu": 450}
# A cold pull of the trainer image: 3-6 min for about 10 GB with CUDA (comfyui-on-eks #7, #9, 2024-07); the CPU
# image is about a fifth of that.
PULL_SECONDS = {"cpu": 60, "gpu": 270, "tpu": 90}
# Importing the framework, building the net, compiling the first step, and what the first epoch is slower by: an
# allowance, seen as 10-60 s. The first of 100 epochs took 5 to 13 s more than the others in four published logs of VGG
# on eight V100 under MXNet (planner/throughput/data/totals.csv, 2018-07-23).
START_SECONDS = 45
# Asking for the end, looking until nothing is left, fetching the model.
END_SECONDS = 60
# The same on a node of Slurm without accelerators, from the request to the end of the first step, and after the last
# one: 14 and 24 s, and 3 and 5 s, on two nodes on 2 cores of an AMD EPYC with TensorFlow 2.21 and JAX 0.10, 2026-11-23.
CLUSTER_CPU_START_SECONDS = 18
CLUSTER_END_SECONDS = 4


class Allowances(NamedTuple):
    """Seconds of a run around its training: until the machine is there (`boot`) with its `image`, until the end of the
    first step (`start`), and after the last one (`end`).

    `own_runs` of the person's own measured those before training, the image as a part of the boot, the last of them on
    `measured_on`; of 0 they are what others have reported.
    """

    boot: int
    image: int
    start: int
    end: int
    own_runs: int = 0
    measured_on: date | None = None

    @property
    def before_training(self) -> int:
        """Seconds from the request to the end of the first step, but for the data."""
        return self.boot + self.image + self.start


def allowances(provider: str, kind: str) -> Allowances:
    """What a run takes besides, on a machine of a kind (`cpu`, `gpu`, `tpu`). The nodes of a person's own cluster are
    there and have their software; the wait in its queue is not known and not counted."""
    if provider == CLUSTER:
        return Allowances(0, 0, CLUSTER_CPU_START_SECONDS if kind == "cpu" else START_SECONDS, CLUSTER_END_SECONDS)
    return Allowances(BOOT_SECONDS[kind], PULL_SECONDS[kind], START_SECONDS, END_SECONDS)
