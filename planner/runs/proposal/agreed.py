"""What a person has agreed to who launches a job with pilots: asked once, before the first of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import ROUND_UP, Decimal
from typing import TYPE_CHECKING

from trainplan.planner.runs.decision.next_action import TIMER_GRACE
from trainplan.planner.runs.targets import MOST_ABOVE, Target

if TYPE_CHECKING:
    from trainplan.planner.runs.proposal.proposal import Proposal
    from trainplan.planner.runs.run import Run

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """The limits of the run that follows the pilots. `high_usd` is the slow end of what the job was shown to cost;
    where it turns out above that, somebody is asked again.

    The run ends within `lasting` and when `budget_usd` are spent. What its machine costs until a timer has ended it,
    its disk, its address and its data traffic are at most `beyond_usd` more.
    """

    high_usd: Decimal
    budget_usd: Decimal
    beyond_usd: Decimal
    lasting: timedelta

    @property
    def most_usd(self) -> Decimal:
        """The most that the run can cost, at prices that may have risen without a question."""
        return self.budget_usd * (1 + MOST_ABOVE) + self.beyond_usd

    def covers(self, proposal: Proposal) -> bool:
        """Whether the job is still planned to cost no more than the slow end of what was shown."""
        usd = proposal.targets[0].usd
        return usd is not None and usd <= self.high_usd

    def ceiling_usd(self, proposal: Proposal) -> Decimal:
        """What the job may be planned to cost at any placement that the run takes."""
        return max(self.high_usd, (proposal.targets[0].usd or Decimal(0)) * (1 + MOST_ABOVE))

    def limited(self, draft: Run) -> Run:
        """The draft within these limits; a placement whose timers may cost more is left out."""
        budget_usd = self.budget_usd if draft.budget_usd is None else min(self.budget_usd, draft.budget_usd)
        targets = tuple(target for target in draft.targets if beyond_usd(target, self.lasting) <= self.beyond_usd)
        deadline = min(draft.deadline, draft.created_at + self.lasting)
        return replace(draft, budget_usd=budget_usd, targets=targets or draft.targets[:1], deadline=deadline)


def high_usd(proposal: Proposal) -> Decimal:
    """The slow end of what the job is shown to cost at the first placement."""
    first = proposal.targets[0]
    return first.high_usd or first.usd or Decimal(0)


def agreed_to(proposal: Proposal, draft: Run) -> Agreed:
    """The limits of a proposed run. Without a budget of the job's, what its deadline lets it cost at the dearest of its
    placements becomes its budget."""
    lasting, targets = draft.deadline - draft.created_at, proposal.targets
    budget_usd = draft.budget_usd
    if budget_usd is None:
        most_usd = max(target.ceiling_usd_per_hour * _hours(lasting) + target.fixed_usd for target in targets)
        budget_usd = most_usd.quantize(Decimal("0.01"), ROUND_UP)
    return Agreed(
        high_usd=high_usd(proposal),
        budget_usd=budget_usd,
        beyond_usd=max(beyond_usd(target, lasting) for target in targets),
        lasting=lasting,
    )


def beyond_usd(target: Target, lasting: timedelta) -> Decimal:
    """What a run may cost at a placement beside the machine's time within its limits: the time that timers may take,
    disk, address and data traffic."""
    billed_hours = Decimal(target.offer.billing.billed_seconds(TIMER_GRACE)) / 3600
    attached = (target.disk_usd_per_hour + target.address_usd_per_hour) * _hours(lasting + TIMER_GRACE)
    machine = target.ceiling_usd_per_hour * (1 + MOST_ABOVE) * billed_hours
    return machine + attached + target.traffic_usd + target.download_usd


def _hours(span: timedelta) -> Decimal:
    return Decimal(span / _HOUR)
