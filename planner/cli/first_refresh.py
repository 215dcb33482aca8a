"""Below the first estimate of a home: whether to read the price lists that its rows would need.

Asked once, of somebody who sits at a terminal and reads the table there. Where nothing can be read, the estimate that
was shown stands.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.api.ask import Reply, StandardTerminal, ask
from trainplan.planner.clock import SystemClock
from trainplan.planner.errors import PlanError
from trainplan.planner.forecast.price_notes import unsettled_prices
from trainplan.planner.home.questions import REFRESH, is_asked, note_asked
from trainplan.pricing.catalog import REFRESHED
from trainplan.pricing.sources import KEY_VARIABLES, NEEDED_TO_READ, SIZES

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Plan
    from trainplan.pricing.refresh import Outcome
    from trainplan.pricing.sources.reading import SourceError


def may_ask() -> bool:
    """Whether somebody types and reads at a terminal, and no service that builds and tests software (`CI` is set)."""
    return StandardTerminal().is_there() and sys.stdout.isatty() and not os.environ.get("CI")


def regions_to_ask_about(plan: Plan, home: Path) -> dict[str, frozenset[str]]:
    """The regions whose price lists a person is asked to read, by provider; empty where there is no question.

    A home asks once, and never where its prices were refreshed before or where no list would change a row.
    """
    if not may_ask():
        return {}
    regions = _regions_to_read(plan, os.environ)
    return {} if is_asked(home, REFRESH) or (home / REFRESHED).is_file() else regions


def refreshed_at_first(regions: Mapping[str, frozenset[str]], home: Path) -> bool:
    """Ask, and read the lists where somebody agrees; whether prices may have changed."""
    clock = SystemClock()
    if not regions or not note_asked(home, REFRESH, clock.now().date()):
        return False
    reply = ask(question_text(regions), StandardTerminal(), clock, default=False)
    if reply is not Reply.YES:
        return False
    # A list, which `any` cannot cut short: the lists of every provider are read.
    return any([_is_read(provider, names, home) for provider, names in regions.items()])


def _regions_to_read(plan: Plan, environment: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """The regions of the rows that a refresh would settle, by provider; only of lists that can be read as things are.

    Whether this computer has an account is not looked up: that may take a request, and nobody has agreed to any.
    """
    regions: defaultdict[str, set[str]] = defaultdict(set)
    for offer in unsettled_prices([row.offer for row in plan.candidates], plan.made_at.date()):
        regions[offer.provider].add(offer.region)
    has_key = any(environment.get(name) for name in KEY_VARIABLES)
    return {
        provider: frozenset(names)
        for provider, names in sorted(regions.items())
        if has_key or not all(needed for (name, _), needed in NEEDED_TO_READ.items() if name == provider)
    }


def question_text(regions: Mapping[str, frozenset[str]]) -> str:
    """`Some prices above are old or computed. Read the current lists of azure eastus now (asked once)?`."""
    lists = "; ".join(
        f"{provider} {', '.join(sorted(names))}{f' ({SIZES[provider]})' if provider in SIZES else ''}"
        for provider, names in regions.items()
    )
    return f"Some prices above are old or computed. Read the current lists of {lists} now (asked once)?"


def _is_read(provider: str, regions: frozenset[str], home: Path) -> bool:
    """Read one provider's lists and say in one line what came of it; whether anything was read and is used."""
    try:
        return _is_used(provider, _outcome(provider, regions, home))
    except PlanError as error:
        _say(f"{provider}: its prices were not read: {error.message}; the known prices are used")
        return False


def _outcome(provider: str, regions: frozenset[str], home: Path) -> Outcome | SourceError:
    """Each request is sent once only: somebody waits at the terminal."""
    from trainplan.planner.cli import refreshing

    asking = refreshing.make_asking(lambda _: None, regions, tries=1)
    with refreshing.errors_in_words(), refreshing.refresh_lock(home):
        return refreshing.refresh_provider(provider, asking, home, accept=False)


def _is_used(provider: str, outcome: Outcome | SourceError) -> bool:
    """Say in one line what came of a reading; whether its prices are used."""
    from trainplan.pricing.sources.reading import SourceError

    if isinstance(outcome, SourceError):
        _say(f"{outcome.message}; the known prices are used")
        return False
    why = "; ".join(dict.fromkeys(text for _, text in outcome.failed))
    if not outcome.read:
        _say(f"{provider}: its prices were not read: {why}; the known prices are used")
    elif outcome.hold_reasons:
        _say(f"{provider}: its list changes too much to be believed; plan prices refresh {provider} shows how")
    else:
        held_count = len(outcome.merged.held_prices)
        _say(
            f"{provider}: {outcome.changes.text}{f'; not read: {why}' if why else ''}"
            f"{f'; {held_count:,} held back (plan prices show --held)' if held_count else ''}"
        )
    return bool(outcome.read) and not outcome.hold_reasons


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
