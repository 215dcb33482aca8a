"""A launch that is left alone for hours: detached, or killed at a point, and looked at again after long pauses.

The job trains for 60 hours, its deadline is five days away. Nobody follows it. Then two commands come, each after a
pause that is drawn, so that they fall into boot, training and the time after the end; at last somebody looks until the
run is over. What is wrong is judged by the double's ledger, but for what the journal has to say of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.faults import clients
from tests.faults.clients import RUN_ID, Desk
from tests.faults.forks import die, forked, forked_together
from tests.faults.health import FINISHED_GRACE, destroyed, useless_machines
from tests.faults.points import Points
from tests.faults.verdict import Trial, Verdict, at_once, outlives_its_record, without_receipt
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Outcome, Phase, Run

if TYPE_CHECKING:
    from tests.faults.harness import Ask, Lived, Work

PAUSES = (timedelta(seconds=20), timedelta(minutes=10), timedelta(minutes=50), timedelta(hours=3), timedelta(days=2))
"""From the launch to the next command, and from that to the one after it."""
AT_ONCE = 0.25
"""How often two commands come at one time."""
FOLLOWED = 60
"""The points after which a person closes the terminal of a command that follows a run for days."""
SIGNAL_AT, HEARD_WITHIN = 20, 12
"""The point at which a signal comes is one of so many, and no command that hears it reaches as many more."""
SEARCHED = 1_000
"""The points after which a person closes the terminal of a detached launch that has found no machine for hours: it asks
up to 600 times, which takes days where its deadline leaves them, and more calls than the harness answers."""
STOPS_WITHIN = timedelta(minutes=30)
"""From `plan stop` to the end of the machine, whatever it is at: a machine has 10 minutes
(trainplan.planner.runs.directory.signs.STOP_LIMIT), and so have the faults of a case that keep it from being told or
ended."""
LOOK_EVERY = timedelta(hours=7)
MOST_LOOKS = 40
_JUST_MADE = timedelta(minutes=10)
_ENDED_BY_HAND = frozenset({Outcome.STOPPED, Outcome.SUCCEEDED, Outcome.INTERRUPTED})


class Typed(StrEnum):
    """A command that somebody types."""

    STATUS = "plan status"
    ATTACH = "plan attach"
    STOP = "plan stop"
    CLEANUP = "plan cleanup"
    AGAIN = "plan launch"
    AGAIN_DETACHED = "plan launch --detach"
    QUESTION = "plan attach at a question"
    ELSEWHERE = "plan cleanup from another home"
    SHARED = "plan launch on another computer of this home"
    MEANWHILE = "plan attach, and plan status before it has the lock"
    SIGNAL = "plan attach, and SIGTERM"
    STOP_KILLED = "plan stop, killed"
    GIVE_UP = "plan stop --give-up-results"


_LOOKS_AT_ALL = {Typed.STATUS, Typed.AGAIN}
"""Commands that look at every run of the job; attach and stop look at the one that they name."""
_LOOKS_AT_NONE = {Typed.CLEANUP, Typed.ELSEWHERE, Typed.AGAIN_DETACHED, Typed.SHARED}
"""Cleanup leaves alone what a run of the journal uses, and what is another client's; a detached launch that finds a
live run in the journal names it and leaves."""
_OF_A_CASE = (Typed.SHARED, Typed.MEANWHILE, Typed.SIGNAL, Typed.STOP_KILLED, Typed.GIVE_UP)
"""Commands that come where a case names them, and are never drawn."""
USUAL = (Typed.STATUS, Typed.ATTACH, Typed.STOP, Typed.CLEANUP, Typed.AGAIN, Typed.AGAIN_DETACHED)
"""Commands that come after a launch that was left alone."""
_WORK: dict[Typed, Callable[[Desk, Ask, Points], None]] = {
    Typed.STATUS: clients.look_once,
    Typed.ATTACH: clients.attach,
    Typed.STOP: clients.stop,
    Typed.STOP_KILLED: clients.stop,
    Typed.GIVE_UP: partial(clients.stop, gives_up=True),
    Typed.CLEANUP: clients.cleanup,
    Typed.AGAIN: partial(clients.launch_again, detach=False),
    Typed.AGAIN_DETACHED: partial(clients.launch_again, detach=True),
    Typed.QUESTION: clients.question,
    Typed.SHARED: clients.launch_elsewhere,
    Typed.MEANWHILE: clients.attach_after_a_look,
    Typed.SIGNAL: clients.attach_until_a_signal,
    Typed.ELSEWHERE: lambda desk, ask, points: clients.cleanup(elsewhere(desk), ask, points),
}


def elsewhere(desk: Desk) -> Desk:
    """Another computer of the same account: a home of its own, with nothing in it."""
    return replace(desk, home=desk.home / "elsewhere")


@dataclass
class Scene:
    """One launch, what is typed after it, and the verdict. `said` is the story, for whoever reads a verdict."""

    desk: Desk
    trial: Trial
    names: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    useless: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    unheard: list[str] = field(default_factory=list)
    """Signals after which a command went on."""
    wished_at: datetime | None = None
    pressed: bool = False
    """Whether somebody pressed Ctrl-C: while nothing bills that ends a run without a question."""
    drawn: tuple[Typed, ...] = tuple(typed for typed in Typed if typed not in _OF_A_CASE)
    """Which commands may come."""

    def __post_init__(self) -> None:
        self.chance = Random(self.trial.name)

    def answer(self, message: tuple[Any, ...]) -> Any:
        match message[0]:
            case "points":
                self.names = list(message[1])
            case "said":
                self.messages.append(message[1])
            case "unheard":
                self.unheard.append(f"SIGTERM was not heard at {message[1]}")
            case "meanwhile":
                forked(lambda ask: clients.look_once(self.desk, ask), self.answer)
            case _:
                return self.desk.cloud.answer(message)
        return None

    def go_on(self, *, killed: bool) -> None:
        """What comes after the launch, whether that was killed or detached."""
        del killed
        desk, trial = self.desk, self.trial
        if trial.point is not None:
            case = trial.case
            for words in (case.first, case.second):
                pause = case.pause if words and case.pause is not None else self.chance.choice(PAUSES)
                desk.cloud.pass_time(desk.cloud.now() + pause)
                self.typed(*([Typed(words)] if words else []))
        self.to_the_end()

    def launch(self, points: Points) -> None:
        """Detached, or until something happens at one of its points."""
        forked(lambda ask: clients.launch(self.desk, ask, points), self.answer)

    def typed(self, *words: Typed) -> None:
        """A command, or two at once, drawn if none is given; then a look for useless machines that are still there."""
        wanted = words or self.chance.sample(self.drawn, 2 if self.chance.random() < AT_ONCE else 1)
        self.messages.append(f"{self.desk.cloud.now():%d %H:%M:%S} {' and '.join(wanted)}")
        began, before = self.desk.cloud.now(), self.desk.cloud.ledger()
        # Whoever sends a create again gives what it made the time to boot, as it cannot know how old that is.
        cut_off = any(run.phase is Phase.LAUNCHING for run in self.runs())
        self.pressed = self.pressed or Typed.QUESTION in wanted
        if {Typed.STOP, Typed.STOP_KILLED, Typed.GIVE_UP} & set(wanted) and self.wished_at is None:
            self.wished_at = began
        if len(wanted) > 1:
            forked_together([self._work(typed) for typed in wanted], self.answer, self.chance)
        else:
            forked(self._work(wanted[0]), self.answer)
        if Typed.STOP in wanted:
            self.useless += self._not_stopped(before, began)
        if not set(wanted) & _LOOKS_AT_ALL:
            before = [row for row in before if row.run == RUN_ID]
        if not set(wanted) <= _LOOKS_AT_NONE and not cut_off:
            self.useless += useless_machines(before, began, self.desk.cloud.ledger())
        self._count_live(" and ".join(wanted))

    def _not_stopped(self, before: Sequence[Lived], asked_at: datetime) -> list[str]:
        """What billed when the run was asked to stop, and did for long after that, though the command is over."""
        there = {row.id for row in before if row.machine and row.ours and row.run == RUN_ID and row.ended_at is None}
        until = {row.id: row.ended_at for row in self.desk.cloud.ledger() if row.id in there}
        late = [name for name, at in until.items() if at is None or at > asked_at + STOPS_WITHIN]
        return [
            f"{name}, asked to stop at {asked_at:%d %H:%M:%S}, billed until {until[name] or 'now'}" for name in late
        ]

    def _work(self, typed: Typed) -> Callable[[Ask], None]:
        follows = typed in (Typed.ATTACH, Typed.QUESTION, Typed.AGAIN)
        until = FOLLOWED if follows else SEARCHED if typed is Typed.AGAIN_DETACHED else None
        points = Points(at=self.trial.point if typed is Typed.STOP_KILLED else until, happens=die)
        if typed is Typed.SIGNAL:
            points = Points(at=self.chance.randrange(SIGNAL_AT), happens=clients.signal_where_errors_are_dropped)
            points.stops = frozenset({(points.at or 0) + HEARD_WITHIN})
        return lambda ask: _WORK[typed](self.desk, ask, points)

    def _count_live(self, after: str) -> None:
        live = [run.run_id for run in self.runs() if run.live]
        if len(live) > 1:
            self.doubled.append(f"{len(live)} live runs of one job after {after}")

    def to_the_end(self) -> None:
        """Somebody looks now and then, until nothing is live any more."""
        cloud = self.desk.cloud
        for number in range(MOST_LOOKS):
            began, before = cloud.now(), cloud.ledger()
            forked(lambda ask: clients.look_once(self.desk, ask), self.answer)
            self.useless += useless_machines(before, began, cloud.ledger())
            live = [run for run in self.runs() if run.live]
            if not live:
                return
            ends = [at for run in live if (at := cloud.trains_until(run.run_id)) is not None]
            until = max([at + FINISHED_GRACE for at in ends], default=cloud.now())
            cloud.pass_time(max(until, cloud.now() + (LOOK_EVERY if number else timedelta(minutes=1))))

    def runs(self) -> list[Run]:
        """Every run of the journal."""
        if not self.desk.settings.journal.exists():
            return []
        with Journal.open(self.desk.settings.journal) as journal:
            return list(journal.runs())

    def verdict(self) -> Verdict:
        rows = [row for row in self.desk.cloud.ledger() if row.ours]
        machines = [row for row in rows if row.machine]
        most = at_once(machines)
        doubled = [*self.doubled, *([f"{most} machines at once"] if most > 1 else []), *_after_the_end(machines)]
        unrecorded = next(iter(self.unheard), "") or self._unrecorded(machines)
        return Verdict(
            trial=self.trial,
            leaked=", ".join(row.id for row in rows if row.remaining),
            doubled=", ".join(doubled),
            unrecorded=f"{unrecorded}: {'; '.join(self.messages)}" if unrecorded else "",
            destroyed=self._with_said(self._destroyed(rows)),
            kept=self._with_said(self.useless),
            names=tuple(self.names),
        )

    def broken(self, error: AssertionError) -> Verdict:
        """The verdict where a client broke down."""
        return Verdict(trial=self.trial, unrecorded=f"{error} ({'; '.join(self.messages)})")

    def _with_said(self, problems: Sequence[str]) -> str:
        return f"{', '.join(problems)} ({'; '.join(self.messages)})" if problems else ""

    def _destroyed(self, rows: Sequence[Lived]) -> list[str]:
        """A wish to stop is one for the run that was named, and for what it has then or is just being made for it."""
        wished = self.wished_at
        asked = [
            row for row in rows if wished is not None and row.run == RUN_ID and row.created_at < wished + _JUST_MADE
        ]
        return destroyed(asked, wished) + destroyed(row for row in rows if row not in asked)

    def _unrecorded(self, machines: Sequence[Lived]) -> str:
        runs = self.runs()
        strangers = {row.run for row in machines} - {run.run_id for run in runs}
        if strangers:
            return f"not in the journal: {strangers}"
        return next((text for run in runs if (text := self._of_run(run, machines))), "")

    def _of_run(self, run: Run, machines: Sequence[Lived]) -> str:
        if run.live or run.outcome is None:
            return f"run {run.run_id} is still {run.phase}"
        mine = [row for row in machines if row.run == run.run_id]
        finished = any(_trained(row.work) for row in mine)
        allowed = {Outcome.SUCCEEDED}
        if self.wished_at is not None:
            allowed |= _ENDED_BY_HAND
        elif not finished:
            allowed = {Outcome.INTERRUPTED} | ({Outcome.STOPPED} if self.pressed else set())
        if run.outcome not in allowed:
            return f"{run.outcome} is recorded, not {' or '.join(sorted(allowed))} ({run.message})"
        is_stopped = run.outcome is Outcome.STOPPED and any(row.work and row.work.has_results for row in mine)
        if is_stopped and not (Path(run.model_folder) / "model.keras").is_file():
            return "the best trial so far is not at home"
        return outlives_its_record(run, mine) or without_receipt(self.desk.settings, run, Path(run.model_folder))


def _after_the_end(machines: Sequence[Lived]) -> list[str]:
    """Machines that were made for a run when another one had trained it to its end."""
    ends: dict[str | None, datetime] = {}
    for row in machines:
        if row.work and row.work.home_at and _trained(row.work):
            ends[row.run] = min(row.work.home_at, ends.get(row.run, row.work.home_at))
    return [
        f"{row.id} was made when its run had been trained"
        for row in machines
        if (end := ends.get(row.run)) is not None and row.created_at > end
    ]


def _trained(work: Work | None) -> bool:
    """Whether a machine has trained to the end."""
    return work is not None and work.home_at is not None and work.stop_asked_at is None and work.taken_at is None
