"""Asking whoever sits at the terminal: what Ctrl-C means, and what to do with a run that is slower than promised."""

from __future__ import annotations

import sys
from collections.abc import Callable

from trainplan.planner.api.ask import Reply, StandardTerminal, ask, unanswered
from trainplan.planner.cli.live_view import LiveView
from trainplan.planner.clock import SystemClock
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.execution.executor import CtrlC
from trainplan.planner.runs.execution.nobody import Nobody
from trainplan.planner.runs.run import Phase, Run
from trainplan.planner.runs.telling.news import News
from trainplan.providers.registry import is_here
from trainplan.workloads.job import OnSlow

_BILLING = (Phase.LAUNCHING, Phase.BOOTING, Phase.RUNNING)


class AtTerminal(Nobody):
    """The person is asked, where both ends are a terminal; what is fetched or deleted is seen to its end, unless Ctrl-C
    is pressed again. `view` is what holds the terminal meanwhile.

    `answer` asks a question about a run and keeps looking at the run while it waits. Without an answer everything
    goes on as it would have without the question.
    """

    def __init__(self, view: LiveView, answer: Callable[[str, Run], Reply]) -> None:
        self._view = view
        self._answer_of = answer

    def pressed_ctrl_c(self, run: Run, times: int) -> CtrlC:
        """The first asks: stop or leave it running; the second leaves it running at once."""
        if is_here(run.provider) or times > 1:
            return super().pressed_ctrl_c(run, times)
        if run.phase not in _BILLING:
            return CtrlC.STOP
        question = "\nstop the run? Its newest checkpoint is kept. No leaves it running, and billing."
        reply = self._answer(question, run, "the run goes on and is followed; Ctrl-C again leaves it running")
        return {Reply.YES: CtrlC.STOP, Reply.NO: CtrlC.DETACH}.get(reply, CtrlC.GO_ON)

    def runs_slow(self, run: Run, text: str) -> OnSlow:
        reply = self._answer(f"run {run.run_id}: {text}. Go on?", run, "the run goes on")
        return OnSlow.STOP if reply is Reply.NO else OnSlow.CONTINUE

    def _answer(self, question: str, run: Run, without: str) -> Reply:
        """The reply; `without` says what happens where there is none. Raises KeyboardInterrupt for Ctrl-C."""
        replies: list[Reply] = []
        broken_off: list[KeyboardInterrupt] = []

        def put() -> None:
            try:
                replies.append(self._answer_of(question, run))
            except KeyboardInterrupt as error:  # raised again when the view has the terminal back
                broken_off.append(error)

        self._view.pause_for(put)
        if broken_off:
            raise broken_off[0]
        (reply,) = replies
        if not reply.is_answer and reply is not Reply.OVERTAKEN:
            self._view.show(Message(f"{unanswered(reply)}: {without}"))
        return reply


def person(view: LiveView, news: News) -> Nobody:
    """Return the person to ask, where there is one; `news` reads the run meanwhile."""
    terminal = StandardTerminal()
    if not (terminal.is_there() and sys.stderr.isatty()):
        return Nobody()
    return AtTerminal(view, lambda text, run: ask(text, terminal, SystemClock(), news=lambda: news.of(run)))
