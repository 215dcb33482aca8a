"""What launches and pilots act with that Python begins: lines on standard error, and an interrupt that ends no run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from trainplan.planner.api import build
from trainplan.planner.api.event_lines import Lines, bills_line
from trainplan.planner.api.launching import Desk
from trainplan.planner.api.piloting import PilotDesk
from trainplan.planner.api.told import tell_page
from trainplan.planner.runs.execution.executor import CtrlC
from trainplan.planner.runs.execution.nobody import Nobody

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainplan.planner.report.page import Page
    from trainplan.planner.runs.proposal.make_proposal import Surroundings
    from trainplan.planner.runs.run import Run


class Interrupted(Nobody):
    """Interrupting Python leaves the run running, wherever it is: `Run.stop` ends one."""

    def __init__(self) -> None:
        self.was_asked = False

    def pressed_ctrl_c(self, run: Run, times: int) -> CtrlC:  # noqa: ARG002  it means the same each time
        self.was_asked = True
        return CtrlC.DETACH


@contextmanager
def python_desk(around: Surroundings, told: Sequence[str] = (), *, quiet: bool = False) -> Iterator[Desk]:
    """The desk, with its journal open. `told` are lines that standard error has already; with `quiet` it gets no
    events."""
    with build.journal(around.settings) as journal:
        lines = Lines(build.clock().now, told, quiet=quiet)
        yield Desk(around=around, journal=journal, view=lines, person=Interrupted(), show=tell)


def python_pilots(around: Surroundings, *, is_agreed: bool, quiet: bool) -> PilotDesk:
    """What pilots act with; `quiet` as above."""
    return PilotDesk(around=around, show=tell, opened=lambda: python_desk(around, quiet=quiet), is_agreed=is_agreed)


def tell(page: Page) -> None:
    """Show a page."""
    if page:
        tell_page(page)


def leave_running(run: Run) -> NoReturn:
    """Say what the run still bills after Python stops following it, and raise KeyboardInterrupt."""
    tell([bills_line(run)])
    raise KeyboardInterrupt from None
