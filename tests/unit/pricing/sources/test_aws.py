"""AWS' bulk files and the Spot Advisor, in their recorded shapes and in those that must not be believed."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator, Mapping
from decimal import Decimal

import pytest

from tests.doubles.price_lists import AWS_COLUMNS, NoHttp, advisor_file, aws_file, aws_index, aws_row
from trainplan.pricing.sources.aws import Endpoints, lines, parse_advisor, parse_index, parse_offers, read
from trainplan.pricing.sources.reading import Count, Parsed, SourceError, TypeSeen


def parse(*rows: dict[str, str]) -> Parsed:
    """The rows beside one that is surely a price."""
    return parse_offers(lines([aws_file([aws_row("g4dn.xlarge", "0.5260000000"), *rows])]), "us-east-1")


def prices(parsed: Parsed) -> dict[str, Decimal]:
    return {one.instance_type: one.usd_per_hour for one in parsed.prices}


def test_a_machine_on_demand() -> None:
    parsed = parse(aws_row("p5.48xlarge", "55.0400000000", vCPU="192", Memory="2,048 GiB", GPU="8"))
    assert prices(parsed) == {"g4dn.xlarge": Decimal("0.526"), "p5.48xlarge": Decimal("55.04")}
    assert parsed.types == [TypeSeen("g4dn.xlarge", 4, 16.0, 1), TypeSeen("p5.48xlarge", 192, 2048.0, 8)]
    assert not parsed.skipped
    assert {one.region for one in parsed.prices} == {"us-east-1"}


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"TermType": "Reserved"}, Count.OTHER_PRODUCT),
        ({"Operating_System": "Windows"}, None),
        ({"Tenancy": "Dedicated"}, None),
        ({"Tenancy": "Host"}, None),
        ({"CapacityStatus": "AllocatedCapacityReservation"}, None),
        ({"CapacityStatus": "UnusedCapacityReservation"}, None),
        ({"Product_Family": "Compute Instance (bare metal)"}, Count.OTHER_PRODUCT),
        ({"Pre_Installed_S/W": "SQL Web"}, Count.OTHER_PRODUCT),
        ({"MarketOption": "CapacityBlock"}, Count.OTHER_PRODUCT),
        ({"Location_Type": "AWS Local Zone"}, Count.OTHER_PRODUCT),
        ({"Region_Code": "us-east-1-bos-1"}, Count.OTHER_PLACEMENT),
        ({"Instance_Type": "../../etc"}, Count.OTHER_PLACEMENT),
        ({"Instance_Type": ""}, Count.OTHER_PLACEMENT),
        ({"Currency": "CNY"}, Count.OTHER_CURRENCY),
        ({"Currency": ""}, Count.OTHER_CURRENCY),
        ({"Unit": "Quantity"}, Count.OTHER_UNIT),
        ({"Unit": "GB-Mo"}, Count.OTHER_UNIT),
        ({"StartingRange": "100"}, Count.TIERS),
        ({"EndingRange": "1000"}, Count.TIERS),
        ({"PricePerUnit": "0.0000000000"}, Count.NO_PRICE),
        ({"PricePerUnit": "-1"}, Count.NO_PRICE),
        ({"PricePerUnit": "NaN"}, Count.NO_PRICE),
        ({"PricePerUnit": "1e9"}, Count.NO_PRICE),
        ({"PricePerUnit": ""}, Count.NO_PRICE),
        ({"PricePerUnit": "1" * 60}, Count.NO_PRICE),
    ],
)
def test_what_is_no_price_of_a_linux_machine(columns: dict[str, str], why: Count | None) -> None:
    parsed = parse(aws_row("g5.xlarge", "1.006") | {key.replace("_", " "): value for key, value in columns.items()})
    assert "g5.xlarge" not in prices(parsed)
    assert dict(parsed.skipped) == ({} if why is None else {why: 1})


@pytest.mark.parametrize(
    ("unit", "usd", "per_hour"),
    [("Hrs", "1.5", "1.5"), ("Hours", "1.5", "1.5"), ("Second", "0.0005", "1.8"), ("100 Hours", "150", "1.5")],
)
def test_odd_units(unit: str, usd: str, per_hour: str) -> None:
    assert prices(parse(aws_row("g5.xlarge", usd, Unit=unit)))["g5.xlarge"] == Decimal(per_hour)


def test_duplicates_count_once_and_of_two_prices_the_dearer() -> None:
    parsed = parse(aws_row("g5.xlarge", "1.006"), aws_row("g5.xlarge", "1.006"), aws_row("g5.xlarge", "1.2"))
    assert prices(parsed)["g5.xlarge"] == Decimal("1.2")
    assert dict(parsed.skipped) == {Count.TWO_PRICES: 1}
    assert len(parsed.prices) == 2


@pytest.mark.parametrize("columns", [{"Memory": "NA"}, {"vCPU": ""}, {"GPU": "NA"}, {"Memory": "16 GB"}])
def test_a_machine_that_is_not_described_still_has_a_price(columns: dict[str, str]) -> None:
    parsed = parse(aws_row("g5.xlarge", "1.006") | columns)
    assert "g5.xlarge" in prices(parsed)
    assert [one.name for one in parsed.types] == ["g4dn.xlarge"]


def test_pieces_of_a_stream_may_end_anywhere() -> None:
    content = aws_file([aws_row("g4dn.xlarge", "0.526"), aws_row("g5.xlarge", "1.006")])
    for size in (1, 7, 1000):
        pieces = [content[start : start + size] for start in range(0, len(content), size)]
        assert len(parse_offers(lines(pieces), "us-east-1").prices) == 2


def test_windows_line_ends() -> None:
    content = aws_file([aws_row("g4dn.xlarge", "0.526")]).replace(b"\n", b"\r\n")
    assert len(parse_offers(lines([content]), "us-east-1").prices) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"<!DOCTYPE html><html><body>Sign in to the network</body></html>", "a web page came"),
        (b"\n" * 30, "no header"),
        (aws_file([]), "no prices of Linux machines"),
        (aws_file([aws_row("g5.xlarge", "1", Tenancy="Dedicated")]), "no prices of Linux machines"),
        (aws_file([aws_row("g5.xlarge", "1")]).replace(b'"CapacityStatus"', b'"State"'), "no column 'CapacityStatus'"),
        (aws_file([aws_row("g5.xlarge", "1")]).replace(b"g5.xlarge", b"g5.xl\xffrge"), "cannot be read"),
        (b"x" * (3 << 20), "a line without an end"),
    ],
)
def test_what_is_no_price_list(content: bytes, message: str) -> None:
    pieces = [content[start : start + 65536] for start in range(0, len(content), 65536)]
    with pytest.raises(SourceError, match=message):
        parse_offers(lines(pieces), "us-east-1")


def test_a_file_that_is_cut_off_in_a_row_is_refused() -> None:
    content = aws_file([aws_row("g4dn.xlarge", "0.526"), aws_row("g5.xlarge", "1.006", Operating_System="Windows")])
    begin = content.rindex(b'"2223B6PCG6QAUYY6"')
    # To the last comma every cut shows; behind it the row is whole.
    for end in range(begin + 1, content.rindex(b",")):
        with pytest.raises(SourceError, match="cut off"):
            parse_offers(lines([content[:end]]), "us-east-1")


def test_the_index() -> None:
    assert parse_index(aws_index(["us-east-1", "eu-west-1"]))["eu-west-1"] == (
        "/offers/v1.0/aws/AmazonEC2/20261118193211/eu-west-1/index.csv"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"<html>",
        b"[]",
        b"{}",
        b'{"regions": {}}',
        b'{"regions": {"us-east-1": {}}}',
        b'{"regions": {"us-east-1": {"currentVersionUrl": "https://elsewhere.example/index.json"}}}',
        b'{"regions": {"us-east-1": {"currentVersionUrl": "/offers/v1.0/index.xml"}}}',
        b'{"regions":' + b"[" * 100_000,
    ],
)
def test_an_index_that_is_none(content: bytes) -> None:
    with pytest.raises(SourceError):
        parse_index(content)


class Files(NoHttp):
    """An index of these regions, and the same file for each."""

    def __init__(self, *regions: str) -> None:
        self.regions = regions

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        return aws_index(list(self.regions))

    def stream(self, url: str, headers: Mapping[str, str] | None = None) -> Iterator[bytes]:
        region = url.split("/")[-2]
        yield aws_file([aws_row("g4dn.xlarge", "0.526", Region_Code=region)])


@pytest.mark.parametrize(
    ("regions", "read_of"),
    [
        (None, {"us-east-1": "", "ap-southeast-7": ""}),
        (["us-east-1"], {"us-east-1": ""}),
        (["us-gov-west-1", "mars"], {"us-gov-west-1": "", "mars": "AWS lists no region 'mars'"}),
    ],
)
def test_regions_that_are_read(regions: list[str] | None, read_of: dict[str, str]) -> None:
    files = Files("us-east-1", "ap-southeast-7", "us-gov-west-1", "cn-north-1", "us-west-2-lax-1", "us-east-1-wl1-bos1")
    parts = list(read(files, Endpoints(), regions))
    assert {part.name: part.error for part in parts} == read_of
    assert all(part.parsed.prices[0].region == part.name for part in parts if not part.error)


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


def test_the_double_has_the_columns_that_are_read() -> None:
    assert len(set(AWS_COLUMNS)) == len(AWS_COLUMNS)


def test_a_list_of_any_length_takes_the_same_memory() -> None:
    """A region's file has hundreds of MB: what is no Linux machine passes through."""
    begin, price = aws_file([]), aws_file([aws_row("g4dn.xlarge", "0.526")])[len(aws_file([])) :]
    other = price.replace(b'"Linux"', b'"SUSE"') * 200

    def pieces(count: int) -> Iterator[bytes]:
        yield begin + price
        for _ in range(count):
            yield other

    peaks = []
    for count in (10, 200):
        tracemalloc.start()
        assert len(parse_offers(lines(pieces(count)), "us-east-1").prices) == 1
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.2
    assert peaks[1] < 4 << 20
