"""The commands whose time has not come: each says so with its own exit code, and what to use until then."""

from __future__ import annotations

from typing import NoReturn

from planner.errors import NotBuiltYetError

UNTIL_THEN = {
    "prices": "every row of plan estimate says how old its price is; docs/prices.md has the well-known ones",
}


def refuse(name: str) -> NoReturn:
    raise NotBuiltYetError(f"plan {name} is not built yet", UNTIL_THEN[name])
