"""The order of the pages: docs/README.md has a heading for each part and a list of its pages below."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
HEADING = re.compile(r"## (.+)")
ENTRY = re.compile(r"- \[([^\]]+)\]\(([^)\s]+)\)(?:: (.+))?")


@dataclass(frozen=True, slots=True)
class Entry:
    """One page: its title in the list, its path from docs/, and what the list says of it."""

    title: str
    path: str
    about: str


@dataclass(frozen=True, slots=True)
class Part:
    """Pages that belong together, in the order in which one reads them."""

    title: str
    entries: tuple[Entry, ...]


def parts(text: str) -> tuple[Part, ...]:
    """The parts that the text of docs/README.md lists. Links to other places than pages are no entries."""
    found: list[tuple[str, list[Entry]]] = []
    for line in text.splitlines():
        if heading := HEADING.fullmatch(line):
            found.append((heading[1], []))
        elif found and (entry := ENTRY.fullmatch(line)) and entry[2].endswith(".md"):
            found[-1][1].append(Entry(entry[1], entry[2], entry[3] or ""))
    return tuple(Part(title, tuple(entries)) for title, entries in found if entries)
