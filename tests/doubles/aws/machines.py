"""A machine of the double: it reads its user data and its part of the run directory, trains, and ends itself."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from tests.doubles.aws import backends, objects
from tests.doubles.endings import is_sign_of_training
from tests.doubles.machine_command import measuring_of
from tests.doubles.needs import Need
from tests.faults.harness import EndedBy, Work
from trainplan.providers.sim.attempt_record import attempt_record
from trainplan.providers.sim.training import Write, newest_checkpoint
from trainplan.providers.sim.values import Course, Ending

if TYPE_CHECKING:
    from tests.doubles.aws.world import World

STOP = "control/stop"
POLL = timedelta(seconds=15)
"""How often the agent looks whether it is to stop."""
_DEADLINE = re.compile(r"\[ \"\$now\" -lt (\d+) \] \|\| systemctl --no-block start trainplan-deadline")
_RUN = re.compile(r'run_uri\\": \\"s3://([^/]+)/([^"\\]+)\\"')
_ATTEMPT = re.compile(r'\\"attempt\\": (\d+)')
_KEY = re.compile(r'run_key\\": \\"([0-9a-f]{64})')
_HASHES = re.compile(r"[0-9a-f]{64}")
_REFUSED = re.compile(r"^ *patience=(\d+)$", re.MULTILINE)
_ASKS_AGAIN = timedelta(seconds=5)
_REASONS = {0: "DONE", 65: "BAD_JOB", 75: "STOPPED", 76: "DEADLINE"}
_NO_TIMER = "the machine's own timer"


@dataclass
class Machine:
    """`ended_at` is when it stopped billing, `gone_at` when it has shut down.

    `ended_by` and `why` are set with `ended_at`. `progress_at` is the newest sign of its trainer in the run directory,
    `trained_at` when its trainer ended by itself or was asked to, `asked_at` when its agent saw that wish.
    """

    id: str
    region: str
    zone: str
    instance_type: str
    market: str
    vcpus: float
    run: str | None
    client: str | None
    attempt: int | None
    user_data: str
    profile: str | None
    created_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    boots_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    booted: bool = False
    bucket: str = ""
    prefix: str = ""
    refused_at: datetime | None = None
    asks_at: datetime | None = None
    deadline: datetime | None = None
    course: Course | None = None
    told_until: datetime | None = None
    looks_at: datetime | None = None
    asked_at: datetime | None = None
    ending: Ending | None = None
    ended_at: datetime | None = None
    gone_at: datetime | None = None
    is_gone: bool = False
    forgotten: bool = False
    console: bytes = b""
    befallen: set[int] = field(default_factory=set)
    ended_by: EndedBy | None = None
    why: str = ""
    progress_at: datetime | None = None
    trained_at: datetime | None = None


def deadline_of(machine: Machine) -> datetime | None:
    """When its own timer ends it, as its start-up text says; None where that says nothing of it."""
    found = _DEADLINE.search(machine.user_data)
    return datetime.fromtimestamp(int(found.group(1)), UTC) if found else None


def work_of(machine: Machine) -> Work:
    """What it has done by now. It takes no time to bring anything home, and gets no notice before it is taken back."""
    return Work(
        deadline=deadline_of(machine),
        boots_since=machine.created_at,
        progress_at=machine.progress_at,
        stop_asked_at=machine.asked_at,
        trained_at=machine.trained_at,
        home_at=machine.trained_at,
    )


def boot(world: World, machine: Machine) -> None:
    """What the start-up text does: arm the timer, fetch what its hashes name, train. Else it powers off at once."""
    machine.deadline = deadline_of(machine)
    run, attempt = _RUN.search(machine.user_data), _ATTEMPT.search(machine.user_data)
    if run is None or attempt is None:
        return  # somebody else's machine: it does nothing, and stays
    machine.bucket, machine.prefix = run.groups()
    if machine.profile is not None and not _may_read(world, machine):
        _is_refused(world, machine)
        return
    machine.asks_at = None
    if machine.profile is None or not _fetched(machine, int(attempt.group(1))):
        _power_off(world, machine, EndedBy.AGENT, "the machine found nothing to train")
        return
    if machine.deadline is not None and machine.deadline <= world.now:
        return  # its timer's event comes next
    job_json = (objects.get(machine.bucket, f"{machine.prefix}/job.json") or b"").decode()
    marks = [
        objects.get(machine.bucket, name) or b""
        for name in objects.names(machine.bucket, f"{machine.prefix}/checkpoints/")
        if name.endswith("/complete.json")
    ]
    told = objects.get(machine.bucket, f"{machine.prefix}/attempts/{attempt.group(1)}/machine/spec.json")
    measuring = measuring_of(told)
    machine.course = Course(
        run=machine.run or "",
        attempt=int(attempt.group(1)),
        job_json=job_json,
        device=machine.instance_type,
        device_count=1,
        images_per_second=world.scenario.images_per_second,
        began_at=world.now,
        start_step=newest_checkpoint(marks, job_json),
        deadline=_trains_until(machine, int(attempt.group(1))),
        max_steps=measuring.max_steps,
        until_steady=measuring.until_steady,
        try_settings=measuring.try_settings,
        run_key=found[1] if (found := _KEY.search(machine.user_data)) else "",
    )
    machine.told_until = world.now
    machine.looks_at = world.now + POLL
    _written(machine, world.trainer.begins(machine.course))
    machine.ending = world.trainer.ends(machine.course)


def _trains_until(machine: Machine, attempt: int) -> datetime | None:
    """When agent and trainer end by themselves, as the spec says."""
    told = objects.get(machine.bucket, f"{machine.prefix}/attempts/{attempt}/machine/spec.json")
    return datetime.fromisoformat(json.loads(told)["deadline"]) if told else machine.deadline


def _may_read(world: World, machine: Machine) -> bool:
    """Whether IAM lets the role of its profile read the run directory, and already knows so."""
    key = f"arn:aws:s3:::{machine.bucket}/{machine.prefix}/job.json"
    allowed = backends.role_allows(machine.profile or "", Need("s3:GetObject", key))
    return allowed and not world.unmet.is_hidden("role policy", world.now)


def _is_refused(world: World, machine: Machine) -> None:
    """The start-up text asks again for as long as it says, then it tells the console and ends the machine."""
    machine.refused_at = machine.refused_at or world.now
    limit = _REFUSED.search(machine.user_data)
    if limit and world.now - machine.refused_at >= timedelta(seconds=int(limit.group(1))):
        said = "trainplan: STORE_REFUSED: this machine may not read its run directory"
        _power_off(world, machine, EndedBy.AGENT, said)
        return
    machine.asks_at = world.now + _ASKS_AGAIN


def live_on(world: World, machine: Machine, until: datetime) -> None:
    """What it writes until then, and whether it was asked to stop."""
    course = machine.course
    if course is None or machine.told_until is None or machine.ended_at is not None:
        return
    _written(machine, world.trainer.writes(course, machine.told_until, until))
    machine.told_until = until
    if machine.looks_at is not None and until >= machine.looks_at:
        machine.looks_at = until + POLL
        if machine.asked_at is None and was_asked_to_stop(machine):
            machine.asked_at = until
            machine.ending = world.trainer.stops(course, until) or machine.ending


def was_asked_to_stop(machine: Machine) -> bool:
    """Whether the wish to stop lies in its run directory."""
    return objects.get(machine.bucket, f"{machine.prefix}/{STOP}") is not None


def finish(world: World, machine: Machine, ending: Ending | None) -> None:
    """The trainer has ended, or (None) the machine's own timer ends it whatever it does."""
    if machine.ended_at is not None:
        return
    live_on(world, machine, world.now)
    if ending is not None and machine.course is not None:
        _written(machine, map(partial(_with_reason, ending), world.trainer.finishes(machine.course, ending)))
        machine.trained_at = ending.at
        _vouch(machine, machine.course, ending)
    if ending is None:
        _power_off(world, machine, EndedBy.MACHINE_TIMER, _NO_TIMER)
    else:
        _power_off(world, machine, EndedBy.AGENT, "")


def _vouch(machine: Machine, course: Course, ending: Ending) -> None:
    """As the agent does it: for what it has brought home."""
    if ending.state != "done":
        return
    record = attempt_record(
        course.run_key, course.run, course.attempt, lambda path: objects.get(machine.bucket, f"{machine.prefix}/{path}")
    )
    if record is not None:
        objects.put(machine.bucket, f"{machine.prefix}/{record[0]}", record[1])


def _fetched(machine: Machine, attempt: int) -> bool:
    """Whether agent and spec are there and are those that the user data names."""
    named = set(_HASHES.findall(machine.user_data))
    for name in ("agent.pyz", "spec.json"):
        data = objects.get(machine.bucket, f"{machine.prefix}/attempts/{attempt}/machine/{name}")
        if data is None or hashlib.sha256(data).hexdigest() not in named:
            return False
        if name == "spec.json" and json.loads(data)["attempt"] != attempt:
            return False
    return True


def _with_reason(ending: Ending, write: Write) -> Write:
    """The last status as the agent writes it, which knows what an exit code means."""
    if write.path is None or not write.path.endswith("/status.json"):
        return write
    told = {**json.loads(write.data), "reason": _REASONS.get(ending.exit_code, "TRAINING_FAILED")}
    return replace(write, data=json.dumps(told).encode())


def _written(machine: Machine, writes: Iterable[Write]) -> None:
    for write in writes:
        if write.path is None:
            machine.console += write.data
            continue
        if is_sign_of_training(write.path):
            machine.progress_at = write.at
        key = f"{machine.prefix}/{write.path}"
        before = (objects.get(machine.bucket, key) or b"") if write.append else b""
        objects.put(machine.bucket, key, before + write.data)


def _power_off(world: World, machine: Machine, by: EndedBy, why: str) -> None:
    machine.console += f"{why}\n".encode() if why else b""
    text = "Client.InstanceInitiatedShutdown"
    world.end(machine, text, f"{text}: Instance initiated shutdown", by)
