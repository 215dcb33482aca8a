"""What this home's runs have used of own rates: machine hours since the day of the count."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from tests.builders import a_run, a_target, an_attempt
from tests.doubles.clock import NOON
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.money.own_use import UNREADABLE, hours_used, own_prices_now
from trainplan.planner.runs.run import Run
from trainplan.planner.settings import Settings
from trainplan.pricing.own_rates import parse_own_rates
from trainplan.providers.base import RunId

ENTRY = {"provider": "aws", "family": "g4dn", "region": "us-east-1", "usd_per_hour": 1, "hours_left": 5}
(RATE,) = parse_own_rates({"override": [ENTRY | {"as_of": NOON.date()}]})


def a_run_of(hours: float, number: int = 1, began_before_hours: float = 0.0, **target: object) -> Run:
    placement = a_target("1", **({"provider": "aws", "family": "g4dn", "region": "us-east-1"} | target))
    began_at = NOON - timedelta(hours=began_before_hours)
    attempt = an_attempt(1, placement)
    attempt = replace(attempt, asked_at=began_at, ended_at=began_at + timedelta(hours=hours))
    return replace(
        a_run(run_id=RunId(f"261122-{number:08x}"), provider="aws"), attempts=(attempt,), targets=(placement,)
    )


def test_hours_are_those_of_machines_that_the_rate_is_for() -> None:
    runs = [a_run_of(2), a_run_of(0.5), a_run_of(8, region="eu-west-1"), a_run_of(8, family="p5")]
    assert hours_used(RATE, runs, NOON + timedelta(days=2)) == Decimal("2.5")


def test_only_the_hours_since_the_beginning_of_the_day_of_the_count_are_used() -> None:
    """The count is of midnight, twelve hours before noon."""
    assert hours_used(RATE, [a_run_of(20, began_before_hours=18)], NOON + timedelta(days=2)) == 14


def test_a_machine_that_is_there_uses_hours_until_now() -> None:
    run = a_run_of(2)
    live = replace(run, attempts=(replace(run.attempts[0], ended_at=None),))
    assert hours_used(RATE, [live], NOON + timedelta(minutes=30)) == Decimal("0.5")


def test_nothing_is_used_by_waiting_or_by_a_refused_create() -> None:
    run = a_run_of(2)
    waiting = replace(run, attempts=(replace(run.attempts[0], queued=True),))
    refused = replace(run, attempts=(replace(run.attempts[0], ref=None, end=None, cleared=True),))
    assert hours_used(RATE, [waiting, refused], NOON + timedelta(days=1)) == 0


def settings(home: Path) -> Settings:
    return Settings(home=home, prices={"override": [ENTRY | {"as_of": NOON.date()}]})


def test_the_journal_of_the_home_tells_what_is_left(tmp_path: Path) -> None:
    now = NOON + timedelta(days=1)
    before = own_prices_now(settings(tmp_path), now)
    assert before is not None
    assert [rate.hours_left for rate in before.rates] == [5]
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.add_run(a_run_of(2), "{}", {}, NOON)
    after = own_prices_now(settings(tmp_path), now)
    assert after is not None
    assert [rate.hours_left for rate in after.rates] == [3]
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.add_run(a_run_of(3, number=2), "{}", {}, NOON)
    used_up = own_prices_now(settings(tmp_path), now)
    assert used_up is not None
    assert used_up.rates == ()
    assert "runs of this home have used 5 h since 2026-11-21" in used_up.lines[0]


def test_a_journal_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_text("no database, and long enough to be taken for one" * 50)
    own = own_prices_now(settings(tmp_path), NOON)
    assert own is not None
    assert own.lines == (UNREADABLE,)


def test_without_rates_there_is_nothing_to_hold(tmp_path: Path) -> None:
    assert own_prices_now(Settings(home=tmp_path), NOON) is None
