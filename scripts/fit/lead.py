"""The table that docs/accuracy.md begins with: what a person asks, and how right the answer is.

Its figures are read from the tables further down, so that a figure is the same in both places.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MARK = "<!-- the table of questions -->"
_HEAD = """| you ask about | typical error | the 80 % interval held | its width, high / low |
|---|---|---|---|"""
_FACTOR = re.compile(r"([a-z_+]+) (\d\.\d\d) \(\d+\)")


@dataclass(frozen=True)
class Asked:
    """A question, the row that answers it, and the evidence whose width its interval has."""

    question: str
    title: str
    evidence: str


QUESTIONS = (
    Asked(
        "a network and a card that were measured, another batch or image size",
        "single configurations, in eight parts",
        "scaled",
    ),
    Asked(
        "a VGG whose shallower and deeper sibling were measured on the card", "a VGG between two known ones", "same_net"
    ),
    Asked("a network that nobody measured, on a measured card", "a network, on known devices", "modelled+network"),
    Asked("a network of a family that nobody measured", "a family of networks, on known devices", "modelled+family"),
    Asked(
        "a VGG on a card of which only ResNet-50 was measured",
        "VGG on a device of which ResNet-50 alone is known",
        "anchored+vgg",
    ),
    Asked("a card that nobody measured", "a device, all its rows", "modelled+new"),
    Asked("several GPUs of one machine, one of them measured", "several GPUs, one alone known", "same_device+sharing"),
)


def with_lead(text: str) -> str:
    """The document with the table in place of its mark, or of the table that follows the mark.

    Raises:
        ValueError: a row or a width that the table needs is not in the document.
    """
    before, found, after = text.partition(MARK)
    if not found:
        raise ValueError(f"docs/accuracy.md has no line {MARK}")
    rest = after.lstrip("\n")
    if rest.startswith("| you ask about"):
        rest = rest.partition("\n\n")[2]
    return f"{before}{MARK}\n\n{lead(text)}\n\n{rest}"


def lead(text: str) -> str:
    """The table alone, from the tables of the document."""
    rows, factors = rows_of(text), _factors(text)
    lines = [_HEAD]
    for asked in QUESTIONS:
        if asked.title not in rows or asked.evidence not in factors:
            raise ValueError(f"docs/accuracy.md has no row {asked.title!r} or no width {asked.evidence!r}")
        error, held = rows[asked.title]
        lines.append(f"| {asked.question} | {error} | {held} | {factors[asked.evidence] ** 2:.2f} |")
    return "\n".join(lines)


def rows_of(text: str) -> dict[str, tuple[str, str]]:
    """Error and coverage by the first cell, of the table of tests and that of networks."""
    found: dict[str, tuple[str, str]] = {}
    error_at = held_at = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            error_at = held_at = None
        elif cells[0] in ("test", "left out") and ("here" in cells or "covered" in cells):
            error_at = cells.index("here") if "here" in cells else cells.index("median of the folds' MAPE")
            held_at = cells.index("covered") if "covered" in cells else cells.index("coverage of the 80 % interval")
        elif error_at is not None and held_at is not None and len(cells) > max(error_at, held_at):
            found.setdefault(cells[0], (cells[error_at].split()[0], cells[held_at]))
    return found


def _factors(text: str) -> dict[str, float]:
    """Half widths as factors by evidence: of the line of the model of VGG nets, and of the table of networks."""
    found = {}
    for line in text.splitlines():
        if line.startswith("Half widths as factors"):
            found.update({name: float(factor) for name, factor in _FACTOR.findall(line)})
        elif re.match(r"\| [a-z_+]+ \| \d\.\d\d \|", line):
            name, factor = (cell.strip() for cell in line.strip("|").split("|")[:2])
            found[name] = float(factor)
    return found
