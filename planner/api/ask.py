"""Questions at the terminal. Each has a limit and a safe answer, and keeps looking at the run while it waits."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from trainplan.planner.api.told import kernel_here
from trainplan.planner.clock import Clock, SystemClock
from trainplan.planner.errors import BadInputError, DeclinedError, PlanError
from trainplan.providers import interrupts
from trainplan.workloads.durations import format_duration

ANSWER_WITHIN = timedelta(minutes=10)
"""After that the safe answer counts. Reading a proposal takes a minute or two; whoever has not answered in ten has left
the terminal, and prices that were shown are no longer those of now."""
SLICE_SECONDS = 0.2
"""How long one look for typed text lasts; news of the run are looked for between two of them."""


class Reply(StrEnum):
    """How a question ended."""

    YES = "yes"
    NO = "no"
    NOBODY = "nobody"
    """There is no terminal to ask at."""
    CLOSED = "closed"
    """The input ended before an answer: Ctrl-D, or a terminal that has gone."""
    LATE = "late"
    """Nobody answered within ANSWER_WITHIN."""
    OVERTAKEN = "overtaken"
    """Something happened meanwhile that makes the question pointless; it was told."""

    @property
    def is_answer(self) -> bool:
        """Whether somebody said yes or no."""
        return self in (Reply.YES, Reply.NO)


class Terminal(Protocol):
    """Where somebody may sit."""

    def is_there(self) -> bool:
        """Whether there is anybody to ask."""
        ...

    def write(self, text: str) -> None:
        """Show the text to the person."""

    def read(self, seconds: float) -> str | None:
        """What is typed within that time: None for nothing, "" where the input has ended."""
        ...


class StandardTerminal:
    """Standard input and standard error. Where `select` cannot wait for a terminal (Windows), `read` waits for a whole
    line: a question has no limit there."""

    def is_there(self) -> bool:
        try:
            return sys.stdin is not None and sys.stdin.isatty()
        except ValueError:  # it was closed
            return False

    def write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def read(self, seconds: float) -> str | None:
        try:
            number = sys.stdin.fileno()
            if not _has_text(number, seconds):
                return None
            # Not through sys.stdin, whose buffer the poll knows nothing of: typed text could wait there unseen.
            return os.read(number, 4096).decode(errors="replace")
        except (OSError, ValueError):  # the terminal has gone
            return ""


class Notebook:
    """A cell of a notebook: its kernel (IPython's) shows a field for the answer, where the front end has one. `read`
    waits for a whole answer: a question has no limit there."""

    def __init__(self, kernel: object, read_line: Callable[[str], str]) -> None:
        self._kernel = kernel
        self._read_line = read_line
        self._question = ""

    def is_there(self) -> bool:
        # nbclient and nbconvert execute a notebook without a person, and tell its kernel that nobody answers.
        return bool(getattr(self._kernel, "_allow_stdin", False))

    def write(self, text: str) -> None:
        self._question += text

    def read(self, seconds: float) -> str | None:  # noqa: ARG002  the kernel knows no limit
        question, self._question = self._question, ""
        try:
            return f"{self._read_line(question)}\n"
        except EOFError:
            return ""


def terminal_here() -> Terminal:
    """Where somebody may sit: a notebook, where this is one, else standard input."""
    kernel = kernel_here()
    return StandardTerminal() if kernel is None else Notebook(kernel, input)


def _has_text(number: int, seconds: float) -> bool:
    """Whether the descriptor can be read within that time. `select` takes no descriptor above 1,023, and `poll` knows
    no terminals on macOS."""
    if sys.platform == "win32":
        return True
    if sys.platform == "linux":
        poller = select.poll()
        poller.register(number, select.POLLIN)
        return bool(poller.poll(seconds * 1000))
    return bool(select.select([number], [], [], seconds)[0])


def ask(
    question: str,
    terminal: Terminal,
    clock: Clock,
    *,
    default: bool | None = None,
    news: Callable[[], str] = lambda: "",
) -> Reply:
    """Ask a question that is answered by yes or no.

    `default` is what an empty line means (None: it is asked again). `news` tells in a sentence what makes the question
    pointless ("" while nothing does); it is called about five times a second, and the sentence is written.
    """
    if not terminal.is_there():
        return Reply.NOBODY
    choices = {True: "[Y/n]", False: "[y/N]", None: "[y/n]"}[default]
    until, typed = clock.now() + ANSWER_WITHIN, ""
    terminal.write(f"{question} {choices}: ")
    while True:
        interrupts.ask()
        if message := news():
            terminal.write(f"\n{message}\n")
            return Reply.OVERTAKEN
        if clock.now() >= until:
            terminal.write("\n")
            return Reply.LATE
        text = terminal.read(SLICE_SECONDS)
        if text == "":
            terminal.write("\n")
            return Reply.CLOSED
        line, newline, rest = (typed + (text or "")).partition("\n")
        # What was typed of a line is kept until its end comes.
        typed = rest if newline else line
        answer = _reply_of(line, default) if newline else None
        if answer is not None:
            return answer
        if newline:
            terminal.write(f"answer y or n {choices}: ")


def unanswered(reply: Reply) -> str:
    """Why there is no answer, as the beginning of a sentence."""
    if reply is Reply.LATE:
        return f"nobody answered within {format_duration(ANSWER_WITHIN)}"
    return (
        "the input ended before an answer"
        if reply is Reply.CLOSED
        else "the input is not a terminal, so nobody can be asked"
    )


def confirm(
    question: str,
    *,
    hint: str,
    left_alone: str,
    default: bool = True,
    nobody: PlanError | None = None,
    terminal: Terminal | None = None,
) -> None:
    """Return where somebody agrees; raise DeclinedError where somebody does not.

    Raises BadInputError with `hint` where nobody answers; `left_alone` says what was therefore not done. `nobody` is
    raised instead where there is no terminal at all.
    """
    reply = ask(question, terminal or terminal_here(), SystemClock(), default=default)
    if reply is Reply.YES:
        return
    if reply is Reply.NO:
        raise DeclinedError(f"the answer was no: {left_alone}")
    if reply is Reply.NOBODY:
        raise nobody or BadInputError(unanswered(reply), hint)
    raise BadInputError(f"{unanswered(reply)}: {left_alone}", hint)


def _reply_of(line: str, default: bool | None) -> Reply | None:
    """What a typed line means; None for nothing that could be understood."""
    word = line.strip().lower()
    if not word and default is not None:
        return Reply.YES if default else Reply.NO
    return {"y": Reply.YES, "yes": Reply.YES, "n": Reply.NO, "no": Reply.NO}.get(word)
