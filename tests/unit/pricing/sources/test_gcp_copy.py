"""Google without a key: another project's copy of its prices."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal

import pytest

from tests.doubles.price_lists import NoHttp, copy_changes, google_copy
from trainplan.pricing.compile import TEXT_DIR
from trainplan.pricing.grades import Market
from trainplan.pricing.sources.gcp_copy import COPY_ID, Endpoints, parse_changes, parse_copy, read
from trainplan.pricing.sources.reading import Count, Parsed, SourceError
from trainplan.pricing.tables import read_tables

TODAY, AS_OF = date(2026, 11, 21), date(2026, 11, 20)
TYPES = [kind for (provider, _), kind in read_tables(TEXT_DIR).types.items() if provider == "gcp"]
ROWS = [
    ("n1-standard-4", "us-central1", "us-central1-a", "0.19", "0.04"),
    ("n1-standard-4", "us-central1", "us-central1-b", "0.19", "0.04"),
    ("T4 1.0", "us-central1", "us-central1-a", "0.35", "0.14"),
    ("T4 2.0", "us-central1", "us-central1-a", "0.7", "0.28"),
    ("c4-standard-2", "us-central1", "us-central1-a", "0.09", "0.04"),
    ("tpu-v5litepod-1 1", "us-central1", "us-central1-a", "1.2", "0.298"),
    ("tpu-v6e-1 1", "us-central1", "us-central1-b", "2.7", "700.0"),
]


def parsed(rows: list[tuple[str, str, str, str, str]]) -> Parsed:
    return parse_copy(google_copy(rows), TYPES, AS_OF)


def test_a_machine_is_its_host_and_its_accelerator_and_a_tpu_one_row() -> None:
    copy = parsed(ROWS)
    assert {(one.instance_type, one.market): (one.usd_per_hour, one.host, one.device) for one in copy.prices} == {
        ("n1-standard-4", Market.ON_DEMAND): (Decimal("0.19"), None, None),
        ("n1-standard-4", Market.SPOT): (Decimal("0.04"), None, None),
        ("n1-standard-4+1xT4", Market.ON_DEMAND): (Decimal("0.54"), Decimal("0.19"), Decimal("0.35")),
        ("n1-standard-4+1xT4", Market.SPOT): (Decimal("0.18"), None, None),
        ("tpu-v5litepod-1", Market.ON_DEMAND): (Decimal("1.2"), None, None),
        ("tpu-v5litepod-1", Market.SPOT): (Decimal("0.298"), None, None),
        ("tpu-v6e-1", Market.ON_DEMAND): (Decimal("2.7"), None, None),
    }
    assert {(one.source, one.as_of, one.region) for one in copy.prices} == {(COPY_ID, AS_OF, "us-central1")}
    assert copy.skipped[Count.NO_PRICE] == 1, "700.0 stands for a price that Google does not list"


def test_where_the_zones_of_a_region_differ_no_price_is_taken() -> None:
    copy = parsed([*ROWS, ("T4 1.0", "us-central1", "us-central1-c", "0.35", "0.2")])
    assert ("n1-standard-4+1xT4", Market.SPOT) not in {(one.instance_type, one.market) for one in copy.prices}
    assert copy.skipped[Count.DISAGREE] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>", "no column"),
        (b"", "no column"),
        (b"404: Not Found", "no column"),
        (google_copy(ROWS)[:-20], "cut off or is damaged"),
        (google_copy(ROWS) + b'"', "cut off or is damaged"),
        (google_copy(ROWS).replace(b"us", b"\xff"), "cut off or is damaged"),
        (google_copy([]), "no machine that is known here"),
    ],
)
def test_what_is_no_copy(content: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        parse_copy(content, TYPES, AS_OF)


@pytest.mark.parametrize(
    "content", [b"[]", b"{}", b"<html>", b'{"message": "API rate limit exceeded"}', b'[{"commit": 3}]']
)
def test_without_the_day_of_its_last_change_the_copy_is_not_read(content: bytes) -> None:
    assert parse_changes(copy_changes()) == AS_OF
    with pytest.raises(SourceError):
        parse_changes(content)


class Lists(NoHttp):
    """The copy, last changed on `day`."""

    def __init__(self, day: str) -> None:
        self.day = day

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        return copy_changes(self.day) if "commits" in url else google_copy(ROWS)


@pytest.mark.parametrize(
    ("day", "error"),
    [("2026-11-20", ""), ("2026-08-01", "last changed on 2026-08-01"), ("2027-01-01", "last changed on 2027-01-01")],
)
def test_a_copy_that_nobody_makes_any_more_is_refused(day: str, error: str) -> None:
    part = read(Lists(day), Endpoints(), TYPES, frozenset({"us-central1"}), TODAY)
    assert error in part.error
    assert bool(part.parsed.prices) == (not error)
    assert part.keeps_missing
