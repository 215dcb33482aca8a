"""A launch as it happens: lines on stderr, and a progress bar where there is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn

from trainplan.planner.api.event_lines import EventLines, progress_line
from trainplan.planner.cli.streams import unfiltered
from trainplan.planner.runs.events import Event, Printed, Progressed
from trainplan.workloads.terminal_text import visible, wrapped

BAR_WIDTH = 16


class LiveView:
    """Shows events. Without a terminal a line every ten seconds takes the place of the bar.

    `told` are lines that the command has written before. With `quiet`, what a script prints is left out.
    """

    def __init__(
        self, stream: TextIO, now: Callable[[], datetime], told: Sequence[str] = (), *, quiet: bool = False
    ) -> None:
        self._is_quiet = quiet
        self._lines = EventLines(now, told)
        self._console = Console(file=unfiltered(stream), highlight=False, soft_wrap=True)
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=BAR_WIDTH), TextColumn("{task.fields[said]}"),
            console=self._console,
        )  # fmt: skip
        self._task = self._progress.add_task("epoch", total=None, said="", visible=False)
        # What goes to a file or a pipe stays there: the live display would print it on its own stream.
        shared = sys.stdout is not None and sys.stdout.isatty()
        self._live = Live(
            self._progress, console=self._console, transient=True, refresh_per_second=4, redirect_stdout=shared
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def pause_for(self, ask: Callable[[], None]) -> None:
        """Run something that needs the terminal for itself."""
        if not self._console.is_terminal:
            ask()
            return
        self._live.stop()
        ask()
        self._live.start()

    def show(self, event: Event) -> None:
        """Show one event of the run."""
        if isinstance(event, Printed) and self._is_quiet:
            return
        if isinstance(event, Progressed) and self._console.is_terminal:
            self._advance(event)
        elif text := self._lines.text(event):
            # A terminal gets lines that end between words; what goes to a file stays on one line.
            width = self._console.width if self._console.is_terminal else None
            self._console.print(wrapped(visible(text), width), markup=False)

    def _advance(self, event: Progressed) -> None:
        epoch = f"epoch {event.epoch}/{event.epochs}" if event.epochs else f"step {event.step:,}"
        self._progress.update(
            self._task,
            total=event.total_steps or None,
            completed=event.step,
            description=epoch,
            # Between the three parts rich sets a blank, and one more stays free at the edge.
            said=progress_line(event, self._console.width - len(epoch) - BAR_WIDTH - 3),
            visible=True,
        )
