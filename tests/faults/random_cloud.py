"""What the random sequences need of a provider's double beside what the kill points need of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from tests.faults.harness import Cloud, Lived

if TYPE_CHECKING:
    from random import Random

    from trainplan.providers.base import OwnedResource


class RandomCloud(Cloud, Protocol):
    """A double in a world that chance has made: `listing_lag` is how long it may not list what was made, `timer_grace`
    how long after a machine's deadline its timers have ended it. `has_disks`: its jobs may have data that needs a disk
    of its own."""

    has_disks: bool
    listing_lag: timedelta
    timer_grace: timedelta

    def break_more(self, chance: Random) -> None:
        """Something more goes wrong, from now on."""
        ...

    def mend(self) -> None:
        """Nothing goes wrong with calls any more."""
        ...

    def name_of(self, resource: OwnedResource) -> str:
        """The ledger's id of something that was listed."""
        ...

    def region_of(self, row: Lived) -> str:
        """Where it was, as offers name it."""
        ...

    def timed(self, row: Lived) -> bool:
        """Whether a timer can end it without anybody's help."""
        ...


class MakeRandomCloud(Protocol):
    """A world out of chance. At least one timer works in it; where nobody will come back, nothing happens in it after
    which a disk stays that no timer ends."""

    def __call__(self, chance: Random, *, never_back: bool) -> RandomCloud: ...
