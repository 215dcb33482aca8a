"""How far a provider has come, and so what the tests ask of it."""

from __future__ import annotations

from enum import IntEnum

from trainplan.pricing.compile import TEXT_DIR
from trainplan.providers.registry import VENDORS


class Level(IntEnum):
    """What a provider owes at each level, that of those before it included where it has prices of its own.

    ESTIMATED: an offers table; tests/contract/test_estimate_only.py. LAUNCHES: a row in VENDORS, and a harness, which
    runs tests/contract/test_provider.py. PROVEN (`is_proven` in its row): a double on which launches are killed
    (tests/faults), planted defects, and what tests/unit/test_vendors.py names.
    """

    ESTIMATED = 1
    LAUNCHES = 2
    PROVEN = 3


def providers_at(level: Level) -> list[str]:
    """The providers of this repository that are at a level, no higher."""
    rows = {one.name: Level.PROVEN if one.is_proven else Level.LAUNCHES for one in VENDORS}
    with_prices = sorted(path.stem for path in (TEXT_DIR / "offers").glob("*.csv"))
    levels = {name: Level.ESTIMATED for name in with_prices} | rows
    return [name for name, reached in levels.items() if reached is level]
