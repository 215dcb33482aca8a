"""What a shell completes behind `plan`: commands, and the values of options and arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.desk import TINY, own_home
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import done_at_once
from tests.doubles.fake_provider import FACTORY, FakeProvider
from tests.unit.planner.cli.command import plan
from trainplan.planner.cli import completion
from trainplan.planner.cli.app import commands


@pytest.fixture
def completes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], list[str]]:
    """What fish gets for a line."""
    own_home(tmp_path, monkeypatch)

    def words(line: str) -> list[str]:
        with monkeypatch.context() as shell:
            shell.setenv("_PLAN_COMPLETE", "complete_fish")
            shell.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
            shell.setenv("_TYPER_COMPLETE_ARGS", line)
            said = plan()
        assert (said.code, said.err) == (0, "")
        return [row.partition("\t")[0] for row in said.out.splitlines() if row]

    return words


LINES = [
    ("plan estimate --provider a", ["aws", "azure"]),
    ("plan estimate --provider l", ["local", "lambda"]),
    ("plan estimate --provider A", ["Aws", "Azure"]),
    ("plan launch job.yaml --provider sl", ["slurm"]),
    ("plan estimate --device tpu-v5", ["tpu-v5e", "tpu-v5p"]),
    ("plan estimate --region europe-west1", ["europe-west1", "europe-west10", "europe-west12"]),
    ("plan estimate --precision amp", ["amp_fp16", "amp_bf16"]),
    ("plan estimate --framework t", ["tensorflow", "torch"]),
    ("plan estimate --market s", ["spot"]),
    ("plan init --model vgg1", ["vgg11", "vgg13", "vgg16", "vgg19"]),
    ("plan init --dataset CI", ["CIfar10", "CIfar100"]),
    ("plan init --recipe v", ["vgg16-imagenet"]),
    ("plan doctor lo", ["local"]),
    ("plan setup g", ["gcp"]),
    ("plan drill s", ["sim"]),
    ("plan burn az", ["azure"]),
    ("plan prices refresh aw", ["aws"]),
    ("plan data upload folder --provider g", ["gcp"]),
    ("plan cleanup --provider l", ["local"]),
    ("plan e", ["estimate", "export"]),
    ("plan stop ", []),
]


@pytest.mark.parametrize(("line", "words"), LINES, ids=[line for line, _ in LINES])
def test_values_are_completed(completes: Callable[[str], list[str]], line: str, words: list[str]) -> None:
    assert completes(line) == words


def test_every_command_is_offered(completes: Callable[[str], list[str]]) -> None:
    assert completes("plan ") == list(commands())


@pytest.fixture
def run_id(completes: Callable[[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A run in this home's journal."""
    monkeypatch.setitem(*FACTORY)
    (tmp_path / "job.yaml").write_text(TINY)
    made = FakeProvider(FakeClock(), [done_at_once], tidy=True)
    fake_provider.PROVIDERS.append(made)
    yield plan("launch", "job.yaml", "--provider", "local", "--yes", "--json").json["run_id"]
    fake_provider.PROVIDERS.remove(made)
    del completes


@pytest.mark.parametrize("command", ["status", "stop", "logs", "attach", "board", "predict", "report"])
def test_runs_are_completed(completes: Callable[[str], list[str]], run_id: str, command: str) -> None:
    assert completes(f"plan {command} {run_id[:4]}") == [run_id]


def test_what_cannot_be_read_completes_to_nothing(
    completes: Callable[[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "journal.sqlite").write_text("no database")
    assert completes("plan status ") == []
    monkeypatch.setenv("PLAN_HOME", "~a-user-that-is-not-there/x")
    assert completion.runs("") == []


def test_a_shell_makes_no_journal(completes: Callable[[str], list[str]], tmp_path: Path) -> None:
    assert completes("plan status ") == []
    assert not (tmp_path / "home").exists()


MODULES = "import sys; from trainplan.planner.cli.main import run; run([]); print(*sys.modules, file=sys.stderr)"


@pytest.mark.parametrize(
    ("line", "module"), [("plan e", ""), ("plan status ", "trainplan.planner.cli.commands.status")]
)
def test_no_more_is_imported_than_the_line_needs(tmp_path: Path, line: str, module: str) -> None:
    """A shell waits for it at every press of the key."""
    shell = {"_PLAN_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_ARGS": line}
    done = subprocess.run(
        [sys.executable, "-c", MODULES],
        env={**os.environ, **shell, "PLAN_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    names = set(done.stderr.split())
    imported = {name for name in names if name.startswith(("trainplan.planner.cli.commands.", "trainplan.extensions."))}
    assert {name for name in imported if name.count(".") > 2} == ({module} if module else set())
    assert not {"boto3", "botocore", "google.auth", "azure.identity", "tensorflow", "numpy", "PIL"} & names
