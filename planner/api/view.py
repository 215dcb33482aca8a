"""Where what happens to a run is shown: a terminal (planner/cli/live_view.py), or the output of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trainplan.planner.runs.events import Event


class View(Protocol):
    """Shows the events of a run."""

    def show(self, event: Event) -> None:
        """Show one event."""

    def pause_for(self, ask: Callable[[], None]) -> None:
        """Run something that needs the terminal for itself."""
