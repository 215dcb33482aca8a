"""What things that bill cost a month: the catalog's rate of their kind in their region, and its ground."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from trainplan.pricing.catalog import REFRESHED
from trainplan.providers.cloud.bill import NO_PRICE, MonthlyPrice, Tariff
from trainplan.providers.gcp.reply import region_in


@pytest.mark.parametrize(
    ("provider", "kind", "region", "usd", "ground"),
    [
        (
            "aws",
            "gp3",
            "sa-east-1",
            "1.52",
            "gp3: 0.152 USD per gb_month; listed, 2021-07-14: https://aws.amazon.com/ebs",
        ),
        ("aws", "gp2", "us-east-1", "1", "gp2: 0.1 USD per gb_month; listed, 2021-07-14: "),
        (
            "aws",
            "gp3",
            "eu-central-2",
            "1.52",
            "gp3: 0.152 USD per gb_month; assumed, no rate is known in eu-central-2",
        ),
        ("aws", "io1", "us-east-1", "1.25", "io1: 0.125 USD per gb_month; estimated, unverified; its IOPS"),
        ("aws", "address", "us-east-1", "36.5", "address: 0.005 USD per hour; listed, 2026-10-16: "),
        ("gcp", "pd-ssd", "europe-west4", "1.87", "pd-ssd: 0.187 USD per gb_month; listed, 2026-07-30: "),
        ("gcp", "snapshot", "", "0.5", "snapshot: 0.05 USD per gb_month; listed, 2026-11-22: regional"),
        (
            "azure",
            "StandardSSD_LRS",
            "uksouth",
            "0.825",
            "StandardSSD_LRS: 0.0825 USD per gb_month; listed, 2023-01-23: ",
        ),
    ],
)
def test_ten_of_a_kind_in_a_region(provider: str, kind: str, region: str, usd: str, ground: str) -> None:
    price = Tariff(provider).price(kind, region, 10)
    assert price.usd_per_month == Decimal(usd)
    assert price.ground.startswith(ground)


def test_what_has_no_rate_has_no_price() -> None:
    assert Tariff("aws").price("tape", "us-east-1", 10) == MonthlyPrice(None, NO_PRICE)
    assert Tariff("nobody").price("gp3", "us-east-1", 10) == MonthlyPrice(None, NO_PRICE)


def test_without_a_catalog_the_shipped_one_counts(tmp_path: Path) -> None:
    (tmp_path / REFRESHED).write_bytes(b"no catalog")
    assert Tariff("aws", tmp_path).price("gp3", "us-east-1").usd_per_month == Decimal("0.08")


@pytest.mark.parametrize(
    ("location", "region"),
    [
        ("us-central1-a", "us-central1"),
        ("us-central1", "us-central1"),
        ("europe-west10-b", "europe-west10"),
        ("global", "global"),
    ],
)
def test_the_region_of_a_zone_or_a_region(location: str, region: str) -> None:
    assert region_in(location) == region
