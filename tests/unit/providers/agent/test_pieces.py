"""The parts of the agent: commands, the gate, the spec, the output, checkpoints, and the loop."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.waiting import until as wait_until
from tests.unit.providers.agent.machine import IMAGE, NOON, FakeClock, MemoryStore, drained
from trainplan.providers.agent import gate, gate_program
from trainplan.providers.agent.checkpoints import Checkpoints
from trainplan.providers.agent.clock import stamp, unix
from trainplan.providers.agent.loop import Chore, Duty, together, until
from trainplan.providers.agent.output import OutputError, push
from trainplan.providers.agent.processes import NOT_STARTED, TIMED_OUT, MachineProcesses, ProcessResult
from trainplan.providers.agent.signatures import Vouching
from trainplan.providers.agent.spec import Device, SpecError, read_spec
from trainplan.workloads.output_files import MOST_FILES


def test_commands_run_to_their_end() -> None:
    processes = MachineProcesses()
    assert processes.run(["sh", "-c", "cat; echo no >&2; exit 3"], 60, "given") == ProcessResult(3, "givenno\n")
    assert processes.run(["/no/such/command"], 60).code == NOT_STARTED
    assert processes.run(["sleep", "60"], 0.05).code == TIMED_OUT
    assert len(processes.run(["sh", "-c", "head -c 100000 /dev/zero"], 60).output) == 16_384
    assert processes.run(["sh", "-c", "echo a; echo last; echo"], 60).last_line == "last"


def test_commands_go_on_beside() -> None:
    running = MachineProcesses().start(["sh", "-c", "echo one; read line; echo two"])
    wait_until(lambda: running.poll() is not None, "its end")  # stdin is empty
    running.rest(5)
    assert running.read(4) == b"one\n"
    assert running.read(100) == b"two\n"
    assert running.read(100) == b""


def test_a_command_that_does_not_end_is_ended() -> None:
    running = MachineProcesses().start(["sh", "-c", "echo one; exec sleep 60"])
    heard: list[bytes] = []

    def has_spoken() -> bool:
        heard.append(running.read(100))
        return any(heard)

    wait_until(has_spoken, "its first line")
    assert running.poll() is None
    assert running.read(100) == b"", "reading does not wait"
    running.rest(0.05)
    assert running.poll() == -9
    assert MachineProcesses().start(["/no/such/command"]).poll() == NOT_STARTED


@pytest.mark.parametrize("framework", ["tensorflow", "jax", "torch"])
def test_the_gates_program_is_python_with_the_precision_of_the_job(framework: str) -> None:
    python, flag, text, *arguments = gate.program(Device("gpu", "x", 2), framework, "amp_bf16")
    assert (python, flag, arguments) == ("python", "-c", [framework, "gpu", "2", "amp_bf16"])
    compile(text, "gate", "exec")
    with pytest.raises(KeyError):
        gate.program(Device("gpu", "x", 2), "abacus", "fp32")


@pytest.mark.train
@pytest.mark.parametrize("framework", ["tensorflow", "jax", "torch"])
def test_the_gate_on_a_machine_without_a_gpu(framework: str) -> None:
    """Really run: a framework that sees no GPU does not pass, one that sees what was promised does."""
    if importlib.util.find_spec(framework) is None:  # not imported here: that takes longer than the test
        pytest.skip(f"{framework} is not installed")
    words = gate.program(Device("gpu", "x", 1), framework, "fp32")
    ran = MachineProcesses().run([sys.executable, *words[1:]], 600)
    assert ran.code != 0
    assert gate_program.PASSED not in ran.output
    assert "sees 0 gpu" in ran.output
    words = gate.program(Device("cpu", "x", 1), framework, "amp_bf16")
    ran = MachineProcesses().run([sys.executable, *words[1:]], 600)
    assert ran.code == 0, ran.output
    assert gate_program.PASSED in ran.output
    assert ran.output.count(gate_program.TRYING) == 4


class Engine:
    """A framework in which one step fails."""

    def __init__(self, broken: str, sums: tuple[float, ...] | Exception) -> None:
        for name, (method, right) in gate_program.STEPS.items():
            setattr(self, method, functools.partial(self._run, sums if name == broken else right))

    def _run(self, result: tuple[float, ...] | Exception) -> tuple[float, ...]:
        if isinstance(result, Exception):
            raise result
        return result


@pytest.mark.parametrize("step", gate_program.STEPS)
def test_a_step_that_fails_is_named_with_what_the_library_says(step: str) -> None:
    error = RuntimeError("CUDNN_STATUS_EXECUTION_FAILED_CUDART\n  in stream")
    with pytest.raises(SystemExit, match=f"the {step} failed: RuntimeError: CUDNN_STATUS_EXECUTION_FAILED_CUDART in"):
        gate_program.check(Engine(step, error))
    _, right = gate_program.STEPS[step]
    for wrong in (right[:-1], (float("nan"), *right[1:]), (*right[:-1], 1.1 * right[-1]), (0.0,) * len(right)):
        with pytest.raises(SystemExit, match=f"the {step} computes"):
            gate_program.check(Engine(step, wrong))
    gate_program.check(Engine(step, tuple(1.004 * value for value in right)))  # the rounding of bfloat16


@pytest.mark.parametrize(
    ("inside", "what"),
    [
        ("jax sees 0 gpu:\npromised: 1\n", "the machine does not show the 1 x V100 that it was rented for; nothing"),
        # The process was ended by the library: the step is the last line.
        ("trying the convolution\ntrying the pooling\n", "the V100 that was rented failed at the pooling, which"),
        ("trying the batch norm\nACCELERATOR VISIBLE\n", ""),
    ],
)
def test_a_refusal_says_what_is_wrong(inside: str, what: str) -> None:
    code = 0 if gate_program.PASSED in inside else 1
    text = gate.refusal(Device("gpu", "V100", 1), ProcessResult(0, "V100\n"), ProcessResult(code, inside))
    assert text.startswith(what)
    assert bool(text) is bool(what)
    assert inside in text or not what


def test_fewer_devices_than_promised_are_too_few() -> None:
    assert gate.judge_gate(ProcessResult(0, "a\nb\n"), 2).code == 0
    assert gate.judge_gate(ProcessResult(0, "a\nb\n"), 3).code == 1
    assert gate.judge_gate(ProcessResult(9, "a\nb\nc\n"), 3).code == 9
    assert gate.least_on_host(Device("tpu", "v3", 8)) == 4
    assert gate.least_on_host(Device("gpu", "x", 8)) == 8


def test_chips_of_one_kind_are_shown_though_there_are_none_of_the_other() -> None:
    """A TPU has /dev/accel0 or /dev/vfio/0, never both; here is neither, which is too few and no failure."""
    done = MachineProcesses().run(gate.look(Device("tpu", "TPU v3", 4)), 60)
    assert (done.code, gate.count_devices(done), gate.judge_gate(done, 2).code) == (0, 0, 1)


RAW: dict[str, Any] = {
    "run_id": "r1",
    "attempt": 2,
    "images": [IMAGE],
    "command": ["python", "-m", "trainplan.workloads.trainer"],
    "environment": {"A": "b"},
    "secrets": {},
    "device": {"kind": "gpu", "name": "T4", "count": 1},
    "deadline": "2026-11-21T20:00:00+00:00",
    "boot_deadline": "2026-11-21T12:30:00Z",
    "job_sha256": "b" * 64,
    "memory_gib": None,
    "shm_gib": 8,
    "privileged": False,
    "data": None,
    "end": {"kind": "power_off"},
}


def test_a_spec_is_read() -> None:
    got = read_spec(json.dumps(RAW))
    assert (got.attempt, got.deadline - NOON, got.boot_deadline - NOON) == (2, 8 * 3600, 1800)
    assert got.images == (IMAGE,)
    assert got.folder == "attempts/2"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"images": ["tensorflow/tensorflow:latest"]}, "digest"),
        ({"images": []}, "images"),
        ({"command": []}, "command"),
        ({"device": {"kind": "fpga", "name": "x", "count": 1}}, "device"),
        ({"device": {"kind": "gpu", "name": "x", "count": 0}}, "device"),
        ({"privileged": True}, "privileged"),
        ({"end": {"kind": "explode"}}, "end"),
        ({"deadline": "2026-11-21T20:00:00"}, "time zone"),
        ({"deadline": None}, "spec.json"),
        ({"environment": {"A": "b\nC=d"}}, "environment"),
        ({"files": [{"path": "x", "to": "../etc/passwd", "sha256": "0", "size_bytes": 1}]}, "below"),
        ({"files": [{"path": "x", "to": "data/../../x", "sha256": "0", "size_bytes": 1}]}, "below"),
    ],
)
def test_a_spec_that_cannot_be_meant(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(SpecError, match=word):
        read_spec(json.dumps({**RAW, **changes}))
    with pytest.raises(SpecError):
        read_spec("no json")


def test_instants() -> None:
    assert unix(stamp(NOON)) == NOON
    assert unix("2026-11-21T12:00:00Z") == NOON


def test_the_output_without_a_manifest_of_its_own_gets_one(tmp_path: Path, store: MemoryStore) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("model", "sub/extra", ".hidden"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert drained(push(store, tmp_path)) == 2
    assert [row["path"] for row in store.json("output/manifest.json")] == ["model", "sub/extra"]
    assert sorted(path for path in store.objects if path.startswith("output/")) == [
        "output/manifest.json",
        "output/model",
        "output/sub/extra",
    ]


def test_output_that_the_manifest_promises_must_be_there(tmp_path: Path, store: MemoryStore) -> None:
    (tmp_path / "manifest.json").write_text('[{"path": "model", "sha256": "' + "0" * 64 + '"}]')
    with pytest.raises(OutputError, match="left no model"):
        drained(push(store, tmp_path))
    (tmp_path / "manifest.json").write_text("no json")
    with pytest.raises(OutputError, match="cannot be read"):
        drained(push(store, tmp_path))
    assert "output/manifest.json" not in store.objects


def test_output_of_any_name_and_number_is_stored_and_what_is_otherwise_is_remarked(
    tmp_path: Path, store: MemoryStore
) -> None:
    names = ["model", "a:b.log", "back\\slash", "two\nlines", os.fsdecode(b"caf\xe9")]
    (tmp_path / "cats").mkdir()
    for name in [*names, *(f"cats/{number}" for number in range(MOST_FILES))]:
        (tmp_path / name).write_text(name, errors="surrogateescape")
    remarks: list[str] = []
    assert drained(push(store, tmp_path, remark=remarks.append)) == len(names) + 1
    paths = {row["path"] for row in store.json("output/manifest.json")}
    assert paths == {"model", "a%3Ab.log", "back%5Cslash", "two%0Alines", "caf%E9", "cats.tar"}
    assert {path for path in store.objects if path.startswith("output/")} == {f"output/{path}" for path in paths} | {
        "output/manifest.json"
    }
    assert ["cats.tar" in remarks[0], "caf%E9" in remarks[1]] == [True, True]


def test_files_of_a_checkpoint_have_their_own_names_again_where_it_is_fetched(
    tmp_path: Path, store: MemoryStore, clock: FakeClock
) -> None:
    names, key = [os.fsdecode(b"caf\xe9.pt"), "09:42.log", "state"], Vouching("0" * 64, "run")
    folder = tmp_path / "here" / "step-00000007"
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("w")
    files = {name: hashlib.sha256(b"w").hexdigest() for name in names}
    (folder / "complete.json").write_text(json.dumps({"step": 7, "files": files}))
    assert drained(Checkpoints(store, tmp_path / "here", tmp_path / "spool", clock, key).push(folder.name))
    assert "checkpoints/step-00000007/caf%E9.pt" in store.objects
    there = tmp_path / "there"
    assert drained(Checkpoints(store, there, tmp_path / "spool", clock, key).restore()) == folder.name
    assert {path.name for path in (there / folder.name).iterdir()} == {*names, "complete.json"}


def test_an_output_folder_that_is_a_link_is_no_output(tmp_path: Path, store: MemoryStore) -> None:
    (tmp_path / "output").symlink_to("/etc")
    with pytest.raises(OutputError):
        drained(push(store, tmp_path / "output"))


def _checkpoint(folder: Path, step: int, data: bytes = b"w", sha256: str = "") -> None:
    placement = folder / f"step-{step:08}"
    placement.mkdir(parents=True)
    (placement / "state.npz").write_bytes(data)
    files = {"state.npz": sha256 or hashlib.sha256(data).hexdigest()}
    (placement / "complete.json").write_text(json.dumps({"step": step, "files": files}))


@pytest.fixture
def checkpoints(tmp_path: Path, store: MemoryStore, clock: FakeClock) -> Checkpoints:
    return Checkpoints(store, tmp_path / "local", tmp_path / "spool", clock)


def test_a_checkpoint_that_the_trainer_removes_meanwhile_is_still_sent(
    checkpoints: Checkpoints, tmp_path: Path, store: MemoryStore
) -> None:
    _checkpoint(tmp_path / "local", 10)
    store.at_put = lambda path: shutil.rmtree(tmp_path / "local", ignore_errors=True)
    assert drained(checkpoints.push("step-00000010"))
    assert "checkpoints/step-00000010/complete.json" in store.objects
    assert not (tmp_path / "spool").exists()


def test_a_checkpoint_that_is_stored_waits_no_more(checkpoints: Checkpoints, tmp_path: Path) -> None:
    _checkpoint(tmp_path / "local", 10)
    assert checkpoints.waiting() == "step-00000010"
    assert drained(checkpoints.push("step-00000010"))
    assert checkpoints.waiting() == "", "it would be sent again at each look"


def test_a_checkpoint_that_is_gone_is_passed_over(checkpoints: Checkpoints) -> None:
    assert not drained(checkpoints.push("step-00000010"))


def test_a_damaged_checkpoint_gets_no_mark_and_is_not_tried_again(
    checkpoints: Checkpoints, tmp_path: Path, store: MemoryStore
) -> None:
    _checkpoint(tmp_path / "local", 10, sha256="0" * 64)
    assert checkpoints.waiting() == "step-00000010"
    assert not drained(checkpoints.push("step-00000010"))
    assert "checkpoints/step-00000010/complete.json" not in store.objects
    assert checkpoints.waiting() == ""


def test_a_checkpoint_without_its_mark_is_not_waiting(checkpoints: Checkpoints, tmp_path: Path) -> None:
    (tmp_path / "local" / "step-00000010").mkdir(parents=True)
    assert checkpoints.waiting() == ""


def test_what_lies_around_in_the_store_goes_with_the_old_ones(
    checkpoints: Checkpoints, tmp_path: Path, store: MemoryStore
) -> None:
    store.objects["checkpoints/step-00000005/state.npz"] = b"half, of an attempt that was killed"
    store.objects["checkpoints/notes.txt"] = b"not ours"
    for step in (10, 20, 30):
        _checkpoint(tmp_path / "local", step)
        drained(checkpoints.push(f"step-{step:08}"))
    left = {path.split("/")[1] for path in store.objects if path.startswith("checkpoints/")}
    assert left == {"step-00000020", "step-00000030", "notes.txt"}


def _counting(number: int, pause: float = 0.0) -> Generator[float, None, int]:
    for _ in range(number):
        yield pause
    return number


def test_duties_are_done_when_due() -> None:
    done: list[float] = []
    duty = Duty(10.0, lambda: done.append(1))
    for now in (0.0, 5.0, 10.0, 12.0, 25.0):
        duty.when_due(now)
    assert len(done) == 3


def test_two_things_at_once(clock: FakeClock) -> None:
    assert drained(together(clock, _counting(3), _counting(5))) == 5


def test_what_one_of_two_raises_ends_both(clock: FakeClock) -> None:
    closed: list[str] = []

    def first() -> Generator[float, None, None]:
        try:
            while True:
                yield 1.0
        finally:
            closed.append("first")

    def second() -> Generator[float, None, None]:
        yield 0.0
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        drained(together(clock, first(), second()))
    assert closed == ["first"]


def test_a_chore_that_fails_is_over(clock: FakeClock) -> None:
    def fails() -> Generator[float, None, None]:
        yield 0.0
        raise OSError("no")

    chore = Chore(clock)
    chore.begin(fails())
    with pytest.raises(OSError, match="no"):
        chore.go_on()
    assert not chore.busy


def test_steps_with_an_end(clock: FakeClock) -> None:
    assert drained(until(clock, NOON + 10, _counting(3)))
    assert not drained(until(clock, NOON - 1, _counting(3)))
