"""Which pilots are worth their cost: against closed forms, and what holds for every choice."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainplan.planner.forecast.pilots import LEFT_FACTOR, MOST_CONSIDERED, Choice, overlapping, spread_of, worthwhile
from trainplan.planner.throughput.values import Basis, Throughput

N = NormalDist()


def choice(usd: float, spread: float = 0.25, pilot_usd: float | None = 0.1, fixed: float = 0.0) -> Choice:
    return Choice(usd=usd, fixed_usd=fixed * usd, spread=spread, pilot_usd=pilot_usd)


costs = st.floats(0.5, 500)
spreads = st.one_of(st.just(0.0), st.floats(0.02, 0.8))
pilots = st.one_of(st.none(), st.floats(0.001, 50))
a_choice = st.builds(choice, usd=costs, spread=spreads, pilot_usd=pilots, fixed=st.floats(0, 0.9))
some = st.lists(a_choice, min_size=1, max_size=7).map(lambda rows: sorted(rows, key=lambda row: row.usd))


def test_a_pilot_of_the_second_is_worth_what_the_closed_form_says() -> None:
    """E[(a - b)+] of a known a and a log-normal b (a put of Black and Scholes without interest)."""
    first, second = choice(10, 0, None), choice(11, 0.3, 0.01)
    at = math.log(10 / 11) / 0.3
    expected = 10 * N.cdf(at) - 11 * math.exp(0.3**2 / 2) * N.cdf(at - 0.3)
    found = worthwhile([first, second])
    assert found.indices == (1,)
    assert found.saving_usd == pytest.approx(expected, rel=0.01)


def test_a_pilot_of_the_first_is_worth_what_going_to_the_second_saves() -> None:
    """E[(b - a)+] of a log-normal b, ranked by its median, and a known a."""
    first, second = choice(10, 0.3, 0.01), choice(11, 0, None)
    at = math.log(11 / 10) / 0.3
    expected = 10 * math.exp(0.3**2 / 2) * N.cdf(0.3 - at) - 11 * N.cdf(-at)
    found = worthwhile([first, second])
    assert found.indices == (0,)
    assert found.saving_usd == pytest.approx(expected, rel=0.01)


def test_no_pilot_is_worth_more_than_it_saves() -> None:
    found = worthwhile([choice(1.0, 0.25, 0.4), choice(1.1, 0.25, 0.4)])
    assert found.indices == ()
    assert 0 < found.saving_usd < found.cost_usd == pytest.approx(0.4)


def test_without_another_machine_there_is_nothing_to_choose() -> None:
    assert worthwhile([choice(100.0, 0.8, 0.01)]).indices == ()


def test_a_pilot_that_costs_nothing_is_run_where_it_tells_something() -> None:
    assert worthwhile([choice(0.0, 0.8, 0.0)]).indices == (0,)
    assert worthwhile([choice(0.0, 0.0, 0.0)]).indices == ()


def test_two_together_are_bought_where_each_helps_the_other() -> None:
    found = worthwhile([choice(18.3, 0.22, 0.1), choice(20, 0.22, 0.3), choice(90, 0.22, 0.1)])
    assert set(found.indices) == {0, 1}


@given(some)
def test_what_cannot_change_the_choice_is_never_bought(choices: list[Choice]) -> None:
    found = worthwhile(choices)
    reaching = overlapping(choices)
    for index in found.indices:
        assert choices[index].settles
        assert index in reaching
    if len(reaching) == 1:
        assert found.indices == ()


@given(some)
def test_what_is_bought_is_expected_to_save_more_than_it_costs(choices: list[Choice]) -> None:
    found = worthwhile(choices)
    if found.indices:
        assert found.saving_usd > found.cost_usd > 0
        assert found.cost_usd == pytest.approx(sum(choices[index].pilot_usd or 0 for index in found.indices))


@given(some)
def test_nothing_saves_more_than_knowing_everything(choices: list[Choice]) -> None:
    """The cheapest in each scenario costs at least the low end of what any can."""
    found = worthwhile(choices)
    assert found.saving_usd <= choices[0].mean_usd * 1.05


@given(some, st.floats(0.01, 100))
def test_another_currency_changes_nothing(choices: list[Choice], times: float) -> None:
    scaled = [
        one._replace(
            usd=one.usd * times,
            fixed_usd=one.fixed_usd * times,
            pilot_usd=None if one.pilot_usd is None else one.pilot_usd * times,
        )
        for one in choices
    ]
    first, second = worthwhile(choices), worthwhile(scaled)
    assert second.net_usd == pytest.approx(first.net_usd * times, rel=1e-6, abs=1e-9 * times)


@given(some, st.floats(0.01, 60), st.integers(1, 5))
def test_cap_and_number_hold(choices: list[Choice], cap_usd: float, most: int) -> None:
    found = worthwhile(choices, most, cap_usd)
    assert len(found.indices) <= most
    if found.indices:
        assert found.cost_usd <= cap_usd


@given(some, st.floats(1.0, 10))
def test_dearer_pilots_never_leave_more(choices: list[Choice], times: float) -> None:
    dearer = [one._replace(pilot_usd=one.pilot_usd * times if one.pilot_usd else one.pilot_usd) for one in choices]
    before, after = worthwhile(choices), worthwhile(dearer)
    assert max(0.0, after.net_usd) <= max(0.0, before.net_usd) + 1e-9 * choices[0].usd


def test_many_candidates_are_those_that_rank_first() -> None:
    choices = [choice(10 + 0.01 * number, 0.5, 0.01) for number in range(40)]
    assert overlapping(choices) == list(range(MOST_CONSIDERED))


@given(a_choice, st.floats(0.2, 5))
def test_a_measured_choice_costs_what_its_speed_makes_it_cost(one: Choice, times: float) -> None:
    measured = one.measured(times)
    assert measured.fixed_usd == one.fixed_usd
    assert measured.usd - one.fixed_usd == pytest.approx((one.usd - one.fixed_usd) / times)
    assert not measured.settles


def speed(factor: float) -> Throughput:
    return Throughput(images_per_second=100, low=100 / factor, high=100 * factor, basis=Basis.SCALED, evidence=("x",))


def test_a_pilot_settles_what_is_beyond_a_repeat() -> None:
    assert spread_of(speed(LEFT_FACTOR)) == 0
    assert spread_of(speed(1.01)) == 0
    p90 = N.inv_cdf(0.9)
    assert spread_of(speed(1.8)) == pytest.approx(math.log(1.8) / p90, rel=0.01)
