"""One launch in which something happens at one point, what is done then, and the verdict of the provider's ledger."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

from tests.faults import branches, clients, hours
from tests.faults.cases import Case, Then
from tests.faults.clients import RUN_ID, Desk
from tests.faults.forks import die, forked, lines_in_turn
from tests.faults.harness import Lived
from tests.faults.health import destroyed, useless_machines
from tests.faults.pilots import CAP_USD, as_comparing
from tests.faults.points import Points
from tests.faults.verdict import (
    MakeCloud,
    Trial,
    Verdict,
    a_home,
    at_once,
    outlives_its_record,
    without_receipt,
)
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.workloads.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.planner.runs.run import Run

PAUSES = (0.0, 0.0, 1.0, 8.0, 45.0, 400.0)
"""Seconds from the death of a client to the next command; one of them is drawn for each point."""
SECOND_DEATH = 60
"""The points within which a command that took a run up dies as well."""
CLEANUP_AFTER = timedelta(minutes=11)
TIMER_GRACE = timedelta(minutes=5, seconds=30)
"""How long after a machine's deadline the timers of the doubles have ended it."""
ENDING_SOON = timedelta(seconds=25)
"""How long a wish to stop may be on its way: the launch sends it when it next looks (10 s), and an agent reads it when
it next looks (15 s). What trains to its end within that time has succeeded."""
_ENDING = (Phase.COLLECTING, Phase.TEARING_DOWN, Phase.DONE)


@dataclass
class Scene:
    """One launch, what another command does beside it or after it, and the verdict."""

    desk: Desk
    trial: Trial
    names: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    allowed: frozenset[Outcome] = frozenset()
    wished_at: datetime | None = None
    """When a person asked for the end of what is there."""
    looking: tuple[datetime, list[Lived]] | None = None
    """When the first command after the death began, and the ledger as it was then."""
    useless: list[str] | None = None

    def __post_init__(self) -> None:
        self.allowed = frozenset({self.trial.case.end})

    def answer(self, message: tuple[Any, ...]) -> Any:
        match message[0]:
            case "points":
                self.names = list(message[1])
            case "said":
                self.messages.append(message[1])
            case "act":
                self._act()
            case "looking":
                if self.looking is None:
                    self.looking = self.desk.cloud.now(), self.desk.cloud.ledger()
            case "looked":
                if self.looking is not None and self.useless is None:
                    at, before = self.looking
                    self.useless = useless_machines(before, at, self.desk.cloud.ledger())
            case _:
                return self.desk.cloud.answer(message)
        return None

    def _act(self) -> None:
        """What another command does while the launch stands at its point."""
        if self.trial.then is Then.BESIDE:
            forked(lambda ask: clients.look_once(self.desk, ask), self.answer)
            return
        self.allowed = _when_stopped(self.desk)
        self.wished_at = self.desk.cloud.now()
        forked(lambda ask: clients.ask_to_stop(self.desk, ask), self.answer)

    def go_on(self, *, killed: bool) -> None:
        """What is done after the launch."""
        if killed:
            _after_death(self)

    def verdict(self) -> Verdict:
        """By the provider's ledger and the journal."""
        return _verdict(self)

    def broken(self, error: AssertionError) -> Verdict:
        """The verdict where a client broke down."""
        return Verdict(trial=self.trial, unrecorded=str(error))


def run_trial(trial: Trial, make_cloud: MakeCloud) -> Verdict:
    """The launch, what happens at its point, what is done then, and what is wrong with what is left."""
    return tried_together([trial], make_cloud)[0]


def tried_together(trials: Sequence[Trial], make_cloud: MakeCloud) -> list[Verdict]:
    """The same for several trials of one launch (`branches.launch_of`), which is played once."""
    return branches.played(trials, make_cloud, hours.Scene if trials[0].case.hours else Scene)


def warm(case: Case, make_cloud: MakeCloud) -> None:
    """One launch in this process, undisturbed, for what every client forked from it would otherwise load and look up
    anew: up to a fifth of its time. What a command remembers, its provider does, and each client makes its own."""
    with a_home() as home, open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123  no path everywhere
        desk = Desk(home=home, case=case, cloud=make_cloud(case.name))
        scene = Scene(desk, Trial(case, case.then[0]))
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), lines_in_turn():
            clients.launch(desk, scene.answer, Points())
            clients.status(desk, scene.answer, Points())
        desk.cloud.let_go()


def _after_death(scene: Scene) -> None:
    desk, trial = scene.desk, scene.trial
    now = desk.cloud.now()
    match trial.then:
        case Then.NEVER:
            desk.cloud.pass_time(max(now, _until_when(desk)) + TIMER_GRACE)
        case Then.CLEANUP:
            with contextlib.suppress(FileNotFoundError):
                desk.settings.journal.unlink()
            desk.cloud.pass_time(now + CLEANUP_AFTER)
            scene.wished_at = (
                desk.cloud.now()
            )  # without a journal nobody knows that it is in use, and cleanup asks first
            forked(lambda ask: clients.cleanup(desk, ask), scene.answer)
        case _:
            made = [row for row in desk.cloud.ledger() if row.machine]
            whole = len(made) >= trial.case.machines and any(row.remaining for row in made[trial.case.machines - 1 :])
            scene.allowed = frozenset({trial.case.end} | (set() if whole else {Outcome.INTERRUPTED}))
            if trial.case.pilot and not made:
                scene.allowed |= {Outcome.FAILED}  # nothing was made, and a run that measures is not continued
            desk.cloud.pass_time(now + timedelta(seconds=Random(trial.name).choice(PAUSES)))
            _taken_up(scene)


def _taken_up(scene: Scene) -> None:
    """Another command takes the run up where its client died."""
    desk, trial = scene.desk, scene.trial
    if trial.then is Then.ATTACH:
        scene.allowed = frozenset({trial.case.end})
        forked(lambda ask: clients.attach(desk, ask), scene.answer)
        return
    if trial.then is Then.TWICE:
        again = Points(at=Random(f"{trial.name} again").randrange(SECOND_DEATH), happens=die)
        forked(lambda ask: clients.status(desk, ask, again), scene.answer)
    forked(lambda ask: clients.status(desk, ask, Points()), scene.answer)


def _verdict(scene: Scene) -> Verdict:
    desk, trial = scene.desk, scene.trial
    rows = desk.cloud.ledger()
    ours = [row for row in rows if row.ours]
    machines = [row for row in ours if row.machine]
    leaked = [row.id for row in ours if row.remaining and (row.usd_per_hour or trial.then is not Then.NEVER)]
    if trial.then is Then.NEVER:
        limit = _until_when(desk) + TIMER_GRACE
        leaked += [row.id for row in machines if row.ended_at is not None and row.ended_at > limit]
    if trial.case.end is Outcome.BUDGET:
        limit = _until_when(desk)
        leaked += [f"{row.id} beyond its budget" for row in machines if row.ended_at is None or row.ended_at > limit]
    if trial.then is Then.CLEANUP:
        leaked += [f"not ours, and gone: {row.id}" for row in rows if not row.ours and not row.remaining]
    if trial.point is None and trial.case.most_points is not None:
        leaked = []
    spent = sum(row.usd for row in ours)
    if trial.case.pilot and spent > float(CAP_USD):
        leaked.append(f"${spent:.4f}, above the cap of ${CAP_USD}")
    if trial.case.compares and spent > (most := float(_agreed_usd(desk))):
        leaked.append(f"${spent:.4f}, above the ${most:.4f} that was agreed to")
    doubled = at_once(machines) > 1 or len(machines) > trial.case.machines
    says = f": {scene.messages[-1]}" if scene.messages else ""
    unrecorded = _unrecorded(scene, ours)
    return Verdict(
        trial=trial,
        leaked=", ".join(leaked),
        doubled=f"{len(machines)} machines, {at_once(machines)} at once" if doubled else "",
        unrecorded=f"{unrecorded}{says}" if unrecorded else "",
        destroyed=", ".join(destroyed(_to_be_kept(trial.case, machines), scene.wished_at)),
        kept=", ".join(scene.useless or ()) if trial.case.answers else "",
        names=tuple(scene.names),
    )


def _agreed_usd(desk: Desk) -> Decimal:
    """The most that was agreed to for a run that compares."""
    run = desk.recorded()
    if run is None:
        return Decimal(0)
    targets = desk.cloud.targets(desk.case.market)
    return as_comparing(replace(run, targets=targets, budget_usd=None), leaves=False)[1].most_usd


def _to_be_kept(case: Case, machines: Sequence[Lived]) -> list[Lived]:
    """The machines that nobody may end who does not want the run's end. One that no answer told of is none of them, nor
    is the first of a run that goes on elsewhere, once that was told to stop."""
    leaves = case.compares and case.machines > 1
    left = [row for row in machines[:1] if leaves and row.work is not None and row.work.stop_asked_at is not None]
    return [row for row in machines[case.unheard :] if row not in left]


def _unrecorded(scene: Scene, ours: Sequence[Lived]) -> str:
    desk, trial = scene.desk, scene.trial
    if trial.then in (Then.NEVER, Then.CLEANUP):
        return ""
    run = desk.recorded()
    if run is None:
        return "nothing is recorded" if ours or trial.point is None else ""
    if run.live or run.outcome is None:
        return f"the run is still {run.phase}"
    if run.outcome not in scene.allowed:
        return f"{run.outcome} is recorded, not {' or '.join(sorted(scene.allowed))} ({run.message})"
    mine = [row for row in ours if row.machine]
    late = outlives_its_record(run, mine)
    return late or _sent_again(trial, run) or without_receipt(desk.settings, run, desk.home / "model")


def _sent_again(trial: Trial, run: Run) -> str:
    """A refusal that is read as no answer, or as something else, shows in creates that are sent again and again."""
    tries = sum(attempt.tries for attempt in run.attempts)
    deaths = 1 if trial.then.kills else 0
    return f"creates were sent again {tries} times" if trial.case.clear and tries > deaths else ""


def _when_stopped(desk: Desk) -> frozenset[Outcome]:
    """What may become of a run that is asked to stop now: one that is about to end may still succeed."""
    run = desk.recorded()
    if run is None or run.phase in _ENDING:
        return frozenset({Outcome.SUCCEEDED})
    if desk.case.pilot:
        return frozenset({Outcome.STOPPED, Outcome.SUCCEEDED})  # it trains for less time than an agent looks apart
    training = [row for row in desk.cloud.ledger() if row.machine and row.remaining and row.ours]
    ends = desk.cloud.trains_until(RUN_ID)
    over = run.phase is Phase.RUNNING and not training
    if over or (ends is not None and ends - desk.cloud.now() < ENDING_SOON):
        return frozenset({Outcome.STOPPED, Outcome.SUCCEEDED})
    return frozenset({Outcome.STOPPED})


def _until_when(desk: Desk) -> datetime:
    """When the last machine has to have ended by itself: its run's deadline, or when the budget is spent at the
    highest price that may come to be payable, whichever is sooner."""
    case, target = desk.case, desk.cloud.targets(desk.case.market)[0]
    ours = [row for row in desk.cloud.ledger() if row.ours]
    # A disk that was made before its machine ends at the machine's deadline, also where that was never made.
    # What waits in a queue has no machine yet, and may be given one at any time until then.
    machines = [row for row in ours if row.machine] or [row for row in ours if row.usd_per_hour] or ours
    if not machines:
        return desk.cloud.now()
    until = machines[0].created_at + parse_duration(case.deadline)
    if case.budget_usd:
        usable = float(case.budget_usd) - float(target.fixed_usd)
        until = min(until, machines[-1].created_at + timedelta(hours=usable / float(target.ceiling_usd_per_hour)))
    return until
