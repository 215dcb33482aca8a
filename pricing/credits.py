"""Credits that a person has with a vendor: they pay for runs there until they are used up or end.

A credit does not change a price: it says who pays. What is left is computed from the runs of this home.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import NamedTuple

from trainplan.pricing.money import format_usd
from trainplan.pricing.own_rates import OwnRateError, parse_day, parse_number

KEYS = ("provider", "usd_left", "as_of", "until", "account", "note")
_MOST_USD = 100_000_000
_HINT = 'for example {provider = "gcp", usd_left = 300, as_of = 2026-11-23, until = 2027-02-21, note = "trial"}'


class Credit(NamedTuple):
    """`usd_left` was left at the beginning of the day `as_of` (UTC). `until` is the last day on which it pays (None:
    no end); `account` is the account that has it, as trainplan.providers.registry.account_in_use names it ("": any)."""

    provider: str
    usd_left: Decimal
    as_of: date
    until: date | None = None
    account: str = ""
    note: str = ""

    @property
    def text(self) -> str:
        """`gcp, until 2027-02-21 (trial)`."""
        until = f", until {self.until}" if self.until is not None else ""
        return f"{self.provider}{until}{f' ({self.note})' if self.note else ''}"

    def pays_on(self, day: date) -> bool:
        """Whether it pays for what begins on a day."""
        return self.as_of <= day and (self.until is None or day <= self.until)


class Bill(NamedTuple):
    """What a run costs at a provider, counted on the day on which it began."""

    run_id: str
    provider: str
    began_at: datetime
    usd: Decimal

    @property
    def day(self) -> date:
        """The day (UTC) on which the run began."""
        return self.began_at.astimezone(UTC).date()


class Payments(NamedTuple):
    """What is left of each credit after some bills, in the credits' order, and what credits paid of each run."""

    left_usd: tuple[Decimal, ...]
    paid_usd: Mapping[str, Decimal]


def payments(credits_of_person: Sequence[Credit], bills: Iterable[Bill]) -> Payments:
    """Bills in the order in which the runs began, each paid by the credit that ends first, as vendors do."""
    left = [credit.usd_left for credit in credits_of_person]
    order = sorted(range(len(left)), key=lambda index: credits_of_person[index].until or date.max)
    by_run: dict[str, Decimal] = {}
    for bill in sorted(bills, key=lambda bill: (bill.began_at, bill.run_id)):
        due = bill.usd
        for index in order:
            credit = credits_of_person[index]
            if credit.provider == bill.provider and credit.pays_on(bill.day):
                share = min(left[index], due)
                left[index] -= share
                due -= share
        by_run[bill.run_id] = by_run.get(bill.run_id, Decimal(0)) + bill.usd - due
    return Payments(tuple(left), by_run)


class CurrentCredits(NamedTuple):
    """The credits that pay now, with what is left of them, and a line for each that no longer does."""

    credits: tuple[Credit, ...] = ()
    lines: tuple[str, ...] = ()
    other_accounts: tuple[str, ...] = ()


def current_credits(
    credits_of_person: Sequence[Credit], today: date, accounts: Mapping[str, str], bills: Iterable[Bill] = ()
) -> CurrentCredits:
    """The credits of the accounts in use (by provider) that have not ended, less what `bills` have used of them."""
    of_accounts = [one for one in credits_of_person if one.account in ("", accounts.get(one.provider, ""))]
    others = [one for one in credits_of_person if one not in of_accounts]
    paying: list[Credit] = []
    lines: list[str] = []
    for credit, left in zip(of_accounts, payments(of_accounts, bills).left_usd, strict=True):
        if credit.until is not None and credit.until < today:
            lines.append(f"credit no longer used: {credit.text}: it ended on {credit.until}")
        elif left <= 0:
            used = format_usd(credit.usd_left)
            lines.append(
                f"credit no longer used: {credit.text}: runs of this home have used its {used} since {credit.as_of}"
            )
        elif credit.pays_on(today):
            paying.append(credit._replace(usd_left=left))
        else:
            lines.append(f"credit not used yet: {credit.text}: its amount is that of {credit.as_of}")
    other_lines = (
        f"credit not used: {one.text}: it is for account {one.account}, which is not known to be in use"
        for one in others
    )
    return CurrentCredits(tuple(paying), tuple(lines), tuple(other_lines))


def parse_credits(table: object) -> tuple[Credit, ...]:
    """`prices.credit` of the settings, a list of tables. Raises OwnRateError naming the entry."""
    listing = table.get("credit", []) if isinstance(table, Mapping) else []
    if not isinstance(listing, list):
        raise OwnRateError("prices.credit is a list of tables", _HINT)
    return tuple(_credit(entry, f"prices.credit {number}") for number, entry in enumerate(listing, start=1))


def _credit(entry: object, name: str) -> Credit:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("provider"), str):
        raise OwnRateError(f"{name}: needs at least a provider", _HINT)
    for key in entry:
        if key not in KEYS:
            raise OwnRateError(f"{name}: there is no {key!r}; known: {', '.join(KEYS)}", _HINT)
    as_of = parse_day(entry, "as_of", name)
    if as_of is None or "usd_left" not in entry:
        raise OwnRateError(f"{name}: needs usd_left, and as_of: the day on which that much was left", _HINT)
    return Credit(
        provider=entry["provider"],
        usd_left=parse_number(entry["usd_left"], f"{name}: usd_left", Decimal(0), _MOST_USD),
        as_of=as_of,
        until=parse_day(entry, "until", name),
        account=str(entry.get("account", "")),
        note=str(entry.get("note", "")),
    )
