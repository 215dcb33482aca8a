"""The setting `regions`: which names it takes, and what becomes of placements elsewhere."""

from __future__ import annotations

import pytest

from trainplan.providers.cloud.regions import check_region, regions_of
from trainplan.providers.errors import BadRequestError, CapacityError


@pytest.mark.parametrize("text", ["us-east-1,eu-west-1", "us-east-1 eu-west-1", " eu-west-1 , us-east-1 "])
def test_names_are_divided_by_commas_or_spaces(text: str) -> None:
    assert regions_of({"regions": text}, "aws") == {"us-east-1", "eu-west-1"}


def test_without_the_setting_every_region_may_be_used() -> None:
    assert regions_of({}, "aws") == frozenset()
    check_region("us-east-1", frozenset(), "aws")


@pytest.mark.parametrize("name", ["US-EAST-1", "us_east_1", "1east", "*", "a" * 70])
def test_what_is_no_name_of_a_region_is_refused(name: str) -> None:
    with pytest.raises(BadRequestError, match="aws: regions: ") as caught:
        regions_of({"regions": name}, "aws")
    assert "us-east-1" in caught.value.hint


def test_a_placement_outside_is_passed_over() -> None:
    check_region("eu-west-1", frozenset({"eu-west-1"}), "aws")
    with pytest.raises(CapacityError, match="us-east-1 is not in the setting `regions`"):
        check_region("us-east-1", frozenset({"eu-west-1"}), "aws")
