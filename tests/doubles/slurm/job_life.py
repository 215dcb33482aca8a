"""A job of the simulated cluster, and the rules that it lives under. Values only: simulated.py moves them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.faults.harness import EndedBy, Lived, Work
from trainplan.providers.sim.training import Simulated, Trainer
from trainplan.providers.sim.values import Course

USD_PER_HOUR = 0.5
_VALUE = re.compile(r"^(\w+)=(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Befalls the allocation number `start` (from 1) of the jobs of `attempt`, `after` seconds after its start.

    `event`: `preempt` (notice, then requeued), `preempt_cancel` (notice, then PREEMPTED), `node_fail` (requeued),
    `node_gone` (NODE_FAIL: Slurm does not requeue it), `lose_rank` (a process dies, and its job goes on).
    """

    event: str
    after: float
    attempt: int = 1
    start: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with commands of one name (`*`: any; `slurm`: those that ask the controller).

    `effect`: `lost_request` and `lost_reply` (the connection ends before or after it took effect), `silent` (the
    controller does not answer), `refused` (with `text`), `denied` (ssh lets nobody in). The first `skip` that match
    pass, then `times` of them are hit (None: all), each by `chance`, from `after` to `until` seconds.
    """

    operation: str = "*"
    effect: str = "silent"
    text: str = ""
    partition: str = ""
    skip: int = 0
    times: int | None = 1
    chance: float = 1.0
    after: float = 0.0
    until: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a cluster is like. `queue_seconds`: how long a job waits, of each partition; None: it never begins there.

    `requeue_seconds`: how long a requeued job waits; 121 s were recorded. `script_timer_works`: the job's script ends
    it at its deadline; `time_limit_works`: Slurm ends it at its --time. `min_job_age`: how long squeue shows what has
    ended (slurm.conf(5), MinJobAge: 300 s).
    """

    queue_seconds: Mapping[str, float | None] = field(default_factory=lambda: {"one": 12.0, "two": 12.0})
    start_seconds: float = 5.0
    kill_seconds: float = 3.0
    grace_seconds: float = 15.0
    requeue_seconds: float = 121.0
    min_job_age: float = 300.0
    script_timer_works: bool = True
    time_limit_works: bool = True
    throughput_factor: float = 1.0
    trainer: Trainer = field(default_factory=Simulated)
    incidents: tuple[Incident, ...] = ()
    faults: tuple[Fault, ...] = ()
    seed: int = 0


@dataclass
class Allocation:
    """One start of a job on its node: what bills. `ended_at` may lie ahead, while the node is being cleared."""

    began_at: datetime
    course: Course | None = None
    told_until: datetime | None = None
    progress_at: datetime | None = None
    stop_asked_at: datetime | None = None
    taken_at: datetime | None = None
    term_at: datetime | None = None
    """When the trainer first got TERM."""
    again_at: datetime | None = None
    """When it begins again after the loss of a rank."""
    trained_at: datetime | None = None
    ended_at: datetime | None = None
    ended_by: EndedBy | None = None
    why: str = ""
    befell: set[int] = field(default_factory=set)

    @property
    def is_over(self) -> bool:
        """Whether the script and its trainer are at work no more."""
        return self.ended_at is not None


@dataclass
class Job:
    """`final` is the state that it goes into when its node is cleared; "" while it is not known."""

    number: int
    words: tuple[str, ...]
    script: str
    submitted_at: datetime
    begins_at: datetime | None
    starts: list[Allocation] = field(default_factory=list)
    waits: bool = True
    reason: str = "Priority"
    final: str = ""
    ended_at: datetime | None = None
    losses: int = 0

    def option(self, name: str, default: str = "") -> str:
        """An option of its sbatch."""
        values = [word.partition("=")[2] for word in self.words if word.startswith(f"--{name}=")]
        return values[-1] if values else default

    @property
    def values(self) -> dict[str, str]:
        """The values at the head of its script."""
        head = self.script.partition("\n\n")[0]
        return {name: "".join(shlex.split(text)) for name, text in _VALUE.findall(head)}

    @property
    def deadline(self) -> datetime:
        return datetime.fromtimestamp(float(self.values["deadline"]), UTC)

    @property
    def limit(self) -> timedelta:
        """Slurm's own, from each start."""
        return timedelta(minutes=int(self.option("time", "1")))

    @property
    def run(self) -> str:
        return self.option("job-name").removeprefix("trainplan-").rpartition("-")[0]

    @property
    def attempt(self) -> int:
        number = self.option("job-name").rpartition("-")[2]
        return int(number) if number.isdigit() else 0

    @property
    def live(self) -> Allocation | None:
        """The allocation that it has now."""
        return self.starts[-1] if self.starts and not self.starts[-1].is_over else None

    def state(self, now: datetime) -> str:
        """As squeue says it."""
        if self.waits:
            return "PENDING"
        if self.ended_at is None:
            return "RUNNING"
        return "COMPLETING" if now < self.ended_at else self.final

    def line(self, now: datetime) -> str:
        """Its line of squeue."""
        began = f"{self.starts[-1].began_at.timestamp():.0f}" if self.starts else "N/A"
        ended = f"{self.ended_at.timestamp():.0f}" if self.ended_at else "N/A"
        reason = self.reason if self.waits else "None"
        if self.waits and self.begins_at is not None and self.starts:
            began = f"{self.begins_at.timestamp():.0f}"
        cells: tuple[Any, ...] = (
            *(self.number, self.option("job-name", "sbatch"), self.state(now), f"{self.submitted_at.timestamp():.0f}"),
            *(began, ended, reason, self.option("nodes", "1"), self.option("comment", "(null)")),
        )
        return "|".join(map(str, cells)) + "\n"

    def lived(self, now: datetime, client: str) -> list[Lived]:
        """Its place in the queue, and each of its allocations, as the ledger has them. `client`: whose are not ours."""
        ours = self.run != "" and f"trainplan-client={client}" not in self.option("comment")
        common: dict[str, Any] = {"run": self.run or None, "ours": ours, "usd": 0.0}
        alive = self.waits or self.ended_at is None or now < self.ended_at
        queued = Lived(
            id=f"job {self.number}", machine=False, created_at=self.submitted_at, usd_per_hour=0.0, remaining=alive,
            ended_at=None if alive else self.ended_at, **common,
        )  # fmt: skip
        return [queued, *(self._allocated(number, one, now, common) for number, one in enumerate(self.starts, 1))]

    def _allocated(self, number: int, one: Allocation, now: datetime, common: Mapping[str, Any]) -> Lived:
        ended = one.ended_at is not None and one.ended_at <= now
        work = Work(
            deadline=self.deadline,
            boots_since=one.began_at,
            progress_at=one.progress_at,
            stop_asked_at=one.stop_asked_at,
            taken_at=one.taken_at,
            trained_at=one.trained_at,
            home_at=one.trained_at,
        )
        return Lived(
            id=f"job {self.number}, start {number}",
            machine=True,
            created_at=one.began_at,
            ended_at=one.ended_at if ended else None,
            remaining=not ended,
            usd_per_hour=USD_PER_HOUR,
            ended_by=one.ended_by if ended else None,
            why=one.why if ended else "",
            work=work if common["ours"] else None,
            **common,
        )
