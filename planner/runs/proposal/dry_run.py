"""The executor of a dry run: takes the same first decision as a launch, and tells the calls instead of sending them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainplan.planner.clock import Clock
from trainplan.planner.runs.decision.next_action import Launch, Look, next_action
from trainplan.planner.runs.targets import Refusal, Target
from trainplan.providers.abilities import Resolver
from trainplan.providers.base import Provider, VendorRequest

if TYPE_CHECKING:
    from trainplan.planner.runs.execution.create import MakeRequest
    from trainplan.planner.runs.run import Run


@dataclass(frozen=True)
class DryRun:
    """`refusals` are the placements that a launch would pass over now."""

    provider: Callable[[str], Provider]
    clock: Clock
    refusals: tuple[Refusal, ...] = ()

    def calls(self, run: Run, make_request: MakeRequest) -> tuple[Target, Sequence[VendorRequest]]:
        """Where the run would go first, and what would be sent there; what it leaves open is looked up.

        The first of the run's targets where a launch would wait, or find no placement. Raises ProviderError.
        """
        action = next_action(run, Look(refusals=self.refusals), self.clock.now())
        target = action.target if isinstance(action, Launch) and action.target else run.targets[0]
        provider = self.provider(target.offer.provider)
        request = make_request(run, 1, target)
        if isinstance(provider, Resolver):
            request = provider.resolve(request)
        return target, provider.requests(request)
