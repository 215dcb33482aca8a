"""What differs between two states of prices, and when a person should look first."""

from __future__ import annotations

import pytest

from trainplan.pricing.changes import Changes, Key, compare, unbelievable


def prices(count: int, usd: int = 1_000_000, market: str = "on_demand") -> dict[Key, int]:
    return {Key("us-east-1", f"m{number}", market): usd for number in range(count)}


def test_what_differs() -> None:
    one, two, three, four = (Key("r", name, "spot") for name in ("a", "b", "c", "d"))
    changes = compare({one: 10, two: 10, three: 10}, {one: 20, two: 9, four: 1})
    assert changes.text == "1 new, 1 gone, 1 dearer, 1 cheaper, 0 as before"
    assert changes.removed_offers == (three,)
    assert [(change.key, change.before, change.after) for change in changes.moved] == [(one, 10, 20), (two, 10, 9)]


def verdict(before: dict[Key, int], after: dict[Key, int]) -> tuple[str, ...]:
    return unbelievable(compare(before, after), len(before))


@pytest.mark.parametrize(("row_count", "is_held"), [(100, False), (80, False), (79, True), (0, True)])
def test_a_fifth_may_go(row_count: int, *, is_held: bool) -> None:
    assert bool(verdict(prices(100), prices(row_count))) is is_held


@pytest.mark.parametrize(
    ("moved", "usd", "is_held"),
    [
        (25, 1_600_000, False),
        (26, 1_600_000, True),
        (100, 1_500_000, False),
        (26, 600_000, True),
        (100, 700_000, False),
    ],
)
def test_a_quarter_may_move_by_more_than_half(moved: int, usd: int, *, is_held: bool) -> None:
    assert bool(verdict(prices(100), prices(100) | prices(moved, usd))) is is_held


def test_spot_may_move_as_it_likes() -> None:
    changes = compare(prices(100, market="spot"), prices(100, 9_000_000, market="spot"))
    assert unbelievable(changes, 100) == ()


def test_of_a_handful_no_share_is_taken() -> None:
    assert verdict(prices(19), {}) == ()


def test_nothing_to_compare() -> None:
    assert compare({}, {}) == Changes(0, 0, (), 0, 0, 0, ())
