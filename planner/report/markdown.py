"""A page as Markdown for GitHub: what a pull request's comment shows. Charts are left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trainplan.planner.report.page import Chart, Table, cell_text
from trainplan.workloads.terminal_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.planner.report.page import Page

_MEANT = re.compile(r"([\\`*_{}\[\]<>|~&])")
"""What Markdown or HTML would obey. Signs at the beginning of a line are after an escaped one or within a cell."""
_CALLED = re.compile(r"(?<![A-Za-z0-9])([@#])(?=[A-Za-z0-9])")
"""A mention of a person, a team or an issue, which GitHub finds in the finished text: no escape stops it."""
_ADDRESS = re.compile(r"(?i)\b(https?|ftp|mailto|www)(?=[:.])")
_APART = "\u200b"
"""A space without width: it keeps what it stands in from being found as a name."""


def markdown(page: Page) -> str:
    """The blocks of a page: a paragraph for each text, a table for each table. Nothing in them is obeyed by GitHub."""
    blocks = []
    for block in page:
        if isinstance(block, Table):
            blocks.append(_table(block))
        elif not isinstance(block, Chart) and cell_text(block):
            blocks += [_line(line) for line in cell_text(block).split("\n") if line.strip()]
    return "\n\n".join(blocks) + "\n"


def escaped(text: str) -> str:
    """The text so that GitHub shows it as it is: nothing of it is markup, a link, a mention or an issue."""
    escaped_text = _MEANT.sub(r"\\\1", one_line(text))
    return _ADDRESS.sub(rf"\1{_APART}", _CALLED.sub(rf"\1{_APART}", escaped_text))


def _line(text: str) -> str:
    """A paragraph; what would begin a list, a heading or a quotation does not."""
    return re.sub(r"^(\d+)?([-+#=.:])", lambda found: f"{found[1] or ''}\\{found[2]}", escaped(text.strip()))


def _table(table: Table) -> str:
    rule = "|".join("---:" if column.right else "---" for column in table.columns)
    rows = [_row([column.title for column in table.columns]), f"|{rule}|"]
    return "\n".join(
        [*rows, *(_row([cell_text(cell) for cell in row]) for row in table.rows if any(map(cell_text, row)))]
    )


def _row(texts: Sequence[str]) -> str:
    """Blanks before a text say that it belongs to the heading above; Markdown would drop them."""
    return f"| {' | '.join(_indented(text) for text in texts)} |"


def _indented(text: str) -> str:
    return "&nbsp;" * (len(text) - len(text.lstrip(" "))) + escaped(text.strip())
