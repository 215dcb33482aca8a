"""Asking whoever sits at the terminal: what Ctrl-C means, and what to do with a run that is slower than promised."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import typer

from planner.cli.live import LiveView
from planner.launch import CtrlC, HungUp
from planner.run import Phase, Run
from workloads.job import OnSlow

_BILLING = (Phase.LAUNCHING, Phase.BOOTING, Phase.RUNNING)


class Nobody:
    """Nobody is there to ask: a run on this machine stops at Ctrl-C, a rented one is left running.

    Whoever goes on pressing it is let go in any case.
    """

    def pressed_ctrl_c(self, run: Run, times: int) -> CtrlC:
        if run.provider == "local":
            return {1: CtrlC.STOP, 2: CtrlC.END_NOW}.get(times, CtrlC.DETACH)
        return CtrlC.DETACH if run.phase in _BILLING or times > 1 else CtrlC.STOP

    def runs_slow(self, run: Run, text: str) -> OnSlow:  # noqa: ARG002  what it would be asked
        """It goes on: deadline and budget hold in any case."""
        return OnSlow.CONTINUE


class AtTerminal(Nobody):
    """The person is asked, where both ends are a terminal. `view` is what holds the terminal meanwhile."""

    def __init__(self, view: LiveView, confirm: Callable[[str], bool]) -> None:
        self._view = view
        self._confirm = confirm

    def pressed_ctrl_c(self, run: Run, times: int) -> CtrlC:
        """The first asks: stop or leave it running; the second leaves it running at once."""
        if run.provider == "local" or run.phase not in _BILLING or times > 1:
            return super().pressed_ctrl_c(run, times)
        stop = self._answer("\nstop the run? Its newest checkpoint is kept. No leaves it running, and billing.")
        return CtrlC.STOP if stop else CtrlC.DETACH

    def runs_slow(self, run: Run, text: str) -> OnSlow:
        return OnSlow.CONTINUE if self._answer(f"run {run.run_id}: {text}. Go on?") else OnSlow.STOP

    def _answer(self, question: str) -> bool:
        """Raises KeyboardInterrupt where the answer is Ctrl-C, or the terminal has gone."""
        answer: list[bool] = []

        def ask() -> None:
            with suppress(typer.Abort):
                answer.append(self._confirm(question))

        self._view.pause_for(ask)
        if not answer:
            raise KeyboardInterrupt
        return answer[0]


def person(view: LiveView) -> Nobody:
    """Whoever can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return Nobody()
    return AtTerminal(view, lambda text: typer.confirm(text, err=True))


@contextmanager
def hang_up_detaches() -> Iterator[None]:
    """A terminal that is closed, or a computer that goes down, lets go of the run."""
    kinds = [getattr(signal, name) for name in ("SIGHUP", "SIGTERM") if hasattr(signal, name)]
    before = {kind: signal.signal(kind, _hang_up) for kind in kinds}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _hang_up(number: int, frame: object) -> None:
    raise HungUp(signal.Signals(number).name, frame is not None)
