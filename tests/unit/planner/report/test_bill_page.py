"""A bill beside its receipt: by part, with what makes the difference."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from trainplan.planner.report.bill_page import billed_run, month_page, reasons, run_page
from trainplan.planner.report.page import Table
from trainplan.providers.cloud.invoice import Invoice, InvoiceLine, Part

DAY = date(2026, 11, 20)


def invoice(*lines: tuple[str, Part, str], currency: str = "USD", whole: bool = True) -> Invoice:
    return Invoice(
        begin=DAY,
        end=date(2026, 11, 22),
        currency=currency,
        lines=tuple(InvoiceLine(run_id=run, part=part, amount=Decimal(usd)) for run, part, usd in lines),
        whole_until=date(2026, 11, 22) if whole else DAY,
    )


RECEIPT = {"estimated_usd": 1.0, "usd_by_resource": {"compute": 0.9, "disk": 0.1, "address": 0.0, "transfer": 0.0}}


def test_a_bill_like_its_receipt_has_no_reasons() -> None:
    told = invoice(("r1", Part.COMPUTE, "0.91"), ("r1", Part.DISK, "0.1"))
    run = billed_run("r1", "digits", RECEIPT, told)
    assert reasons(run, told) == []
    (table, *lines) = run_page(run, told)
    assert isinstance(table, Table)
    assert table.rows[-1] == ("total", "$1.00", "$1.01", "+0.01 (+1%)")
    assert lines == ["estimated $1.00"]


def test_what_differs_is_named_by_part() -> None:
    told = invoice(("r1", Part.COMPUTE, "0.9"), ("r1", Part.TAX, "0.2"), ("r1", Part.TRANSFER, "0.3"), whole=False)
    run = billed_run("r1", "digits", RECEIPT, told)
    first, second, third = sorted(reasons(run, told))
    assert first == "disk: $0.10 less was billed than the receipt has"
    assert second.startswith("tax: $0.20 more was billed than the receipt has (a receipt has no taxes")
    assert "as it was estimated" in third
    assert run_page(run, told)[-1] == "not yet complete: the vendor may still add to costs from 2026-11-20 on"


def test_credits_are_a_part_of_their_own_and_no_difference() -> None:
    """A receipt is compared with what was used, whoever pays it."""
    told = invoice(
        ("r1", Part.COMPUTE, "0.91"), ("r1", Part.DISK, "0.1"), ("r1", Part.CREDIT, "-1.01"), ("", Part.CREDIT, "-0.5"),
        ("", Part.STORAGE, "2"),
    )  # fmt: skip
    run = billed_run("r1", "digits", RECEIPT, told)
    assert reasons(run, told) == []
    (table, *lines) = run_page(run, told)
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["compute", "disk", "total"]
    assert table.rows[-1] == ("total", "$1.00", "$1.01", "+0.01 (+1%)")
    assert lines[1] == "credits pay $1.01 of $1.01: $0.00 is left to pay"
    page = month_page([run], told)
    assert page[1:] == [
        "without the label of a run: $2.00 (storage $2.00)", "credits pay $1.51 of $3.01: $1.50 is left to pay",
    ]  # fmt: skip


def test_a_month_in_which_the_credits_ran_out() -> None:
    """The figures of 2026-04 and 2026-05 that femiwiki/femiwiki#520 has of its account (2026-09-20)."""
    told = invoice(("", Part.COMPUTE, "166.33"), ("", Part.TAX, "5.36"), ("", Part.CREDIT, "-112.82"))
    assert month_page([], told)[-1] == "credits pay $112.82 of $171.69: $58.87 is left to pay"
    without = invoice(("", Part.COMPUTE, "170.72"), ("", Part.TAX, "17.08"))
    assert month_page([], without)[-1] == "without the label of a run: $187.80 (compute $170.72, tax $17.08)"


def test_another_currency_is_shown_and_not_compared() -> None:
    told = invoice(("r1", Part.COMPUTE, "0.9"), currency="EUR")
    run = billed_run("r1", "digits", RECEIPT, told)
    (table, *_) = run_page(run, told)
    assert isinstance(table, Table)
    assert table.rows[-1] == ("total", "$1.00", "0.90 EUR", "-")
    assert reasons(run, told) == []


def test_a_run_without_a_receipt_or_a_bill_is_told() -> None:
    told = invoice()
    page = run_page(billed_run("r1", "digits", {}, told), told)
    assert "nothing with the label of run r1 was billed so far" in page


def test_a_month_has_what_has_no_label_apart() -> None:
    told = invoice(("r1", Part.COMPUTE, "0.9"), ("", Part.STORAGE, "2"), ("", Part.TAX, "0.5"))
    page = month_page([billed_run("r1", "digits", RECEIPT, told)], told)
    assert page[1] == "without the label of a run: $2.50 (storage $2.00, tax $0.50)"
    assert month_page([], invoice())[0] == "nothing with the label of a run was billed"


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "r1", "r2"]), st.sampled_from(Part), st.integers(-10_000, 10_000)), max_size=30
    )
)
def test_no_line_of_a_bill_is_lost(rows: list[tuple[str, Part, int]]) -> None:
    told = invoice(*((run, part, str(Decimal(cents) / 100)) for run, part, cents in rows))
    by_run = {run: sum(told.by_part(run).values(), Decimal(0)) for run in ("", *told.run_ids)}
    assert sum(by_run.values(), Decimal(0)) == sum((line.amount for line in told.lines), Decimal(0))
