"""What is charged beside machines, region by region: which row holds where, and what counts where none does."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.conftest import ROOT
from tests.unit.pricing.conftest import TextDir, a_side_rate
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.side_rates import ASSUMED, BETWEEN_REGIONS, GB, INTERNET, WITHIN_A_REGION, Rate, SideRates
from trainplan.pricing.table_text import TableError


def side_of(text_dir: TextDir, *rows: dict[str, str], provider: str = "aws") -> SideRates:
    text_dir.side_rates += rows
    with Catalog.open(text_dir.compile()) as catalog:
        return catalog.rates[provider].side


def usd(rate: Rate | None) -> Decimal:
    assert rate is not None
    return rate.usd


@pytest.mark.parametrize(
    ("provider", "region", "disk", "internet"),
    [
        ("aws", "us-east-1", "0.08", "0.09"),
        ("aws", "eu-central-1", "0.0952", "0.09"),
        ("aws", "sa-east-1", "0.152", "0.15"),
        ("aws", "af-south-1", "0.1047", "0.154"),
        ("gcp", "us-central1", "0.1", "0.12"),
        ("gcp", "europe-west4", "0.11", "0.12"),
        ("gcp", "southamerica-east1", "0.15", "0.12"),
        ("azure", "eastus", "0.075", "0.0875"),
        ("azure", "brazilsouth", "0.14", "0.181"),
        ("azure", "australiaeast", "0.102", "0.12"),
    ],
)
def test_disk_and_transfer_have_the_rates_of_their_region(
    shipped: Catalog, provider: str, region: str, disk: str, internet: str
) -> None:
    """Those that the vendors' lists have, as read on the days that the rows name."""
    rates = shipped.rates[provider].at(region)
    assert (rates.disk.usd, rates.internet.usd) == (Decimal(disk), Decimal(internet))
    assert {rates.disk.grade, rates.internet.grade} == {"listed"}


def test_a_region_without_a_row_has_the_dearest_rate_of_its_vendor(shipped: Catalog) -> None:
    rates = shipped.rates["aws"].at("eu-central-2", bucket="eu-central-1")
    assert rates.disk.usd == Decimal("0.152")
    assert rates.disk.grade == ASSUMED
    assert rates.disk.ground.startswith(
        "assumed, no rate is known in eu-central-2: the dearest known one counts, of sa-east-1"
    )
    from_melbourne = shipped.rates["aws"].at("us-east-1", bucket="ap-southeast-4")
    assert (from_melbourne.fetched.usd, from_melbourne.fetched.grade) == (Decimal("0.147"), ASSUMED)
    assert "from ap-southeast-4 to us-east-1" in from_melbourne.fetched.ground


@pytest.mark.parametrize("provider", ["aws", "gcp", "azure"])
def test_every_region_of_the_catalog_has_rates_with_their_ground(shipped: Catalog, provider: str) -> None:
    rates = shipped.rates[provider]
    regions = {offer[0] for offer in shipped.cheapest(provider)}
    assert len(regions) > 25
    for region in regions:
        here = rates.at(region, bucket=min(regions))
        for rate in (here.disk, here.address, here.internet):
            assert rate.usd > 0
            assert rate.ground
        assert (here.fetched.usd > 0) is (region != min(regions))


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("aws disk", "gp3"),
        ("aws transfer, out and between regions", INTERNET),
        ("gcp disk, address", "pd-balanced"),
        ("azure disk", "StandardSSD_LRS"),
    ],
)
def test_the_documentation_counts_the_regions_that_have_a_rate(shipped: Catalog, sentence: str, kind: str) -> None:
    text = (ROOT / "docs" / "prices.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith(f"| {sentence} |"))
    provider = sentence.split()[0]
    side = shipped.rates[provider].side
    grades = {region: rate.grade for region, _, _ in shipped.cheapest(provider) if (rate := side.rate(kind, region))}
    without = sorted(region for region, grade in grades.items() if grade == ASSUMED)
    assert f"| {len(grades) - len(without)} regions |" in line
    assert all(region in line or f"-{region.rpartition('-')[2]}" in line for region in without)


@pytest.mark.parametrize(
    ("provider", "region", "to", "expected"),
    [
        ("aws", "us-east-1", "eu-west-1", "0.02"),
        ("aws", "us-east-1", "us-east-2", "0.01"),
        ("aws", "sa-east-1", "us-east-1", "0.138"),
        ("gcp", "us-central1", "us-east4", "0.02"),
        ("gcp", "us-central1", "europe-north1", "0.05"),
        ("gcp", "asia-east1", "australia-southeast1", "0.10"),
        ("gcp", "australia-southeast1", "southamerica-east1", "0.10"),
        ("azure", "eastus", "westus2", "0.02"),
        ("azure", "eastus", "westeurope", "0.05"),
        ("azure", "japaneast", "eastus", "0.08"),
        ("azure", "brazilsouth", "eastus", "0.16"),
    ],
)
def test_traffic_between_regions_has_the_rate_of_the_pair(
    shipped: Catalog, provider: str, region: str, to: str, expected: str
) -> None:
    rates = shipped.rates[provider]
    assert usd(rates.side.transfer(region, to)) == Decimal(expected)
    assert rates.at(to, bucket=region).fetched == rates.side.transfer(region, to)
    assert rates.at(to, bucket=region).stored == rates.side.transfer(to, region)


@pytest.mark.parametrize("provider", ["aws", "gcp", "azure"])
def test_within_a_region_nothing_is_charged_and_the_vendor_says_so(shipped: Catalog, provider: str) -> None:
    here = shipped.rates[provider].at("anywhere", bucket="anywhere")
    assert here.fetched == here.stored
    assert here.fetched.usd == 0
    assert "nothing is charged" in here.fetched.source or "no price is listed" in here.fetched.source
    assert shipped.rates[provider].at("anywhere") == here  # without a bucket that is known, it is taken to be there


def test_the_region_goes_before_its_group_and_that_before_everywhere(text_dir: TextDir) -> None:
    text_dir.groups.append({"provider": "aws", "group": "north", "regions": "n1 n2", "source": "list"})
    side = side_of(
        text_dir,
        a_side_rate("aws", INTERNET, "3", per=GB),
        a_side_rate("aws", INTERNET, "2", per=GB, region="north"),
        a_side_rate("aws", INTERNET, "1", per=GB, region="n1 n9"),
    )
    assert [usd(side.rate(INTERNET, region)) for region in ("n1", "n2", "s1", "n9")] == [1, 2, 3, 1]


def test_the_nearer_of_two_pairs_holds(text_dir: TextDir) -> None:
    text_dir.groups.append({"provider": "aws", "group": "north", "regions": "n1 n2", "source": "list"})
    side = side_of(
        text_dir,
        a_side_rate("aws", BETWEEN_REGIONS, "4", per=GB, region="north", to="*"),
        a_side_rate("aws", BETWEEN_REGIONS, "3", per=GB, region="north", to="north"),
        a_side_rate("aws", BETWEEN_REGIONS, "2", per=GB, region="n1", to="*"),
        a_side_rate("aws", BETWEEN_REGIONS, "1", per=GB, region="n1", to="n2"),
    )
    pairs = [("n1", "n2"), ("n1", "s1"), ("n2", "n1"), ("n2", "s1"), ("s1", "n1")]
    assert [usd(side.transfer(*pair)) for pair in pairs] == [1, 2, 3, 4, 4]
    assert side.transfer("s1", "s1") is None


def test_a_kind_that_nobody_has_a_rate_of(text_dir: TextDir) -> None:
    assert side_of(text_dir).rate("tape", "us-east-1") is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (a_side_rate("aws", "gp9", "0"), "above 0"),
        (a_side_rate("aws", "gp9", "-0.1"), "above 0"),
        (a_side_rate("aws", "gp9", "NaN"), "above 0"),
        (a_side_rate("aws", "gp9", "1", per="decade"), "decade"),
        (a_side_rate("aws", "gp9", "1", source="hearsay"), "hearsay"),
        (a_side_rate("aws", "gp9", "1", as_of=""), "has the day"),
        (a_side_rate("aws", "gp9", "1", as_of="2026-10"), "2026-10"),
        (a_side_rate("aws", "gp9", "1", region=""), "where does"),
        (a_side_rate("aws", "gp9", "1", to="us-east-1"), "where does"),
        (a_side_rate("aws", BETWEEN_REGIONS, "1"), "where does"),
    ],
)
def test_a_rate_that_cannot_be(text_dir: TextDir, row: dict[str, str], message: str) -> None:
    with pytest.raises(TableError, match=rf"(?s)side_rates\.csv:\d+.*{message}"):
        side_of(text_dir, row)


def test_a_rate_of_general_knowledge_has_no_day(text_dir: TextDir) -> None:
    rate = side_of(text_dir, a_side_rate("aws", "gp9", "1", as_of="", source="advisor")).rate("gp9", "us-east-1")
    assert rate is not None
    assert rate.ground == "estimated, a share of on demand"
    assert usd(side_of(text_dir, a_side_rate("aws", WITHIN_A_REGION, "0", per=GB)).transfer("a", "a")) == 0


def test_two_rates_for_one_placement(text_dir: TextDir) -> None:
    with pytest.raises(TableError, match="two rows for aws gp9 b"):
        side_of(text_dir, a_side_rate("aws", "gp9", "1", region="a b"), a_side_rate("aws", "gp9", "2", region="b"))


def test_a_region_in_two_groups(text_dir: TextDir) -> None:
    text_dir.groups += [
        {"provider": "aws", "group": name, "regions": "n1", "source": "list"} for name in ("north", "south")
    ]
    with pytest.raises(TableError, match="aws n1 is in two groups"):
        side_of(text_dir)


def test_the_disk_of_launches_needs_a_rate(text_dir: TextDir) -> None:
    text_dir.side_rates = [row for row in text_dir.side_rates if row["kind"] != "gp3"]
    with pytest.raises(TableError, match=r"no rate for aws gp3"):
        side_of(text_dir)
