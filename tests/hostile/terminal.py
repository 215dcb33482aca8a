"""What no command may write, whatever it has read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.planner.cli.command import CommandResult

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def assert_harmless(result: CommandResult) -> None:
    """Nothing that a terminal obeys, and no traceback."""
    for text in (result.out, result.err):
        found = _OBEYED.search(text)
        assert found is None, f"{found.group()!r} in {text[max(0, found.start() - 60) : found.end() + 20]!r}"
        assert "Traceback" not in text
