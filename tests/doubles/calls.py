"""How much work something is, counted in calls: the same figure on every computer, however busy."""

from __future__ import annotations

import sys
from collections.abc import Callable


def calls_of(action: Callable[[], object]) -> int:
    """The Python functions that `action` calls, itself among them."""
    count = 0

    def notice(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count
