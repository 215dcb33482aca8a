"""What Cost Management tells, read by run and part over its pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

from tests.unit.providers.azure.conftest import Client
from trainplan.providers.cloud.invoice import Invoices, Part

MakeWorld = Callable[..., "Client"]
COSTS = [
    ["r1", "Virtual Machines", "NCasT4_v3 Series", 0.75],
    ["r1", "Storage", "Standard SSD Managed Disks", 0.5],
    ["r1", "Virtual Network", "IP Addresses", 0.125],
    ["", "Storage", "General Block Blob v2", 2.0],
    ["r2", "Bandwidth", "Inter-Region", 0.25],
]


def test_costs_are_told_by_run_and_part(make_world: MakeWorld) -> None:
    world = make_world()
    world.azure.control("costs", rows=COSTS)
    provider = world.provider
    assert isinstance(provider, Invoices)
    assert provider.asking_costs() == ""
    today = provider.now().date()
    invoice = provider.invoice(today - timedelta(days=30), today - timedelta(days=10))
    assert invoice.by_part("r1") == {
        Part.COMPUTE: Decimal("0.75"), Part.DISK: Decimal("0.5"), Part.ADDRESS: Decimal("0.125")
    }  # fmt: skip
    assert invoice.by_part("") == {Part.STORAGE: Decimal("2.0")}
    assert (invoice.run_ids, invoice.currency, invoice.is_whole) == (("r1", "r2"), "CHF", True)
    assert "before tax" in invoice.notes[0]


def test_the_last_days_are_not_yet_whole(make_world: MakeWorld) -> None:
    provider = make_world().provider
    today = provider.now().date()
    invoice = provider.invoice(today - timedelta(days=5), today)
    assert (invoice.is_whole, invoice.lines) == (False, ())
