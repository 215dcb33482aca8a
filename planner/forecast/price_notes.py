"""What is said of prices under a ranking and beside each row: how they were obtained, how old they are, whose."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from trainplan.pricing.grades import PriceGrade, is_old
from trainplan.pricing.money import format_usd, format_usd_per_hour
from trainplan.pricing.own_rates import hours_text
from trainplan.pricing.planning import AS_LISTED, PlannedAs, first_day, whole_day
from trainplan.pricing.sources import NEEDED_TO_READ
from trainplan.workloads.wording import Option, Text

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Plan
    from trainplan.pricing.offers import Offer, PriceStamp


def price_text(offer: Offer, today: date) -> str:
    """How the price was obtained and when: `listed 2026-07-20, old`, `own rate; list price: listed 2026-11-20`."""
    own = "own rate; list price: " if offer.own_rate else ""
    dated = offer.price_as_of or offer.price_as_of_text or "undated"
    return f"{own}{offer.price_grade} {dated}{', old' if is_old(offer.price_as_of, today) else ''}"


def is_computed(offer: Offer | PriceStamp) -> bool:
    """Whether the planning price is no price that somebody asks for: a share of another, or that of other regions."""
    if offer.own_rate:
        return False
    return offer.price_grade in _COMPUTED or offer.planned_as in (PlannedAs.SHARE, PlannedAs.OUTLIER)


def price_word(offer: Offer) -> str:
    """What the planning price is, in a word, and of which day: `listed 2026-07-20`, `computed`, `own rate`.

    `adjusted`: listed on that day, and changed by how such prices have moved since. The day is the list's: an own rate
    has none.
    """
    if is_computed(offer):
        return "computed"
    if offer.own_rate:
        return "own rate"
    if offer.planned_as is PlannedAs.DRIFTED:
        word = "adjusted"
    elif offer.price_grade is PriceGrade.STALE:
        word = "listed"
    else:
        word = str(offer.price_grade)
    return f"{word} {offer.price_as_of or offer.price_as_of_text.partition(' ')[0] or 'undated'}"


def is_trusted(offer: Offer) -> bool:
    """Whether the price counts as its source says it, or as such prices have moved since; not as that of others."""
    if offer.planning_usd_per_hour == offer.usd_per_hour:
        return True
    return offer.planned_as in (PlannedAs.LISTED, PlannedAs.DRIFTED) and not offer.own_rate


_RULES = {
    PlannedAs.DRIFTED: "adjusted: a spot price older than 30 days, changed by how much spot prices change in that time",
    PlannedAs.SHARE: "computed: a share of the on-demand price, where no spot price of a known day was read",
    PlannedAs.OUTLIER: Text(
        "computed: a spot price below 0.6 of the median of its regions, replaced by their lower quartile; ",
        Option.ASSUME_AVAILABLE,
        " uses it as listed",
    ),
}


def _rules(offers: Sequence[Offer]) -> list[str]:
    """What the words of the spot prices that do not count as listed mean, a line each."""
    bases = [basis for basis in _RULES if any(offer.planned_as is basis and not offer.own_rate for offer in offers)]
    return [str(_RULES[basis]) for basis in bases]


def price_notes(plan: Plan) -> list[str]:
    """What to know of the prices of the rows that are shown."""
    offers, today = [row.offer for row in plan.candidates], plan.made_at.date()
    lines = [
        "cost in USD at list prices, before tax and discounts; compute, disk, address and transfer; "
        f"{Option.EXPLAIN('N')} shows "
        "how row N was computed"
    ]
    lines += _rules(offers)
    if any(offer.spot_mean_usd_per_hour is not None for offer in offers):
        lines.append("an observed spot price counts as now or as the mean of the week before, whichever is higher")
    if any(offer.own_rate for offer in offers):
        lines.append("own rate: your own, of prices.override in settings.toml")
    lines += _beyond_hours(plan)
    if plan.credit_usd:
        left = ", ".join(f"{format_usd(usd)} at {provider}" for provider, usd in sorted(plan.credit_usd.items()))
        lines.append(f"credit left: {left}; what it covers up to the high end of its time is ranked before the rest")
    return [*lines, *age_note(offers, today), *_what_a_refresh_settles(offers, today), _availability(offers)]


def age_note(offers: Sequence[Offer], today: date) -> list[str]:
    """How old the prices are where all of them are old; after a year, what else is as old as they are. One line.

    A source that names a year alone gives its prices no day: how old the tables are does not follow from them.
    """
    listed = [offer for offer in offers if not offer.own_rate]
    days = sorted(day for offer in listed if (day := offer.price_as_of or whole_day(offer.price_as_of_text)))
    if not days:
        return _without_day(listed, today)
    if not is_old(days[-1], today):
        return []
    since, newest, age = days[0], days[-1], (today - days[-1]).days
    of = f"{newest}" if since == newest else f"{since} to {newest}"
    if age > _LONG_AGO:
        return [
            f"prices of {of}: {age / _YEAR:.1f} years old; machine types, images and drivers of that time may be gone, "
            "and free places may have other limits: install a newer version"
        ]
    months = round(age / (_YEAR / 12))
    return [f"prices of {of}: {months} {'month' if months == 1 else 'months'} old or more"]


def _without_day(offers: Sequence[Offer], today: date) -> list[str]:
    """The years that the sources name where none of them names a day, and who reads newer prices; one line."""
    years = sorted({day.year for offer in offers if (day := first_day(offer.price_as_of_text)) is not None})
    if not years or not is_old(date(years[-1], 12, 31), today):
        return []
    markets = {offer.market.replace("_", "-") for offer in offers}
    kind = f"{markets.pop()} prices" if len(markets) == 1 else "prices"
    readable = sorted({offer.provider for offer in offers} & NEEDED_TO_READ.keys())
    remedy = f"; plan prices refresh {' '.join(readable)} reads today's" if readable else ""
    return [f"these {kind} have no day and are from about {' and '.join(map(str, years))}{remedy}"]


def _beyond_hours(plan: Plan) -> list[str]:
    """The rows whose run takes more hours than are left of their own rate, one line for each number of hours."""
    rows: dict[str, list[str]] = {}
    for ranked in plan.candidates:
        hours = ranked.offer.own_hours
        if hours is not None and ranked.candidate.estimate.billed_seconds[0] > hours * 3600:
            rows.setdefault(hours_text(hours), []).append(ranked.number)
    return [
        f"{'row' if len(ranks) == 1 else 'rows'} {', '.join(ranks)}: {text} are left of the own rate; the rest of the "
        "run is planned at the price without it"
        for text, ranks in rows.items()
    ]


_COMPUTED = (PriceGrade.DERIVED, PriceGrade.ESTIMATED)
_YEAR = 365.25
_LONG_AGO = 365
"""Days after which the tables of machine types, images and drivers are out of date too: they are read with prices."""


def unsettled_prices(offers: Sequence[Offer], today: date) -> list[Offer]:
    """The offers whose price is old, or was computed in any way, and which `plan prices refresh` can read anew."""
    return [
        offer
        for offer in offers
        if offer.provider in NEEDED_TO_READ
        and not offer.own_rate
        and (
            is_old(offer.price_as_of, today)
            or offer.price_grade in _COMPUTED
            or offer.planned_as is not PlannedAs.LISTED
        )
    ]


def _what_a_refresh_settles(offers: Sequence[Offer], today: date) -> list[str]:
    """How many rows a refresh would give a price of today, and who may read it; one line."""
    unsettled = unsettled_prices(offers, today)
    if not unsettled:
        return []
    needed = {provider: NEEDED_TO_READ[provider] for provider in sorted({offer.provider for offer in unsettled})}
    needs = "; ".join(f"{provider}: needs {what}" for provider, what in needed.items() if what) or "no account needed"
    rest = "rests" if len(unsettled) == 1 else "rest"
    return [
        f"{len(unsettled)} of {len(offers)} rows {rest} on an old or a computed price (old: read more than a month "
        f"ago); plan prices refresh reads the current one ({needs})"
    ]


def _availability(offers: Sequence[Offer]) -> str:
    """A price does not say that a machine can be had: who says so, by provider."""
    notes: dict[str, set[str]] = {}
    for offer in offers:
        offered, as_of = offer.availability
        source = "lifecycle table" if offered is None else f"offerings of {as_of}"
        notes.setdefault(offer.provider, set()).add(source)
    parts = (f"{provider} by its {' and '.join(sorted(sources))}" for provider, sources in sorted(notes.items()))
    return f"availability: {', '.join(parts)}"


def _planned(offer: Offer) -> list[str]:
    """How the planning price comes about, and how far the real one may lie from it."""
    planning = offer.planning_usd_per_hour
    if planning is None or offer.own_rate or offer.price_spread == AS_LISTED:
        return []
    low, high = (format_usd_per_hour(planning * Decimal(end)) for end in offer.price_spread)
    rule = _RULES.get(offer.planned_as)
    return [
        *([f"planned at {format_usd_per_hour(planning)}, {rule}"] if rule else []),
        f"8 times of 10 between {low} and {high}: how spot prices of this age moved in dated lists of 2023 to 2026, "
        f"never above on demand (docs/prices.md has how far off they were)",
    ]


def explain_price(offer: Offer) -> list[str]:
    """What `--explain` says of a price beside its figure."""
    offered, as_of = offer.availability
    lines = [
        *_planned(offer),
        "availability is known for the machine type only (its lifecycle), not for this region"
        if offered is None
        else f"{'among' if offered else 'not among'} what the vendor offers there, asked on {as_of}",
    ]
    mean, low, high = offer.spot_mean_usd_per_hour, offer.spot_low_usd_per_hour, offer.spot_high_usd_per_hour
    if mean is not None and low is not None and high is not None:
        week = f"{format_usd_per_hour(low)} to {format_usd_per_hour(high)}, mean over time {format_usd_per_hour(mean)}"
        lines.append(f"in the week before it was {week}; the higher of now and the mean is planned with")
    if offer.own_rate:
        lines.append(f"your own rate: {offer.own_rate}")
    own, planning = offer.own_usd_per_hour, offer.planning_usd_per_hour
    if own is not None and planning is not None and own != planning:
        lines.append(
            f"the run takes more hours than are left of it: {format_usd_per_hour(planning)} is the mean of "
            f"{format_usd_per_hour(own)} and of the price without it"
        )
    return lines
