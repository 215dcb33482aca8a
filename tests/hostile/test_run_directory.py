"""A hostile run directory: every command goes on, and no terminal obeys what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.desk import TINY, own_home
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import RUNNING, SIGHTING_OF_END, STOPPING, FakeMachine, FakeStore, Sighting
from tests.doubles.fake_provider import FakeProvider, TimedProvider
from tests.hostile.run_directory import BAD_LINES, EVIL, evil_lines, make_hostile
from tests.hostile.terminal import assert_harmless
from tests.unit.planner.cli.command import plan
from trainplan.planner.runs.directory.progress import ProgressReader
from trainplan.planner.runs.directory.run_directory import Watcher
from trainplan.planner.runs.events import Event, Message
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Run
from trainplan.providers.base import InstanceState


def hostile(machine: FakeMachine) -> Iterator[Sighting]:
    """Trains until it is asked to end; its run directory is hostile all the time."""
    make_hostile(machine.store, machine.request.attempt)
    while not machine.stop_asked:
        yield RUNNING
    make_hostile(machine.store, machine.request.attempt)
    yield STOPPING
    yield next(seen for seen in SIGHTING_OF_END.values() if seen.exit_code == 75)


def hostile_to_its_end(machine: FakeMachine) -> Iterator[Sighting]:
    """Ends by itself as if it were done."""
    make_hostile(machine.store, machine.request.attempt)
    yield RUNNING
    yield next(seen for seen in SIGHTING_OF_END.values() if seen.exit_code == 0)


@pytest.fixture(autouse=True)
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    own_home(tmp_path, monkeypatch)
    (tmp_path / "job.yaml").write_text(TINY)
    with fake_provider.as_this_machine(TimedProvider(FakeClock(), [hostile], tidy=True), monkeypatch) as made:
        yield made


def launched(tmp_path: Path) -> Run:
    said = plan("launch", "job.yaml", "--provider", "local", "--yes", "--another", "--fresh", "--detach")
    assert_harmless(said)
    assert said.code == 0, said.err
    with Journal.open(tmp_path / "home" / "journal.sqlite") as journal:
        return journal.runs()[0]


def test_stop_ends_a_trainer_whose_run_directory_is_hostile(tmp_path: Path, provider: FakeProvider) -> None:
    run = launched(tmp_path)
    stopped = plan("stop", run.run_id)
    assert_harmless(stopped)
    assert stopped.code == 0, stopped.err
    assert provider.count("stop") == 1
    assert [machine.sighting.state for machine in provider.machines.values()] == [InstanceState.ENDED]
    assert "lines of progress could not be read" in stopped.err


@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_status_and_logs_go_on(tmp_path: Path, extra: tuple[str, ...]) -> None:
    run = launched(tmp_path)
    for arguments in (("status",), ("status", run.run_id), ("logs", run.run_id), ("history",)):
        said = plan(*arguments, *extra)
        assert_harmless(said)
        assert said.code == 0, said.err
    assert "lines of progress could not be read" in plan("status").out


def test_one_hostile_run_hides_no_other(tmp_path: Path, provider: FakeProvider) -> None:
    first, second = launched(tmp_path), launched(tmp_path)
    assert first.run_id != second.run_id
    said = plan("status")
    assert said.code == 0, said.err
    assert {first.run_id, second.run_id} <= {line.split()[0] for line in said.out.splitlines() if line}
    provider.machines[f"{first.run_id}-1"].kill()
    for _ in range(2):
        cleaned = plan("cleanup", "--provider", "local", "--yes")
        assert_harmless(cleaned)
    assert provider.machines[f"{second.run_id}-1"].sighting.state is InstanceState.RUNNING


def test_a_launch_that_is_followed_ends_with_a_sentence(provider: FakeProvider) -> None:
    provider.scripts = [hostile_to_its_end]
    said = plan("launch", "job.yaml", "--provider", "local", "--yes")
    assert_harmless(said)
    assert (said.code, said.error) == (6, "the run left no complete output")
    assert_harmless(plan("history"))


@pytest.mark.parametrize("line", BAD_LINES, ids=range(len(BAD_LINES)))
def test_each_bad_line_is_skipped_and_counted(line: bytes) -> None:
    store = FakeStore()
    store.put("attempts/1/progress.jsonl", b'{"event":"step","step":1}\n' + line + b'\n{"event":"step","step":2}\n')
    reader = ProgressReader(store, 1)
    assert [said["step"] for said in reader.new_lines()] == [1, 2]
    assert reader.unreadable == 1


def test_unreadable_lines_are_told_once_and_are_a_sign_of_life() -> None:
    store, events = FakeStore(), list[Event]()
    watcher = Watcher(store, 1, events.append)
    path, content = "attempts/1/progress.jsonl", b""
    for line in (b"junk", b"junk\njunk", b"junk"):
        content += line + b"\n"
        store.put(path, content)
        assert watcher.look(Decimal)
    assert not watcher.look(Decimal)
    assert events == [Message("1 line of progress could not be read")]
    assert watcher.story.unreadable == 4


def test_texts_of_good_lines_come_without_control_characters() -> None:
    store = FakeStore()
    store.put("attempts/1/progress.jsonl", b"\n".join(evil_lines()) + b"\n")
    texts = [
        value for line in ProgressReader(store, 1).new_lines() for value in line.values() if isinstance(value, str)
    ]
    assert any("retitled" in text for text in texts)
    assert all(text.isprintable() for text in texts)
    assert not EVIL.isprintable()
