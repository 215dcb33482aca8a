"""Commands and trackers of other packages, found by their entry points; trainplan's own are in tests/extensions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.builders import a_job
from tests.extensions.track.test_push import a_receipt
from tests.unit.planner.cli.command import plan
from trainplan.planner.cli import app
from trainplan.planner.errors import ExitCode, ThisMachineError
from trainplan.planner.extensions import COMMANDS, TRACKERS, tracker

MODULE = """
from trainplan.planner.extensions import ExtensionCommand

HELLO = ExtensionCommand("Results", "Greet", "acme_cli")
BROKEN = "not a command"


def command(name: str = "you") -> None:
    print("hello", name)


def write(tracker, job, receipt):
    return f"{tracker} has {receipt.run_id}"
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Puts a package with one entry point where Python finds it, as pip would."""

    def installed(group: str, entry: str) -> None:
        files = tmp_path / "site" / "acme_cli-1.0.dist-info"
        files.mkdir(parents=True)
        (files / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-cli\nVersion: 1.0\n")
        (files / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
        (tmp_path / "site" / "acme_cli.py").write_text(MODULE)
        monkeypatch.syspath_prepend(tmp_path / "site")
        forget()

    def forget() -> None:
        app._extensions.cache_clear()
        app._parser.cache_clear()

    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    yield installed
    forget()
    sys.modules.pop("acme_cli", None)


def test_a_command_of_another_package_is_listed_and_runs(install: Callable[[str, str], None]) -> None:
    install(COMMANDS, "hello = acme_cli:HELLO")
    listed = plan("--help").out.partition("\nResults:\n")[2].partition("\n\n")[0]
    assert "  hello       Greet" in listed.splitlines()
    assert plan("hello", "--name", "Ada").out == "hello Ada\n"


@pytest.mark.parametrize("value", ["acme_cli:BROKEN", "acme_cli:NOTHING", "not_there:X"])
def test_one_that_cannot_be_used_is_listed_with_the_reason(install: Callable[[str, str], None], value: str) -> None:
    install(COMMANDS, f"hello = {value}")
    assert "Cannot be used:\n  hello" in plan("--help").out
    typed = plan("hello")
    assert typed.code == ExitCode.BAD_INPUT
    assert typed.error.startswith(f"plan hello cannot be used: {value}")
    assert typed.hint == "update or uninstall acme-cli, which brings it"


def test_a_command_of_the_core_stays_what_it_is(install: Callable[[str, str], None]) -> None:
    install(COMMANDS, "estimate = acme_cli:HELLO")
    assert plan("estimate", "--help").out.startswith("Usage: plan estimate")
    assert "Cannot be used" not in plan("--help").out


def test_a_tracker_of_another_package_is_written_to(install: Callable[[str, str], None]) -> None:
    install(TRACKERS, "acme = acme_cli:write")
    receipt = a_receipt(None)
    assert tracker("acme")("acme", a_job(), receipt) == f"acme has {receipt.run_id}"
    with pytest.raises(ThisMachineError, match="no extension writes to nowhere"):
        tracker("nowhere")
