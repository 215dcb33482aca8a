"""A share of `make fuzz`, and that it can fail."""

from __future__ import annotations

import pytest

from tests.fuzz.mutations import Crash
from tests.fuzz.prices import Target, refreshes, run
from trainplan.pricing.sources.reading import Parsed


def test_mutated_price_lists() -> None:
    outcomes = run(5_000, seed=2)
    assert outcomes["refused"] + outcomes["understood"] == 5_000
    assert min(outcomes["refused"], outcomes["understood"], outcomes["taken over"] * 20) > 1_000


def test_refreshes_from_damaged_lists() -> None:
    outcomes = refreshes(10, seed=51)
    assert outcomes["refreshes"] == 30
    assert min(outcomes["refused"], outcomes["used"], outcomes["lists"] - outcomes["refused"]) > 100


def test_a_parser_that_lets_an_error_through_is_found() -> None:
    def careless(content: bytes) -> Parsed:
        assert content.count(b"{") == 2, "a count that mutations change"
        return Parsed()

    with pytest.raises(Crash, match=r"careless, seed 1/\d+: AssertionError"):
        run(1_000, seed=1, targets=[Target("aws careless", b"{{", careless, structured=False)])
