"""A share of `make fuzz`, and that it can fail."""

from __future__ import annotations

import pytest

from tests.fuzz.mutations import Crash
from tests.fuzz.prices import Target, refreshes, run
from trainplan.pricing.held_prices import Check
from trainplan.pricing.sources.reading import Parsed


def test_mutated_price_lists() -> None:
    outcomes = run(5_000, seed=2)
    assert outcomes["refused"] + outcomes["understood"] == 5_000
    assert min(outcomes["refused"], outcomes["understood"], outcomes["taken over"] * 20) > 1_000


def test_refreshes_from_damaged_lists() -> None:
    outcomes = refreshes(10, seed=51)
    assert outcomes["refreshes"] == 30
    read = outcomes["lists"] - outcomes["refused"]
    assert min(outcomes["refused"], outcomes["used"], outcomes["held"], read) > 100


def test_a_refresh_that_uses_what_fails_a_check_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Check, "passes", lambda *_: True)
    with pytest.raises(Crash, match=r"seed 2026/\d+: \S+ is used: "):
        refreshes(5, seed=2026)


def test_a_parser_that_lets_an_error_through_is_found() -> None:
    def careless(content: bytes) -> Parsed:
        assert content.count(b"{") == 2, "a count that mutations change"
        return Parsed()

    with pytest.raises(Crash, match=r"careless, seed 1/\d+: AssertionError"):
        run(1_000, seed=1, targets=[Target("aws careless", b"{{", careless, structured=False)])
