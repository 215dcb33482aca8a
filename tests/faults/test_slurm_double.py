"""The cluster in simulated time: its files as a real shell has them, its lists as real commands gave them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.doubles.clock import NOON
from tests.doubles.slurm.job_life import Incident, Rules
from tests.doubles.slurm.shared_files import SharedFiles
from tests.doubles.slurm.simulated import DIRECTORY, SimulatedCluster
from tests.faults.harness import EndedBy, Lived
from trainplan.providers.slurm.api import NO_STREAMS, Completed, ShellHere, Streams
from trainplan.providers.slurm.reply import SQUEUE, slurm_jobs
from trainplan.providers.slurm.store import ShellStore

(RECORD,) = (ROOT / "tests" / "data" / "slurm").glob("*.json")
REPLIES = {one["name"]: one for one in json.loads(RECORD.read_text(encoding="utf-8"))["replies"]}
SCRIPT = "#!/bin/sh\ndeadline={deadline}\nmeasuring=''\n\nbody\n"


class InMemory:
    """A shell that knows the store's scripts alone."""

    def __init__(self, root: str) -> None:
        self.files = SharedFiles(root)

    def run(self, command: Sequence[str], streams: Streams = NO_STREAMS, timeout_seconds: float = 0) -> Completed:
        return self.files.sh(command, streams.data, NOON)


def put_and_list(store: ShellStore) -> object:
    store.put("a/one", b"first")
    store.put("a/one", b"second")
    store.put("ab", b"other")
    return store.sizes(), store.sizes("a"), store.list()


def read_parts(store: ShellStore) -> object:
    store.put("a/one", b"0123456789")
    return (
        store.get("a/one"),
        store.get("a/one", start=3),
        store.get("a/one", start=3, size=4),
        store.get("a/one", start=99),
    )


def read_nothing(store: ShellStore) -> object:
    with pytest.raises(KeyError):
        store.get("nothing")
    with pytest.raises(KeyError):
        store.get("nothing", start=1, size=2)
    return store.list(), store.sizes("nothing")


def ask_which_are_there(store: ShellStore) -> object:
    store.put("a/one", b"")
    return sorted(store.has(["a/one", "a", "a/two"])), sorted(store.has([]))


def remove(store: ShellStore) -> object:
    for path in ("a/one", "a/two", "ab", "b"):
        store.put(path, b"x")
    store.delete("a")
    left = store.list()
    store.delete("nothing")
    store.delete("")
    return left, store.list()


@pytest.mark.parametrize("use", [put_and_list, read_parts, read_nothing, ask_which_are_there, remove])
def test_files_are_as_a_shell_has_them(use: Callable[[ShellStore], object], tmp_path: Path) -> None:
    real = ShellStore(ShellHere(os.environ), str(tmp_path / "runs" / "r1"))
    double = ShellStore(InMemory("/shared/runs"), "/shared/runs/r1")
    assert use(double) == use(real)


def cluster(**rules: object) -> SimulatedCluster:
    return SimulatedCluster(Rules(**rules), NOON)  # type: ignore[arg-type]


def submit(world: SimulatedCluster, deadline: timedelta = timedelta(hours=1)) -> int:
    words = ("sbatch", "--parsable", "--job-name=trainplan-r1-1", "--partition=one", "--nodes=1", "--time=120")
    text = SCRIPT.format(deadline=f"{(NOON + deadline).timestamp():.0f}")
    return int(world.run(words, text.encode()).text)


def states(world: SimulatedCluster) -> list[str]:
    return [job.state for job in slurm_jobs(world.run(SQUEUE, b"").text)]


def machines(world: SimulatedCluster) -> list[Lived]:
    return [row for row in world.ledger() if row.machine]


def test_a_job_without_its_run_directory_ends_at_once() -> None:
    world = cluster()
    submit(world)
    assert states(world) == ["PENDING"]
    world.advance(NOON + timedelta(seconds=20))
    assert states(world) == ["FAILED"]
    world.advance(NOON + timedelta(seconds=400))
    assert states(world) == [], "squeue forgets a job after MinJobAge"


def test_a_cancelled_job_that_waited_was_no_machine() -> None:
    world = cluster()
    number = submit(world)
    assert world.run(("scancel", str(number)), b"").exit_code == 0
    assert states(world) == ["CANCELLED"]
    assert machines(world) == []


def training(**rules: object) -> SimulatedCluster:
    from tests.builders import a_job

    world = cluster(**rules)
    world.files.objects["r1/job.json"] = a_job(epochs=4).to_json().encode()
    submit(world)
    return world


def test_a_job_that_is_preempted_waits_as_long_as_was_recorded_and_goes_on() -> None:
    recorded = REPLIES["squeue: requeued"]["stdout"]
    (requeued,) = [job for job in slurm_jobs(recorded) if job.name.attempt == 1]
    world = training(incidents=(Incident(event="preempt", after=30),))
    world.advance(NOON + timedelta(seconds=100))
    assert states(world) == [requeued.state]
    assert slurm_jobs(world.run(SQUEUE, b"").text)[0].reason == requeued.reason == "BeginTime"
    world.advance(NOON + timedelta(hours=1))
    first, second = machines(world)
    assert (first.ended_by, second.ended_by) == (EndedBy.PROVIDER, EndedBy.AGENT)
    assert world.files.objects["r1/attempts/1/slurm-end"] == b"0\n"
    assert first.ended_at is not None
    begins_at = int(next(line for line in recorded.splitlines() if "BeginTime" in line).split("|")[4])
    assert requeued.submitted_at is not None
    waited = begins_at - requeued.submitted_at.timestamp()
    assert (second.created_at - first.ended_at).total_seconds() == waited


def test_a_job_that_is_asked_to_stop_says_so_in_its_run_directory() -> None:
    world = training()
    world.advance(NOON + timedelta(seconds=60))
    put = ShellStore(_Over(world), f"{DIRECTORY}/runs/r1").put
    put("attempts/1/stop", b"")
    world.advance(NOON + timedelta(seconds=90))
    assert world.files.objects["r1/attempts/1/slurm-end"] == b"75\n"
    (row,) = machines(world)
    assert row.ended_by is EndedBy.AGENT


def test_the_line_of_a_job_that_waits_is_as_recorded() -> None:
    reply = REPLIES["sbatch: too many nodes"]
    (recorded,) = [
        line for line in REPLIES["squeue: running and waiting"]["stdout"].splitlines() if "|trainplan-r1-3|" in line
    ]
    world = cluster(queue_seconds={"two": None})
    other = {"trainplan-r1-2": "trainplan-r1-3", "--nodes=9": "--nodes=1"}
    words = [other.get(word, word).replace("=trainplan-r1-2", "=trainplan-r1-3") for word in reply["command"]]
    world.run(words, reply["stdin"].encode())
    assert _without_numbers(world.run(SQUEUE, b"").text.strip()) == _without_numbers(recorded).replace(
        "Resources", "Priority"
    )


class _Over:
    def __init__(self, world: SimulatedCluster) -> None:
        self.world = world

    def run(self, command: Sequence[str], streams: Streams = NO_STREAMS, timeout_seconds: float = 0) -> Completed:
        return self.world.run(command, streams.data)


def _without_numbers(text: str) -> str:
    return re.sub(r"\d[\d:T-]*", "0", text)
