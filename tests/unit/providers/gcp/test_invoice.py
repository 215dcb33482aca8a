"""What the export of a billing account tells, read by run and part over its pages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.doubles.google import budgets
from tests.doubles.google.server import GoogleServer
from tests.unit.providers.gcp.account_side import Project, reset
from trainplan.providers.cloud.invoice import Invoices, Part
from trainplan.providers.errors import BadRequestError
from trainplan.providers.gcp.provider import make

TABLE = "my-billing.costs.gcp_billing_export_v1_000000_111111_222222"


def row(run: str, sku: str, cost: str, credit: str = "0") -> dict[str, str]:
    return {
        "run_id": run, "service": "Compute Engine", "sku": sku, "currency": "EUR", "cost": cost, "credit": credit
    }  # fmt: skip


@pytest.fixture
def project(server: GoogleServer, tmp_path: Path) -> Iterator[Project]:
    reset(server)
    made = Project(server, tmp_path)
    yield made
    assert made.world.violations == []


def test_costs_are_told_by_run_and_part(project: Project) -> None:
    table = project.world.table(budgets.Budgets)
    table.costs = [
        row("r1", "Spot Preemptible N1 Predefined Instance Core running in Americas", "0.5"),
        row("r1", "Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas", "1"),
        row("r1", "Balanced PD Capacity", "0.25"),
        row("", "Network Inter Region Data Transfer Out", "3"),
        row("r2", "External IP Charge on a Spot Preemptible VM", "0.125"),
    ]
    provider = make(project.settings(billing_export=TABLE))
    assert isinstance(provider, Invoices)
    today = provider.now().date()
    invoice = provider.invoice(today - timedelta(days=30), today - timedelta(days=10))
    assert invoice.by_part("r1") == {Part.COMPUTE: Decimal("1.5"), Part.DISK: Decimal("0.25")}
    assert invoice.by_part("r2") == {Part.ADDRESS: Decimal("0.125")}
    assert invoice.by_part("") == {Part.TRANSFER: Decimal(3)}
    assert (invoice.currency, invoice.is_whole) == ("EUR", True)
    assert f"FROM `{TABLE}`" in table.asked["query"]
    assert provider.invoice(today - timedelta(days=5), today).is_whole is False


def test_what_credits_pay_is_a_part_of_its_own(project: Project) -> None:
    """A free trial's 300 dollars: the export has what was used, and the same amount off it."""
    project.world.table(budgets.Budgets).costs = [
        row("r1", "Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas", "12", "-12"),
        row("r1", "Balanced PD Capacity", "0.25"),
    ]
    provider = make(project.settings(billing_export=TABLE))
    today = provider.now().date()
    invoice = provider.invoice(today - timedelta(days=30), today - timedelta(days=10))
    assert invoice.by_part("r1") == {
        Part.COMPUTE: Decimal(12), Part.DISK: Decimal("0.25"), Part.CREDIT: Decimal(-12)
    }  # fmt: skip
    assert (invoice.total, invoice.credit) == (Decimal("12.25"), Decimal(-12))


def test_without_an_export_it_is_told_how_to_have_one(project: Project) -> None:
    today = project.provider.now().date()
    with pytest.raises(BadRequestError, match="export") as caught:
        project.provider.invoice(today - timedelta(days=5), today)
    assert "billing_export" in caught.value.hint


@pytest.mark.parametrize("table", ["costs", "p.d", "a-project.d.t; DROP TABLE x", "a-project.d.`t`"])
def test_a_table_that_is_none_is_told(project: Project, table: str) -> None:
    with pytest.raises(BadRequestError, match=r"PROJECT\.DATASET\.TABLE"):
        make(project.settings(billing_export=table))
