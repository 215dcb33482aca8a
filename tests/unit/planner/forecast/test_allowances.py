"""What a run takes around its training, on a rented machine and on the person's own cluster."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.builders import a_job
from trainplan.planner.forecast.allowances import NOTHING, Allowances, allowances
from trainplan.planner.forecast.estimate import Workload, rented_time
from trainplan.planner.throughput.values import Basis, Throughput


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_the_nodes_of_a_cluster_are_there_and_have_their_software(kind: str) -> None:
    rented, own = allowances("aws", kind), allowances("slurm", kind)
    assert (own.boot, own.image) == (NOTHING, NOTHING)
    assert min(rented.boot.low, rented.image.low) > 0
    assert around_seconds(own) < around_seconds(rented)


def around_seconds(around: Allowances) -> float:
    return around.before_training.expected + around.end.expected


def test_a_run_takes_what_is_around_it_and_its_training() -> None:
    work = Workload(a_job())
    speed = Throughput(images_per_second=1000.0, low=900.0, high=1100.0, basis=Basis.MEASURED, evidence=("x",))
    rented, own = (rented_time(work, allowances(name, "cpu"), speed) for name in ("aws", "slurm"))
    assert rented.train == own.train
    more, less = (around_seconds(one) for one in (allowances("aws", "cpu"), allowances("slurm", "cpu")))
    assert rented.total - own.total == timedelta(seconds=more - less)
