"""Where what a person is told goes: standard error, or in a notebook one output of the call, which is updated in place.

A front end draws standard error as a red block below the cell, and a line of progress in it stays for ever.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from trainplan.planner.report.page import Cell, Chart, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trainplan.planner.report.page import Page

MOST_BLOCKS = 400
"""Lines and tables that stay in the cell of a notebook, which is saved with it; earlier ones are counted."""
MOST_PER_SECOND = 4
"""Updates of the progress alone: each sends the whole output to the browser."""


class Updated(Protocol):
    """IPython's handle of an output."""

    def update(self, shown: object) -> None:
        """Show this in its place."""


class CellOutput:
    """Lines and pages below each other, and under them how far a run is, replaced with each look.

    `display` is IPython's, `seconds` a clock for the pauses between updates.
    """

    def __init__(self, display: Callable[..., Updated], seconds: Callable[[], float] = time.monotonic) -> None:
        self._display = display
        self._seconds = seconds
        self._blocks: deque[str | Cell | Table] = deque(maxlen=MOST_BLOCKS)
        self._count = 0
        self._progress = ""
        self._share: float | None = None
        self._handle: Updated | None = None
        self._updated_at = float("-inf")
        self._is_stale = False

    def add(self, *blocks: str | Cell | Table | Chart) -> None:
        """Show blocks of a page below those that are there."""
        shown = [block for block in blocks if not isinstance(block, Chart)]
        self._blocks.extend(shown)
        self._count += len(shown)
        self._update()

    def advance(self, progress: str, share: float | None) -> None:
        """Replace how far the run is, in words and as a share of 1 (None: not known); "" takes it away."""
        self._progress, self._share, self._is_stale = progress, share, True
        if self._seconds() - self._updated_at >= 1 / MOST_PER_SECOND:
            self._update()

    def finish(self) -> None:
        """Show what was too soon after the update before."""
        if self._is_stale:
            self._update()

    def _update(self) -> None:
        if self._handle is None:
            self._handle = self._display(self, display_id=True)
        else:
            self._handle.update(self)
        self._updated_at, self._is_stale = self._seconds(), False

    @property
    def _page(self) -> list[str | Cell | Table]:
        left_out = self._count - len(self._blocks)
        return [*([f"({left_out:,} earlier lines are not shown)"] if left_out else []), *self._blocks]

    def __repr__(self) -> str:
        from trainplan.planner.report.plain_text import plain_text

        return plain_text([*self._page, *([self._progress] if self._progress else [])])

    def _repr_html_(self) -> str:
        from trainplan.planner.report.notebook_cell import cell, page_blocks, progress

        return cell(*page_blocks(self._page, "what happens"), progress(self._progress, self._share))


_OUTPUT: ContextVar[CellOutput | None] = ContextVar("output of the call", default=None)


def output_here() -> CellOutput | None:
    """The output of the call in the cell of a notebook; None elsewhere."""
    return _OUTPUT.get()


@contextmanager
def output_of_call(display: Callable[..., Updated] | None = None) -> Iterator[None]:
    """What is told goes to one output, where `display` (None: that of the notebook in which this runs) shows it."""
    display = display or _notebook_display()
    if display is None:
        yield
        return
    output = CellOutput(display)
    token = _OUTPUT.set(output)
    try:
        yield
    finally:
        _OUTPUT.reset(token)
        output.finish()


def kernel_here() -> object | None:
    """The kernel (IPython's) of the notebook in which this runs; None where it runs in none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None)


def _notebook_display() -> Callable[..., Any] | None:
    if kernel_here() is None:
        return None
    show: Callable[..., Any] = import_module("IPython.display").display
    return show


def tell(line: str) -> None:
    """Show a line."""
    output = output_here()
    if output is None:
        sys.stderr.write(f"{line}\n")
    else:
        output.add(line)


def tell_page(page: Page) -> None:
    """Show a page."""
    from trainplan.planner.report.plain_text import plain_text

    output = output_here()
    if output is None:
        tell(plain_text(page))
    else:
        output.add(*page)
