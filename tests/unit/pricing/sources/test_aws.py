"""AWS without an account: the lists behind its two price pages, and the Spot Advisor."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tests.doubles.price_lists import NoHttp, advisor_file, aws_list, aws_locations, aws_row, spot_columns, spot_list
from trainplan.pricing.grades import Market
from trainplan.pricing.sources.aws import (
    LIST_ID,
    SPOT_ID,
    Endpoints,
    parse_advisor,
    parse_locations,
    parse_on_demand,
    parse_spot,
    read_on_demand,
    read_spot,
)
from trainplan.pricing.sources.reading import Count, Parsed, SourceError, TypeSeen

TODAY = date(2026, 11, 21)
REGION, LOCATION = "us-east-1", "US East (N. Virginia)"


def on_demand(*rows: Mapping[str, str], **manifest: Any) -> Parsed:
    return parse_on_demand(gzip.decompress(aws_list(REGION, rows, **manifest)), REGION, (LOCATION,), TODAY)


def test_the_list_of_a_region_has_its_date_its_prices_and_its_machines() -> None:
    parsed = on_demand(
        aws_row("g4dn.xlarge", "0.526"),
        aws_row("m5.24xlarge", "4.608", vCPU="96", Memory="1,952 GiB"),
        aws_row("g5.xlarge", "1.006", Operating_System="Windows"),
        aws_row("p5.48xlarge", "0"),
        aws_row("", "1"),
    )
    assert [(one.instance_type, one.usd_per_hour, one.source, one.as_of) for one in parsed.prices] == [
        ("g4dn.xlarge", Decimal("0.526"), LIST_ID, date(2026, 11, 18)),
        ("m5.24xlarge", Decimal("4.608"), LIST_ID, date(2026, 11, 18)),
    ]
    # The list does not say how many accelerators a machine has.
    assert parsed.types == [TypeSeen("g4dn.xlarge", 4, 16.0, None), TypeSeen("m5.24xlarge", 96, 1952.0, 0)]
    assert +parsed.skipped == {Count.OTHER_PRODUCT: 1, Count.NO_PRICE: 1, Count.INCOMPLETE: 1}


def test_of_two_prices_that_disagree_neither_is_taken() -> None:
    parsed = on_demand(*(aws_row(name, usd) for name, usd in (("a.large", "1"), ("a.large", "2"), ("b.large", "3"))))
    assert [(one.instance_type, parsed.skipped[Count.DISAGREE]) for one in parsed.prices] == [("b.large", 1)]
    same = spot_list({REGION: {"g5.xlarge": "0.4"}}).replace(
        b'"generalPreviousGen","sizes":[]',
        b'"generalPreviousGen","sizes":[\
{"size":"g5.xlarge","valueColumns":[{"name":"linux","prices":{"USD":"0.40"}}]}]',
    )
    assert [one.usd_per_hour for one in parse_spot(same, {REGION}, TODAY).prices] == [Decimal("0.40")]


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({"hawkFilePublicationDate": None}, "no date that can be"),
        ({"hawkFilePublicationDate": "2027-01-01T00:00:00Z"}, "no date that can be"),
        ({"hawkFilePublicationDate": "2026-05-13T00:00:00Z"}, "published on 2026-05-13: it is no list of today"),
        ({"currencyCode": "CNY"}, "in 'CNY', not in USD"),
    ],
)
def test_a_manifest_that_surprises_is_refused(manifest: dict[str, Any], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        on_demand(aws_row("g4dn.xlarge", "0.526"), **manifest)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<!DOCTYPE html><title>Access denied</title>", "a web page came"),
        (b"callback({});", "damaged"),
        (b"", "is empty"),
        (json.dumps({"manifest": {}}).encode(), "no date that can be"),
        (gzip.decompress(aws_list("us-east-2", [aws_row("g4dn.xlarge", "0.526")])), "no rows of US East"),
        (gzip.decompress(aws_list(REGION, [aws_row("g4dn.xlarge", "0")])), "no prices of Linux machines"),
    ],
)
def test_another_shape_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        parse_on_demand(content, REGION, (LOCATION,), TODAY)


def test_names_of_regions_that_everybody_may_use() -> None:
    assert parse_locations(aws_locations([REGION, "eu-west-1", "cn-north-1"])) == {
        REGION: LOCATION,
        "eu-west-1": "EU (Ireland)",
    }
    for content in (b"{}", b"[]", b"<html>", json.dumps({"a": {"type": "AWS Region", "code": []}}).encode()):
        with pytest.raises(SourceError):
            parse_locations(content)


class Lists(NoHttp):
    """The lists of some regions, and the one of spot prices, last changed on `modified`."""

    def __init__(self, *regions: str, modified: date | None = None) -> None:
        self.regions, self.modified = regions, modified
        self.requests: list[str] = []

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        self.requests.append(url)
        if url.endswith("locations.json"):
            return aws_locations(self.regions)
        region = REGION if "Virginia" in url else url.split("/")[-3]
        return gzip.decompress(aws_list(region, [aws_row("g4dn.xlarge", "0.526")]))

    def get_dated(self, url: str) -> tuple[bytes, date | None]:
        return spot_list({REGION: {"g4dn.xlarge": "0.2"}}), self.modified


def test_each_region_is_a_part_and_one_that_aws_does_not_name_fails_alone() -> None:
    lists = Lists(REGION, "ap-southeast-7", "us-gov-west-1")
    parts = list(read_on_demand(lists, Endpoints(), [REGION, "ap-southeast-7", "mars"], TODAY))
    assert {part.name: part.error for part in parts} == {
        "ap-southeast-7": "", "mars": "AWS lists no region 'mars'", REGION: "",
    }  # fmt: skip
    assert any(url.endswith("/US%20East%20(N.%20Virginia)/Linux/index.json") for url in lists.requests)


def test_a_region_of_europe_is_found_under_both_of_its_spellings() -> None:
    class Europe(NoHttp):
        def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
            if url.endswith("locations.json"):
                return aws_locations(["eu-west-1"]).replace(b"EU (", b"Europe (")
            if "Europe" in url:
                raise SourceError("answers 404")
            return gzip.decompress(aws_list("eu-west-1", [aws_row("g4dn.xlarge", "0.587")]))

    (part,) = read_on_demand(Europe(), Endpoints(), ["eu-west-1"], TODAY)
    assert [(one.region, one.usd_per_hour) for one in part.parsed.prices] == [("eu-west-1", Decimal("0.587"))]


def test_spot_prices_by_region_as_the_list_writes_them() -> None:
    content = spot_list(
        {
            REGION: {"g4dn.xlarge": "0.2265", "t3.nano": "9.0E-4", "p5.48xlarge": "N/A*", "p4d.24xlarge": "N/A"},
            "us-east": {"g4dn.xlarge": "0.1"},
            "us-west-2-lax-1": {"g4dn.xlarge": "0.1"},
        }
    )
    parsed = parse_spot(content, {REGION, "me-central-1"}, TODAY)
    assert {(one.region, one.instance_type): one.usd_per_hour for one in parsed.prices} == {
        (REGION, "g4dn.xlarge"): Decimal("0.2265"),
        (REGION, "t3.nano"): Decimal("0.0009"),
    }
    assert {(one.market, one.source, one.as_of, one.zones) for one in parsed.prices} == {
        (Market.SPOT, SPOT_ID, TODAY, ())
    }
    assert +parsed.skipped == {Count.NO_PRICE: 2, Count.OTHER_PLACEMENT: 2}


@pytest.mark.parametrize(
    "change",
    [{"rate": "permonth"}, {"regions": None}, {"regions": []}, {"regions": [{"region": []}, 7]}],
)
def test_another_shape_of_the_spot_list_is_refused(change: dict[str, Any]) -> None:
    whole = json.loads(spot_list({REGION: {"g4dn.xlarge": "0.2"}}))
    whole["config"] |= change
    with pytest.raises(SourceError, match="its format has changed"):
        parse_spot(json.dumps(whole).encode(), {REGION}, TODAY)


def test_a_size_without_a_price_of_linux_is_left_out() -> None:
    whole = json.loads(spot_list({REGION: {"g4dn.xlarge": "0.2", "g5.xlarge": "0.4"}}))
    sizes = whole["config"]["regions"][0]["instanceTypes"][0]["sizes"]
    sizes[1]["valueColumns"] = spot_columns("0.4")[1:]
    sizes.append({"size": None, "valueColumns": spot_columns("1")})
    parsed = parse_spot(json.dumps(whole).encode(), {REGION}, TODAY)
    assert ([one.instance_type for one in parsed.prices], +parsed.skipped) == (["g4dn.xlarge"], {Count.INCOMPLETE: 2})


def test_the_spot_list_is_of_the_day_that_its_server_says_or_of_today() -> None:
    for modified, as_of in ((None, TODAY), (date(2026, 11, 20), date(2026, 11, 20))):
        part = read_spot(Lists(modified=modified), Endpoints(), [REGION], TODAY)
        assert [one.as_of for one in part.parsed.prices] == [as_of]
        assert (part.keeps_missing, len(part.digest)) == (True, 64)
    frozen = read_spot(Lists(modified=date(2024, 5, 13)), Endpoints(), [REGION], TODAY)
    assert (frozen.error, frozen.parsed.prices) == (
        "the list of spot prices was last changed on 2024-05-13: it is no list of today", [],
    )  # fmt: skip


def test_spot_advisor() -> None:
    advice = parse_advisor(advisor_file({"us-east-1": {"g4dn.xlarge": (60, 3), "g5.xlarge": (0, 0)}}))
    assert advice.buckets == {("us-east-1", "g4dn.xlarge"): (3, 60), ("us-east-1", "g5.xlarge"): (0, 0)}
    assert advice.skipped == 0


@pytest.mark.parametrize(
    "entry", [{"s": 101, "r": 1}, {"s": 50, "r": 5}, {"s": "50", "r": 1}, {"r": 1}, 7, {"s": True, "r": 1}]
)
def test_advice_that_cannot_be_is_left_out(entry: object) -> None:
    whole = json.loads(advisor_file({"us-east-1": {"g4dn.xlarge": (60, 3)}}))
    whole["spot_advisor"]["us-east-1"]["Linux"]["g5.xlarge"] = entry
    advice = parse_advisor(json.dumps(whole).encode())
    assert (list(advice.buckets), advice.skipped) == ([("us-east-1", "g4dn.xlarge")], 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranges": []}, "other ranges"),
        ({"spot_advisor": {}}, "no Linux machines"),
        ({"spot_advisor": 3}, "other ranges"),
    ],
)
def test_an_advisor_that_has_changed(change: dict[str, object], message: str) -> None:
    whole = json.loads(advisor_file({"us-east-1": {"g4dn.xlarge": (60, 3)}})) | change
    with pytest.raises(SourceError, match=message):
        parse_advisor(json.dumps(whole).encode())
