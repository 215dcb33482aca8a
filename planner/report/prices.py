"""What a person reads of prices: how old they are, from where, and what a refresh changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.planner.report.page import Column, Page, Table, joined
from trainplan.pricing.money import format_usd, format_usd_per_hour, from_micro
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from trainplan.pricing.catalog import ProviderSummary
    from trainplan.pricing.changes import Change, Changes
    from trainplan.pricing.held_prices import HeldPrice
    from trainplan.pricing.own_list import OwnListReport
    from trainplan.pricing.own_prices import OwnPrices
    from trainplan.pricing.refresh import Outcome

_MOST_LINES = 5


class PriceState(NamedTuple):
    """What is known of a provider's prices: `refreshed_on` None means as shipped, `parts` what was read when."""

    summary: ProviderSummary
    refreshed_on: date | None
    parts: dict[str, dict[str, Any]]
    changes: Changes | None


_COLUMNS = (
    Column("provider"),
    Column("offers", right=True),
    Column("on demand", right=True),
    Column("spot observed", right=True, rank_of_need=4),
    Column("spot listed", right=True, rank_of_need=4),
    Column("spot copied", right=True, rank_of_need=4),
    Column("spot estimated", right=True, rank_of_need=4),
    Column("stale", right=True, rank_of_need=1),
    Column("old", right=True),
    Column("retired", right=True, rank_of_need=3),
    Column("prices from"),
    Column("to"),
    Column("offered according to", rank_of_need=2),
    Column("read"),
)


def standing_page(standings: Sequence[PriceState], own: OwnPrices) -> Page:
    """The table, then sources, failed readings and changes of each provider."""
    blocks: list[Page] = [[Table(_COLUMNS, [_row(price_state) for price_state in standings])]]
    blocks += [[f"{price_state.summary.provider}:", *_details(price_state)] for price_state in standings]
    own_lines = [rate.text for rate in own.rates]
    own_lines += [f"credit at {credit.text}: {format_usd(credit.usd_left)} left" for credit in own.credits]
    own_lines += [*own.lines, *own.other_accounts]
    if own_lines:
        blocks.append(["your own rates and credits:", *(f"  {line}" for line in own_lines)])
    note = (
        "USD an hour, list prices before tax, discounts and commitments; old: read more than a month ago; plan prices "
        "refresh reads anew"
    )
    return joined([*blocks, [note]])


def _row(price_state: PriceState) -> tuple[str, ...]:
    one = price_state.summary
    grades = one.grades
    spot = (grades.get(("spot", name), 0) for name in ("observed", "listed", "copied"))
    guessed = sum(grades.get(("spot", name), 0) for name in ("derived", "estimated"))
    on_demand = sum(count for (market, _), count in grades.items() if market == "on_demand")
    stale = sum(count for (_, grade), count in grades.items() if grade == "stale")
    counts = (one.offers, on_demand, *spot, guessed, stale, one.old_prices, one.retired_offers)
    text = (f"{count:,}" for count in counts)
    read = str(price_state.refreshed_on or "shipped")
    return (
        one.provider,
        *text,
        str(one.oldest_price or "undated"),
        str(one.newest_price or "undated"),
        _offered(one),
        read,
    )


def _offered(one: ProviderSummary) -> str:
    if one.offerings_as_of is None:
        return "lifecycle table"
    where = "offerings" if not one.by_lifecycle else "offerings, else lifecycle table"
    return f"{where} {one.offerings_as_of}"


def _details(price_state: PriceState) -> list[str]:
    one = price_state.summary
    lines = [f"  {count:>6,}  {text}" for _, text, count in one.sources]
    failures = [
        (
            name,
            f"not read on {document['failed_on']}: {document['failed']}; "
            f"as of {document.get('on', 'the shipped prices')}",
        )
        for name, document in price_state.parts.items()
        if "failed" in document
    ]
    lines += [f"  {text}" for text in _failure_texts(failures)]
    if price_state.changes is not None:
        lines.append(f"  since the shipped prices: {price_state.changes.text}")
        lines += [f"    {_change(change)}" for change in price_state.changes.moved[:_MOST_LINES]]
    return lines


def outcome_text(outcome: Outcome) -> str:
    """What a refresh did, or would do, where something was read."""
    merged, name = outcome.merged, outcome.provider
    lines = [f"{name}: {outcome.changes.text}"]
    lines += [f"  {_change(change)}" for change in outcome.changes.moved[:_MOST_LINES]]
    if outcome.changes.removed_offers:
        text = ", ".join(f"{key.instance_type} in {key.region}" for key in outcome.changes.removed_offers[:_MOST_LINES])
        more = len(outcome.changes.removed_offers) - _MOST_LINES
        lines.append(f"  gone: {text}{f' and {more:,} more' if more > 0 else ''}")
    if merged.kept_count:
        lines.append(f"  {merged.kept_count:,} prices are no longer found in the list, and stay with their old day")
    if merged.unknown_types:
        lines.append(f"  accelerated, and not known here: {', '.join(merged.unknown_types[:12])}")
    lines += [f"  left out: {count:,} x {why}" for why, count in sorted(merged.skipped.items()) if count]
    lines += [f"  not read: {text}; what was known of it stays" for text in _failure_texts(outcome.failed)]
    lines += [f"  held back: {why}" for why in outcome.hold_reasons]
    if merged.held_prices and not outcome.hold_reasons:
        lines.append(
            f"  held back, since they cannot be true: {len(merged.held_prices):,} prices; "
            f"{Command('prices', 'show', Option.HELD)}"
        )
        lines += [f"    {_held_line(one)}" for one in merged.held_prices[:_MOST_LINES]]
    return "\n".join(lines)


def _failure_texts(failed: Sequence[tuple[str, str]]) -> list[str]:
    """Parts and why they were not read, those of one reason together: `eastus and 60 more: it cannot be reached`."""
    parts: dict[str, list[str]] = {}
    for part, why in failed:
        parts.setdefault(why, []).append(part)
    return [
        f"{names[0]}{f' and {len(names) - 1:,} more' if len(names) > 1 else ''}: {why}" for why, names in parts.items()
    ]


def held_text(held_prices: Sequence[HeldPrice]) -> str:
    """The held prices, one to a line, and how they are let through."""
    if not held_prices:
        return "no price is held back"
    lines = [_held_line(one) for one in held_prices]
    return "\n".join([*lines, "plan prices accept NAME... uses them; until then the last known price is used"])


def _held_line(one: HeldPrice) -> str:
    name = (
        "no earlier price" if one.known_usd_per_hour is None else f"used: {format_usd_per_hour(one.known_usd_per_hour)}"
    )
    return f"{one.name}: {format_usd_per_hour(one.usd_per_hour)} of {one.as_of or 'no date'} is {one.why} ({name})"


def held_json(one: HeldPrice) -> dict[str, Any]:
    """What a program reads of one held price."""
    return {
        "name": one.name,
        "provider": one.provider,
        **one.key._asdict(),
        "usd_per_hour": float(one.usd_per_hour),
        "as_of": _day(one.as_of),
        "source": one.source,
        "why": one.why,
        "known_usd_per_hour": None if one.known_usd_per_hour is None else float(one.known_usd_per_hour),
    }


def _change(change: Change) -> str:
    before, after = (format_usd_per_hour(from_micro(micro)) for micro in (change.before, change.after))
    key = change.key
    return f"{key.instance_type} in {key.region}, {key.market.replace('_', ' ')}: {before} -> {after}"


def standing_json(price_state: PriceState) -> dict[str, Any]:
    """What a program reads of one provider."""
    one, changes = price_state.summary, price_state.changes
    return {
        "provider": one.provider,
        "offers": one.offers,
        "retired": one.retired_offers,
        "not_offered": one.not_offered,
        "undated": one.undated_prices,
        "grades": [
            {"market": market, "grade": grade, "count": count} for (market, grade), count in sorted(one.grades.items())
        ],
        "oldest_price": _day(one.oldest_price),
        "newest_price": _day(one.newest_price),
        "old": one.old_prices,
        "availability": "lifecycle" if one.offerings_as_of is None else "offerings",
        "offerings_as_of": _day(one.offerings_as_of),
        "refreshed_on": _day(price_state.refreshed_on),
        "sources": [{"id": key, "text": text, "count": count} for key, text, count in one.sources],
        "parts": price_state.parts,
        "changes_since_shipped": None if changes is None else changes_json(changes),
    }


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """What a refresh did with one provider's prices, for `--json`."""
    return {
        "provider": outcome.provider,
        "changes": changes_json(outcome.changes),
        "read": list(outcome.read),
        "failed": [{"part": part, "reason": why} for part, why in outcome.failed],
        "held_back": list(outcome.hold_reasons),
        "held_prices": [held_json(one) for one in outcome.merged.held_prices],
        "kept": outcome.merged.kept_count,
        "left_out": {why: count for why, count in sorted(outcome.merged.skipped.items()) if count},
        "unknown_types": list(outcome.merged.unknown_types),
    }


def changes_json(changes: Changes) -> dict[str, Any]:
    """How many prices are new, gone, dearer and cheaper, and those that moved most."""
    return {
        "new": changes.added,
        "gone": len(changes.removed_offers),
        "dearer": changes.dearer,
        "cheaper": changes.cheaper,
        "same": changes.same,
        "moved": [
            {
                **change.key._asdict(),
                "before_usd_per_hour": float(from_micro(change.before)),
                "after_usd_per_hour": float(from_micro(change.after)),
            }
            for change in changes.moved
        ],
    }


def _day(value: date | None) -> str | None:
    return value.isoformat() if value else None


def checked_text(report: OwnListReport, name: str) -> str:
    """What came of a person's own list: a line for each price that fails, then the counts."""
    lines = [f"{own.location}: {failure.price.name}: {failure.reason}" for own, failure in report.failed]
    lines += [f"{one.location}: not checked: {one.reason}" for one in report.unchecked]
    checked = report.checked_count
    lines.append(f"{name}: {checked:,} {_prices(checked)} checked, {len(report.failed):,} cannot be true")
    return "\n".join(lines)


def _prices(count: int) -> str:
    return "price" if count == 1 else "prices"


def checked_json(report: OwnListReport, name: str) -> dict[str, Any]:
    """The same for programs."""
    return {
        "file": name,
        "price_count": len(report.prices),
        "failures": [
            {
                "location": own.location,
                "provider": own.provider,
                "region": own.region,
                "instance_type": own.instance_type,
                "market": own.market.value,
                "usd_per_hour": float(own.usd_per_hour),
                "check": failure.check.value,
                "reason": failure.reason,
            }
            for own, failure in report.failed
        ],
        "not_checked": [{"location": one.location, "reason": one.reason} for one in report.unchecked],
    }
