"""Every field of a run and of its attempts comes back from the journal as it was put; a new field is noticed here."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from planner.journal import Journal
from planner.run import Attempt, Outcome, Phase, Run
from pricing.offers import Market
from providers.base import EndKind, InstanceRef
from tests.builders import RUN_ID, a_target
from tests.doubles.clock import NOON
from workloads.job import OnSlow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TICKS = iter(range(1, 100))


def instant() -> Any:
    """Another one each time: two columns that are mixed up do not pass for each other."""
    return NOON + timedelta(minutes=next(TICKS), microseconds=7)


ATTEMPT = Attempt(
    number=1, ref=InstanceRef(provider="aws", region="us-east-1", id="i-0123"), target=a_target("0.5", zone="b"),
    asked_at=NOON, sent_at=instant(), deadline=instant(), tries=2, exit_code=75, end=EndKind.RECLAIMED,
    reason="spot took it back", ended_at=instant(), step=40, lost_steps=7, cleared=True, queued=True,
    bills_from=instant(), client="0123456789abcdef",
)  # fmt: skip
RUN = Run(
    run_id=RUN_ID, job_name="tiny", job_digest="00112233aabbccdd", provider="aws", phase=Phase.LAUNCHING,
    created_at=instant(), deadline=instant(), model_folder="/with space/ü",
    targets=(a_target("0.1200", zone="a", seconds=60.5), a_target("0.5", images_per_second_low=3.25)),
    budget_usd=Decimal("12.30"), on_slow=OnSlow.REPLAN, attempts=(ATTEMPT,), outcome=Outcome.BUDGET, message="why",
    stop_asked=instant(), slow=OnSlow.STOP, moving=Market.ON_DEMAND, deadline_given=True, checkpoint_seconds=300.5,
    total_steps=780, unverified="a disk", taken_over=True,
    again_at=instant(),
)  # fmt: skip


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "home" / "journal.sqlite") as opened:
        yield opened


def written_by_others(journal: Journal) -> None:
    """What other commands write of a run: it was launched again, asked to stop, and taken over."""
    assert RUN.again_at is not None
    assert RUN.stop_asked is not None
    journal.go_on(RUN_ID, RUN.again_at)
    journal.ask_to_stop(RUN_ID, RUN.stop_asked)
    journal.take_over(RUN_ID, NOON)


@pytest.mark.parametrize("value", [RUN, ATTEMPT], ids=["run", "attempt"])
def test_no_field_has_the_value_that_it_would_have_unset(value: Run | Attempt) -> None:
    """Else a field that the journal forgets would look kept."""
    for known in fields(value):
        if known.default is not MISSING:
            assert getattr(value, known.name) != known.default, known.name


def test_every_field_comes_back_after_a_save(journal: Journal) -> None:
    journal.add_run(RUN, "{}", {}, NOON)
    journal.add_attempt(RUN, {}, NOON)
    written_by_others(journal)
    journal.save(RUN, NOON)
    assert journal.run(RUN_ID) == RUN


def test_every_field_comes_back_after_a_new_attempt(journal: Journal) -> None:
    """Which has no outcome, and nothing that may be left of its former life."""
    journal.add_run(replace(RUN, moving=None, slow=None, targets=(), budget_usd=None), "{}", {}, NOON)
    written_by_others(journal)
    journal.add_attempt(RUN, {}, NOON)
    assert journal.run(RUN_ID) == replace(RUN, outcome=None, message=None, unverified=None)


@pytest.mark.parametrize("market", [Market.SPOT, Market.ON_DEMAND, None])
def test_a_decided_move_is_remembered_until_it_is_over(journal: Journal, market: Market | None) -> None:
    journal.add_run(replace(RUN, attempts=(), moving=None), "{}", {}, NOON)
    journal.save(replace(RUN, attempts=(), moving=market), NOON)
    assert journal.run(RUN_ID).moving is market
