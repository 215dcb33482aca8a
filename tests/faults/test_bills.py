"""Estimate, receipt and bill of three runs on each double: the page shows them, and no bill is above its receipt."""

from __future__ import annotations

from decimal import Decimal

import pytest

from benchmarks import bills
from tests.drill.worlds import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_them_and_receipts_are_right_or_at_most(name: str) -> None:
    rows = list(bills.rows_of(name))
    page = bills.PAGE.read_text(encoding="utf-8").partition(bills.BEGIN)[2].partition(bills.END)[0]
    # Figures on the page are those of the price list of their day.
    shown = [line.split(" | ")[:2] for line in page.splitlines()]
    assert [row.split(" | ")[:2] for row in rows] == [start for start in shown if start[0] == f"| {name}"]
    for row in rows:
        receipt, bill, difference = (cell.strip() for cell in row.split("|")[4:7])
        billed = Decimal(bill.split()[0])
        assert Decimal(difference) <= billed / 100, "never more than the receipt says"
        assert receipt.startswith("at most") or Decimal(difference) >= -billed / 100
