"""What a vendor has billed, by the label of a run: the vendor's own service for costs tells it, days later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Protocol, runtime_checkable


class Part(StrEnum):
    """What was paid for. The first four are the parts of a receipt (trainplan.planner.runs.run.BilledUsd). CREDIT is
    what the vendor takes off again: its amounts are below 0, and all other parts are before credits."""

    COMPUTE = "compute"
    DISK = "disk"
    ADDRESS = "address"
    TRANSFER = "transfer"
    STORAGE = "storage"
    TAX = "tax"
    CREDIT = "credit"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceLine:
    """`run_id` is "" for what has no label of a run; `what` is how the vendor calls it."""

    run_id: str
    part: Part
    amount: Decimal
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """Lines of the days from `begin` up to but without `end`, in `currency`. `whole_until`: the vendor may still add to
    costs from that day on. `notes` are what the vendor does not tell by label, and why."""

    begin: date
    end: date
    currency: str
    lines: tuple[InvoiceLine, ...]
    whole_until: date
    notes: Sequence[str] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is added any more, as far as the vendor says."""
        return self.whole_until >= self.end

    def by_part(self, run_id: str) -> dict[Part, Decimal]:
        """What one run was billed, or what has no label (""); parts of 0 are left out."""
        return sum_by_part(line for line in self.lines if line.run_id == run_id)

    @property
    def total(self) -> Decimal:
        """What all lines cost before credits."""
        return before_credits(sum_by_part(self.lines))

    @property
    def credit(self) -> Decimal:
        """What credits take off all lines, 0 or below."""
        return sum_by_part(self.lines).get(Part.CREDIT, Decimal(0))

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs that something was billed for, in the order of the lines."""
        return tuple(dict.fromkeys(line.run_id for line in self.lines if line.run_id))


def sum_by_part(lines: Iterable[InvoiceLine]) -> dict[Part, Decimal]:
    """The sums of lines; lines of 0 are left out."""
    found: dict[Part, Decimal] = {}
    for line in lines:
        if line.amount:
            found[line.part] = found.get(line.part, line.amount * 0) + line.amount
    return found


def before_credits(amounts: Mapping[Part, Decimal]) -> Decimal:
    """What was paid for costs before credits: what a receipt can be compared with."""
    return sum((amount for part, amount in amounts.items() if part is not Part.CREDIT), Decimal(0))


@runtime_checkable
class Invoices(Protocol):
    """What some providers can do besides: tell what was billed."""

    def asking_costs(self) -> str:
        """What the vendor charges for the question, in words; "" where it is free."""
        ...

    def invoice(self, begin: date, end: date) -> Invoice:
        """What was billed from the day `begin` up to but without `end` (UTC). Raises ProviderError."""
        ...
