"""Whole-run cost."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from pricing.cost import RunUsage, run_cost
from pricing.money import UsdPerHour
from tests.builders import FREE_RATES

if TYPE_CHECKING:
    from pricing.catalog import Catalog

USAGE = RunUsage(disk_gb=Decimal(100), addresses=1, egress_gb=Decimal(20))


def test_the_parts_of_a_run_on_ec2(shipped: Catalog) -> None:
    cost = run_cost(UsdPerHour(Decimal("0.526")), timedelta(hours=5), USAGE, shipped.rates["aws"])
    assert cost.compute == Decimal("2.63")
    assert round(cost.disk, 3) == Decimal("0.055")  # the worked example: gp3, 100 GB x 0.08 / 730 x 5
    assert cost.address == Decimal("0.025")
    assert cost.transfer == Decimal("1.80")  # the same example: 20 GB to another cloud, 1.80 on EC2
    assert cost.total == cost.compute + cost.disk + cost.address + cost.transfer


def test_twenty_gb_leave_google_for_two_dollars_forty(shipped: Catalog) -> None:
    cost = run_cost(UsdPerHour(Decimal(0)), timedelta(0), USAGE, shipped.rates["gcp"])
    assert cost.transfer == cost.total == Decimal("2.40")
    assert cost.compute == cost.disk == cost.address == 0


def test_ones_own_machine_costs_what_its_hour_costs() -> None:
    cost = run_cost(UsdPerHour(Decimal("0.10")), timedelta(minutes=30), USAGE, FREE_RATES)
    assert cost.total == cost.compute == Decimal("0.05")


def test_every_rate_names_its_source(shipped: Catalog) -> None:
    assert set(shipped.rates) == {"aws", "azure", "gcp"}
    for rates in shipped.rates.values():
        assert {rate for rate, _ in rates.sources} == {"disk", "address", "egress", "object_storage", "billing"}
