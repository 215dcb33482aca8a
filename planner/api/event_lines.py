"""What happens to a run, in lines: each event as a text, and what a run bills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, assert_never

from trainplan.planner.api.told import output_here, tell
from trainplan.planner.runs.events import Event, Message, PhaseReached, Printed, Progressed, TrainerStarted
from trainplan.planner.runs.run import Phase
from trainplan.pricing.money import format_usd, format_usd_per_hour
from trainplan.providers.registry import is_simulated
from trainplan.workloads.durations import format_duration
from trainplan.workloads.secret_rules import LineCover
from trainplan.workloads.terminal_text import visible
from trainplan.workloads.wording import Command

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Run

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


class EventLines:
    """The texts of a run's events, one after another; of its progress one every ten seconds.

    A message of the run that ends one of the lines that were `told` before is not told again: the trainer looks at the
    same data folder as the launch. Why a run ends is told once, be it by the last line that its script printed.
    """

    def __init__(self, now: Callable[[], datetime], told: Sequence[str] = ()) -> None:
        self._told = told
        self._now = now
        self._last_line: datetime | None = None
        self._has_trained = False
        self._why = ""
        self._cover = LineCover()

    def text(self, event: Event) -> str:
        """The event in a line; "" where nothing is to be told."""
        match event:
            case PhaseReached():
                # What the trainer writes is read before the phase that it makes is reached.
                if event.phase is Phase.RUNNING and not event.detail and self._has_trained:
                    return ""
                self._has_trained = False
                is_told = event.phase in (Phase.TEARING_DOWN, Phase.DONE) and event.detail == self._why
                self._why = event.detail or self._why
                return _PHASES[event.phase] + (f": {event.detail}" if event.detail and not is_told else "")
            case Message():
                is_told = any(line.endswith(visible(event.text)) for line in self._told)
                return "" if is_told else event.text
            case Printed():
                self._why = event.lines[-1].removeprefix("error: ")  # how a trainer ends that has failed
                return "\n".join(map(self._cover, event.lines))
            case TrainerStarted():
                self._has_trained = True
                return started_line(event)
            case Progressed():
                self._has_trained = True
                return self._progress(event)
            case _:
                assert_never(event)

    def _progress(self, event: Progressed) -> str:
        if self._last_line is not None and self._now() - self._last_line < QUIET_INTERVAL:
            return ""
        self._last_line = self._now()
        return whole_line(event)


class Lines:
    """Shows events to a program: as lines on standard error, in words of Python; with `quiet` none. In a notebook the
    progress is one line that is replaced."""

    def __init__(self, now: Callable[[], datetime], told: Sequence[str] = (), *, quiet: bool = False) -> None:
        self._lines = EventLines(now, told)
        self._is_quiet = quiet

    def show(self, event: Event) -> None:
        text = self._lines.text(event)
        if self._is_quiet:
            return
        output = output_here()
        if output is not None and isinstance(event, Progressed):
            share = min(event.step / event.total_steps, 1.0) if event.total_steps else None
            output.advance(whole_line(event), share)
            return
        if output is not None and isinstance(event, PhaseReached) and event.phase is not Phase.RUNNING:
            output.advance("", None)
        if text:
            tell(visible(text))

    def pause_for(self, ask: Callable[[], None]) -> None:
        ask()


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
    when = f"until {until:%Y-%m-%d %H:%M} at the latest; {Command('stop', run.run_id)} ends it"
    if is_simulated(run.provider):
        return f"run {run.run_id} is simulated: nothing bills; it would at {rate}, {when} (in simulated time)"
    return f"run {run.run_id} bills {rate} {when}"


def started_line(event: TrainerStarted) -> str:
    """`training on T4 (one device), tensorflow 2.21, going on from step 500`."""
    resumed = f", going on from step {event.resumed_from_step}" if event.resumed_from_step else ""
    strategy = f" ({event.strategy})" if event.strategy else ""
    return f"training on {event.device}{strategy}, {event.framework}{resumed}"


def whole_line(event: Progressed) -> str:
    """`epoch 1/3, step 20/96, ` and the line of progress."""
    epoch = f"epoch {event.epoch}/{event.epochs}, " if event.epochs else ""
    of = f"/{event.total_steps}" if event.total_steps else ""
    return f"{epoch}step {event.step}{of}, {progress_line(event)}"


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
