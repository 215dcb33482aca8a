"""What is agreed to with the pilots: no run that keeps to it costs more, whenever its timers end it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_run, a_target, an_attempt
from tests.doubles.clock import NOON
from trainplan.planner.runs.decision.next_action import TIMER_GRACE
from trainplan.planner.runs.proposal.agreed import agreed_to, high_usd
from trainplan.planner.runs.proposal.proposal import Proposal
from trainplan.planner.runs.run import Run, attempt_deadline

if TYPE_CHECKING:
    from trainplan.planner.runs.targets import Target

CENTS = st.integers(1, 3000).map(lambda cents: f"{cents / 100}")
FEES = st.decimals("0", "0.5", places=3)


@st.composite
def placements(draw: st.DrawFn) -> Target:
    usd, high = draw(CENTS), draw(st.decimals("1", "90", places=2))
    return a_target(
        usd, fixed_usd=draw(FEES), disk_usd_per_hour=draw(FEES), address_usd_per_hour=draw(FEES),
        traffic_usd=draw(FEES), download_usd=draw(FEES), usd=high / 2, high_usd=high,
    )  # fmt: skip


def proposed(targets: list[Target]) -> Proposal:
    return Proposal(targets=tuple(targets), record={}, slow_end=None, text="")


def drafted(targets: list[Target], hours: float, budget_usd: Decimal | None) -> Run:
    return a_run(targets=tuple(targets), created_at=NOON, deadline=NOON + timedelta(hours=hours), budget_usd=budget_usd)


@given(
    st.lists(placements(), min_size=1, max_size=4), st.floats(0.5, 200),
    st.none() | st.decimals("0.5", "500", places=2),
    st.floats(0, 1), st.data(),
)  # fmt: skip
def test_no_run_within_the_limits_costs_more_than_was_agreed_to(
    targets: list[Target], hours: float, budget_usd: Decimal | None, share: float, data: st.DataObject
) -> None:
    """An attempt or two, of which the last lives until the latest instant that its timers allow."""
    draft = drafted(targets, hours, budget_usd)
    agreed = agreed_to(proposed(targets), draft)
    run = agreed.limited(draft)
    assert set(run.targets) == set(targets)
    first, second = (data.draw(st.sampled_from(run.targets)) for _ in range(2))
    left_at = NOON + share * (attempt_deadline(run, first, NOON) - NOON)
    run = run.with_attempt(an_attempt(1, first, ended_at=left_at, gone_at=left_at, cleared=True))
    until = max(left_at, attempt_deadline(run, second, left_at)) + TIMER_GRACE
    run = run.with_attempt(an_attempt(2, second, asked_at=left_at, ended_at=until, gone_at=until))
    assert run.total_usd(until) <= agreed.most_usd


def test_the_run_that_follows_keeps_to_what_was_agreed_to_before() -> None:
    shown = [a_target("1", usd=Decimal(10), high_usd=Decimal(15))]
    agreed = agreed_to(proposed(shown), drafted(shown, 10, None))
    assert agreed.budget_usd == 10
    later = drafted([a_target("1"), a_target("9", disk_usd_per_hour=Decimal(9))], 30, None)
    run = agreed.limited(later)
    assert (run.budget_usd, run.deadline - run.created_at) == (10, timedelta(hours=10))
    assert run.targets == later.targets[:1], "what its timers may cost there is above what was agreed to"
    assert agreed.limited(replace(later, budget_usd=Decimal(4))).budget_usd == 4


def test_what_turns_out_dearer_than_the_slow_end_is_asked_about_again() -> None:
    shown = proposed([a_target("1", usd=Decimal(10), high_usd=Decimal(15))])
    agreed = agreed_to(shown, drafted(list(shown.targets), 10, None))
    assert high_usd(shown) == 15
    assert agreed.covers(proposed([a_target("1", usd=Decimal(15))]))
    dearer = proposed([a_target("1", usd=Decimal(16))])
    assert not agreed.covers(dearer)
    assert agreed.ceiling_usd(dearer) == Decimal("17.60")
    assert agreed.ceiling_usd(shown) == 15
