"""A page as plain text, for where no terminal is drawn on: the `repr` of a plan. Charts are left out."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from trainplan.planner.report.page import Chart, Table, cell_text
from trainplan.workloads.terminal_text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.planner.report.page import Page

_GAP = "  "
_WITHOUT_A_TERMINAL = (120, 24)


def plain_text(page: Page) -> str:
    """The blocks below each other. A table that is wider than the terminal leaves out the columns that are needed
    least."""
    columns = shutil.get_terminal_size(_WITHOUT_A_TERMINAL).columns
    return "\n".join(
        _table(block, columns) if isinstance(block, Table) else visible(cell_text(block))
        for block in page
        if not isinstance(block, Chart)
    )


def _table(table: Table, width: int) -> str:
    texts = [
        [column.title for column in table.columns],
        *([one_line(cell_text(cell)) for cell in row] for row in table.rows),
    ]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    shown = _fitting([column.rank_of_need for column in table.columns], widths, width)
    return "\n".join(_line(row, widths, shown, table) for row in texts)


def _line(row: Sequence[str], widths: Sequence[int], shown: Sequence[int], table: Table) -> str:
    cells = (
        row[index].rjust(widths[index]) if table.columns[index].right else row[index].ljust(widths[index])
        for index in shown
    )
    return _GAP.join(cells).rstrip()


def _fitting(needs: Sequence[int], widths: Sequence[int], width: int) -> list[int]:
    """The places of the columns that fit, at least those that are always shown."""
    shown = list(range(len(needs)))
    while sum(widths[index] + len(_GAP) for index in shown) - len(_GAP) > width:
        least_needed = max(shown, key=lambda index: needs[index])
        if not needs[least_needed]:
            break
        shown.remove(least_needed)
    return shown
