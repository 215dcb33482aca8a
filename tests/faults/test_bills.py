"""Estimate, receipt and bill of three runs on each double: no bill is above its receipt."""

from __future__ import annotations

from decimal import Decimal

import pytest

from benchmarks import bills
from tests.drill.worlds import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_receipts_are_right_or_at_most(name: str) -> None:
    rows = list(bills.rows_of(name))
    assert len(rows) == 3
    for row in rows:
        receipt, bill, difference = (cell.strip() for cell in row.split("|")[4:7])
        billed = Decimal(bill.split()[0])
        assert Decimal(difference) <= billed / 100, "never more than the receipt says"
        assert receipt.startswith("at most") or Decimal(difference) >= -billed / 100
