"""Below the first estimate of a home: whether to read the price lists that its rows would need.

Asked once, of somebody who sits at a terminal and reads the table there. Where nothing can be read, the estimate that
was shown stands.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.api.ask import Reply, StandardTerminal, ask
from trainplan.planner.clock import SystemClock
from trainplan.planner.forecast.price_notes import unsettled_prices
from trainplan.planner.home.questions import REFRESH, is_asked, note_asked
from trainplan.pricing.catalog import REFRESHED
from trainplan.pricing.sources import NEEDED_TO_READ, SIZE

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Plan

QUESTION = (
    "Some prices above are old or computed. Read today's prices of AWS, Azure and Google Cloud now "
    f"({SIZE}; asked once)?"
)


def may_ask() -> bool:
    """Whether somebody types and reads at a terminal, and no service that builds and tests software (`CI` is set)."""
    return StandardTerminal().is_there() and sys.stdout.isatty() and not os.environ.get("CI")


def is_to_ask(plan: Plan, home: Path) -> bool:
    """Whether a person is asked to read the price lists.

    A home asks once, and never where its prices were refreshed before or where no list would change a row.
    """
    if not may_ask() or is_asked(home, REFRESH) or (home / REFRESHED).is_file():
        return False
    unsettled = unsettled_prices([row.offer for row in plan.candidates], plan.made_at.date())
    return any(not NEEDED_TO_READ[offer.provider] for offer in unsettled)


def refreshed_at_first(home: Path) -> bool:
    """Ask, and read the lists where somebody agrees; whether prices may have changed."""
    clock = SystemClock()
    if not note_asked(home, REFRESH, clock.now().date()):
        return False
    if ask(QUESTION, StandardTerminal(), clock, default=False) is not Reply.YES:
        return False
    from trainplan.planner.cli.refreshing import refreshed_beside

    return refreshed_beside(home)
