"""Placements whose quota is known to be too small are left out before anything is created, in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.builders import a_plan, small_catalog
from tests.doubles.clock import FakeClock
from tests.doubles.fake_cloud import FakeCloud
from trainplan.planner.errors import RefusedError
from trainplan.planner.forecast.plan import Plan
from trainplan.planner.planning.quotas import within_quotas
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import Offer


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    path: Path = small_catalog(tmp_path_factory.mktemp("quotas"))
    with Catalog.open(path) as opened:
        yield opened


@pytest.fixture
def plan(catalog: Catalog) -> Plan:
    return a_plan(catalog, every_placement=True, devices=frozenset({"T4"}))


class Account(FakeCloud):
    """`short` are the kinds of market and machine whose quota is too small."""

    def __init__(self, *short: str) -> None:
        super().__init__(FakeClock())
        self._short = short

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        return [f"{offer.market} in {offer.region}: 0 vCPUs" if offer.market in self._short else "" for offer in offers]


def aws_of(plan: Plan) -> set[str]:
    return {str(ranked.offer.market) for ranked in plan.candidates if ranked.offer.provider == "aws"}


def test_placements_with_too_small_a_quota_are_left_out_in_one_line_for_each_provider(plan: Plan) -> None:
    said: list[str] = []
    account = Account("spot")
    left = within_quotas(plan, lambda name: account if name == "aws" else FakeCloud(FakeClock()), said.append)
    assert (aws_of(plan), aws_of(left)) == ({"on_demand", "spot"}, {"on_demand"})
    assert len(left.candidates) < len(plan.candidates)
    others = [ranked for ranked in plan.candidates if ranked.offer.provider != "aws"]
    assert [ranked for ranked in left.candidates if ranked.offer.provider != "aws"] == others
    (line,) = said
    assert line.startswith("aws: left out ")
    assert "quotas or its plan do not allow: spot in " in line


def test_where_no_quota_is_large_enough_nothing_is_tried(plan: Plan) -> None:
    account = Account("spot", "on_demand")
    with pytest.raises(RefusedError, match="this account can launch none of the placements") as caught:
        within_quotas(plan, lambda _: account, lambda _: None)
    assert "plan doctor" in caught.value.hint


def test_who_does_not_tell_quotas_keeps_all_placements(plan: Plan) -> None:
    cloud = FakeCloud(FakeClock())
    said: list[str] = []
    assert within_quotas(plan, lambda _: cloud, said.append).candidates == plan.candidates
    assert said == []


class Doubtful(FakeCloud):
    """An account to which a vendor may refuse what is on spot."""

    def __init__(self) -> None:
        super().__init__(FakeClock())

    def doubts(self, offers: Sequence[Offer]) -> Sequence[str]:
        return ["the offer has no spot" if offer.market == "spot" else "" for offer in offers]


def test_what_may_be_refused_stays_and_is_told(plan: Plan) -> None:
    said: list[str] = []
    left = within_quotas(plan, lambda name: Doubtful() if name == "aws" else FakeCloud(FakeClock()), said.append)
    assert left.candidates == plan.candidates
    (line,) = said
    assert line.startswith("aws: ")
    assert line.endswith(" placements may be refused: the offer has no spot")


class Student(FakeCloud):
    """`shut` are the regions that a policy of the subscription closes."""

    def __init__(self, *shut: str) -> None:
        super().__init__(FakeClock())
        self._shut = shut

    def closed_regions(self, regions: Sequence[str]) -> Mapping[str, str]:
        return {region: "a policy allows nowhere alone" for region in regions if region in self._shut}


def test_placements_in_closed_regions_are_left_out_in_one_line(plan: Plan) -> None:
    said: list[str] = []
    regions = list(dict.fromkeys(ranked.offer.region for ranked in plan.candidates))
    student = Student(regions[0])
    left = within_quotas(plan, lambda _: student, said.append)
    assert {ranked.offer.region for ranked in left.candidates} == set(regions[1:])
    assert all(
        line.endswith("regions that are closed to the account (1): a policy allows nowhere alone") for line in said
    )
    assert said


def test_where_every_region_is_closed_nothing_is_tried(plan: Plan) -> None:
    student = Student(*(ranked.offer.region for ranked in plan.candidates))
    with pytest.raises(RefusedError, match="a policy allows nowhere alone") as caught:
        within_quotas(plan, lambda _: student, lambda _: None)
    assert "plan doctor" in caught.value.hint
