"""The front of cost and time, and the chart of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_plan, small_catalog
from trainplan.planner.cli.chart import drawn
from trainplan.planner.forecast import plan as plan_module
from trainplan.planner.forecast.times import Interval
from trainplan.planner.report.front import Point, front, front_chart, near, points, with_front
from trainplan.planner.report.page import Chart, Mark
from trainplan.pricing.catalog import Catalog

NUMBERS = st.floats(min_value=0.01, max_value=1e6)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with Catalog.open(small_catalog(tmp_path_factory.mktemp("front"))) as made:
        yield made


def a_point(seconds: float, usd: float, row: str = "1") -> Point:
    return Point(row, "T4", "aws", Interval(seconds, seconds, seconds), Interval(usd, usd, usd), is_front=False)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30))
def test_the_front_is_what_no_other_offer_beats_in_both(pairs: list[tuple[float, float]]) -> None:
    offers = with_front(a_point(seconds, usd) for seconds, usd in pairs)
    best = {(point.seconds.expected, point.usd.expected) for point in front(offers)}
    beaten = {
        (seconds, usd)
        for seconds, usd in pairs
        if any(s <= seconds and u <= usd and (s, u) != (seconds, usd) for s, u in pairs)
    }
    assert best == set(pairs) - beaten


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30))
def test_what_is_near_holds_the_whole_front(pairs: list[tuple[float, float]]) -> None:
    offers = with_front(a_point(seconds, usd) for seconds, usd in pairs)
    assert front(near(offers)) == front(offers)


def test_the_points_of_a_plan_are_its_machines_with_their_intervals(catalog: Catalog) -> None:
    plan = a_plan(catalog)
    offers = points(plan)
    by_row = {point.row: point for point in offers}
    assert len(offers) == len(plan.ranking)
    for ranked in plan.candidates:
        point, time = by_row[ranked.number], ranked.candidate.estimate.time
        assert point.usd.expected == pytest.approx(float(ranked.cost_usd))
        assert point.seconds == (time.total.total_seconds(), time.low.total_seconds(), time.high.total_seconds())
        assert point.usd.low <= point.usd.expected <= point.usd.high
    assert {point.label for point in offers} >= {"T4", "T4 spot", "1/8 L4", "8 vCPU"}


def test_a_machine_in_many_placements_is_one_point(catalog: Catalog) -> None:
    everywhere = points(a_plan(catalog, every_placement=True))
    assert len(everywhere) == len(points(a_plan(catalog)))


def test_what_cannot_be_launched_is_no_point(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "is_estimated_only", lambda provider: provider == "gcp")
    assert {point.provider for point in points(a_plan(catalog))} == {"aws"}


def test_the_chart_names_the_front_by_rank_and_device(catalog: Catalog) -> None:
    plan = a_plan(catalog)
    (chart,) = front_chart(plan)
    assert isinstance(chart, Chart)
    named = [mark.text for mark in chart.marks if mark.text]
    assert named == [f"{point.row} {point.label}" for point in front(points(plan))]
    assert "1 1/8 L4" in named


def test_what_costs_nothing_has_no_place_in_a_chart(catalog: Catalog) -> None:
    """The machines of one's own cluster cost nothing where the settings name no price."""
    plan = a_plan(catalog)
    free = plan.ranking[0]._replace(cost_micro_usd=0)
    with_free = plan._replace(ranking=(free, *plan.ranking[1:]))
    assert len(points(with_free)) == len(points(plan)) - 1
    (chart,) = front_chart(with_free)
    assert isinstance(chart, Chart)
    assert drawn(chart, 80)
    assert front_chart(plan._replace(ranking=(free,))) == []


def test_one_offer_has_no_chart(catalog: Catalog) -> None:
    plan = a_plan(catalog)
    assert front_chart(plan._replace(ranking=plan.ranking[:1])) == []
    assert front_chart(plan._replace(ranking=())) == []


def test_a_chart_has_its_points_where_their_logarithms_are() -> None:
    chart = Chart("title", [Mark(1, 100, "a"), Mark(10, 10), Mark(100, 1, "b")], ("1s", "100s"), ("$1", "$100"))
    lines = drawn(chart, 60).splitlines()
    assert lines[0] == "title"
    assert lines[1] == "$100 |o a"
    assert lines[12] == "  $1 |" + " " * 51 + "b o"
    middle = next(line for line in lines if "." in line)
    assert lines.index(middle) in (6, 7)
    assert middle.index(".") - len("$100 |") in (26, 27)
    assert lines[13] == "     +" + "-" * 53
    assert lines[14] == "      1s" + " " * 47 + "100s"


def test_a_name_is_left_out_where_another_stands() -> None:
    marks = [Mark(100 + index, 50 - index, f"name {index}") for index in range(4)]
    text = drawn(Chart("title", [Mark(1, 100), *marks, Mark(10_000, 1)], ("", ""), ("", "")), 60)
    assert text.count("o") >= 1
    assert 1 <= text.count("name") < 4


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from(["", "8 x H100 spot"])), min_size=1, max_size=40))
def test_no_line_of_a_chart_is_wider_than_the_screen(rows: list[tuple[float, float, str]]) -> None:
    chart = Chart("title", [Mark(*row) for row in rows], ("13m 03s", "6d 00h"), ("$19.05", "$1,570.37"))
    assert max(map(len, drawn(chart, 60).splitlines())) <= 60
