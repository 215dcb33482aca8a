"""What the vendor has billed beside the receipt: one run, or a month."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from trainplan.planner.report.page import Column, Table
from trainplan.providers.cloud.invoice import Invoice, Part, before_credits

APART = Decimal("0.03")
"""Receipt and bill are told apart by part where they differ by more than this share of the bill."""
_LEAST = Decimal("0.005")
_COLUMNS = (
    Column("part"), Column("receipt", right=True), Column("billed", right=True), Column("difference", right=True),
)  # fmt: skip
_MONTH_COLUMNS = (
    Column("run"), Column("job", shrinks=True), Column("estimated", right=True, rank_of_need=1),
    Column("receipt", right=True), Column("billed", right=True), Column("difference", right=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledRun:
    """A run as it was estimated, as its receipt has it, and as it was billed. Amounts by part; None: not known."""

    run_id: str
    job_name: str
    estimated_usd: Decimal | None
    receipt: Mapping[str, Decimal] | None
    billed: Mapping[Part, Decimal]
    at_most: bool = False
    project: str = ""

    @property
    def receipt_usd(self) -> Decimal | None:
        """The whole of the receipt."""
        return None if self.receipt is None else sum(self.receipt.values(), Decimal(0))

    @property
    def billed_amount(self) -> Decimal:
        """The whole of the bill before credits."""
        return before_credits(self.billed)

    @property
    def costs(self) -> dict[Part, Decimal]:
        """What was billed by part, without credits, which no receipt has."""
        return {part: amount for part, amount in self.billed.items() if part is not Part.CREDIT}


def billed_run(run_id: str, job_name: str, receipt: Mapping[str, Any], invoice: Invoice) -> BilledRun:
    """`receipt` is the record of the journal, empty where there is none."""
    estimated = receipt.get("estimated_usd")
    parts = receipt.get("usd_by_resource")
    return BilledRun(
        run_id=run_id,
        job_name=job_name,
        estimated_usd=None if estimated is None else Decimal(str(estimated)),
        receipt={name: Decimal(str(usd)) for name, usd in parts.items()} if parts else None,
        billed=invoice.by_part(run_id),
        at_most=bool(receipt.get("at_most")),
        project=str(receipt.get("project") or ""),
    )


def run_page(run: BilledRun, invoice: Invoice) -> list[Table | str]:
    """One run by part; the parts that differ are named."""
    parts = list(dict.fromkeys([*(run.receipt or {}), *map(str, run.costs)]))
    rows = [_row(run, part, invoice.currency) for part in parts if _of(run, part) != (None, None)]
    whole = ("total", _money(run.receipt_usd, "USD"), _money(run.billed_amount, invoice.currency), _off(run, invoice))
    estimated = f"estimated {_money(run.estimated_usd, 'USD')}" if run.estimated_usd is not None else ""
    lines = [estimated] if estimated else []
    lines += _credits(run.billed_amount, run.billed.get(Part.CREDIT, Decimal(0)), invoice.currency)
    if not run.billed:
        lines.append(f"nothing with the label of run {run.run_id} was billed so far")
    return [Table(_COLUMNS, [*rows, whole]), *lines, *reasons(run, invoice), *standing(invoice)]


def month_page(runs: Sequence[BilledRun], invoice: Invoice) -> list[Table | str]:
    """A month: each run that was billed, then what has no label, by part."""
    rows = [
        (
            run.run_id,
            run.job_name,
            _money(run.estimated_usd, "USD"),
            _money(run.receipt_usd, "USD"),
            _money(run.billed_amount, invoice.currency),
            _off(run, invoice),
        )
        for run in runs
    ]
    others = {part: amount for part, amount in invoice.by_part("").items() if part is not Part.CREDIT}
    total = sum(others.values(), Decimal(0))
    parts = ", ".join(f"{part} {_money(amount, invoice.currency)}" for part, amount in sorted(others.items()))
    lines = [f"without the label of a run: {_money(total, invoice.currency)} ({parts})"] if others else []
    lines += _credits(invoice.total, invoice.credit, invoice.currency)
    listed: list[Table | str] = (
        [Table(_MONTH_COLUMNS, rows)] if rows else ["nothing with the label of a run was billed"]
    )
    return [*listed, *lines, *standing(invoice)]


def drill_bill_page(runs: Sequence[BilledRun], invoice: Invoice) -> list[Table | str]:
    """The runs of a drill, billed or not."""
    nothing = [f"nothing with the label of run {run.run_id} was billed so far" for run in runs if not run.billed]
    table, *_ = month_page(runs, replace(invoice, lines=()))
    return [table, *nothing, *standing(invoice)]


def reasons(run: BilledRun, invoice: Invoice) -> list[str]:
    """Which parts make the difference, where it is above APART of the bill and both are in one currency."""
    receipt = run.receipt_usd
    if receipt is None or invoice.currency != "USD" or not run.billed:
        return []
    if abs(run.billed_amount - receipt) <= APART * abs(run.billed_amount):
        return []
    lines = []
    for part in dict.fromkeys([*(run.receipt or {}), *map(str, run.costs)]):
        ours, theirs = _of(run, part)
        apart = (theirs or Decimal(0)) - (ours or Decimal(0))
        if abs(apart) >= _LEAST:
            more = "more" if apart > 0 else "less"
            lines.append(f"{part}: {_money(abs(apart), 'USD')} {more} was billed than the receipt has{_why(part, run)}")
    return lines


def standing(invoice: Invoice) -> list[str]:
    """How whole the vendor's figures are."""
    if invoice.is_whole:
        return list(invoice.notes)
    return [*invoice.notes, f"not yet complete: the vendor may still add to costs from {invoice.whole_until} on"]


def _credits(cost: Decimal, credit: Decimal, currency: str) -> list[str]:
    """What credits pay of a cost, which is then not asked for."""
    if not credit:
        return []
    paid, whole, left = (_money(amount, currency) for amount in (-credit, cost, cost + credit))
    return [f"credits pay {paid} of {whole}: {left} is left to pay"]


def _why(part: str, run: BilledRun) -> str:
    if part == Part.TAX:
        return " (a receipt has no taxes: tax_percent in the settings adds them to estimates)"
    if part == Part.TRANSFER:
        return " (a receipt has transfer as it was estimated)"
    if run.at_most:
        return " (the receipt has the most: when it ended is not known)"
    return ""


def _row(run: BilledRun, part: str, currency: str) -> tuple[str, ...]:
    ours, theirs = _of(run, part)
    same = currency == "USD" and ours is not None and theirs is not None
    return (part, _money(ours, "USD"), _money(theirs, currency), _signed((theirs or 0) - (ours or 0)) if same else "-")


def _of(run: BilledRun, part: str) -> tuple[Decimal | None, Decimal | None]:
    ours = (run.receipt or {}).get(part)
    theirs = next((amount for name, amount in run.billed.items() if str(name) == part), None)
    return (ours or None, theirs)


def _off(run: BilledRun, invoice: Invoice) -> str:
    receipt = run.receipt_usd
    if receipt is None or invoice.currency != "USD" or not run.billed:
        return "-"
    share = (run.billed_amount - receipt) / receipt if receipt else None
    text = _signed(run.billed_amount - receipt)
    return text if share is None else f"{text} ({share:+.0%})"


def _signed(amount: Decimal | int) -> str:
    return f"{amount:+.2f}"


def _money(amount: Decimal | None, currency: str) -> str:
    if amount is None:
        return "-"
    return f"${amount:.2f}" if currency in ("USD", "") else f"{amount:.2f} {currency}"
