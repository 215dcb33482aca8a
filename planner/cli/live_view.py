"""A launch as it happens: lines on stderr, and a progress bar where there is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, TextIO, assert_never

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn

from planner.cli.streams import unfiltered
from planner.runs.events import Event, Message, PhaseReached, Progressed, TrainerStarted
from planner.runs.run import Phase, Run
from pricing.money import format_usd, format_usd_per_hour
from providers.registry import is_simulated
from workloads.durations import format_duration
from workloads.terminal_text import visible, wrapped

BAR_WIDTH = 16
QUIET_INTERVAL = timedelta(seconds=10)
_PHASES = {
    Phase.LAUNCHING: "starting",
    Phase.BOOTING: "waiting for the trainer",
    Phase.RUNNING: "training",
    Phase.COLLECTING: "fetching the model",
    Phase.TEARING_DOWN: "deleting what was created",
    Phase.INTERRUPTED: "going on elsewhere",
    Phase.PLANNED: "planned",
    Phase.DONE: "nothing is left",
}


class LiveView:
    """Shows events. Without a terminal a line every ten seconds takes the place of the bar.

    A message of the run that ends one of the lines that the command has `told` before is not told again: the trainer
    looks at the same data folder as the launch.
    """

    def __init__(self, stream: TextIO, now: Callable[[], datetime], told: Sequence[str] = ()) -> None:
        self._told = told
        self._console = Console(file=unfiltered(stream), highlight=False, soft_wrap=True)
        self._now = now
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
        self._last_line: datetime | None = None

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
        match event:
            case PhaseReached():
                self._say(_PHASES[event.phase] + (f": {event.detail}" if event.detail else ""))
            case Message():
                if not any(line.endswith(visible(event.text)) for line in self._told):
                    self._say(event.text)
            case TrainerStarted():
                self._say(started_line(event))
            case Progressed():
                self._advance(event)
            case _:
                assert_never(event)

    def _say(self, text: str) -> None:
        # A terminal gets lines that end between words; what goes to a file stays on one line.
        width = self._console.width if self._console.is_terminal else None
        self._console.print(wrapped(visible(text), width), markup=False)

    def _advance(self, event: Progressed) -> None:
        if self._console.is_terminal:
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
        elif self._last_line is None or self._now() - self._last_line >= QUIET_INTERVAL:
            self._last_line = self._now()
            text = progress_line(event)
            epoch = f"epoch {event.epoch}/{event.epochs}, " if event.epochs else ""
            of = f"/{event.total_steps}" if event.total_steps else ""
            self._say(f"{epoch}step {event.step}{of}, {text}")


def bills_line(run: Run) -> str:
    """What a run still costs, until when at the latest, and what ends it."""
    if not run.bills:
        return f"nothing of run {run.run_id} bills"
    attempt = run.attempts[-1]
    if attempt.ended_at is not None:
        when = f"{attempt.ended_at.astimezone():%Y-%m-%d %H:%M}"
        return f"the machine of run {run.run_id} ended at {when}; a disk or an address may bill until they are removed"
    until = min(attempt.deadline or run.deadline, run.deadline).astimezone()
    rate = format_usd_per_hour(attempt.usd_per_hour)
    when = f"until {until:%Y-%m-%d %H:%M} at the latest; plan stop {run.run_id} ends it"
    if is_simulated(run.provider):
        return f"run {run.run_id} is simulated: nothing bills; it would at {rate}, {when} (in simulated time)"
    return f"run {run.run_id} bills {rate} {when}"


def started_line(event: TrainerStarted) -> str:
    """`training on T4 (one device), tensorflow 2.21, going on from step 500`."""
    resumed = f", going on from step {event.resumed_from_step}" if event.resumed_from_step else ""
    strategy = f" ({event.strategy})" if event.strategy else ""
    return f"training on {event.device}{strategy}, {event.framework}{resumed}"


def progress_line(event: Progressed, width: int | None = None) -> str:
    """`loss 0.31, accuracy 91.2 %, 812 images/s, 1m 10s left, $0.00 so far`.

    Within `width` characters, what is needed least is left out: first the validation, last what it has cost so far.
    """
    parts: dict[str, str] = {}
    if event.loss is not None:
        parts["loss"] = f"loss {event.loss:.3f}"
    if event.accuracy is not None:
        parts["accuracy"] = f"accuracy {event.accuracy:.1%}"
    if event.validation_accuracy is not None:
        parts["validation"] = f"validation {event.validation_accuracy:.1%}"
    if event.images_per_second:
        parts["speed"] = f"{event.images_per_second:,.0f} images/s"
    if event.eta is not None:
        parts["left"] = f"{format_duration(event.eta)} left"
        if event.half_width is not None:
            ends = (format_duration(event.eta * (1 + share)) for share in (-event.half_width, event.half_width))
            parts["left"] += f" ({' to '.join(ends)})"
    parts["cost"] = f"{format_usd(event.usd_so_far)} so far"
    for name in ("validation", "loss", "speed", "accuracy", "left"):
        if width is None or len(", ".join(parts.values())) <= width:
            break
        parts.pop(name, None)
    return ", ".join(parts.values())
