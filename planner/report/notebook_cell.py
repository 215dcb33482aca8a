"""What the cell of a notebook shows: blocks of the pages, with the style of the pages for these blocks alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.planner.report.html import Content, Markup, asset, joined, table, tag
from trainplan.planner.report.page import Cell, Chart, Table

if TYPE_CHECKING:
    from trainplan.planner.report.page import Page


# Notebooks style every table: columns of equal width, whose texts are broken and stand to the right, and rows whose
# background hides the shadow at the edge of what can be scrolled.
_ABOVE_NOTEBOOK = """\
:scope.trainplan table { table-layout: auto; }
:scope.trainplan :is(th, td) { white-space: nowrap; text-align: left; }
:scope.trainplan.trainplan tbody tr { background: none; }
"""


def cell(*blocks: Content) -> str:
    """The blocks below each other. A cell runs no script and loads nothing."""
    screen, _, _ = asset("page.css").partition("@media print")
    style = screen.replace(":root", ":scope").replace("\nbody {", "\n:scope {")
    scoped = Markup(f"<style>@scope {{\n{_ABOVE_NOTEBOOK}{style}}}</style>")
    return tag("div", scoped, tag("div", *blocks, style="padding: .75rem"), class_="trainplan")


def page_blocks(page: Page, caption: str) -> list[Content]:
    """The blocks of a page that a terminal shows, without its charts; `caption` names its tables to screen readers."""
    return [_block(block, caption) for block in page if not isinstance(block, Chart)]


def _block(block: str | Cell | Table, caption: str) -> Content:
    if isinstance(block, Table):
        return table(block, caption)
    text, tone = (block.text, block.tone) if isinstance(block, Cell) else (block, None)
    lines: list[Content] = [line or " " for line in text.split("\n")]
    return tag("div", joined(lines, Markup("<br>")), class_=tone, style="white-space: pre-wrap")


def progress(text: str, share: float | None) -> Content:
    """A bar, where the share is known, with the text beside it; nothing without a text."""
    if not text:
        return None
    bar = None if share is None else tag("progress", value=round(share, 3), max=1)
    return tag("div", bar, " ", text)
