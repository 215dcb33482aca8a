"""Processes: a reused pid, a supervisor that dies, two launchers at once, a record that goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.contract.harness import Ask, request, wait_for, wait_until_it_trains
from tests.contract.local import ProcessHarness
from tests.doubles.waiting import until
from trainplan.providers.base import EndKind, InstanceState, LaunchRequest
from trainplan.providers.errors import BadRequestError, MachineError
from trainplan.providers.local.pids import Process, birth, process, this_process
from trainplan.providers.local.provider import LocalProvider
from trainplan.providers.local.records import AttemptKey

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture
def harness(tmp_path: Path) -> ProcessHarness:
    return ProcessHarness(tmp_path)


@pytest.fixture
def provider(harness: ProcessHarness) -> Iterator[LocalProvider]:
    made = harness.provider()
    yield made
    for owned in made.list_owned():
        made.delete(owned)


def record(provider: LocalProvider, run: LaunchRequest) -> Path:
    return provider.here.records.folder(AttemptKey(run_id=run.run_id, attempt=run.attempt))


def recorded(provider: LocalProvider, run: LaunchRequest, name: str) -> Process:
    return Process(**json.loads((record(provider, run) / name).read_text()))


def trained(provider: LocalProvider, run: LaunchRequest) -> Process:
    provider.launch(run)
    wait_until_it_trains(provider, run)
    return recorded(provider, run, "trainer.json")


def test_a_process_is_told_from_a_later_one_of_its_pid() -> None:
    me = this_process()
    assert me.alive
    assert not replace(me, birth="another boot 1").alive
    replace(me, birth="another boot 1").kill()  # and does not hit the one who has the pid now


def test_what_is_over_has_no_birth() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    known = process(child.pid)
    until(lambda: birth(child.pid) is None, "the child ends")  # also while it waits to be reaped
    child.wait()
    assert not known.alive


def test_a_reused_pid_is_not_our_trainer(provider: LocalProvider) -> None:
    run = request(provider)
    for name in ("supervisor/process.json", "trainer.json"):
        path = record(provider, run) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(replace(this_process(), birth="another boot 1"))))
    (record(provider, run) / "host").write_text("process")
    found = provider.launch(run)
    assert (found.state, found.end) == (InstanceState.ENDED, EndKind.LOST)
    provider.delete(found.ref)
    assert this_process().alive


@posix
def test_a_killed_trainer_is_told(provider: LocalProvider) -> None:
    run = request(provider)
    trained(provider, run).kill()
    ended = wait_for(provider, provider.launch(run).ref, InstanceState.ENDED)
    assert (ended.end, ended.exit_code) == (EndKind.KILLED, -signal.SIGKILL)


@posix
def test_a_trainer_without_its_supervisor_is_still_found_stopped_and_deleted(provider: LocalProvider) -> None:
    run = request(provider)
    trainer = trained(provider, run)
    recorded(provider, run, "supervisor/process.json").kill()
    ref = provider.launch(run).ref
    assert provider.get(ref).state is InstanceState.RUNNING

    def asked_until_it_ends() -> bool:
        if provider.get(ref).state is InstanceState.RUNNING:
            provider.stop(ref)
        return not trainer.alive

    until(asked_until_it_ends, "the trainer ends")
    assert provider.get(ref).end is EndKind.LOST  # nobody was there to write down the exit code
    provider.delete(ref)
    assert provider.list_owned() == []


@posix
def test_a_signal_to_the_supervisor_lets_the_trainer_end(provider: LocalProvider) -> None:
    run = request(provider)
    trained(provider, run)
    os.kill(recorded(provider, run, "supervisor/process.json").pid, signal.SIGTERM)
    assert wait_for(provider, provider.launch(run).ref, InstanceState.ENDED).end is EndKind.STOPPED


def test_two_launchers_at_once_start_one_trainer(provider: LocalProvider, harness: ProcessHarness) -> None:
    run = request(provider)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: harness.provider().launch(run), range(4)))
    assert len({instance.ref for instance in found}) == 1
    wait_until_it_trains(provider, run)
    log = provider.here.folders(run.run_id).run_dir / "attempts/1/log/trainer.log"
    assert log.read_text().count("training wait") == 1


def test_a_trainer_whose_record_goes_away_is_killed(provider: LocalProvider) -> None:
    run = request(provider, Ask(behaviour="stubborn"))
    trainer = trained(provider, run)
    provider.here.records.forget(AttemptKey(run_id=run.run_id, attempt=1))
    until(lambda: not trainer.alive, "the supervisor kills it")


def test_a_supervisor_that_comes_after_the_delete_starts_nothing(provider: LocalProvider, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "trainplan.providers.local.supervise", "watch", str(tmp_path / "gone")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, "taken")


def test_a_claim_that_nobody_followed_up_is_pending_and_the_next_launch_starts_it(provider: LocalProvider) -> None:
    run = request(provider)
    folder = record(provider, run)
    folder.mkdir(parents=True)
    (folder / "host").write_text("process")
    (owned,) = provider.list_owned()
    assert provider.get(owned).state is InstanceState.PENDING  # type: ignore[arg-type]
    provider.launch(run)
    wait_until_it_trains(provider, run)


def test_a_trainer_that_cannot_be_started_is_an_error_with_its_reason(provider: LocalProvider) -> None:
    broken = replace(provider, process=replace(provider.process, program=("/no/such/python",)))
    with pytest.raises(MachineError, match="No such file"):
        broken.launch(request(provider))
    assert provider.list_owned() == []


def test_a_full_disk_is_said_before_anything_starts(provider: LocalProvider) -> None:
    full = replace(provider.here, free_bytes=lambda _: 1_000_000)
    tight = replace(provider, here=full, process=replace(provider.process, here=full))
    with pytest.raises(MachineError, match="GB free") as caught:
        tight.launch(request(provider))
    assert "PLAN_HOME" in caught.value.hint
    assert provider.list_owned() == []


@pytest.mark.parametrize("run_id", ["", "a b", "../x", "-x"])
def test_a_run_id_that_is_no_name_is_refused(provider: LocalProvider, run_id: str) -> None:
    with pytest.raises(BadRequestError):
        provider.launch(request(provider, Ask(run_id=run_id)))


def test_nothing_of_the_environment_is_written_down(provider: LocalProvider) -> None:
    run = request(provider)
    trained(provider, run)
    told = json.loads((record(provider, run) / "request.json").read_text())
    assert set(told["environment"]) == {"CUDA_VISIBLE_DEVICES", "PYTHONUNBUFFERED"}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_training_gets_no_credential_of_the_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a credential")
    monkeypatch.setenv("TZ", "UTC")
    provider = ProcessHarness(tmp_path).provider()
    run = request(provider)
    for ours in (trained(provider, run), recorded(provider, run, "supervisor/process.json")):
        variables = Path(f"/proc/{ours.pid}/environ").read_bytes()
        assert b"TZ=UTC" in variables.split(b"\0")
        assert b"a credential" not in variables
    for owned in provider.list_owned():
        provider.delete(owned)
