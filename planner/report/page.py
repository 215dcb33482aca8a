"""What a command shows, before it is known how wide the terminal is: lines, and tables whose columns can be left out.

trainplan.planner.cli.screen draws it. Nothing here aligns or colours: the rooms that make pages do not import rich.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class Tone(StrEnum):
    """What a colour says of a cell. A reader without colours has the words of the cell."""

    SPOT = "spot"
    """The vendor may take the machine away."""
    WARNING = "warning"
    """It works, and something is to be known first: tight memory, a machine type that ends."""
    BAD = "bad"
    """It does not work: retired, refused."""
    FAINT = "faint"
    """It rests on less than the others: a computed or an old price."""


class Cell(NamedTuple):
    """The text of a cell, or a line of a page, that has a colour."""

    text: str
    tone: Tone


class Column(NamedTuple):
    """A column of a table; `right` aligns it to the right.

    Where not all fit, the column with the highest `rank_of_need` is left out first; 0 is always shown. `shrinks`: its
    texts are cut, with an ellipsis, where those columns do not fit either, from the last such column to the first.
    """

    title: str
    right: bool = False
    rank_of_need: int = 0
    shrinks: bool = False


class Table(NamedTuple):
    """Columns, and rows with a cell for each. `names_left_out`: a line below names the columns that do not fit."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Cell]]
    names_left_out: bool = True


class Mark(NamedTuple):
    """A point of a chart; one with a `text` stands out."""

    x: float
    y: float
    text: str = ""


class Chart(NamedTuple):
    """Points over two logarithmic axes, whose ends are named; all values are above 0. A pipe or a file gets none."""

    title: str
    marks: Sequence[Mark]
    x_ends: tuple[str, str]
    y_ends: tuple[str, str]


Page = Sequence[str | Cell | Table | Chart]
"""Blocks below each other; "" is an empty line, and a text may have several lines."""


def joined(blocks: Sequence[Page]) -> Page:
    """The pages below each other with an empty line between; an empty page takes no place."""
    whole: list[str | Cell | Table | Chart] = []
    for block in blocks:
        if block:
            whole += [*([""] if whole else []), *block]
    return whole


def cell_text(cell: str | Cell) -> str:
    """The text without its colour."""
    return cell if isinstance(cell, str) else cell.text
