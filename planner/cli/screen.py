"""How a page is drawn: as wide as the terminal, in colour where that is wanted, wide and plain in a pipe or a file.

A table that is too wide leaves out columns, those that are needed least first, and names them; on less than 80 columns
each row takes several lines where the needed columns do not fit into one. NO_COLOR and FORCE_COLOR
are those of no-color.org and force-color.org (read on 2026-11-24): set and not empty.
"""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import NamedTuple, TextIO

from trainplan.planner.cli.chart import LEAST_WIDTH, drawn
from trainplan.planner.cli.streams import terminal_size, write_styled
from trainplan.planner.report.page import Cell, Chart, Column, Page, Table, Tone, cell_text
from trainplan.workloads.terminal_text import one_line, visible, wrapped

GAP = 2
"""Blanks between two columns; one where the needed columns do not fit otherwise."""
_USUAL_WIDTH = 80
"""Columns of a terminal that tables are made for: there long texts are cut, on fewer a row is folded."""
_INDENT = "  "
"""Before the second and later lines of a folded row."""
_LEAST_SHRUNK = 8
"""Characters that a shrunk column keeps."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_STYLES = {Tone.SPOT: "cyan", Tone.WARNING: "yellow", Tone.BAD: "red", Tone.FAINT: "dim"}


class Screen(NamedTuple):
    """`width` in characters, None: as wide as the page wants to be. `terminal` is the size of the terminal, None for a
    pipe or a file."""

    width: int | None
    has_colour: bool
    terminal: os.terminal_size | None = None


PLAIN = Screen(width=None, has_colour=False)


def screen_of(stream: TextIO, environ: Mapping[str, str], *, wide: bool = False) -> Screen:
    """The screen behind a stream: a terminal has a width (none with `wide`), a pipe or a file has none."""
    terminal = terminal_size(stream) if stream.isatty() else None
    width = terminal.columns if terminal is not None and not wide else None
    if environ.get("NO_COLOR"):
        return Screen(width, has_colour=False, terminal=terminal)
    has_colour = terminal is not None and environ.get("TERM") not in ("dumb", "unknown")
    return Screen(width, has_colour or bool(environ.get("FORCE_COLOR")), terminal)


def rows_that_fit(page_of: Callable[[int], Page], most: int, screen: Screen, reserved: int = 0) -> int:
    """How many rows of a table, at least 1 and at most `most`, let its whole page stand on the terminal.

    `page_of` is the page with so many rows. A line stays free for the prompt that follows, and `reserved` more.
    """
    if screen.terminal is None:
        return most
    room = screen.terminal.lines - 1 - reserved
    return max(1, bisect_right(range(1, most + 1), room, key=lambda rows: height_of(page_of(rows), screen)))


def height_of(page: Page, screen: Screen) -> int:
    """The lines that a page takes on the terminal; its tables are measured and not drawn, which takes long."""
    assert screen.terminal is not None
    lines = 0
    for block in page:
        if isinstance(block, Table):
            table, left_out = _fitted(block, screen.width)
            for part in _folded(table, screen.width):
                width = _total(*_widths(part, screen.width))
                lines += (1 + len(table.rows)) * max(1, -(-width // screen.terminal.columns))
            lines += lines_on("\n".join(left_out), screen.terminal.columns) if left_out else 0
        else:
            lines += lines_on(render([block], screen), screen.terminal.columns)
    return lines


def lines_on(text: str, columns: int) -> int:
    """The lines that a text takes on a terminal, which breaks those that are wider than it."""
    return sum(max(1, -(-len(line) // columns)) for line in _COLOURS.sub("", text).split("\n"))


def show(page: Page, *, wide: bool = False, as_markdown: bool = False, stream: TextIO | None = None) -> None:
    """Draw a page on a stream (default: stdout), or write it as Markdown."""
    stream = stream or sys.stdout
    if as_markdown:
        from trainplan.planner.report.markdown import markdown

        stream.write(markdown(page))
        return
    screen = screen_of(stream, os.environ, wide=wide)
    text = render(page, screen) + "\n"
    if screen.has_colour:
        write_styled(stream, text)
    else:
        stream.write(text)


def render(page: Page, screen: Screen) -> str:
    """The page as text; with colours it holds escape sequences, all of them made here."""
    lines: list[str] = []
    for block in page:
        if isinstance(block, Table):
            table, left_out = _fitted(block, screen.width)
            lines += [_table_text(table, screen), *left_out]
        elif isinstance(block, Chart):
            if screen.width is not None and screen.width >= LEAST_WIDTH:
                title = wrapped(block.title, screen.width)
                lines.append(visible(drawn(block._replace(title=title), screen.width)))
        else:
            text = wrapped(visible(cell_text(block)), screen.width)
            lines.append(_coloured(text, block, screen) if isinstance(block, Cell) else text)
    return "\n".join(lines)


def _fitted(table: Table, width: int | None) -> tuple[Table, list[str]]:
    """The table without the columns that do not fit, and the lines that name these."""
    columns = columns_that_fit(table, width)
    left_out = [column.title for column in table.columns if column not in columns]
    text = f"columns left out to fit: {', '.join(left_out)}; --wide shows them"
    is_told = left_out and table.names_left_out
    return _of_columns(table, columns), wrapped(text, width).split("\n") if is_told else []


def columns_that_fit(table: Table, width: int | None) -> list[Column]:
    """The columns that `width` characters hold, at least those of rank 0, in their order."""
    columns = list(table.columns)
    if width is None:
        return columns
    widths = {column: _natural_width(table, index) for index, column in enumerate(columns)}
    while _total([widths[column] for column in columns], GAP) > width:
        least_needed = max(columns, key=lambda column: column.rank_of_need)
        if not least_needed.rank_of_need:
            break
        columns.remove(least_needed)
    return columns


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _natural_width(table: Table, index: int) -> int:
    """Places of the widest cell of a column, its title among them: a wide letter (CJK) takes two."""
    from rich.cells import cell_len

    texts = [table.columns[index].title, *(cell_text(row[index]) for row in table.rows)]
    return max(cell_len(one_line(text)) for text in texts)


def _of_columns(table: Table, columns: Sequence[Column]) -> Table:
    indices = [index for index, column in enumerate(table.columns) if column in columns]
    return Table(columns, [[row[index] for index in indices] for row in table.rows])


def _widths(table: Table, width: int | None) -> tuple[list[int], int]:
    """Characters of each column, of its widest cell, and of the gap; fewer where the needed columns do not fit."""
    widths = [_natural_width(table, index) for index in range(len(table.columns))]
    shrinking = [index for index, column in enumerate(table.columns) if column.shrinks]
    gap = GAP if width is None or _total(widths, GAP) <= width else 1
    while width is not None and _total(widths, gap) > width:
        index = next((index for index in reversed(shrinking) if widths[index] > _LEAST_SHRUNK), None)
        if index is None:
            break
        widths[index] -= 1
    return widths, gap


def _folded(table: Table, width: int | None) -> list[Table]:
    """The table, or on a narrow screen parts of its columns that each fit into a line, to be drawn below each other."""
    natural = [_natural_width(table, index) for index in range(len(table.columns))]
    is_folded = width is not None and width < _USUAL_WIDTH and _total(natural, 1) > width
    if width is None or not is_folded or max(natural) > width - len(_INDENT):  # a text that no line holds is cut
        return [table]
    groups: list[list[int]] = [[]]
    for index in range(len(table.columns)):
        room = width - (len(_INDENT) if len(groups) > 1 else 0)
        if groups[-1] and _total([natural[one] for one in (*groups[-1], index)], 1) > room:
            groups.append([])
        groups[-1].append(index)
    return [_of_columns(table, [table.columns[index] for index in group]) for group in groups]


def _table_text(table: Table, screen: Screen) -> str:
    """Header and rows; those of a folded table take a line for each of its parts."""
    parts = _folded(table, screen.width)
    width = screen.width
    inner = width if width is None or len(parts) == 1 else width - len(_INDENT)
    drawn_parts = [
        [(_INDENT if number else "") + line for line in _lines_of(part, screen, inner if number else width)]
        for number, part in enumerate(parts)
    ]
    return "\n".join(line for row in zip(*drawn_parts, strict=True) for line in row)


def _lines_of(table: Table, screen: Screen, width: int | None) -> list[str]:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    widths, gap = _widths(table, width)
    rows = RichTable(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for column, places in zip(table.columns, widths, strict=True):
        rows.add_column(
            Text(column.title), justify="right" if column.right else "left", width=places, no_wrap=True,
            overflow="ellipsis",
        )  # fmt: skip
    for row in table.rows:
        rows.add_row(*(Text(one_line(cell_text(cell)), _style(cell)) for cell in row))
    console = Console(
        file=StringIO(), width=_total(widths, gap) + gap, force_terminal=screen.has_colour, highlight=False,
        color_system="standard" if screen.has_colour else None, no_color=not screen.has_colour, legacy_windows=False,
    )  # fmt: skip
    with console.capture() as capture:
        console.print(rows)
    return [line.rstrip() for line in capture.get().rstrip("\n").split("\n")]


def _coloured(text: str, cell: Cell, screen: Screen) -> str:
    """The lines in the colour of a cell, each by itself: a pager shows lines one by one."""
    if not screen.has_colour:
        return text
    from rich.color import ColorSystem
    from rich.style import Style

    style = Style.parse(_style(cell))
    return "\n".join(style.render(line, color_system=ColorSystem.STANDARD) for line in text.split("\n"))


def _style(cell: str | Cell) -> str:
    return "" if isinstance(cell, str) else _STYLES[cell.tone]
