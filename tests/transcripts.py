"""What a person types and reads, as a page of the documentation shows it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.planner.cli.command import CommandResult

_DIFFERS = (
    (r" *epoch \d+/\d+, step [^\n]*\n", ""),  # how often a client looks hangs on the machine it runs on
    (r"\d{6}-[0-9a-f]{8}", "261121-0badcafe"),
    (r"\b(i|vpc)-[0-9a-f]{17}", r"\1-0123456789abcdef0"),
    (r"/\S+/(?=(?:digits-vgg|tiny|drill)-)", "~/"),
    (r"\d[\d.]* [kM]B stored", "0.4 MB stored"),  # the agent's own size is in it
    (r"[ \t]+\n", "\n"),
)


def transcript(words: str, result: CommandResult, *differs: tuple[str, str]) -> str:
    """What was typed and printed, without what differs each time; `differs` are further patterns and stand-ins."""
    text = f"$ plan {words}\n{result.err}{result.out}"
    for pattern, instead in (*differs, *_DIFFERS):
        text = re.sub(pattern, instead, text)
    return text
