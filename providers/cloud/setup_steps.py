"""Carries out the calls of a set-up: each is sent until it has taken effect, whatever was done of it before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from trainplan.providers.cloud.propagation import Pair, settled
from trainplan.providers.errors import ProviderError, TransientError

if TYPE_CHECKING:
    from trainplan.providers.base import VendorRequest

Report = Callable[[str], None]


class SetUpCalls(Protocol):
    """What the engine needs to know of a cloud's calls."""

    def send(self, call: VendorRequest) -> Any:
        """What is answered to a call that is sent once; None where it was carried out before, as far as that shows.

        Raises ProviderError.
        """
        ...

    def too_new(self, call: VendorRequest, error: ProviderError) -> Pair | None:
        """Which new thing a refusal does not find yet (trainplan.providers.cloud.propagation)."""
        ...

    def may_pass(self, call: VendorRequest, error: ProviderError) -> bool:
        """Whether the same call may be answered otherwise in a while."""
        ...

    def under_way(self, call: VendorRequest, answer: Any) -> str:
        """What is waited for after the answer, in words; "" once the call has taken effect. Raises ProviderError."""
        ...


@dataclass(frozen=True, kw_only=True)
class StepEngine:
    """`sleep` lets seconds go by, `pause_seconds` at a time: up to `trouble_seconds` while a call may be answered
    otherwise, up to `effect_seconds` until it has taken effect."""

    calls: SetUpCalls
    sleep: Callable[[float], None]
    pause_seconds: float
    trouble_seconds: float
    effect_seconds: float

    def carry_out(self, call: VendorRequest, report: Report) -> None:
        """Send one call and wait until it has taken effect. `report` gets a line where that takes long. Raises
        ProviderError.
        """
        answer = self.take(call, report)
        waited_seconds, text = 0.0, ""
        while words := self.calls.under_way(call, answer):
            if waited_seconds >= self.effect_seconds:
                raise TransientError(
                    f"{call.operation} is not done after {waited_seconds:.0f} s: {words}", hint="try again"
                )
            if words != text:
                report(words)
                text = words
            self.sleep(self.pause_seconds)
            waited_seconds += self.pause_seconds

    def take(self, call: VendorRequest, report: Report) -> Any:
        """Send one call until the vendor accepts it: a resource just created may not be visible everywhere yet."""
        return settled(partial(self._sent, call), partial(self.calls.too_new, call), self.sleep, report)

    def _sent(self, call: VendorRequest) -> Any:
        """What is answered, sent again while that may become another."""
        waited_seconds = 0.0
        while True:
            try:
                return self.calls.send(call)
            except ProviderError as error:
                may_pass = self.calls.too_new(call, error) is None and self.calls.may_pass(call, error)
                if waited_seconds >= self.trouble_seconds or not may_pass:
                    raise
            self.sleep(self.pause_seconds)
            waited_seconds += self.pause_seconds
