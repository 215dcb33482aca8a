"""What tests/contract/test_not_there_yet.py needs of a cloud: an account in which one pair of its table can be met."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trainplan.providers.cloud.propagation import Pair


class Scene(Protocol):
    """A person's desk at one cloud's double, in the double's time."""

    def begin(self, pair: Pair, seconds: float | None) -> None:
        """An account in which the command makes the pair's first thing, or in which it was made this moment: the call
        that needs it does not find it for so many seconds after that; None: it never does."""

    def command(self, pair: Pair) -> Sequence[str]:
        """The words behind `plan` with which both happen: a launch with two placements to go to, or a set-up."""
        ...

    def now(self) -> datetime: ...

    def refused_at(self) -> Sequence[datetime]:
        """The instants at which the double answered that it does not find it."""
        ...

    def placements_asked(self) -> Sequence[str]:
        """Where a machine was asked for, one entry for each create, repeats included."""
        ...

    def remaining(self) -> Sequence[str]:
        """What of a run is still there."""
        ...
