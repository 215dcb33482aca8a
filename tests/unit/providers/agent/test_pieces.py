"""The parts of the agent: what is told of progress and log, commands, the container's words, and the spec."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.agent import gate, logs, progress
from providers.agent.checkpoints import Checkpoints
from providers.agent.clock import stamp, unix
from providers.agent.container import Container, create_arguments, firewall, once_arguments
from providers.agent.endings import judged
from providers.agent.logs import LogTail
from providers.agent.loop import Chore, Duty, together, until
from providers.agent.output import OutputError, push
from providers.agent.processes import NOT_STARTED, TIMED_OUT, Done, MachineProcesses
from providers.agent.progress import ProgressTail
from providers.agent.spec import Device, Paths, SpecError, read_spec
from providers.agent.store import AwayError
from providers.agent.vault import Redactor
from tests.doubles.waiting import until as wait_until
from tests.unit.providers.agent.machine import IMAGE, NOON, FakeClock, FakeRunning, MemoryStore, drained, spec

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

PLAIN = Redactor()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(clock)


class Source:
    """A trainer's progress.jsonl."""

    def __init__(self, folder: Path, store: MemoryStore) -> None:
        self.path = folder / "progress.jsonl"
        self.folder, self.store = folder, store
        self.path.touch()
        self.tail = self.again()

    def again(self) -> ProgressTail:
        return ProgressTail(self.path, self.folder / "spool.jsonl", self.store, "progress.jsonl")

    def steps(self, seconds: int, first: int = 0) -> None:
        lines = [{"event": "step", "time": stamp(NOON + n), "step": n} for n in range(first, first + seconds)]
        self.write("".join(json.dumps(line) + "\n" for line in lines))

    def write(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def told(self) -> list[dict[str, Any]]:
        drained(self.tail.finish(PLAIN))
        return [json.loads(line) for line in self.store.objects["progress.jsonl"].splitlines()]


@pytest.fixture
def source(tmp_path: Path, store: MemoryStore) -> Source:
    return Source(tmp_path, store)


def test_days_of_steps_stay_a_small_object(source: Source) -> None:
    source.steps(100_000)
    told = source.told()
    assert len(told) < 2100
    gaps = [later["step"] - earlier["step"] for earlier, later in itertools.pairwise(told)]
    assert max(gaps) == 60
    assert gaps[:10] == [2] * 10


def test_everything_but_steps_is_told(source: Source) -> None:
    source.write('{"event": "start"}\n')
    source.steps(10)
    for number in range(5):
        source.write(json.dumps({"event": "epoch", "epoch": number}) + "\n")
    source.write('{"event": "end"}\n')
    assert [line["event"] for line in source.told() if line["event"] != "step"] == ["start", *["epoch"] * 5, "end"]


def test_a_flood_of_lines_is_bounded_and_its_end_is_told(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MOST_BYTES", 10_000)
    for number in range(1000):
        source.write(json.dumps({"event": "warning", "message": "x" * 100, "n": number}) + "\n")
    source.write('{"event": "end"}\n')
    told = source.told()
    assert len(source.store.objects["progress.jsonl"]) < 11_000
    assert told[-1]["event"] == "end"


def test_half_a_line_waits_and_what_is_no_line_is_left_out(source: Source) -> None:
    source.write('{"event": "sta')
    source.tail.pull(PLAIN)
    source.write('rt"}\nno json\n[1]\n{"x": 1}\n' + "y" * 100_000 + "\n")
    assert [line["event"] for line in source.told()] == ["start"]


def test_a_second_life_tells_the_same_bytes(source: Source) -> None:
    source.write('{"event": "start"}\n')
    source.steps(5000)
    source.told()
    before = source.store.objects["progress.jsonl"]
    source.tail = source.again()
    source.steps(1000, first=5000)
    source.told()
    after = source.store.objects["progress.jsonl"]
    assert after.startswith(before)
    assert len(after) > len(before)


def test_nothing_new_is_not_sent_again(source: Source) -> None:
    source.tail.push()
    source.steps(1)
    source.tail.pull(PLAIN)
    source.tail.push()
    source.tail.push()
    assert source.store.puts.count("progress.jsonl") == 1


def test_a_link_is_not_followed_out_of_the_run_directory(tmp_path: Path, store: MemoryStore) -> None:
    (tmp_path / "passwd").write_text('{"event": "start", "root": 1}\n')
    (tmp_path / "progress.jsonl").symlink_to(tmp_path / "passwd")
    tail = ProgressTail(tmp_path / "progress.jsonl", tmp_path / "spool", store, "p")
    assert not tail.pull(PLAIN)


def log_of(store: MemoryStore) -> bytes:
    return b"".join(data for path, data in sorted(store.objects.items()) if path.startswith("log/"))


@given(pieces=st.lists(st.binary(max_size=200), max_size=20))
def test_whatever_is_said_comes_out_whole(pieces: list[bytes]) -> None:
    store = MemoryStore(FakeClock())
    tail = LogTail(store, "log")
    for piece in pieces:
        tail.add(piece, PLAIN)
        tail.push()
    drained(tail.finish(FakeRunning(), PLAIN))
    assert log_of(store) == b"".join(pieces)


@given(cuts=st.lists(st.integers(0, 60), max_size=5), newline=st.booleans())
def test_a_secret_is_covered_wherever_the_pipe_cuts_it(cuts: list[int], newline: bool) -> None:
    said = b"x" * 20 + b"hunter2-secret" + b"y" * 20 + (b"\n" if newline else b"")
    store = MemoryStore(FakeClock())
    tail = LogTail(store, "log")
    redactor = Redactor(["hunter2-secret"])
    places = [0, *sorted(min(cut, len(said)) for cut in cuts), len(said)]
    for start, end in itertools.pairwise(places):
        tail.add(said[start:end], redactor)
        tail.push()
    drained(tail.finish(FakeRunning(), redactor))
    assert log_of(store) == said.replace(b"hunter2-secret", b"***")


@pytest.mark.parametrize("offset", range(0, 20, 3))
def test_a_secret_in_a_line_without_end_is_covered(store: MemoryStore, offset: int) -> None:
    tail = LogTail(store, "log")
    redactor = Redactor(["hunter2-secret"])
    said = b"x" * (65_536 - offset) + b"hunter2-secret" + b"y" * 70_000 + b"hunter2-secret\n"
    for start in range(0, len(said), 1000):
        tail.add(said[start : start + 1000], redactor)
    drained(tail.finish(FakeRunning(), redactor))
    assert log_of(store) == said.replace(b"hunter2-secret", b"***")


def test_chunks_have_a_bound_and_end_with_lines(store: MemoryStore) -> None:
    tail = LogTail(store, "log")
    said = b"".join(b"line %d\n" % n for n in range(100_000))
    for start in range(0, len(said), 5000):
        tail.add(said[start : start + 5000], PLAIN)
        tail.push()
    drained(tail.finish(FakeRunning(), PLAIN))
    chunks = [data for path, data in sorted(store.objects.items()) if path.startswith("log/")]
    assert max(map(len, chunks)) <= logs.CHUNK_BYTES
    assert all(chunk.endswith(b"\n") for chunk in chunks)
    assert b"".join(chunks) == said


def test_a_flood_keeps_its_beginning_and_its_end(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(logs, "MOST_CHUNKS", 5)
    tail = LogTail(store, "log")
    for number in range(10_000):
        tail.add(b"line %d\n" % number, PLAIN)
        tail.push()
    drained(tail.finish(FakeRunning(), PLAIN))
    said = log_of(store)
    assert said.startswith(b"line 0\n")
    assert said.endswith(b"line 9999\n")
    assert b"bytes of this log were left out" in said
    assert len(said) < 8000


def test_a_store_that_is_away_costs_bounded_memory(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(logs, "MOST_WAITING", 3)
    tail = LogTail(store, "log")
    store.away = True
    for number in range(2000):
        tail.add(b"line %d\n" % number, PLAIN)
        with pytest.raises(AwayError):
            tail.push()
    store.away = False
    drained(tail.finish(FakeRunning(), PLAIN))
    assert len(log_of(store)) < 5000
    assert log_of(store).endswith(b"line 1999\n")


def test_commands_run_to_their_end() -> None:
    processes = MachineProcesses()
    assert processes.run(["sh", "-c", "cat; echo no >&2; exit 3"], 10, "given") == Done(3, "givenno\n")
    assert processes.run(["/no/such/command"], 10).code == NOT_STARTED
    assert processes.run(["sleep", "60"], 0.05).code == TIMED_OUT
    assert len(processes.run(["sh", "-c", "head -c 100000 /dev/zero"], 10).said) == 16_384
    assert processes.run(["sh", "-c", "echo a; echo last; echo"], 10).last_line == "last"


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
    wait_until(lambda: bool(heard.append(running.read(100)) or b"".join(heard)), "its first line")
    assert running.poll() is None
    assert running.read(100) == b"", "reading does not wait"
    running.rest(0.05)
    assert running.poll() == -9
    assert MachineProcesses().start(["/no/such/command"]).poll() == NOT_STARTED


PATHS = Paths()


def test_the_containers_words() -> None:
    words = create_arguments(
        spec(memory_gib=12.5, environment={"A": "b c"}), PATHS, IMAGE, "/run/trainplan/secrets.env"
    )
    line = " ".join(words)
    assert words[:4] == ("docker", "create", "--name", "trainplan-job")
    for part in (
        "--stop-timeout 110",
        "--init",
        "--shm-size 8g",
        "--memory 12800m",
        "--gpus all",
        "--env-file /run/trainplan/secrets.env",
        "-v /var/lib/trainplan/run-dir:/run-dir",
        "--log-driver local --log-opt max-size=20m --log-opt max-file=3",
    ):
        assert part in line
    assert "A=b c" in words
    assert "--privileged" not in words
    assert "--network" not in words
    assert words[words.index(IMAGE) + 1 :] == spec().command


@pytest.mark.parametrize(("error", "told"), [("no such device", "no such device"), ("", ""), (None, "")])
def test_what_the_engine_says_of_a_container_that_did_not_start_is_told(error: str | None, told: str) -> None:
    """A person can do something about the engine's own words, and little about `exit code 127`."""

    class Engine(MachineProcesses):
        def run(self, words: Sequence[str], seconds: float, given: str = "") -> Done:
            return Done(0, json.dumps({"Status": "exited", "ExitCode": 125, "OOMKilled": False, "Error": error}))

    ended = Container(Engine()).exit()
    assert ended is not None
    assert ended.error == told
    message = judged(ended, None, "").message
    assert message == ": ".join(["the container could not be started", *([told] if told else [])])


def test_an_image_whose_entry_point_is_its_trainer_is_asked_for_something_else() -> None:
    words = once_arguments(spec(), PATHS, IMAGE, ("python", "-c", "print()"))
    assert words[words.index("--entrypoint") + 1] == "python"
    assert words[words.index(IMAGE) :] == (IMAGE, "-c", "print()")


@pytest.mark.parametrize(
    ("kind", "privileged", "flags"),
    [
        ("gpu", False, {"--gpus"}),
        ("cpu", False, set()),
        ("tpu", True, {"--privileged", "--network"}),
        ("tpu", False, set()),
    ],
)
def test_what_each_kind_of_device_needs(kind: str, privileged: bool, flags: set[str]) -> None:
    wanted = spec(device=Device(kind, "x", 1), privileged=privileged)
    for words in (create_arguments(wanted, PATHS, IMAGE, None), once_arguments(wanted, PATHS, IMAGE, ("true",))):
        assert {"--gpus", "--privileged", "--network"} & set(words) == flags
        assert "--network" not in words or words[words.index("--network") + 1] == "host"
        assert ("PJRT_DEVICE=TPU" in words) == (kind == "tpu")


def test_a_gpu_machine_never_gives_its_container_the_machine() -> None:
    """A container with --privileged could take the deadline's timer away."""
    words = create_arguments(replace(spec(), privileged=True), PATHS, IMAGE, None)
    assert not {"--privileged", "--network"} & set(words)


def test_the_wall_before_the_metadata_service_leaves_names_alone() -> None:
    words = " ".join(firewall("-I", "169.254.169.254/32"))
    assert words.startswith("iptables -w 10 -I DOCKER-USER -d 169.254.169.254/32 -p tcp ! --dport 53 -j REJECT")


@pytest.mark.parametrize("framework", ["tensorflow", "jax", "torch"])
@pytest.mark.parametrize("kind", ["gpu", "tpu"])
def test_the_gates_program_is_python(framework: str, kind: str) -> None:
    words = gate.program(Device(kind, "x", 2), framework)
    assert words[:2] == ("python", "-c")
    compile(words[2], "gate", "exec")


@pytest.mark.train
@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_the_gate_on_a_machine_without_a_gpu(framework: str) -> None:
    """Really run: a framework that sees no GPU does not pass, one that sees what was promised does."""
    pytest.importorskip(framework)
    ran = MachineProcesses().run([sys.executable, *gate.program(Device("gpu", "x", 1), framework)[1:]], 120)
    assert ran.code != 0
    assert gate.PASSED not in ran.said
    assert "sees 0 gpu" in ran.said
    ran = MachineProcesses().run([sys.executable, *gate.program(Device("cpu", "x", 1), framework)[1:]], 120)
    assert ran.code == 0, ran.said
    assert gate.PASSED in ran.said


def test_fewer_devices_than_promised_are_too_few() -> None:
    assert gate.judged(Done(0, "a\nb\n"), 2).code == 0
    assert gate.judged(Done(0, "a\nb\n"), 3).code == 1
    assert gate.judged(Done(9, "a\nb\nc\n"), 3).code == 9
    assert gate.least_on_host(Device("tpu", "v3", 8)) == 4
    assert gate.least_on_host(Device("gpu", "x", 8)) == 8


def test_chips_of_one_kind_are_shown_though_there_are_none_of_the_other() -> None:
    """A TPU has /dev/accel0 or /dev/vfio/0, never both; here is neither, which is too few and no failure."""
    done = MachineProcesses().run(gate.look(Device("tpu", "TPU v3", 4)), 20)
    assert (done.code, gate.seen(done), gate.judged(done, 2).code) == (0, 0, 1)


RAW: dict[str, Any] = {
    "run_id": "r1",
    "attempt": 2,
    "images": [IMAGE],
    "command": ["python", "-m", "workloads.trainer"],
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


def test_an_output_folder_that_is_a_link_is_no_output(tmp_path: Path, store: MemoryStore) -> None:
    (tmp_path / "output").symlink_to("/etc")
    with pytest.raises(OutputError):
        drained(push(store, tmp_path / "output"))


def _checkpoint(folder: Path, step: int, data: bytes = b"w", sha256: str = "") -> None:
    place = folder / f"step-{step:08}"
    place.mkdir(parents=True)
    (place / "state.npz").write_bytes(data)
    files = {"state.npz": sha256 or hashlib.sha256(data).hexdigest()}
    (place / "complete.json").write_text(json.dumps({"step": step, "files": files}))


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
