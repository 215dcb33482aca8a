"""The time that a provider goes by, which this computer's clock may not have.

It stands apart from trainplan.planner.clock since an estimate needs a clock and no provider.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from trainplan.planner.clock import Clock
from trainplan.providers.abilities import ServerTime, Timekeeper
from trainplan.providers.base import Provider
from trainplan.providers.cloud.server_time import applied


def tells_time(provider: Provider) -> bool:
    """Whether an instant there can be compared with the clock that is used for the provider (`ProviderClock`)."""
    if isinstance(provider, Timekeeper):
        return True
    return not isinstance(provider, ServerTime) or provider.server_time_offset() is not None


def correction(provider: Provider) -> timedelta:
    """What has to be added to this computer's clock to have the provider's time; zero where they agree, where nobody
    knows, and where the provider has a time of its own."""
    if isinstance(provider, Timekeeper) or not isinstance(provider, ServerTime):
        return timedelta(0)
    return applied(provider.server_time_offset())


@dataclass(frozen=True)
class ProviderClock:
    """This computer's clock, set to the provider's as soon as its answers tell that the two disagree. `tell` hears the
    provider's name and a sentence on that, with each reading."""

    provider: Provider
    here: Clock
    tell: Callable[[str, str], None]

    def now(self) -> datetime:
        """The provider's time, aware, as far as it is known; else this computer's."""
        ahead = correction(self.provider)
        if ahead:
            self.tell(self.provider.name, disagreement(self.provider.name, ahead))
        return self.here.now() + ahead

    def sleep(self, seconds: float) -> None:
        """Wait on this computer's clock: a duration needs no correction."""
        self.here.sleep(seconds)


def disagreement(provider: str, ahead: timedelta) -> str:
    """Say that this computer's clock or the provider's is wrong."""
    minutes = abs(ahead.total_seconds()) / 60
    much = f"{minutes:,.0f} minutes" if minutes < 120 else f"{minutes / 60:,.0f} hours"
    way = "behind" if ahead > timedelta(0) else "ahead of"
    return f"this computer's clock is {much} {way} that of {provider}: the provider's time is used; set the clock right"
