"""The inside of a rented machine: boots from its start-up text, trains, ends itself, as providers/agent does."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.contract.sim import NamedTrainer
from tests.doubles import gcs
from tests.doubles.endings import is_sign_of_training
from tests.doubles.google import unknown
from tests.doubles.google.world import Moment, World
from tests.doubles.machine_command import measuring_of
from tests.doubles.spoiled_trainers import SPOILED
from tests.faults.harness import EndedBy, Work
from trainplan.providers.sim.attempt_record import attempt_record
from trainplan.providers.sim.catalogue import TYPES
from trainplan.providers.sim.training import Simulated, Trainer, Write, images_per_second, newest_checkpoint
from trainplan.providers.sim.values import Course, Ending

_SPEED = TYPES["t4.one"]
"""Every machine trains as fast as this one of the simulated cloud: what is held to it here is order, not speed."""
_PATIENCE = re.compile(r"^ *patience=(\d+)$", re.MULTILINE)
_ASKS_AGAIN = timedelta(seconds=5)
_LISTENS = timedelta(seconds=2)
"""From `control/stop` in the bucket to the trainer."""
_REASONS = {65: "BAD_JOB", 70: "TRAINING_FAILED"}
_STATES = {"stopped": "STOPPED", "deadline": "DEADLINE", "done": "DONE"}


class Hung(Simulated):
    """Never ends and does not listen: only timers and deletes end its machine."""

    def ends(self, course: Course) -> None:
        return None

    def stops(self, course: Course, asked_at: datetime) -> None:
        return None


TRAINERS: dict[str, Callable[[], Trainer]] = {"simulated": Simulated, "named": NamedTrainer, "hung": Hung, **SPOILED}


@dataclass(frozen=True, slots=True)
class Orders:
    """What a start-up text says, read as cloud-init and the agent read it."""

    bucket: str
    prefix: str
    attempt: int
    deadline: datetime
    boot_deadline: datetime
    agent_sha256: str
    spec_sha256: str
    run_key: str = field(default="", repr=False)


@lru_cache(maxsize=64)  # a machine is asked for its deadline often, and reading YAML takes the longest of it
def orders_of(user_data: str) -> Orders:
    """Raises ValueError for a text that no machine would understand."""
    document = yaml.safe_load(user_data)
    files = {row["path"]: row["content"] for row in document["write_files"]}
    boot = json.loads(files["/etc/trainplan/boot.json"])
    if isinstance(boot, str):
        boot = json.loads(boot)
    place = urlsplit(boot["run_uri"])
    arm = "\n".join(map(str, document["bootcmd"]))
    told = {name: _instant(when) for name, when in re.findall(r"^\s*arm (\w+) '([^']+) UTC'", arm, re.MULTILINE)}
    key = boot.get("run_key", "")
    hashes = [word for word in re.findall(r"\b[0-9a-f]{64}\b", "\n".join(files.values())) if word != key]
    if place.scheme != "gs" or not {"deadline", "boot"} <= told.keys() or len(set(hashes)) != 2:
        raise ValueError("the start-up text says neither where its run is, nor when it ends")
    script, agent = dict.fromkeys(hashes)
    return Orders(
        place.netloc, place.path.strip("/"), int(boot["attempt"]), told["deadline"], told["boot"], script, agent, key
    )


def deadline_of(user_data: str) -> datetime | None:
    """When a machine's own timer ends it, as its start-up text says; None where that says nothing of it."""
    try:
        return orders_of(user_data).deadline
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(eq=False)
class Guest:
    """`end` is what the machine does about its own end: by the delete of its spec, or with a power-off ("power_off");
    it is told whether the agent or the machine's own timer does it.

    `halted`: it does nothing any more, since its machine has stopped or is gone.
    """

    world: World
    user_data: str
    device: str
    device_count: int
    boots_at: datetime
    end: Callable[[EndedBy, dict[str, Any]], None]
    console: str = ""
    halted: bool = False
    booted: bool = False
    orders: Orders | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    course: Course | None = None
    told_until: datetime | None = None
    noticed_at: datetime | None = None
    ending: Ending | None = None
    progress_at: datetime | None = None
    refused_at: datetime | None = None
    asks_at: datetime | None = None

    def __post_init__(self) -> None:
        self.trainer = TRAINERS[self.world.scenario.trainer]()

    def moments(self) -> Iterator[Moment]:
        if self.halted:
            return
        if not self.booted:
            yield Moment(self.boots_at, self._boot)
            return
        if self.asks_at is not None:
            yield Moment(self.asks_at, self._boot)
        if self.orders is not None and self.world.scenario.machine_timer_works:
            yield Moment(max(self.orders.deadline, self.boots_at), self._time_is_up)
            if self.course is None:
                yield Moment(max(self.orders.boot_deadline, self.boots_at), self._time_is_up)
        ending = self._ending()
        if ending is not None:
            yield Moment(max(ending.at, self.world.now), lambda: self._finish(ending))

    def tell(self) -> None:
        course, since = self.course, self.told_until
        if self.halted or course is None or since is None or self.ending is not None or self.world.now <= since:
            return
        self.told_until = self.world.now
        for write in self.trainer.writes(course, since, self.world.now):
            self._write(write)

    def trains_until(self) -> datetime | None:
        """When its training ends by itself, or has; None where it does not train, or was ended."""
        if self.ending is not None and self.ending.state == "done":
            return self.ending.at
        ending = Simulated().ends(self.course) if self.course is not None and not self.halted else None
        return ending.at if ending else None

    def work(self, boots_since: datetime | None) -> Work:
        """What it has done by now. It takes no time to bring anything home."""
        self.tell()
        trained_at = self.ending.at if self.ending is not None else None
        return Work(
            deadline=deadline_of(self.user_data),
            boots_since=boots_since,
            progress_at=self.progress_at,
            stop_asked_at=self._heard_at(),
            taken_at=self.noticed_at,
            trained_at=trained_at,
            home_at=trained_at,
        )

    def _boot(self) -> None:
        self.booted = True
        try:
            self.orders = orders_of(self.user_data)
        except (ValueError, KeyError, TypeError) as error:
            self.console += f"cloud-init: {error}\n"
            return
        if self.orders.deadline <= self.world.now:
            self.end(EndedBy.MACHINE_TIMER, {"kind": "power_off"})  # before anything was fetched
            return
        if unknown.is_hidden(self.world, "grant"):
            self._is_refused()
            return
        self.asks_at = None
        found = {
            name: self._read(f"attempts/{self.orders.attempt}/machine/{name}") for name in ("agent.pyz", "spec.json")
        }
        wanted = {"agent.pyz": self.orders.agent_sha256, "spec.json": self.orders.spec_sha256}
        for name, data in found.items():
            if data is None or hashlib.sha256(data).hexdigest() != wanted[name]:
                self.console += f"trainplan: {name} is not there, or is another\n"
                return
        self.spec = json.loads(found["spec.json"] or b"{}")
        self._train()

    def _is_refused(self) -> None:
        """The start-up text asks again for as long as it says, then it tells the console and ends the machine."""
        self.refused_at = self.refused_at or self.world.now
        limit = _PATIENCE.search(self.user_data)
        if limit and self.world.now - self.refused_at >= timedelta(seconds=int(limit[1])):
            self.console += "trainplan: STORE_REFUSED: this machine may not read its run directory\n"
            self.end(EndedBy.AGENT, {"kind": "power_off"})
            return
        self.asks_at = self.world.now + _ASKS_AGAIN

    def _train(self) -> None:
        job = self._read("job.json")
        if job is None or self.orders is None:
            return
        marks = [data for name, data in self._objects() if re.search(r"/checkpoints/[^/]+/complete\.json$", name)]
        measuring = measuring_of(json.dumps(self.spec).encode())
        self.course = Course(
            run=self.spec["run_id"],
            attempt=self.orders.attempt,
            job_json=job.decode(),
            device=self.device,
            device_count=self.device_count,
            images_per_second=images_per_second(job.decode(), _SPEED),
            began_at=self.world.now,
            start_step=newest_checkpoint(marks, job.decode()),
            deadline=datetime.fromisoformat(self.spec["deadline"]),
            max_steps=measuring.max_steps,
            until_steady=measuring.until_steady,
            try_settings=measuring.try_settings,
            run_key=self.orders.run_key,
        )
        self.told_until = self.world.now
        for write in self.trainer.begins(self.course):
            self._write(write)

    def _ending(self) -> Ending | None:
        if self.course is None or self.ending is not None:
            return None
        asked = [at for at in (self._asked_at(), self.noticed_at) if at is not None]
        if not asked:
            return self.trainer.ends(self.course)
        return self.trainer.stops(self.course, max(min(asked), self.course.began_at))

    def _asked_at(self) -> datetime | None:
        """When the agent has heard that it is to stop."""
        assert self.orders is not None
        if self._read("control/stop") is None:
            return None
        heard: dict[str, datetime] = self.world.tables.setdefault("stops", {})
        return heard.setdefault(f"{self.orders.prefix}/{self.orders.attempt}", self.world.now + _LISTENS)

    def _heard_at(self) -> datetime | None:
        """When `control/stop` was first seen to be there; None where nobody has looked for it, or it is not."""
        heard = self.world.tables.get("stops", {})
        at = heard.get(f"{self.orders.prefix}/{self.orders.attempt}") if self.orders is not None else None
        return None if at is None else at - _LISTENS

    def _finish(self, ending: Ending) -> None:
        assert self.course is not None
        self.ending = ending
        for write in self.trainer.finishes(self.course, ending):
            self._write(write)
        self._vouch(self.course, ending)
        self._final_status(ending)
        taken = self.noticed_at is not None and ending.state == "stopped"
        if not taken:  # what is being taken back waits for that
            self.end(EndedBy.AGENT, dict(self.spec["end"]))

    def _vouch(self, course: Course, ending: Ending) -> None:
        """As the agent does it: for what it has brought home."""
        record = attempt_record(course.run_key, course.run, course.attempt, self._read)
        if ending.state == "done" and record is not None:
            self._put(*record)

    def _final_status(self, ending: Ending) -> None:
        """As the agent says it, who knows why the container was told to end."""
        state, reason = ending.state, _REASONS.get(ending.exit_code, _STATES.get(ending.state, ""))
        if self.noticed_at is not None and state == "stopped":
            state, reason = "interrupted", "PREEMPTED"
        said = {"state": state, "reason": reason, "exit_code": ending.exit_code, "message": reason.lower()}
        said["time"] = ending.at.isoformat()  # providers/agent/status.py puts it into each record
        assert self.orders is not None
        self._put(f"attempts/{self.orders.attempt}/status.json", json.dumps(said).encode())

    def _time_is_up(self) -> None:
        self.end(EndedBy.MACHINE_TIMER, dict(self.spec.get("end") or {"kind": "power_off"}))

    def _write(self, write: Write) -> None:
        if write.path is None:
            self.console += write.data.decode()
            return
        if is_sign_of_training(write.path):
            self.progress_at = write.at
        before = self._read(write.path) or b"" if write.append else b""
        self._put(write.path, before + write.data)

    def _read(self, path: str) -> bytes | None:
        assert self.orders is not None
        stored = self.world.bucket.objects.get(self.orders.bucket, {}).get(f"{self.orders.prefix}/{path}")
        return stored.data if stored else None

    def _put(self, path: str, data: bytes) -> None:
        assert self.orders is not None
        there = self.world.bucket.objects.setdefault(self.orders.bucket, {})
        self.world.bucket.generation += 1
        there[f"{self.orders.prefix}/{path}"] = gcs.Stored(data, self.world.bucket.generation)

    def _objects(self) -> Iterator[tuple[str, bytes]]:
        assert self.orders is not None
        for name, stored in self.world.bucket.objects.get(self.orders.bucket, {}).items():
            if name.startswith(f"{self.orders.prefix}/"):
                yield name, stored.data


def _instant(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
