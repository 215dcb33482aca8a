"""Whether a run stays on its machine once its speed is measured: the cheapest rest, and never for ever on the move."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_run, a_target, an_attempt, an_instance
from tests.doubles.clock import NOON
from trainplan.planner.forecast.pilots import LEFT_FACTOR
from trainplan.planner.runs.decision.market import STOP_SECONDS
from trainplan.planner.runs.decision.next_action import AskToStop, Compare, Decide, Interrupt, Look, Wait, next_action
from trainplan.planner.runs.decision.stay import compare, comparison_text, is_to_compare
from trainplan.planner.runs.run import Phase, Run, Speed
from trainplan.planner.runs.targets import no_capacity
from trainplan.providers.base import EndKind, InstanceState

if TYPE_CHECKING:
    from trainplan.planner.runs.targets import Target

HOUR = 3600.0
STEPS = 1000


def placement(device: str, usd: str = "1", hours: float = 10.0, **changes: Any) -> Target:
    """A placement where the job is estimated to take so many hours of training, at 1,000 images/s."""
    speed = {"seconds": hours * HOUR + 300, "overhead_seconds": 300.0, "images_per_second": 1000.0}
    return a_target(usd, device=device, **{"instance_type": f"{device}.one", **speed, **changes})


def comparing(*targets: Target, at: int = 0, **changes: Any) -> Run:
    """A run that trains at one of these placements, and has long enough for any."""
    values: dict[str, Any] = {
        "made": (an_attempt(1, targets[at]),), "targets": targets, "measures_first": True, "total_steps": STEPS,
        "deadline": NOON + timedelta(days=30),
    }  # fmt: skip
    return a_run(Phase.RUNNING, **{**values, **changes})


def speed(rate: float) -> Speed:
    return Speed(images_per_second=rate, half_width=0.01)


def leaves_for(run: Run, rate: float, step: int = 0) -> list[str]:
    comparison = compare(run, speed(rate), step, (), NOON)
    assert comparison is not None
    return [target.offer.device for target in comparison.cheaper]


A, B, C = placement("T4"), placement("V100", "1.1"), placement("A100-40GB", "1.5")


@pytest.mark.parametrize(
    ("rate", "step", "expected"),
    [
        (1000.0, 0, []),
        (930.0, 0, []),  # it is dearer here by less than two runs of one configuration lie apart
        (700.0, 0, ["V100"]),
        (500.0, 0, ["V100", "A100-40GB"]),
        (500.0, 990, []),  # the rest is not worth another boot
        (2000.0, 0, []),
    ],
)
def test_it_leaves_for_what_is_cheaper_beyond_doubt(rate: float, step: int, expected: list[str]) -> None:
    assert leaves_for(comparing(A, B, C), rate, step) == expected


def test_the_cheapest_place_comes_first_and_the_move_is_paid_for() -> None:
    comparison = compare(comparing(A, C, B), speed(500.0), 0, (), NOON)
    assert comparison is not None
    assert [target.offer.device for target in comparison.cheaper] == ["V100", "A100-40GB"]
    assert comparison.here_usd == Decimal(20)
    assert comparison.elsewhere[0].usd == pytest.approx(
        Decimal("1.1") * (10 + Decimal(300) / 3600) + Decimal(STOP_SECONDS) / 3600
    )
    assert "leaves" in comparison_text(comparison)


def test_the_same_device_elsewhere_is_no_faster_there() -> None:
    assert leaves_for(comparing(A, replace(A, zone="another"), B), 940.0) == []
    assert leaves_for(comparing(A, placement("T4", "1.0", instance_type="other.t4")), 100.0) == []


def test_what_an_earlier_attempt_was_measured_at_is_known_of_its_device() -> None:
    first = an_attempt(1, A, speed=speed(500.0), end=EndKind.STOPPED)
    run = comparing(A, B, C, made=(first, an_attempt(2, B)))
    assert is_to_compare(run)
    assert leaves_for(run, 800.0) == []  # $13.75; C is estimated at $15, and A known at $20
    assert leaves_for(run, 700.0) == []
    assert leaves_for(run, 500.0) == ["A100-40GB", "T4"]  # $22
    again = comparing(A, B, C, made=(first, an_attempt(2, A)))
    assert not is_to_compare(again)


def test_a_place_where_it_could_not_end_is_none() -> None:
    late = comparing(A, B, deadline=NOON + timedelta(hours=10))
    assert leaves_for(late, 500.0) == []
    poor = comparing(A, B, budget_usd=Decimal(11))
    assert leaves_for(poor, 500.0) == []
    full = no_capacity(B, NOON, "no room")
    comparison = compare(comparing(A, B), speed(500.0), 0, (full,), NOON)
    assert comparison is not None
    assert not comparison.cheaper
    assert comparison_text(comparison).endswith("it stays: no other placement can take it")


def test_without_an_estimate_or_the_wish_nothing_is_compared() -> None:
    assert not is_to_compare(comparing(A, B, measures_first=False))
    assert not is_to_compare(comparing(A, B, total_steps=None))
    assert not is_to_compare(comparing(a_target(), B))


RATES = st.floats(1.0, 1e6)
PLACES = st.lists(
    st.tuples(
        st.sampled_from(("T4", "V100", "A100-40GB", "K80", "L4", "H100")), st.integers(1, 900), st.floats(0.1, 90)
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda placement: placement[0],
)


@given(PLACES, st.data())
def test_a_run_compares_once_on_each_device_and_then_stays(placements: list[tuple[str, int, float]], data: Any) -> None:
    """Whatever is measured, it moves at most once from each device, always to something cheaper, and ends somewhere."""
    run = comparing(*(placement(device, f"{cents / 100}", hours) for device, cents, hours in placements))
    moves = 0
    while is_to_compare(run):
        rate, step = data.draw(RATES), data.draw(st.integers(0, STEPS))
        comparison = compare(run, speed(rate), step, (), NOON)
        assert comparison is not None
        attempt = replace(run.attempts[-1], speed=replace(comparison.speed, leaves=bool(comparison.cheaper)))
        run = run.with_attempt(attempt)
        if not comparison.cheaper:
            break
        assert comparison.elsewhere[0].usd * Decimal(str(LEFT_FACTOR)) < comparison.here_usd
        moves += 1
        run = run.with_attempt(an_attempt(attempt.number + 1, comparison.cheaper[0]))
    assert moves < len(placements) + 1
    devices = [attempt.target.offer.device for attempt in run.attempts if attempt.target and attempt.speed]
    assert len(set(devices)) == len(devices)


# --- as the engine acts on it ------------------------------------------------------------------------------------

WORKING = Look(instance=an_instance(InstanceState.RUNNING), speed=speed(500.0), slow="slow")


def measured(*, leaves: bool) -> Run:
    return comparing(A, B, made=(an_attempt(1, A, speed=replace(speed(500.0), leaves=leaves)),))


def test_it_is_compared_before_anybody_is_asked_about_its_speed() -> None:
    action = next_action(comparing(A, B), WORKING, NOON)
    assert isinstance(action, Compare)
    assert isinstance(next_action(measured(leaves=False), WORKING, NOON), Decide)


def test_a_machine_that_is_left_is_told_to_stop_and_the_run_goes_on() -> None:
    assert next_action(measured(leaves=True), WORKING, NOON) == AskToStop()
    stopping = Look(instance=an_instance(InstanceState.STOPPING), speed=speed(500.0))
    assert next_action(measured(leaves=True), stopping, NOON) == Wait()
    ended = Look(instance=an_instance(InstanceState.ENDED, end=EndKind.STOPPED))
    action = next_action(measured(leaves=True), ended, NOON)
    assert isinstance(action, Interrupt)
    assert action.end is EndKind.STOPPED


def test_the_persons_wish_to_stop_comes_first() -> None:
    assert next_action(comparing(A, B, stop_asked=NOON), WORKING, NOON) == AskToStop()
