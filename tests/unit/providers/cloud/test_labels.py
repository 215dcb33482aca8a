"""Labels, instants and numbers of vendors: read as they are written, None where they cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from trainplan.providers.cloud.labels import instant, number

AT = datetime(2026, 11, 21, 12, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2026-11-21T12:00:01Z", AT),  # Google's and Azure's
        ("2026-11-21T12:00:01+00:00", AT),  # AWS's tags, as they are written here
        ("2026-11-21T14:00:01+02:00", AT.astimezone(timezone(timedelta(hours=2)))),
        ("2026-11-21T12:00:01.1234567Z", AT + timedelta(microseconds=123456)),  # Azure: up to seven digits
        ("2026-11-21T12:00:01.123456789Z", AT + timedelta(microseconds=123456)),  # Cloud TPU: nanoseconds
        ("2026-11-21T12:00:01", None),  # whose clock it is nobody knows
        ("tomorrow", None),
        ("", None),
        (None, None),
        (1_700_000_000, None),
    ],
)
def test_instants(text: object, read: datetime | None) -> None:
    assert instant(text) == read


@pytest.mark.parametrize(
    ("text", "read"),
    [("0", 0), ("12", 12), ("-1", None), ("1.5", None), ("", None), ("one", None), (None, None), (3, None)],
)
def test_numbers(text: object, read: int | None) -> None:
    assert number(text) == read
