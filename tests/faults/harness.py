"""What the fault harness needs of a provider: a double that outlives its clients, and the truth about what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from planner.targets import Target
    from providers.base import Provider
    from tests.faults.points import Points

Ask = Callable[[tuple[Any, ...]], Any] if TYPE_CHECKING else Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """One thing that ever was at the provider, as its own ledger has it; `ended_at` None: it is still there.

    `machine`: it computes and bills as such; else it only came with one. `ours` is what was made by the clients of
    the harness, the rest was planted.
    """

    id: str
    run: str | None
    machine: bool
    ours: bool
    created_at: datetime
    ended_at: datetime | None
    left: bool
    usd_per_hour: float
    usd: float


class Cloud(Protocol):
    """A provider's double in one scenario. It lives in the harness's process; clients are other processes.

    A client reaches it through `ask`, which sends a message to the harness and brings back what `answer` makes of it.
    """

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

    def trains_until(self, run: str) -> datetime | None:
        """When the training of a run's live machine ends by itself; None where none trains."""
        ...
