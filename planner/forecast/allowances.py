"""What a run takes around its training, by where it trains."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from trainplan.planner.forecast.times import Interval, assumed, joined
from trainplan.providers.registry import CLUSTER

# From the request to a machine that can start a container, in seconds: middle of the ranges for CPU hosts
# (1 min), GPU hosts with a driver in the image (2-3 min) and TPU hosts (5-10 min) that were reported in 2022-2026
# for EC2, GKE and TPU VMs (ec2-coldboot-research 2026-02-01, selkies-vdi #1, ml-testing-accelerators #870).
BOOT_SECONDS = {"cpu": assumed(60), "gpu": Interval(150, 120, 180), "tpu": Interval(450, 300, 600)}
# A cold pull of the trainer image: 3-6 min for about 10 GB with CUDA (comfyui-on-eks #7, #9, 2024-07); the CPU
# image is about a fifth of that, and that for TPUs a third (assumed).
PULL_SECONDS = {"cpu": assumed(60), "gpu": Interval(270, 180, 360), "tpu": assumed(90)}
# Importing the framework, building the net, compiling the first step, and what the first epoch is slower by: an
# allowance, seen as 10-60 s. The first of 100 epochs took 5 to 13 s more than the others in four published logs of VGG
# on eight V100 under MXNet (planner/throughput/data/totals.csv, 2018-07-23).
START_SECONDS = Interval(45, 10, 60)
# Asking for the end, looking until nothing is left, fetching the model.
END_SECONDS = assumed(60)
# The same on a node of Slurm without accelerators, from the request to the end of the first step, and after the last
# one: 14 and 24 s, and 3 and 5 s, on two nodes on 2 cores of an AMD EPYC with TensorFlow 2.21 and JAX 0.10, 2026-11-23.
CLUSTER_CPU_START_SECONDS = Interval(18, 14, 24)
CLUSTER_END_SECONDS = Interval(4, 3, 5)
NOTHING = Interval(0, 0, 0)


class Allowances(NamedTuple):
    """Seconds of a run around its training, each with its 80 % interval: until the machine is there (`boot`) with its
    `image`, until the end of the first step (`start`), and after the last one (`end`).

    `own_runs` of the person's own measured those before training, the image as a part of the boot, the last of them on
    `measured_on`; of 0 they are what others have reported.
    """

    boot: Interval
    image: Interval
    start: Interval
    end: Interval
    own_runs: int = 0
    measured_on: date | None = None

    @property
    def before_training(self) -> Interval:
        """Seconds from the request to the end of the first step, but for the data."""
        return joined(self.boot, self.image, self.start)

    def with_known_boot(self) -> Allowances:
        """The same without the width of the boot."""
        return self._replace(boot=Interval(*[self.boot.expected] * 3))

    def setup(self, data_seconds: float) -> Interval:
        """The same with the data, which take `data_seconds` at an assumed rate."""
        return joined(self.before_training, assumed(data_seconds))


def allowances(provider: str, kind: str) -> Allowances:
    """What a run takes besides, on a machine of a kind (`cpu`, `gpu`, `tpu`). The nodes of a person's own cluster are
    there and have their software; the wait in its queue is not known and not counted."""
    if provider == CLUSTER:
        return Allowances(
            NOTHING, NOTHING, CLUSTER_CPU_START_SECONDS if kind == "cpu" else START_SECONDS, CLUSTER_END_SECONDS
        )
    return Allowances(BOOT_SECONDS[kind], PULL_SECONDS[kind], START_SECONDS, END_SECONDS)
