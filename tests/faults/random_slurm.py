"""Slurm in the random sequences: what goes wrong with its commands, and a cluster out of chance."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.doubles.clock import NOON
from tests.doubles.slurm.job_life import Fault, Incident, Rules
from tests.doubles.slurm.simulated import SimulatedCluster
from tests.faults.chance import ANY, TIMER_GRACE, Drawn, Kind, Trouble, a_trouble, a_world
from tests.faults.sim import Hung
from tests.faults.slurm import PARTITIONS, SlurmCloud
from trainplan.providers.sim.training import Simulated

if TYPE_CHECKING:
    from random import Random

    from tests.faults.harness import Lived
    from trainplan.providers.base import OwnedResource

_COMMANDS = ("sbatch", "squeue", "scancel", "sinfo")
_FILES = ("put", "get", "get a part", "list", "remove", "which are there")
_BUSY = "Slurm temporarily unable to accept job, sleeping and retrying"
KINDS = (
    Kind(calls=_COMMANDS, how=({"effect": "silent"},), often=2),
    Kind(calls=("slurm",), how=({"effect": "silent"},), lasts=True),
    Kind(calls=("sbatch",), how=({"effect": "refused", "text": _BUSY}, {"effect": "refused", "text": "Nobody knows"})),
    Kind(calls=(*_COMMANDS, *_FILES), how=({"effect": "lost_request"}, {"effect": "lost_reply"}), often=3),
    Kind(calls=("sbatch",), how=({"effect": "lost_reply"},)),
    Kind(calls=ANY, how=({"effect": "denied"},), lasts=True),
)
ENDING = ("preempt", "preempt_cancel", "node_fail", "node_gone", "lose_rank")
"""What befalls a job on its node; the first start of each, so that a run comes to its end."""


class RandomSlurm(SlurmCloud):
    """`tests.faults.random_cloud.RandomCloud` over the cluster in simulated time."""

    has_disks = False
    timer_grace = TIMER_GRACE
    listing_lag = timedelta(0)

    def __init__(self, chance: Random, *, never_back: bool) -> None:
        drawn = a_world(chance, KINDS, ENDING, never_back=never_back)
        self.cluster = SimulatedCluster(_rules(drawn), NOON)

    def break_more(self, chance: Random) -> None:
        self._follow((*self.cluster.rules.faults, _fault(a_trouble(chance, KINDS), self._age())))

    def mend(self) -> None:
        self._follow(())

    def ledger(self) -> list[Lived]:
        """A place in the queue is given up for a node."""
        waiting = {f"job {job.number}" for job in self.cluster.jobs if job.waits}
        rows = self.cluster.ledger()
        return [
            row if row.machine or row.id in waiting or not row.remaining
            else replace(row, remaining=False, ended_at=self.cluster.now)
            for row in rows
        ]  # fmt: skip

    def name_of(self, resource: OwnedResource) -> str:
        """The oldest living job of that name: its place in the queue, or its newest start."""
        alive = [job for job in self.cluster.jobs if job.waits or job.ended_at is None or self.now() < job.ended_at]
        job = next(job for job in alive if job.option("job-name") == resource.id)
        return f"job {job.number}" if job.waits else f"job {job.number}, start {len(job.starts)}"

    def region_of(self, row: Lived) -> str:
        return PARTITIONS[0]  # a price has no partition here

    def timed(self, row: Lived) -> bool:
        return True

    def _follow(self, faults: tuple[Fault, ...]) -> None:
        self.cluster.follow(replace(self.cluster.rules, faults=faults))

    def _age(self) -> float:
        return (self.cluster.now - self.cluster.began).total_seconds()


def _rules(drawn: Drawn) -> Rules:
    waits = {name: 90.0 if number in drawn.full else drawn.boot for number, name in enumerate(PARTITIONS)}
    return Rules(
        queue_seconds=waits,
        kill_seconds=drawn.deletion,
        grace_seconds=drawn.notice,
        script_timer_works=drawn.machine_timer,
        time_limit_works=drawn.cloud_timer,
        trainer=Hung() if drawn.hung else Simulated(),
        incidents=tuple(Incident(event=one.event, after=one.after, attempt=one.attempt or 1) for one in drawn.befalls),
        faults=tuple(_fault(known, 0.0) for known in drawn.troubles),
        seed=drawn.seed,
    )


def _fault(trouble: Trouble, age: float) -> Fault:
    """As the double is told of it."""
    return Fault(
        operation=trouble.call,
        skip=trouble.skip,
        times=trouble.times,
        chance=trouble.chance,
        after=age + trouble.begin,
        until=float("inf") if trouble.end is None else age + trouble.end,
        **trouble.how,
    )
