"""`plan prices`: known prices with dates and sources, reading them anew, and checking a list of one's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from trainplan.planner.api.names import one_of
from trainplan.planner.cli import completion, options
from trainplan.planner.cli.refreshing import CLOUDS, errors_in_words, outcome_line, refresh_lock, refreshed
from trainplan.planner.cli.screen import show
from trainplan.planner.clock import SystemClock
from trainplan.planner.errors import BadInputError, RefusedError, ThisMachineError
from trainplan.planner.planning.build_plan import check_own_names
from trainplan.planner.report.prices import (
    PriceState,
    checked_json,
    checked_text,
    held_json,
    held_text,
    outcome_json,
    outcome_text,
    standing_json,
    standing_page,
)
from trainplan.planner.runs.money.own_use import own_prices_now
from trainplan.pricing.catalog import REFRESHED, Catalog
from trainplan.pricing.changes import Key, compare
from trainplan.pricing.current import current_catalog
from trainplan.pricing.list_checks import listed_prices
from trainplan.pricing.money import format_usd
from trainplan.pricing.own_list import OwnListError, check_own_list, read_own_list
from trainplan.pricing.own_prices import OwnPrices
from trainplan.pricing.refresh import Outcome, accept, forget, held_of, known_of, parts_of, read_overlays
from trainplan.pricing.sources import READERS
from trainplan.pricing.sources.reading import SourceError

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_Providers = Annotated[
    list[str] | None,
    typer.Argument(metavar="PROVIDER", help=f"{', '.join(READERS)}", autocompletion=completion.price_lists),
]


@group.callback()
def _group() -> None:
    """Show, read, accept and check prices."""


@group.command(
    "show",
    help="Show for each provider which prices are in use, their dates and sources, and what changed since the package",
)
def _show(
    provider: _Providers = None,
    only_held: Annotated[
        bool, typer.Option("--held", help="Show only the prices that were read and are not used, and why")
    ] = False,
    wide: options.Wide = False,
    as_json: options.Json = False,
) -> None:
    settings = options.settings()
    if only_held:
        _show_held(_names(provider), settings.home, as_json=as_json)
        return
    today = SystemClock().now().date()
    with errors_in_words():
        standings = _standings(settings.home, today)
    _check_known(provider or (), [one.summary.provider for one in standings])
    standings = [one for one in standings if not provider or one.summary.provider in provider]
    if settings.prices:
        with errors_in_words(), Catalog.open(current_catalog(settings.home)) as catalog:
            check_own_names(settings, catalog)
    own = own_prices_now(settings, SystemClock().now()) or OwnPrices()
    if as_json:
        whole = {
            "currency": "USD",
            "prices": "list, before tax, discounts and commitments",
            "providers": [standing_json(standing) for standing in standings],
            "own_rates": [rate.text for rate in own.rates],
            "credits": [{**credit._asdict(), "usd_left": float(credit.usd_left)} for credit in own.credits],
            "own_prices_not_used": [*own.lines, *own.other_accounts],
        }
        sys.stdout.write(json.dumps(whole, default=str) + "\n")
        return
    show(standing_page(standings, own), wide=wide)


def _show_held(names: tuple[str, ...], home: Path, *, as_json: bool) -> None:
    with errors_in_words():
        overlays = read_overlays(home / REFRESHED)
    held_prices = [one for name in names if name in overlays for one in held_of(overlays[name])]
    text = json.dumps([held_json(one) for one in held_prices]) if as_json else held_text(held_prices)
    sys.stdout.write(f"{text}\n")


@group.command("accept", help="Use prices that were held back, by the names that `plan prices show --held` prints")
def _accept(
    held_name: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="A name, or its beginning: aws/us-east-1 is a whole region")
    ],
    as_json: options.Json = False,
) -> None:
    home = options.settings().home
    providers = _names([name.partition("/")[0] for name in held_name])
    with errors_in_words(), refresh_lock(home):
        prices = [one for provider in providers for one in accept(provider, held_name, home)]
    unknown_names = [name for name in held_name if not any(f"{one.name}/".startswith(f"{name}/") for one in prices)]
    if as_json:
        sys.stdout.write(json.dumps([held_json(one) for one in prices]) + "\n")
    else:
        sys.stdout.writelines(
            f"{one.name}: used from now on, at {format_usd(one.usd_per_hour)} an hour\n" for one in prices
        )
    if unknown_names:
        raise BadInputError(
            f"no held price has the name {', '.join(unknown_names)}", "plan prices show --held prints the names"
        )


@group.command("refresh", help="Read the vendors' price lists again and use them from now on")
def _refresh(
    provider: _Providers = None,
    region: Annotated[
        list[str] | None,
        typer.Option("--region", help="Only this one; repeat for more", autocompletion=completion.regions),
    ] = None,
    accept_all: Annotated[
        bool, typer.Option("--accept", help="Accept a list that changes implausibly much at once")
    ] = False,
    as_json: options.Json = False,
) -> None:
    names, settings = _names(provider), options.settings()
    regions = _regions(region or (), names, settings.home)
    with refresh_lock(settings.home):
        results = refreshed(names, settings.home, _say, regions=regions, accept=accept_all)
    _report(results, as_json=as_json)


@group.command(
    "check", help="Check a list of your own: could its prices be those of Linux machines on shared hardware?"
)
def _check(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A CSV of prices, or a settings.toml with prices.override: docs/prices.md"),
    ],
    as_json: options.Json = False,
) -> None:
    home = options.settings().home
    try:
        prices, entries = read_own_list(file)
        with errors_in_words():
            known = [known_of(name, home) for name in sorted({price.provider for price in prices} & READERS.keys())]
        types = {key: kind for one in known for key, kind in one.types.items()}
        report = check_own_list(
            prices, types, [price for one in known for price in listed_prices(one.offers)], SystemClock().now().date()
        )
    except OwnListError as error:
        raise BadInputError(str(error), error.hint) from None
    report = report._replace(unchecked=(*entries, *report.unchecked))
    text = json.dumps(checked_json(report, file.name)) if as_json else checked_text(report, file.name)
    sys.stdout.write(f"{text}\n")
    if report.failed:
        raise BadInputError(
            f"{len(report.failed):,} of {report.checked_count:,} checked prices of {file.name} cannot be true",
            "take the price of Linux on shared tenancy, on demand, for them, or leave them out",
        )


@group.command("forget", help="Go back to the prices that came with the package")
def _forget(as_json: options.Json = False) -> None:
    home = options.settings().home
    with errors_in_words(), refresh_lock(home):
        there = forget(home)
    text = "the shipped prices are used" if there else "nothing was refreshed"
    sys.stdout.write((json.dumps({"forgotten": there}) if as_json else text) + "\n")


def _names(names: list[str] | None) -> tuple[str, ...]:
    for name in names or ():
        if name not in READERS:
            raise BadInputError(f"nothing here reads the price list of {name!r}", f"known: {', '.join(READERS)}")
    return tuple(dict.fromkeys(names or CLOUDS))


def _regions(values: Sequence[str], providers: Iterable[str], home: Path) -> frozenset[str]:
    """The regions as these providers name them. Raises BadInputError for one that none of them has."""
    if not values:
        return frozenset()
    with errors_in_words(), Catalog.open(current_catalog(home)) as catalog:
        known = sorted({region for name in providers for *_, region in catalog.rented(name)})
    return frozenset(one_of("--region", value, known) for value in values)


def _check_known(names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise BadInputError(f"there is no price list of {name!r}", f"known: {', '.join(known)}")


def _standings(home: Path, today: date) -> list[PriceState]:
    path = current_catalog(home, lambda line: _say(line.strip()))
    overlays = read_overlays(path) if path.name == REFRESHED and path.parent == home else {}
    with Catalog.open() as shipped, Catalog.open(path) as current:
        standings = []
        for summary in current.summary(today):
            overlay = overlays.get(summary.provider)
            changes = None
            if overlay is not None:
                before, after = (
                    {Key(*key): usd for key, usd in catalog.cheapest(summary.provider).items()}
                    for catalog in (shipped, current)
                )
                changes = compare(before, after)
            parts = parts_of(overlay) if overlay else {}
            standings.append(PriceState(summary, overlay.read_on if overlay else None, parts, changes))
    return standings


def _say(line: str) -> None:
    sys.stderr.write(f"  {line}\n")


def _report(results: list[Outcome | SourceError], *, as_json: bool) -> None:
    outcomes = [one for one in results if isinstance(one, Outcome)]
    errors = [one for one in results if isinstance(one, SourceError)]
    if as_json:
        failed = [{"reason": error.message, "hint": error.hint} for error in errors]
        failed += [{"reason": outcome_line(one.provider, one), "hint": ""} for one in outcomes if not one.read]
        sys.stdout.write(json.dumps({"providers": [outcome_json(one) for one in outcomes], "failed": failed}) + "\n")
    else:
        show([outcome_text(outcome) for outcome in outcomes if outcome.read])
    held_back = [outcome.provider for outcome in outcomes if outcome.hold_reasons]
    nothing = [outcome.provider for outcome in outcomes if not outcome.read]
    for error in errors[1:]:
        sys.stderr.write(f"warning: {error.message}\n")
    if errors:
        raise RefusedError(errors[0].message, errors[0].hint)
    if nothing:
        raise ThisMachineError(f"no prices of {', '.join(nothing)} could be read", "the earlier prices are still used")
    if held_back:
        again = f"plan prices refresh {' '.join(held_back)} --accept"
        raise RefusedError(
            f"the new prices of {', '.join(held_back)} were not accepted, see above", f"{again} accepts them"
        )
