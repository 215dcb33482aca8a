"""Machines B and C: each ended by one timer alone, while the command only looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from trainplan.extensions.drill.limits import CLOUD_TIMER_AHEAD, LATE, LEAST_AHEAD
from trainplan.extensions.drill.sheet import FailedError, SkippedError
from trainplan.extensions.drill.steps import MACHINES, Step
from trainplan.extensions.drill.tools import Tools, cloud_timer_only, own_timer_only
from trainplan.planner.runs.directory.progress import story_of
from trainplan.planner.runs.directory.run_directory import newest_checkpoint, status_of
from trainplan.planner.runs.run import Run
from trainplan.providers.abilities import Resolver
from trainplan.providers.base import InstanceRef, InstanceState
from trainplan.providers.errors import IncompleteListingError, InstanceNotFoundError, ProviderError
from trainplan.workloads.durations import format_duration

EARLY = timedelta(seconds=30)
"""How much sooner than its time a timer may end a machine: clocks differ."""
LEFTOVER_PATIENCE = timedelta(minutes=3)
"""How long the parts of a machine that has ended may still be listed."""
_FINAL = ("done", "stopped", "failed", "deadline")


@dataclass
class Watched:
    """A machine that is only looked at. `ended_at` is when it was first seen to have ended, `looks` counts."""

    run: Run
    ref: InstanceRef
    ended_at: datetime | None = None
    looks: int = 0

    def look(self, tools: Tools) -> None:
        """Read the machine's state once; a provider that does not answer is asked again at the next look."""
        if self.ended_at is not None:
            return
        self.looks += 1
        try:
            is_over = tools.provider.get(self.ref).state is InstanceState.ENDED
        except InstanceNotFoundError:
            # Right after its create a machine may not be known yet: that is no end of it.
            instant = self.run.attempts[-1].sent_at or tools.now()
            is_over = tools.now() - instant > tools.provider.listing_lag
        except ProviderError:
            return
        if is_over:
            self.ended_at = tools.now()


@dataclass
class MachineWatch:
    """The machines that are watched, all at once."""

    tools: Tools
    machines: list[Watched] = field(default_factory=list)

    def add(self, run: Run) -> Watched:
        """Watch the newest machine of this run too."""
        ref = run.attempts[-1].ref
        assert ref is not None
        self.machines.append(Watched(run, ref))
        return self.machines[-1]

    def until(self, holds: Callable[[], bool], latest: datetime) -> bool:
        """Looks at all of them again and again; whether it held before `latest`."""
        while True:
            for machine in self.machines:
                machine.look(self.tools)
            if holds():
                return True
            if self.tools.now() >= latest:
                return False
            self.tools.pause()


def try_timers(tools: Tools, first: Run | None) -> None:
    """Tries the steps of B, where there is a checkpoint to go on from, and of C, both at the same time."""
    watch = MachineWatch(tools)
    # Both are launched before either is watched: together they take the time of one.
    second = _watched_machine(tools, watch, MACHINES["B"], lambda: _launch_second(tools, first))
    third = _watched_machine(tools, watch, MACHINES["C"], lambda: _launch_third(tools, second))
    if second is not None:
        _try(tools, MACHINES["B"], lambda: _resumed(tools, watch, second, first))
        _try(tools, MACHINES["B"], lambda: _ended_itself(tools, watch, second))
    if third is not None:
        _try(tools, MACHINES["C"], lambda: _ended_by_the_cloud(tools, watch, third))


def _watched_machine(
    tools: Tools, watch: MachineWatch, steps: tuple[Step, ...], launch: Callable[[], Run]
) -> Watched | None:
    """The machine that these steps watch; None where it cannot be had, and its first step says why."""
    try:
        return watch.add(launch())
    except SkippedError as why:
        tools.sheet.leave_out(steps, str(why))
        return None


def _try(tools: Tools, steps: tuple[Step, ...], attempt: Callable[[], None]) -> None:
    try:
        attempt()
    except SkippedError as why:
        tools.sheet.leave_out(steps, str(why))


def _launch_second(tools: Tools, first: Run | None) -> Run:
    if first is None:
        raise SkippedError("there is no checkpoint to continue from")
    limits = tools.limits
    usd = limits.usd_first(tools.targets[0])
    # Time for B and C, which run at once; what B costs is part of the limit of A's run (Limits.usd_first).
    tools.check_room(max(limits.second, limits.third), Decimal(0))
    with tools.sheet.fails_only(Step.RESUME):
        again = tools.runner.again(first, tools.draft(limits.second, usd), None)
        return tools.launched(again, tools.requests(own_timer_only(limits.after_timer)))


def _launch_third(tools: Tools, second: Watched | None) -> Run:
    limits = tools.limits
    usd = limits.usd_third(tools.targets[0])
    to_come = limits.usd_second(tools.targets[0]) if second is not None else Decimal(0)
    if not tools.sheet.proven(Step.LAUNCH):
        raise SkippedError("no machine could be launched")
    tools.check_room(limits.third, to_come + usd)
    with tools.sheet.fails_only(Step.CLOUD_TIMER):
        ahead = _ahead(tools)
        draft = tools.draft(ahead, usd)
        return tools.launched(tools.record(draft, ahead, usd), tools.requests(cloud_timer_only))


def _ahead(tools: Tools) -> timedelta:
    """Return the time from C's create to its deadline, so that the cloud's timer is at least ten minutes ahead.

    Raises SkippedError where the provider has no timer of its own.
    """
    draft = tools.draft(CLOUD_TIMER_AHEAD, Decimal(1))
    request = tools.requests(cloud_timer_only)(draft, 1, draft.targets[0])
    if isinstance(tools.provider, Resolver):
        request = tools.provider.resolve(request)
    at = tools.provider.timers(request).cloud
    if at is None:
        raise SkippedError("this provider has no timer that ends the machine")
    return max(LEAST_AHEAD, CLOUD_TIMER_AHEAD - (at - request.deadline))


def _resumed(tools: Tools, watch: MachineWatch, second: Watched, first: Run | None) -> None:
    run = second.run
    number = run.attempts[-1].number
    store = tools.store(run.run_id)
    step = newest_checkpoint(store) or 0
    timer = _own_timer(tools, run)
    with tools.sheet.step(Step.RESUME) as names:

        def start() -> int | None:
            began = story_of(store, number).start
            return None if began is None else int(began.get("resumed_from_step", 0))

        watch.until(lambda: second.ended_at is not None or start() is not None, timer - EARLY)
        began_at = start()
        if began_at is None:
            raise FailedError("training had not begun before the machine's own timer came")
        if not 0 < began_at <= max(step, began_at) or (first is not None and began_at < step):
            raise FailedError(f"training began at step {began_at}, the checkpoint was of step {step}")
        names.append(f"from step {began_at}")


def _ended_itself(tools: Tools, watch: MachineWatch, second: Watched) -> None:
    run = second.run
    timer = _own_timer(tools, run)
    with tools.sheet.step(Step.MACHINE_TIMER) as found_names:
        watch.until(lambda: second.ended_at is not None, run.deadline)
        _check_end(tools, second, timer, run.deadline)
        assert second.ended_at is not None
        found_names.append(f"{_after(second.ended_at, timer)} its time")
    with tools.sheet.step(Step.LEFTOVERS) as names:
        watch.until(lambda: not _billing(tools, run), tools.now() + LEFTOVER_PATIENCE)
        rest = _billing(tools, run)
        if rest:
            raise FailedError(f"{', '.join(rest)} stayed for {format_duration(LEFTOVER_PATIENCE)}, and bills")
        names.append("nothing that bills")


def _ended_by_the_cloud(tools: Tools, watch: MachineWatch, third: Watched) -> None:
    timer = tools.provider.timers(tools.request(third.run)).cloud
    with tools.sheet.step(Step.CLOUD_TIMER) as names:
        assert timer is not None
        watch.until(lambda: third.ended_at is not None, timer + LATE)
        _check_end(tools, third, third.run.attempts[-1].deadline or third.run.deadline, timer + LATE)
        assert third.ended_at is not None
        names.append(f"{_after(third.ended_at, timer)} the latest that it was due; {third.looks} looks")


def _check_end(tools: Tools, machine: Watched, due: datetime, latest: datetime) -> None:
    """Raises FailedError where the machine did not end in this time, or its trainer had ended it."""
    # An end is seen at a look, up to one pause after it.
    if machine.ended_at is None or machine.ended_at > latest + timedelta(seconds=tools.limits.poll_seconds):
        raise FailedError(f"the machine still existed {format_duration(tools.now() - due)} after its timer was due")
    if machine.ended_at < due - EARLY:
        raise FailedError(f"the machine ended {format_duration(due - machine.ended_at)} before its timer was due")
    # A trainer that has ended by itself proves nothing of the timer.
    state = status_of(tools.store(machine.run.run_id), machine.run.attempts[-1].number).get("state")
    if state in _FINAL:
        raise FailedError(f"its trainer had already ended: {state}")


def _own_timer(tools: Tools, run: Run) -> datetime:
    ends = tools.request(run).own_ends
    assert ends is not None
    return ends.timer


def _billing(tools: Tools, run: Run) -> list[str]:
    """The kinds of what is listed of the run and costs something."""
    try:
        owned = tools.provider.list_owned(run.run_id)
    except IncompleteListingError as error:
        return ["unknown resources in placements that did not answer", *(resource.kind for resource in error.resources)]
    return [resource.kind for resource in owned if resource.instance or resource.usd_per_hour]


def _after(at: datetime, due: datetime) -> str:
    """How long after an instant, or before it."""
    late = at - due
    return f"{format_duration(abs(late))} {'after' if late >= timedelta(0) else 'before'}"
