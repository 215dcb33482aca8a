"""How a machine lives: what happens to it next, and what that makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple, assert_never

from trainplan.providers.base import LABEL_ATTEMPT, LABEL_RUN
from trainplan.providers.cloud.labels import number
from trainplan.providers.sim.catalogue import TYPES
from trainplan.providers.sim.draws import between, waiting_hours
from trainplan.providers.sim.scenario import Scenario
from trainplan.providers.sim.training import (
    EVALUATE_SECONDS,
    Trainer,
    Write,
    evaluate_seconds,
    images_per_second,
    newest_checkpoint,
    same_job,
)
from trainplan.providers.sim.values import Course, Event, Incident, MachineState, SimMachine, Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a machine's life hangs on beside itself. `marks` gives the complete.json of a run's checkpoints, `machines`
    all that ever were, in the order in which they were made."""

    scenario: Scenario
    trainer: Trainer
    incidents: tuple[Incident, ...]
    reclaims_per_hour: Callable[[SimMachine], float]
    job_json: Callable[[str], str | None]
    machines: Callable[[], Iterable[SimMachine]]
    marks: Callable[[str], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that is due, and what it makes of the machine; of two at one instant the first listed counts."""

    at: datetime
    make: Callable[[SimMachine, datetime], SimMachine]


def next_moment(machine: SimMachine, rules: Rules) -> Moment | None:
    """What happens to it next if nobody calls; None: nothing any more."""
    match machine.state:
        case MachineState.PENDING:
            moments = [
                *_cloud_timer(machine, rules),
                Moment(machine.boots_at, lambda instance, at: _boots(instance, at, rules)),
            ]
        case MachineState.RUNNING:
            moments = [*_takings(machine, rules), *_timers(machine, rules), *_trainer(machine, rules)]
        case MachineState.STOPPED:
            moments = list(_cloud_timer(machine, rules))
        case MachineState.SHUTTING_DOWN:
            moments = [Moment(machine.gone_at, _without)] if machine.gone_at else []
        case MachineState.TERMINATED:
            moments = []
        case _:
            assert_never(machine.state)
    return min(moments, key=lambda moment: moment.at, default=None)


def ended_machine(machine: SimMachine, at: datetime, why: Why, scenario: Scenario) -> SimMachine:
    """The machine as it begins to shut down: from now on it bills nothing."""
    if machine.state in (MachineState.SHUTTING_DOWN, MachineState.TERMINATED):
        return machine
    seconds = between(scenario.seed, *_seconds(scenario.deletion), "deletion", machine.token, machine.id)
    return replace(
        machine,
        state=MachineState.SHUTTING_DOWN,
        ended_at=machine.ended_at or at,
        gone_at=at + timedelta(seconds=seconds),
        why=machine.why or why,
    )


def write_progress(machine: SimMachine, until: datetime, trainer: Trainer) -> tuple[SimMachine, list[Write]]:
    """What its trainer has written by then, and the machine that has written it."""
    if machine.course is None or machine.told_until is None or machine.trainer_end is not None:
        return machine, []
    if machine.state is not MachineState.RUNNING or until <= machine.told_until:
        return machine, []
    return replace(machine, told_until=until), list(trainer.writes(machine.course, machine.told_until, until))


def _cloud_timer(machine: SimMachine, rules: Rules) -> Iterator[Moment]:
    if machine.cloud_timer_at is not None and rules.scenario.cloud_timer_works:
        yield Moment(
            machine.cloud_timer_at, lambda instance, at: ended_machine(instance, at, Why.CLOUD_TIMER, rules.scenario)
        )


def _timers(machine: SimMachine, rules: Rules) -> Iterator[Moment]:
    yield from _cloud_timer(machine, rules)
    if machine.deadline is not None and rules.scenario.machine_timer_works:
        due = max(machine.deadline, machine.boots_at)
        yield Moment(due, lambda instance, at: ended_machine(instance, at, Why.MACHINE_TIMER, rules.scenario))


def _trainer(machine: SimMachine, rules: Rules) -> Iterator[Moment]:
    course = machine.course
    if course is None or machine.trainer_end is not None:
        return
    asked_at = min((at for at in (machine.asked_at, machine.noticed_at) if at is not None), default=None)
    ending = (
        rules.trainer.ends(course) if asked_at is None else rules.trainer.stops(course, max(asked_at, course.began_at))
    )
    if ending is not None:
        due = ending
        yield Moment(due.at, lambda instance, at: _trained(replace(instance, trainer_end=due), at, rules))


def _trained(machine: SimMachine, at: datetime, rules: Rules) -> SimMachine:
    """End a machine whose trainer has ended; a machine that is being reclaimed waits for the reclaim."""
    asked_at, noticed = machine.asked_at, machine.noticed_at
    is_taken = noticed is not None and (asked_at is None or noticed <= asked_at)
    if is_taken and machine.trainer_end is not None and machine.trainer_end.state == "stopped":
        return machine
    return ended_machine(machine, at, Why.TRAINER_ENDED, rules.scenario)


def _takings(machine: SimMachine, rules: Rules) -> Iterator[Moment]:
    scenario = rules.scenario
    for at, event in _incidents(machine, rules):
        if event is not Event.RECLAIM:
            yield Moment(at, _EVENTS[event](scenario))
    reclaims = [at for at, event in _incidents(machine, rules) if event is Event.RECLAIM]
    if machine.reclaim_at is not None:
        reclaims.append(machine.reclaim_at)
    if reclaims:
        at = min(reclaims)
        if machine.noticed_at is None and scenario.notice:
            yield Moment(
                max(at - scenario.notice, machine.boots_at), lambda instance, when: replace(instance, noticed_at=when)
            )
        yield Moment(at, lambda instance, when: ended_machine(instance, when, Why.RECLAIMED, scenario))


def _incidents(machine: SimMachine, rules: Rules) -> Iterator[tuple[datetime, Event]]:
    run, attempt = machine.labels.get(LABEL_RUN), machine.labels.get(LABEL_ATTEMPT)
    for incident in rules.incidents:
        if incident.run in ("*", run) and incident.attempt in (None, number(attempt)):
            at = incident.at
            if incident.after_seconds is not None:
                at = machine.boots_at + timedelta(seconds=incident.after_seconds)
            # An incident from before this machine was created does not apply to it.
            if at is not None and at >= machine.created_at:
                yield max(at, machine.boots_at), incident.event


def _stops(scenario: Scenario) -> Callable[[SimMachine, datetime], SimMachine]:
    del scenario
    return lambda machine, at: replace(machine, state=MachineState.STOPPED, ended_at=at, why=Why.MAINTENANCE)


def _ends(why: Why) -> Callable[[Scenario], Callable[[SimMachine, datetime], SimMachine]]:
    return lambda scenario: lambda machine, at: ended_machine(machine, at, why, scenario)


def _vanishes(scenario: Scenario) -> Callable[[SimMachine, datetime], SimMachine]:
    del scenario
    return lambda machine, at: replace(
        machine, state=MachineState.TERMINATED, ended_at=at, gone_at=at, why=Why.HOST_FAILED, forgotten=True
    )


_EVENTS: dict[Event, Callable[[Scenario], Callable[[SimMachine, datetime], SimMachine]]] = {
    Event.MAINTENANCE: _stops,
    Event.LOSE_DEVICE: _ends(Why.DEVICE_LOST),
    Event.CRASH: _ends(Why.HOST_FAILED),
    Event.VANISH: _vanishes,
}


def _boots(machine: SimMachine, at: datetime, rules: Rules) -> SimMachine:
    course = _course(machine, at, rules)
    reclaim = None
    if machine.market == "spot" and (rate := rules.reclaims_per_hour(machine)) > 0:
        reclaim = at + timedelta(hours=waiting_hours(rules.scenario.seed, rate, "reclaim", machine.token, machine.zone))
    return replace(
        machine, state=MachineState.RUNNING, course=course, told_until=at if course else None, reclaim_at=reclaim
    )


def _course(machine: SimMachine, at: datetime, rules: Rules) -> Course | None:
    """The training it begins; None where its user data or the run directory does not say what to train."""
    run, attempt = machine.user_data.get("run"), number(machine.user_data.get("attempt"))
    job_json = rules.job_json(run) if run else None
    if run is None or attempt is None or job_json is None:
        return None
    row = TYPES[machine.instance_type]
    try:
        pace = _pace(machine, job_json, rules)
    except ValueError:
        return None
    return Course(
        run=run,
        attempt=attempt,
        job_json=job_json,
        device=row.device,
        device_count=row.device_count,
        images_per_second=pace.images_per_second * rules.scenario.throughput_factor,
        began_at=at,
        start_step=newest_checkpoint(rules.marks(run), job_json),
        deadline=_trains_until(machine),
        max_steps=number(machine.user_data.get("max_steps")),
        until_steady="until_steady" in machine.user_data,
        try_settings="try_settings" in machine.user_data,
        run_key=machine.user_data.get("run_key", ""),
        evaluate_seconds=pace.evaluate_seconds,
    )


class _Pace(NamedTuple):
    images_per_second: float
    evaluate_seconds: float


def _pace(machine: SimMachine, job_json: str, rules: Rules) -> _Pace:
    """As the first machine of this type that trained this job had it, so that a launch takes what a pilot measured: its
    estimate, or what is made up where it had none. Raises ValueError for a job that cannot be read.
    """
    alike = [
        other.user_data
        for other in rules.machines()
        if other.instance_type == machine.instance_type and other.course and same_job(other.course.job_json, job_json)
    ]
    first, given = (*alike, machine.user_data)[0], machine.user_data
    rate = float(first.get("images_per_second") or images_per_second(job_json, TYPES[machine.instance_type]))
    if "seconds" not in given:
        return _Pace(rate, EVALUATE_SECONDS)
    after_setup, expected_rate = float(given["seconds"]) - float(given["setup_seconds"]), given["images_per_second"]
    return _Pace(rate, evaluate_seconds(job_json, after_setup, float(expected_rate)))


def _trains_until(machine: SimMachine) -> datetime | None:
    """When its trainer ends by itself: at the deadline of its timer, where its user data says nothing else."""
    text = machine.user_data.get("trains_until")
    return datetime.fromisoformat(text) if text else machine.deadline


def _without(machine: SimMachine, at: datetime) -> SimMachine:
    del at
    return replace(machine, state=MachineState.TERMINATED)


def _seconds(span: tuple[timedelta, timedelta]) -> tuple[float, float]:
    return span[0].total_seconds(), span[1].total_seconds()
