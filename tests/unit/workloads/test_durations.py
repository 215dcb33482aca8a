"""Durations as a person writes and reads them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainplan.workloads.durations import format_duration, format_estimate, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("8h", 28_800),
        ("1d12h", 129_600),
        ("1.5h", 5_400),
        ("1h 30m", 5_400),
        ("2D", 172_800),
        ("0s", 0),
        ("3650d", 3650 * 86_400),
    ],
)
def test_reads_what_people_write(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "8", "h", "8x", "-8h", "8h-", "1e3s", ".5h", "8 hours", "1:30", "٣h", "8h\n9"])
def test_refuses_what_is_none_and_says_the_form(text: str) -> None:
    with pytest.raises(ValueError, match="for example 90s, 10m, 8h or 1d12h"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["3651d", "9" * 400 + "d", "900000000000h"])
def test_refuses_what_no_run_lasts(text: str) -> None:
    with pytest.raises(ValueError, match="longer than ten years"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.4, "0s"),
        (41, "41s"),
        (59.6, "1m 00s"),
        (750, "12m 30s"),
        (3_599.7, "1h 00m"),
        (11_220, "3h 07m"),
        (100_800, "1d 04h"),
        (86_400 * 60 - 1, "59d 23h"),
        (86_400 * 69, "2 mo 9d"),
        (86_400 * 364, "12 mo 4d"),
        (86_400 * 442, "1 y 2 mo"),
        (86_400 * 729, "1 y 11 mo"),
        (86_400 * 365 * 1_200, "1,200 y 0 mo"),
    ],
)
def test_says_the_two_largest_units(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.integers(min_value=0, max_value=3_599))
def test_below_an_hour_nothing_is_lost(seconds: int) -> None:
    assert parse_duration(format_duration(timedelta(seconds=seconds))) == timedelta(seconds=seconds)


@given(st.integers(min_value=0, max_value=3_000 * 86_400))
def test_what_is_said_is_off_by_less_than_its_smaller_unit(seconds: int) -> None:
    said = parse_duration(format_duration(timedelta(seconds=seconds))).total_seconds()
    days = seconds / 86_400
    # The eleventh month of a year has the five days more that twelve months of 30 days leave.
    off = 35 * 86_400 if days >= 365 else 86_400 if days >= 60 else 3_600 if days >= 1 else 60
    assert 0 <= seconds - said < off


@pytest.mark.parametrize(
    ("seconds", "low", "high", "texts"),
    [
        (58, 38, 90, ("1m", "40s", "1m 30s")),
        (613, 501, 747, ("10m", "8m 30s", "12m 30s")),
        (11_220, 7_200, 18_000, ("3h", "2h", "5h")),
        (198_720, 129_600, 345_600, ("2d 06h", "1d 12h", "4d")),
        (600, 600, 600, ("10m 00s", "10m 00s", "10m 00s")),
        (11_220, 11_000, 11_500, ("3h 07m", "3h 03m", "3h 12m")),
    ],
)
def test_an_estimate_has_as_many_digits_as_its_interval_bears(
    seconds: float, low: float, high: float, texts: tuple[str, str, str]
) -> None:
    assert format_estimate(seconds, low, high) == texts


@given(st.floats(1, 700), st.floats(1, 5), st.floats(1, 5))
def test_rounding_an_estimate_moves_it_by_no_more_than_a_sixteenth_of_its_width(
    seconds: float, less: float, more: float
) -> None:
    """Below an hour, where a duration is written to the second."""
    ends = (seconds, seconds / less, seconds * more)
    read = [parse_duration(text).total_seconds() for text in format_estimate(*ends)]
    most = max((ends[2] - ends[1]) / 16, 0.5) + 1e-6
    assert all(abs(one - end) <= most for one, end in zip(read, ends, strict=True))
