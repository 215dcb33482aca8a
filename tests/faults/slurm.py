"""A Slurm cluster as the fault harness uses it: the cluster in the harness's process, its commands asked for by the
client."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.doubles.clock import NOON
from tests.doubles.slurm.job_life import USD_PER_HOUR, Fault, Incident, Rules
from tests.doubles.slurm.simulated import DIRECTORY, THEIRS, SimulatedCluster, command_name
from tests.faults.harness import Ask
from tests.faults.points import Points
from tests.faults.sim import Hung
from trainplan.planner.runs.targets import Target
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.offers import Offer
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_CLIENT, LABEL_DEADLINE, LABEL_RUN
from trainplan.providers.errors import CredentialsError, TransientError
from trainplan.providers.slurm.api import ANSWER_SECONDS, NO_STREAMS, Completed, Streams
from trainplan.providers.slurm.provider import SlurmProvider, _device
from trainplan.providers.slurm.settings import SlurmSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.faults.harness import Lived

PARTITIONS = ("one", "two")
SETTINGS = SlurmSettings(directory=DIRECTORY, usd_per_device_hour=Decimal(str(USD_PER_HOUR)))
_BUSY = "Slurm temporarily unable to accept job, sleeping and retrying"

SCENARIOS: dict[str, Rules] = {
    "plain": Rules(),
    # A job with more priority takes the node: TERM, a quarter of a minute, and the job is in the queue again.
    "reclaim": Rules(incidents=(Incident(event="preempt", after=50),)),
    # The node fails without a word, and Slurm puts its job into the queue again.
    "maintenance": Rules(incidents=(Incident(event="node_fail", after=50),)),
    "throttled": Rules(
        faults=(
            Fault(operation="sbatch", effect="refused", text=_BUSY, times=3),
            Fault(operation="slurm", times=None, chance=0.2),
            Fault(operation="scancel", times=2),
        )
    ),
    "lost reply": Rules(
        faults=(
            Fault(operation="sbatch", effect="lost_request"),
            Fault(operation="sbatch", effect="lost_reply", times=2),
            Fault(operation="scancel", effect="lost_request"),
            Fault(operation="scancel", effect="lost_reply"),
            Fault(operation="squeue", effect="lost_reply", times=None, chance=0.2),
            Fault(operation="which are there", effect="lost_reply", times=None, chance=0.1),
            Fault(operation="put", effect="lost_reply", times=None, chance=0.2),
        )
    ),
    # A submission without an answer; then its job cannot be looked up until the placement is given up.
    "unclear": Rules(
        faults=(Fault(operation="sbatch", effect="lost_reply"), Fault(operation="squeue", skip=1, times=7))
    ),
    # The answer comes back for a job that was preempted by then, and that Slurm does not begin again.
    "dead replay": Rules(
        queue_seconds={"one": 1.0, "two": 12.0},
        faults=(Fault(operation="sbatch", effect="lost_reply"), Fault(operation="squeue", skip=1, times=3)),
        grace_seconds=0.0,
        incidents=(Incident(event="preempt_cancel", after=1),),
    ),
    # For two minutes no ssh connection can be made.
    "expired": Rules(faults=(Fault(effect="denied", after=30, until=150, times=None),)),
    # The controller does not answer for five minutes; files can be read.
    "silent placement": Rules(faults=(Fault(operation="slurm", after=15, until=300, times=None),)),
    "machine's timer": Rules(time_limit_works=False, trainer=Hung()),
    "cloud's timer": Rules(script_timer_works=False, trainer=Hung()),
    # It waits longer than anybody who has stopped it would wait for its end.
    "queued": Rules(queue_seconds={"one": 3000.0, "two": 3000.0}),
    "cleanup": Rules(trainer=Hung()),
    # Two hours in the queue; after eight hours a job with more priority, and two hours more.
    "left alone": Rules(
        queue_seconds={"one": 7200.0, "two": 7200.0},
        requeue_seconds=7200.0,
        incidents=(Incident(event="preempt", after=8 * 3600),),
    ),
    "left hung": Rules(trainer=Hung()),
}
SCENARIOS |= {
    "sweep, reclaim": SCENARIOS["reclaim"],
    "pilot": SCENARIOS["plain"],
    "pilot, settings": SCENARIOS["plain"],
    "pilot, lost reply": SCENARIOS["lost reply"],
    "pilot, hung": Rules(trainer=Hung()),
    "two at once": SCENARIOS["left alone"],
    "signal": SCENARIOS["left alone"],
    "shared home": SCENARIOS["left alone"],
    "goes straight on": SCENARIOS["plain"],
    "goes on elsewhere": SCENARIOS["plain"],
}


@dataclass(frozen=True)
class TimedSlurm(SlurmProvider):
    """The provider in the cluster's own time (trainplan.providers.abilities.Timekeeper)."""

    sleep: Callable[[float], None]


class SlurmCloud:
    """The world of one case."""

    cases = frozenset(SCENARIOS)
    in_harness = True

    def __init__(self, case: str) -> None:
        self.cluster = SimulatedCluster(SCENARIOS[case], NOON)

    def provider(self, ask: Ask, points: Points) -> TimedSlurm:
        os.environ["PLAN_SLURM_DIRECTORY"] = DIRECTORY  # the client's settings
        return TimedSlurm(
            settings=SETTINGS,
            shell=AskingShell(ask, points),
            now=lambda: _now(ask),
            device=_device,
            sleep=lambda seconds: ask(("sleep", seconds)),
        )

    def answer(self, message: tuple[Any, ...]) -> Any:
        what, *given = message
        if what == "now":
            return self.cluster.now
        if what == "sleep":
            self.cluster.advance(self.cluster.now + timedelta(seconds=given[0]))
            return None
        try:
            return self.cluster.run(given[0], given[1])
        except TransientError as error:
            return "lost", error.message
        except CredentialsError as error:
            return "denied", error.message

    def let_go(self) -> None:
        """Each client asks by a line of its own."""

    def put_aside(self) -> None:
        """The world is in the harness's process: a copy of the harness has a copy of it."""

    def take_up(self) -> None:
        """This process's world is as it was."""

    def targets(self, market: str) -> tuple[Target, ...]:
        del market
        return targets_of()

    def plant(self) -> None:
        """Another computer's job, and a stranger's."""
        plant(self.cluster)

    def now(self) -> datetime:
        return self.cluster.now

    def pass_time(self, until: datetime) -> None:
        self.cluster.advance(until)

    def ledger(self) -> list[Lived]:
        return self.cluster.ledger()

    def trains_until(self, run: str) -> datetime | None:
        return self.cluster.trains_until(run)


@dataclass(frozen=True)
class AskingShell:
    """The cluster's shell in a client (trainplan.providers.slurm.api.Shell): every command has its two points."""

    ask: Ask
    points: Points

    def run(
        self, command: Sequence[str], streams: Streams = NO_STREAMS, timeout_seconds: float = ANSWER_SECONDS
    ) -> Completed:
        del timeout_seconds
        data = streams.source.read_bytes() if streams.source else streams.data
        with self.points.around(command_name(command)):
            reply = self.ask(("run", tuple(command), data))
            if isinstance(reply, tuple):
                raise (TransientError if reply[0] == "lost" else CredentialsError)(reply[1], hint="look again")
        assert isinstance(reply, Completed)
        if streams.target is None:
            return reply
        streams.target.write_bytes(reply.stdout)
        return Completed(exit_code=reply.exit_code, stderr=reply.stderr)


def _now(ask: Ask) -> datetime:
    told = ask(("now",))
    assert isinstance(told, datetime)
    return told


@cache
def targets_of() -> tuple[Target, ...]:
    """Both partitions."""
    price = SETTINGS.usd_per_device_hour
    return tuple(
        Target(
            offer=Offer(
                provider="slurm",
                region=partition,
                instance_type="gpu:t4:1",
                device="T4",
                device_count=1,
                device_memory_gib=16.0,
                vcpus=4,
                memory_gib=16.0,
                market=Market.ON_DEMAND,
                usd_per_hour=price,
                planning_usd_per_hour=price,
                price_grade=PriceGrade.OBSERVED,
                price_as_of=NOON.date(),
                price_source="the setting usd_per_device_hour",
                on_demand_usd_per_hour=price,
            ),
            zone=None,
            seconds=300.0,
            overhead_seconds=60.0,
            fixed_usd=Decimal("0.01"),
        )
        for partition in PARTITIONS
    )


def plant(cluster: SimulatedCluster) -> None:
    """Another computer's job that waits, and one that trainplan did not submit."""
    labels = {
        LABEL_RUN: "261121-ffffffff",
        LABEL_ATTEMPT: "1",
        LABEL_DEADLINE: (NOON + timedelta(days=3)).isoformat().replace("+", "%2B"),
        LABEL_CLIENT: THEIRS,
    }
    comment = ";".join(f"{key}={text}" for key, text in labels.items())
    common = ("--partition=one", "--nodes=1", "--time=4320")
    for words in (("--job-name=trainplan-261121-ffffffff-1", f"--comment={comment}"), ("--job-name=simulation",)):
        number = cluster.submit((*words, *common), "#!/bin/sh\n")
        cluster.jobs[number - 1].begins_at = None
