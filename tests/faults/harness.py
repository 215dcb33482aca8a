"""What the fault harness needs of a provider: a double that outlives its clients, and the truth about what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tests.faults.points import Points
    from trainplan.planner.runs.targets import Target
    from trainplan.providers.base import Provider

Ask = Callable[[tuple[Any, ...]], Any]


class EndedBy(StrEnum):
    """Who brought a machine to its `ended_at`. Whatever is done to it later (a delete of a machine that has already
    stopped) does not change that."""

    COMMAND = "a command of ours"
    """A client of ours, by a call that deletes, terminates or deallocates the machine."""
    AGENT = "its own agent"
    """The machine itself, because its trainer had ended, or because it could not begin to train: a power-off, or a
    delete that it sent for itself."""
    MACHINE_TIMER = "its own timer"
    """The timer inside the machine: of its deadline, or of its boot deadline."""
    CLOUD_TIMER = "the cloud's timer"
    """What we set up outside the machine: a schedule, a reaper, a task, `maxRunDuration`."""
    PROVIDER = "the provider"
    """Nothing of ours: reclaim, eviction, preemption, maintenance, a failed host, a lost accelerator, no capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the double knows of a machine's work, up to the machine's end or, while it is there, up to now.

    Plain facts; `tests.faults.health` makes of them what the machine was doing. Each instant comes from the double's
    own time and from what really happened in it, never from what a client was told. None: it has not happened.

    `deadline`: when the machine's own timer ends it, as its start-up text says.
    `boots_since`: since when it has been on the way to its first sign of training. For most machines that is their
    creation; a request that waits in a queue for capacity has None until it is given a machine.
    `progress_at`: the newest sign of training that its trainer had written into the run directory (a line of
    progress.jsonl, or a status.json of the trainer's). Not what a client wrote there, and not a wish to stop. None for
    a machine that never booted, or whose trainer never started. A hung trainer leaves it where it was.
    `stop_asked_at`: when a client asked its trainer to stop (`control/stop`, or the call that stands for it).
    `taken_at`: when the provider told the machine that it would be taken back; None where that comes without notice.
    `trained_at`: when its trainer ended, whatever the reason: done, failed, stopped, or its own deadline.
    `has_results`: whether it is a sweep with a best trial so far at its end, which a person's stop brings home.
    `home_at`: from when on everything was in the run directory that the machine had to bring there after `trained_at`.
    Where a double takes no time for that, it is `trained_at`.
    """

    deadline: datetime | None = None
    boots_since: datetime | None = None
    progress_at: datetime | None = None
    stop_asked_at: datetime | None = None
    taken_at: datetime | None = None
    trained_at: datetime | None = None
    home_at: datetime | None = None
    has_results: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """One thing that ever was at the provider, as its own ledger has it; `ended_at` None: it is still there.

    `machine`: it computes and bills as such; else it only came with one. `ours` is what was made by the clients of
    the harness, the rest was planted. `ended_at` of a machine is when its compute stopped billing, which may be before
    it was gone (`left`).

    `ended_by` and `why` say who ended a machine and in which words the vendor tells it; they are set exactly where
    `ended_at` is. `work` is set for each machine of ours. Of what is no machine, all three stay as they are here. A
    double that does not record them yet leaves them out: nothing is concluded of its machines then
    (`tests.faults.health`).
    """

    id: str
    run: str | None
    machine: bool
    ours: bool
    created_at: datetime
    ended_at: datetime | None
    remaining: bool
    usd_per_hour: float
    usd: float
    ended_by: EndedBy | None = None
    why: str = ""
    work: Work | None = None


class Cloud(Protocol):
    """A provider's double in one scenario. It lives in the harness's process; clients are other processes.

    A client reaches it through `ask`, which sends a message to the harness and brings back what `answer` makes of it.
    """

    in_harness: bool
    """Whether its world is in the harness's own process: a copy of the harness has a copy of the world then."""

    def provider(self, ask: Ask, points: Points) -> Provider:
        """In the client: the provider as a newly started command makes it, each call between two points."""
        ...

    def answer(self, message: tuple[Any, ...]) -> Any:
        """In the harness: the answer to one message, which can be pickled."""
        ...

    def let_go(self) -> None:
        """In the harness, after a launch in it: close what clients that are forked would share, and break."""

    def targets(self, market: str) -> tuple[Target, ...]:
        """Where a run may go, in this order."""
        ...

    def plant(self) -> None:
        """Things that are not of our clients: of another computer, and without our labels. They are to stay."""

    def now(self) -> datetime: ...

    def pass_time(self, until: datetime) -> None: ...

    def ledger(self) -> list[Lived]: ...

    def put_aside(self) -> None:
        """In the harness: keep what there is now. What happens from here on, in this process or in copies of it, is
        undone by `take_up`."""

    def take_up(self) -> None:
        """In the process that put the world aside: back to it, when those that have changed it since are gone."""

    def trains_until(self, run: str) -> datetime | None:
        """When the training of a run's live machine ends by itself; None where none trains."""
        ...
