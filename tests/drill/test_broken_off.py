"""A drill that somebody breaks off: its file has the steps so far, and its machines are ended."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.desk import signed_out
from tests.drill.worlds import NAMES, Table, a_cloud
from tests.faults.points import Points
from tests.unit.planner.cli.command import plan
from trainplan.extensions.drill.drill import clean
from trainplan.extensions.drill.placements import alone
from trainplan.extensions.drill.result import DrillResult, Verdict, read_result
from trainplan.extensions.drill.sheet import BrokenOffError
from trainplan.planner.errors import ExitCode
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Phase
from trainplan.providers import registry
from trainplan.providers.base import Provider, ProviderSettings

WHY = "the drill was interrupted"


@dataclass
class Pressing(Points):
    """Something happens at several points of a drill."""

    numbers: frozenset[int] = frozenset()

    def _reach(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) - 1 in self.numbers:
            self.happens()


def press() -> None:
    raise BrokenOffError(WHY)


def broken_off(table: Table, numbers: set[int], happens: Callable[[], None] = press) -> tuple[DrillResult, list[str]]:
    """A drill in which it happens at these points, and the names of all points."""
    points = Pressing(happens=happens, numbers=frozenset(numbers))
    return table.drill(table.cloud.provider(table.cloud.answer, points)), points.names


def check(table: Table, result: DrillResult) -> None:
    tried = [row.step for row in result.steps if row.verdict is not Verdict.NOT_TRIED]
    assert result.failed == ()
    assert {row.detail for row in result.steps if row.verdict is Verdict.NOT_TRIED} <= {WHY}
    assert [row.step for row in table.results] == tried
    assert table.remaining() == []
    with Journal.open(table.settings.journal) as journal:
        assert {run.phase for run in journal.runs()} <= {Phase.DONE}


@pytest.mark.parametrize("name", NAMES)
def test_the_steps_so_far_are_told_and_nothing_is_left(name: str, tmp_path: Path) -> None:
    """At a tenth, a half and nine tenths of the calls; on the simulated cloud at each fifteenth call."""
    whole = Table(tmp_path / "whole", a_cloud(name))
    _, names = broken_off(whole, set())
    parts = range(0, len(names), 15) if name == "sim" else [len(names) * part // 10 for part in (1, 5, 9)]
    told = set()
    for number in parts:
        table = Table(tmp_path / f"{number}", a_cloud(name))
        result, _ = broken_off(table, {number})
        check(table, result)
        told.add(len(result.proven))
    assert len(told) >= 3, "points in several steps"


def test_who_presses_again_while_machines_are_ended_leaves_them_to_their_timers(tmp_path: Path) -> None:
    _, names = broken_off(Table(tmp_path / "whole", a_cloud("sim")), set())
    at = names.index("after RunInstance")
    table = Table(tmp_path / "home", a_cloud("sim"))
    result, _ = broken_off(table, {at, at + 2})
    assert {row.detail for row in result.steps if row.verdict is Verdict.NOT_TRIED} == {WHY}
    assert table.remaining() != []
    assert "has not ended" in table.messages[-1]
    with Journal.open(table.settings.journal) as journal:
        clean(table.tools(journal))
    assert table.remaining() == []


# --- as it is typed ----------------------------------------------------------------------------------------------

TABLES: list[tuple[Table, Points]] = []


def simulated(settings: ProviderSettings) -> Provider:
    """What the registry calls: the simulated cloud in this process."""
    table, points = TABLES[-1]
    return table.cloud.provider(table.cloud.answer, points)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A computer at which `plan drill sim` is typed in an empty folder."""
    signed_out(monkeypatch)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, value in {"HOME": str(tmp_path), "PLAN_HOME": str(tmp_path / "plan"), "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    made = Table(tmp_path / "plan", a_cloud("sim"))
    monkeypatch.setattr(f"{__name__}.TABLES", [(made, Points())])
    monkeypatch.setitem(registry.FACTORIES, "sim", f"{__name__}:simulated")
    return made


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_machines_and_writes_the_file(kind: signal.Signals, table: Table, tmp_path: Path) -> None:
    handler = signal.getsignal(kind)
    TABLES.append((table, Pressing(happens=lambda: signal.raise_signal(kind), numbers=frozenset({60}))))
    said = plan("drill", "sim", "--yes")
    assert said.code == ExitCode.INTERRUPTED
    assert signal.getsignal(kind) == handler
    (written,) = (tmp_path / "folder").iterdir()
    result = read_result(written)
    assert result.proven
    untried = [row for row in result.steps if row.verdict is Verdict.NOT_TRIED]
    assert {row.detail for row in untried} == {f"the drill was interrupted ({kind.name})"}
    assert "ending its machines" in said.err
    assert table.remaining() == []


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_made(table: Table, tmp_path: Path) -> None:
    said = plan("drill", "sim", "--yes", "--output", tmp_path / "nowhere")
    assert said.code == ExitCode.THIS_MACHINE
    assert f"{tmp_path / 'nowhere'} cannot be written: No such file or directory" in said.error
    assert table.rows() == []


def test_a_result_that_cannot_be_written_goes_to_stdout_and_nothing_is_left(table: Table, tmp_path: Path) -> None:
    """The disk is full, or has gone, when the drill is over."""
    folder = tmp_path / "disk"
    folder.mkdir()
    TABLES.append((table, Pressing(happens=folder.rmdir, numbers=frozenset({60}))))
    said = plan("drill", "sim", "--yes", "--output", folder)
    assert said.code == ExitCode.THIS_MACHINE
    assert said.error.startswith("the drill is over and nothing of it is left, but ")
    assert said.hint == "its result went to stdout: keep that as a file"
    assert not DrillResult.model_validate_json(said.out).failed
    assert table.remaining() == []


@pytest.mark.parametrize("words", [("--yes",), ("--clean",)])
def test_a_second_drill_leaves_the_first_ones_machines_alone(words: tuple[str, ...], table: Table) -> None:
    with Journal.open(table.settings.journal) as journal, alone(table.tools(journal)):
        said = plan("drill", "sim", *words)
    assert said.code == ExitCode.THIS_MACHINE
    assert said.error == "another plan drill sim of this computer is at work"
    assert table.rows() == []
