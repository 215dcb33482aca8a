"""`plan board`: which folder TensorBoard is started on, and why it is not. A package of the test stands for it."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import TINY, own_home
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import done_at_once, waits
from tests.doubles.fake_provider import FakeProvider
from tests.unit.planner.cli.command import plan
from trainplan.workloads.extras import install_hint

TENSORBOARD = """
import json, os, signal, sys
with open(os.environ["TENSORBOARD_ARGUMENTS"], "w", encoding="utf-8") as file:
    json.dump(sys.argv[1:], file)
if "TENSORBOARD_INTERRUPTS" in os.environ:
    os.kill(os.getppid(), signal.SIGINT)
sys.exit(int(os.environ.get("TENSORBOARD_CODE", "0")))
"""


@pytest.fixture(autouse=True)
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """This machine, whose runs are over before anybody looks."""
    own_home(tmp_path, monkeypatch)
    (tmp_path / "job.yaml").write_text(TINY)
    with fake_provider.as_this_machine(FakeProvider(FakeClock(), [done_at_once], tidy=True), monkeypatch) as made:
        yield made


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the TensorBoard of this test writes its command line, as JSON."""
    package = tmp_path / "site" / "tensorboard"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "main.py").write_text(TENSORBOARD)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("TENSORBOARD_ARGUMENTS", str(tmp_path / "arguments.json"))
    return tmp_path / "arguments.json"


def launched(folder: Path, *, with_events: bool = True) -> str:
    run_id: str = plan("launch", "job.yaml", "--provider", "local", "--yes", "--json", "--output", folder).json[
        "run_id"
    ]
    if with_events:
        (folder / "events.out.tfevents.trainplan").write_bytes(b"")
    return run_id


def test_tensorboard_is_started_on_the_models_folder_on_loopback(tmp_path: Path, arguments: Path) -> None:
    run_id = launched(tmp_path / "model")
    said = plan("board", run_id, "--port", "7007")
    assert (said.code, said.out) == (0, f"{tmp_path / 'model'} at http://127.0.0.1:7007/\n")
    there = [f"--logdir={tmp_path / 'model'}", "--host", "127.0.0.1", "--port", "7007"]
    assert json.loads(arguments.read_text(encoding="utf-8")) == there
    assert plan("board", run_id, "--json").json == {
        "folder": str(tmp_path / "model"),
        "address": "http://127.0.0.1:6006/",
    }


def test_a_tensorboard_that_fails_is_an_error(tmp_path: Path, arguments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORBOARD_CODE", "3")
    said = plan("board", launched(tmp_path / "model"))
    assert (said.code, said.error) == (9, "TensorBoard ended with code 3")
    assert arguments.exists()


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_ctrl_c_is_how_it_ends(tmp_path: Path, arguments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORBOARD_INTERRUPTS", "1")
    said = plan("board", launched(tmp_path / "model"))
    assert (said.code, said.err.count("error: ")) == (0, 0)
    assert arguments.exists()


def test_without_event_files_nothing_is_started(tmp_path: Path, arguments: Path) -> None:
    run_id = launched(tmp_path / "model", with_events=False)
    said = plan("board", run_id)
    assert said.code == 2
    assert said.error == f"run {run_id} has no TensorBoard event files in {tmp_path / 'model'}"
    assert "framework: tensorflow" in said.hint
    assert not arguments.exists()


def test_a_run_that_goes_on_has_none_yet(arguments: Path, provider: FakeProvider) -> None:
    provider.scripts[:] = [waits(3600, done_at_once)]
    run_id = plan("launch", "job.yaml", "--provider", "local", "--yes", "--json", "--detach").json["run_id"]
    said = plan("board", run_id)
    assert (said.code, said.hint) == (2, "they are fetched with the model, when the run has ended")
    assert not arguments.exists()


def test_where_tensorboard_is_not_installed_the_extra_is_named(tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorboard") is not None:
        pytest.skip("TensorBoard is installed here")
    said = plan("board", launched(tmp_path / "model"))
    assert (said.code, said.error) == (9, "plan board needs TensorBoard")
    assert said.hint == install_hint("board")


def test_an_unknown_run_is_bad_input() -> None:
    assert plan("board", "nosuch").code == 2
