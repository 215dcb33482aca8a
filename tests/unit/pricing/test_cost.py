"""Whole-run cost."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from tests.builders import FREE_RATES
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.cost import RunUsage, run_cost
from trainplan.pricing.money import UsdPerHour
from trainplan.providers.registry import CLOUDS

USAGE = RunUsage(disk_gb=Decimal(100), addresses=1, egress_gb=Decimal(20))


def test_the_parts_of_a_run_on_ec2(shipped: Catalog) -> None:
    rates = shipped.rates["aws"].at("us-east-1")
    cost = run_cost(UsdPerHour(Decimal("0.526")), timedelta(hours=5), USAGE, rates)
    assert cost.compute == Decimal("2.63")
    assert round(cost.disk, 3) == Decimal("0.055")  # the worked example: gp3, 100 GB x 0.08 / 730 x 5
    assert cost.address == Decimal("0.025")
    assert cost.transfer == Decimal("1.80")  # the same example: 20 GB to another cloud, 1.80 on EC2
    assert cost.between_regions == 0
    assert cost.total == cost.compute + cost.disk + cost.address + cost.transfer


def test_the_same_run_in_sao_paulo_with_its_bucket_in_virginia(shipped: Catalog) -> None:
    """150 GB from Virginia at 0.02, 90 GB to it at 0.138, a disk at 0.152; the model leaves Virginia at 0.09."""
    usage = USAGE._replace(fetched_gb=Decimal(150), stored_gb=Decimal(90))
    rates = shipped.rates["aws"].at("sa-east-1", bucket="us-east-1")
    cost = run_cost(UsdPerHour(Decimal(0)), timedelta(hours=5), usage, rates)
    assert cost.between_regions == Decimal("3.00") + Decimal("12.42")
    assert cost.disk == 100 * Decimal("0.152") / 730 * 18_000 / 3600
    assert cost.transfer == Decimal("1.80")
    assert cost.total == cost.disk + cost.address + cost.transfer + cost.between_regions


def test_twenty_gb_leave_google_for_two_dollars_forty(shipped: Catalog) -> None:
    cost = run_cost(UsdPerHour(Decimal(0)), timedelta(0), USAGE, shipped.rates["gcp"].at("europe-west4"))
    assert cost.transfer == cost.total == Decimal("2.40")
    assert cost.compute == cost.disk == cost.address == 0


def test_ones_own_machine_costs_what_its_hour_costs() -> None:
    cost = run_cost(UsdPerHour(Decimal("0.10")), timedelta(minutes=30), USAGE, FREE_RATES.at("here"))
    assert cost.total == cost.compute == Decimal("0.05")


def test_every_rate_names_its_source(shipped: Catalog) -> None:
    assert set(shipped.rates) >= set(CLOUDS)
    for provider in CLOUDS:
        rates = shipped.rates[provider]
        here = rates.at("anywhere")
        assert all(rate.source for rate in (here.disk, here.address, here.internet, here.fetched, rates.storage()))
        assert rates.billing_source
