"""Mutated run directories: whatever a container leaves there, every command answers, a stop ends the trainer, a cleanup
leaves what lives, no terminal is controlled, and nothing comes home that the machine has not vouched for.

`python -m tests.fuzz.run_directory [--inputs N] [--seed S]` prints the count.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.desk import TINY, signed_out
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import RUNNING, SIGHTING_OF_END, STOPPING, FakeMachine, FakeStore, Sighting
from tests.doubles.fake_provider import FACTORY, TimedProvider
from tests.fuzz.mutations import Crash, a_folder, as_a_program, changed_bytes, changed_value, no_longer_than
from tests.hostile.run_directory import EVIL
from tests.hostile.terminal import assert_harmless
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.errors import PlanError
from trainplan.planner.runs.directory.progress import Story, story_of
from trainplan.planner.runs.directory.proofs import Vouched
from trainplan.planner.runs.execution.collect import collect
from trainplan.planner.runs.journal.journal import Journal
from trainplan.providers.agent.signatures import Vouching
from trainplan.providers.base import InstanceState
from trainplan.providers.errors import ProviderError
from trainplan.providers.sim.attempt_record import attempt_record

LONGEST_SECONDS = 300.0
INPUTS_OF_A_RUN = 8
"""So many mutated directories are looked at before the run is stopped, and one more when it ends."""
_CODES = (0, 2, 6, 7, 8, 9, 130)
_TIME = "2026-11-21T12:00:05+00:00"
_ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 10**12, 10**13, 10**30, -(10**30), 1e308, -0.0, 1e-300, 5e-324, 0.1),
    *("", " ", "\n", "0", "NaN", EVIL, "\x1b[2J", "\x9b31m", "\u202e", "\ud800", "x" * 5000, "²", "done", "failed"),
    *("9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00Z", "2026-11-21T12:00:00", "../..", "/etc/passwd", "a\x00b"),
    *([], {}, [None], {"": ""}, [[[]]], float("nan"), float("inf")),
)
_LINES: tuple[dict[str, Any], ...] = (
    {"event": "phase", "time": _TIME, "name": "import", "seconds": 2.5},
    {
        "event": "start", "time": _TIME, "device_kind": "cpu", "device_name": "AMD EPYC", "device_count": 1,
        "strategy": "one device", "framework": "tensorflow", "framework_version": "2.20.0", "images": 1437,
        "steps_per_epoch": 44, "epochs": 2, "total_steps": 88, "resumed_from_step": 0,
    },
    {"event": "step", "time": _TIME, "epoch": 1, "step": 10, "loss": 0.5, "accuracy": 0.75, "images_per_second": 90.0},
    {"event": "epoch", "time": _TIME, "epoch": 1, "step": 44, "loss": 0.4, "seconds": 1.0, "train_seconds": 0.9},
    {"event": "checkpoint", "time": _TIME, "step": 44, "epoch": 1, "seconds": 0.1, "bytes": 1000},
    {"event": "warning", "time": _TIME, "message": "the loss is high"},
    {"event": "end", "time": _TIME, "state": "done", "step": 88, "images_per_second": 90.0, "hold_out_accuracy": 0.97},
)  # fmt: skip
_MODEL = b"a model"
_METRICS = b'{"steps": 88}'
_OUTPUT = {"model.keras": _MODEL, "metrics.json": _METRICS}
_KEY, _RUN = "1" * 64, "r1"


def valid_files() -> dict[str, bytes]:
    """A run directory as a trainer leaves it."""
    manifest = [
        {"path": name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in _OUTPUT.items()
    ]
    files = {
        "attempts/1/progress.jsonl": b"".join(json.dumps(line).encode() + b"\n" for line in _LINES),
        "attempts/1/status.json": json.dumps({"state": "done", "reason": "", "message": "", "time": _TIME}).encode(),
        "attempts/1/log/00001.log": "training\nepoch 1 ü\n".encode(),
        "checkpoints/step-00000044/weights": b"w",
        "checkpoints/step-00000044/complete.json": b'{"step": 44}',
        "output/model.keras": _MODEL,
        "output/metrics.json": _METRICS,
        "output/manifest.json": json.dumps(manifest).encode(),
    }
    record = attempt_record(_KEY, _RUN, 1, files.get)
    assert record is not None
    return files | dict([record])


def mutated(files: dict[str, bytes], random: Random) -> dict[str, bytes]:
    """The run directory with one to three files changed, renamed or removed."""
    files = dict(files)
    for _ in range(random.randint(1, 3)):
        path = random.choice([*files, "attempts/1/progress.jsonl"])
        content = files.pop(path, b"")
        kind = random.random()
        if kind < 0.05:
            continue
        if kind < 0.15:
            path = _renamed(path, random)
        files[path] = _changed(content, random)
    return files


def _renamed(path: str, random: Random) -> str:
    parts = path.split("/")
    odd = ("step-\u00b2", "step-" + "9" * 400, "\x1b[2J", "x" * 300, " ", "complete.json", "step-00000001")
    parts[random.randrange(len(parts))] = random.choice(odd)
    return "/".join(parts)


def _changed(content: bytes, random: Random) -> bytes:
    kind = random.random()
    if kind < 0.3:
        return changed_bytes(content, random)
    if kind < 0.35:
        return random.choice(
            (b"[" * 20_000, b"x" * 100_000, b'{"a":' * 5_000, EVIL.encode("utf-8", "surrogatepass"), b"")
        )
    lines = content.split(b"\n")
    number = random.randrange(len(lines))
    try:
        value = json.loads(lines[number])
    except (ValueError, RecursionError):
        return changed_bytes(content, random)
    for _ in range(random.randint(1, 3)):
        value = changed_value(value, random, _ODD)
    lines[number] = json.dumps(value).encode()
    return b"\n".join(lines * random.choice((1, 1, 1, 2)))


def _trains(machine: FakeMachine) -> Iterator[Sighting]:
    """Trains until it is asked to end."""
    while not machine.stop_asked:
        yield RUNNING
    yield STOPPING
    yield next(seen for seen in SIGHTING_OF_END.values() if seen.exit_code == 75)


class Bench:
    """A home, a provider with one run, and commands that are typed at them."""

    def __init__(self, provider: TimedProvider, home: Path) -> None:
        self.provider = provider
        self.outcomes: Counter[str] = Counter()
        self._home = home

    def launch(self) -> str:
        """A run that trains; its id."""
        self.provider.scripts = [_trains]
        said = plan("launch", "job.yaml", "--provider", "local", "--yes", "--fresh", "--detach", "--json")
        assert said.code == 0, said.err
        return str(said.json["run_id"])

    def fill(self, run_id: str, files: dict[str, bytes]) -> None:
        self.provider.stores[run_id].files = files  # type: ignore[index]

    def typed(self, *arguments: str, codes: tuple[int, ...] = _CODES) -> CommandResult:
        said = plan(*arguments)
        assert_harmless(said)
        assert said.code in codes, (said.code, said.err)
        self.outcomes[f"{arguments[0]}: {said.code}"] += 1
        return said

    def look(self, run_id: str, number: int) -> None:
        """One of the commands that look, and a cleanup now and then: none ends what lives."""
        commands = (("status",), ("logs", run_id), ("status", run_id, "--json"), ("logs", run_id, "--json"))
        self.typed(*commands[number % len(commands)], codes=(0,))
        if number % 4 == 0:
            self.typed("cleanup", "--provider", "local", "--yes", codes=(0,))
            self.typed("history", codes=(0,))
        assert self._state(run_id) is InstanceState.RUNNING, "a command that looks has ended the trainer"

    def stop(self, run_id: str) -> None:
        self.typed("stop", run_id, codes=(0,))
        assert self._state(run_id) in (InstanceState.ENDED, None), "the trainer lives on"
        with Journal.open(self._home / "journal.sqlite") as journal:
            assert not journal.run(run_id).live

    def ends(self, files: dict[str, bytes]) -> None:
        """A run that ends by itself and leaves such a directory, followed to its receipt."""

        def script(machine: FakeMachine) -> Iterator[Sighting]:
            machine.store.files = dict(files)
            yield RUNNING
            yield next(seen for seen in SIGHTING_OF_END.values() if seen.exit_code == 0)

        self.provider.scripts = [script]
        self.typed("launch", "job.yaml", "--provider", "local", "--yes", "--fresh")

    def comes_home(self, files: dict[str, bytes]) -> None:
        """The model of such a directory comes home as the machine has stored it, or not at all; its story likewise."""
        store, vouched = FakeStore(), Vouched(Vouching(_KEY, _RUN), 1)
        store.files = dict(files)
        home = self._home / "model"
        try:
            collect(store, home, vouched)
            outcome, wanted = "whole", _OUTPUT
        except (PlanError, ProviderError):
            outcome, wanted = "refused", {}
        found = {path.name: path.read_bytes() for path in home.iterdir()} if home.exists() else {}
        assert found == wanted
        self.outcomes[f"collect: {outcome}"] += 1
        for folder in (home, home.with_name(".model.partial")):
            shutil.rmtree(folder, ignore_errors=True)
        story, why = vouched.story(store)
        assert story == (Story() if why else story_of(_whole(), 1)), why

    def _state(self, run_id: str) -> InstanceState | None:
        machine = self.provider.machines.get(f"{run_id}-1")
        return machine.sighting.state if machine else None


@lru_cache(maxsize=1)
def _whole() -> FakeStore:
    """A run directory that nobody has changed."""
    store = FakeStore()
    store.files = valid_files()
    return store


@contextmanager
def bench(folder: Path) -> Iterator[Bench]:
    """In a home and a working folder of its own."""
    made = TimedProvider(FakeClock(), [_trains], tidy=True)
    with pytest.MonkeyPatch.context() as patch:
        signed_out(patch)
        patch.setenv("PLAN_HOME", str(folder / "home"))
        patch.setenv("HOME", str(folder))
        patch.chdir(folder)
        patch.setitem(*FACTORY)
        (folder / "job.yaml").write_text(TINY)
        fake_provider.PROVIDERS.append(made)
        try:
            yield Bench(made, folder / "home")
        finally:
            fake_provider.PROVIDERS.remove(made)


def run(inputs: int, seed: int) -> Counter[str]:
    """Meet so many mutated run directories; what came of the commands, counted. Raises Crash with the input's seed."""
    outcomes: Counter[str] = Counter()
    for first in range(0, inputs, 50 * INPUTS_OF_A_RUN):  # a new home now and then: histories grow
        with a_folder() as folder, bench(folder) as here:
            _run(here, range(first, min(inputs, first + 50 * INPUTS_OF_A_RUN)), seed)
            outcomes += here.outcomes
    return outcomes


def _run(here: Bench, numbers: range, seed: int) -> None:
    run_id = ""
    for number in numbers:
        random = Random(f"{seed}/{number}")
        files = mutated(valid_files(), random)
        what = f"seed {seed}/{number}"
        try:
            with no_longer_than(LONGEST_SECONDS, what):
                run_id = run_id or here.launch()
                here.fill(run_id, files)
                here.look(run_id, number)
                here.comes_home(files)
                if number % INPUTS_OF_A_RUN == INPUTS_OF_A_RUN - 1:
                    here.stop(run_id)
                    here.ends(files)
                    run_id = ""
        except Crash:
            raise
        except Exception as error:
            raise Crash(f"{what}: {type(error).__name__}: {error}") from error


if __name__ == "__main__":
    as_a_program(run, "run directories")
