"""Durations as a person writes them (`10m`, `8h`, `1d12h`) and reads them."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"y": 365 * 86_400, "mo": 30 * 86_400, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DAYS_OF_A_MONTH = 30
_DAYS_OF_A_YEAR = 365
_LONGEST = timedelta(days=10 * 365)
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:mo|[ydhms]))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(mo|[ydhms])", re.ASCII)


def duration_of(value: object) -> timedelta:
    """A duration that is one already, or as a person writes it. Raises ValueError with the accepted form."""
    if isinstance(value, str):
        return parse_duration(value)
    if not isinstance(value, timedelta):
        raise ValueError("write a duration with its unit, for example 90s, 10m or 8h")
    if value > _LONGEST:
        raise ValueError(f"{format_duration(value)} is longer than ten years")
    return value


def parse_duration(text: str) -> timedelta:
    """`90s`, `10m`, `8h`, `1d12h`, `2 mo 9d` as a timedelta: months of 30 days, years of 365.

    Raises ValueError with the accepted form.
    """
    compact = text.replace(" ", "").lower()
    if not _WHOLE.fullmatch(compact):
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 10m, 8h or 1d12h")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(compact))
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"{text!r} is longer than ten years")
    return timedelta(seconds=seconds)


def format_duration(duration: timedelta) -> str:
    """The two largest units, as a person would say it: `1 y 3 mo`, `2 mo 9d`, `1d 04h`, `3h 07m`, `12m 30s`, `41s`.

    From two months on in months of 30 days, from a year on in years of 365 days.
    """
    seconds = round(duration.total_seconds())
    days, rest = divmod(seconds, 86_400)
    if days >= _DAYS_OF_A_YEAR:
        years, rest_days = divmod(days, _DAYS_OF_A_YEAR)
        return f"{years:,} y {min(rest_days // _DAYS_OF_A_MONTH, 11)} mo"
    if days >= 2 * _DAYS_OF_A_MONTH:
        months, rest_days = divmod(days, _DAYS_OF_A_MONTH)
        return f"{months} mo {rest_days}d"
    hours, rest = divmod(rest, 3_600)
    minutes, remaining = divmod(rest, 60)
    if days:
        return f"{days}d {hours:02}h"
    if hours:
        return f"{hours}h {minutes:02}m"
    if minutes:
        return f"{minutes}m {remaining:02}s"
    return f"{remaining}s"


_STEPS_SECONDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)


def format_estimate(seconds: float, low: float, high: float) -> tuple[str, str, str]:
    """An estimated duration and both ends of its interval, as the interval's width bears them: rounded to the largest
    round step that is no more than an eighth of it. `3h 07m` between 2h and 5h is `3h`, `58s` between 40 s and 90 s
    `1m`; the narrower the interval, the more digits are left."""
    step = max((step for step in _STEPS_SECONDS if step <= (high - low) / 8), default=1)
    expected, less, more = (_rounded(end, step) for end in (seconds, low, high))
    return expected, less, more


def _rounded(seconds: float, step: int) -> str:
    text = format_duration(timedelta(seconds=round(seconds / step) * step))
    # `3h 00m` would be known to the minute.
    finer = {"s": 1, "m": 60, "h": 3_600}
    first, _, second = text.partition(" ")
    return first if second and second[:-1] == "00" and step > finer[second[-1]] else text
