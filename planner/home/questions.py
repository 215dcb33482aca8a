"""Questions that are asked once in a home: a file for each of them, with the day on which it was asked."""

from __future__ import annotations

from datetime import date
from pathlib import Path

REFRESH = "asked-refresh"
"""Whether to read the price lists at the first estimate."""


def is_asked(home: Path, question: str) -> bool:
    """Whether a question was asked in this home before."""
    return (home / question).exists()


def note_asked(home: Path, question: str, today: date) -> bool:
    """Write down that a question is asked now. False where it was asked before, or where that cannot be written down:
    it would be asked again and again."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with (home / question).open("x", encoding="utf-8") as text:
            text.write(f"{today}\n")
    except OSError:
        return False
    return True
