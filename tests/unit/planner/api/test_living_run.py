"""A job that is launched while a run of it lives: it is attached to, unless another run is wanted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.builders import a_run
from tests.desk import TINY, own_home
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import RUNNING, FakeMachine, Sighting, done_at_once, ended_at_once
from tests.doubles.fake_provider import FakeProvider
from tests.doubles.terminal import FakeTerminal
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.api.living_run import Joined, ask_about, living_text
from trainplan.planner.errors import BadInputError, DeclinedError, ExitCode, ThisMachineError
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.run import Phase
from trainplan.providers.base import EndKind, LaunchRequest


@dataclass
class Preparing(FakeProvider):
    """Another person types something while the first launch is being prepared: after its look, before its record."""

    meanwhile: list[Callable[[], object]] = field(default_factory=list)

    def prepare(self, request: LaunchRequest, report: Callable[[str], None]) -> None:
        if self.meanwhile:
            self.meanwhile.pop()()
        super().prepare(request, report)


def trains_until_asked(machine: FakeMachine) -> Iterator[Sighting]:
    machine.start()
    machine.train(5, 4000.0)
    while not machine.stop_asked:
        yield RUNNING
    machine.checkpoint()
    yield from ended_at_once(EndKind.STOPPED)(machine)


@pytest.fixture(autouse=True)
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Preparing]:
    own_home(tmp_path, monkeypatch)
    (tmp_path / "job.yaml").write_text(TINY)
    with fake_provider.as_this_machine(Preparing(FakeClock(), [trains_until_asked], tidy=True), monkeypatch) as made:
        yield made


def launch(*more: object) -> CommandResult:
    return plan("launch", "job.yaml", "--provider", "local", "--json", *more)


def live_runs(tmp_path: Path) -> list[str]:
    with Journal.open(tmp_path / "home" / "journal.sqlite") as journal:
        return [run.run_id for run in journal.live()]


def test_the_same_launch_again_attaches_to_the_run_that_lives(tmp_path: Path, provider: Preparing) -> None:
    first = launch("--yes", "--detach").json["run_id"]
    again = launch("--yes", "--detach")
    assert (again.code, again.json["run_id"]) == (0, first)
    assert f"run {first} of this job is running at " in again.err
    assert ": attaching to it (--another launches another)" in again.err
    assert (len(provider.machines), live_runs(tmp_path)) == (1, [first])


def test_what_a_run_was_launched_with_holds_for_whoever_attaches_and_is_told(
    tmp_path: Path, provider: Preparing
) -> None:
    del provider
    first = launch("--yes", "--detach", "--deadline", "2h").json["run_id"]
    same = launch("--yes", "--detach", "--deadline", "2h")
    assert "keeps what it was launched with" not in same.err
    other = launch("--yes", "--detach", "--deadline", "5h", "--budget", "7", "--output", tmp_path / "elsewhere")
    assert f"run {first} keeps what it was launched with: deadline 2h 00m after its launch, not 5h 00m; " in other.err
    assert "budget none, not $7.00; model to " in other.err
    assert f", not {tmp_path / 'elsewhere'}" in other.err


def test_whoever_attaches_that_way_gets_the_receipt_of_the_run(provider: Preparing) -> None:
    provider.scripts = [done_at_once]
    first = launch("--yes", "--detach").json["run_id"]
    again = launch("--yes")
    assert (again.code, again.json["run_id"], again.json["outcome"]) == (0, first, "succeeded")
    assert len(provider.machines) <= 1


def test_a_run_that_has_ended_meanwhile_is_collected_and_not_said_to_boot(tmp_path: Path, provider: Preparing) -> None:
    """Nine hours after the launch it was said to boot, and its address went on billing."""
    provider.scripts = [done_at_once]
    first = launch("--yes", "--detach", "--output", tmp_path / "model").json["run_id"]
    again = launch("--yes", "--detach")
    assert (again.code, again.json["run_id"], again.json["outcome"]) == (0, first, "succeeded")
    assert again.err.endswith(f"run {first} of this job had ended: succeeded\n")
    assert (tmp_path / "model" / "model.keras").exists()
    assert live_runs(tmp_path) == []


def test_a_job_that_has_been_trained_is_not_trained_again_unasked(tmp_path: Path, provider: Preparing) -> None:
    provider.scripts = [done_at_once]
    first = launch("--yes", "--output", tmp_path / "model").json["run_id"]
    text = f"has trained this very job, and its model is in {tmp_path / 'model'}: "
    asked = launch()
    assert (asked.code, len(provider.machines)) == (2, 1), "without --yes somebody is asked"
    assert f"run {first} of " in asked.err
    assert f"{text}this launch trains it once more\n" in asked.err
    again = launch("--yes")
    assert (again.code, again.json["run_id"], again.json["outcome"]) == (0, first, "succeeded")
    assert f"{text}nothing was launched (--fresh or --another trains it once more)" in again.err
    elsewhere = launch("--yes", "--output", tmp_path / "elsewhere")
    assert (elsewhere.code, elsewhere.hint) == (ExitCode.REFUSED, "--fresh or --another trains it once more")
    for option in ("--fresh", "--another"):
        provider.scripts = [done_at_once]
        other = launch("--yes", option)
        assert (other.code, "has trained this very job" in other.err) == (0, False)
        assert other.json["run_id"] != first
        shutil.rmtree(other.json["model_folder"])
    shutil.rmtree(tmp_path / "model")
    provider.scripts = [done_at_once]
    assert launch("--yes").json["run_id"] != first, "without its model it is trained again"


def test_another_run_is_launched_where_that_is_asked_for(tmp_path: Path, provider: Preparing) -> None:
    first = launch("--yes", "--detach").json["run_id"]
    second = launch("--yes", "--detach", "--another").json["run_id"]
    assert sorted(live_runs(tmp_path)) == sorted({first, second})
    assert len(provider.machines) == 2


def test_without_somebody_to_ask_the_run_is_named_and_nothing_is_launched(provider: Preparing) -> None:
    first = launch("--yes", "--detach").json["run_id"]
    again = launch()
    assert again.code == 2
    assert again.error.startswith(f"run {first} of this job is running at ")
    assert (again.hint, len(provider.machines)) == (
        "--yes attaches to it, --another launches another run of the job",
        1,
    )


def test_a_client_that_died_between_record_and_create_leaves_a_run_that_is_gone_on_with(
    tmp_path: Path, provider: Preparing
) -> None:
    first = launch("--yes", "--detach").json["run_id"]
    with Journal.open(tmp_path / "home" / "journal.sqlite") as journal:
        journal._db.execute("DELETE FROM attempts")
        journal._db.execute(
            """UPDATE runs SET run_json = json_patch(run_json, '{"phase": "planned", "attempts": []}')"""
        )
    provider.machines.clear()
    assert launch("--yes", "--detach").json["run_id"] == first
    assert len(provider.machines) == 1


def test_another_job_and_a_run_that_is_done_are_not_in_the_way(tmp_path: Path, provider: Preparing) -> None:
    launch("--yes", "--detach")
    (tmp_path / "job.yaml").write_text(TINY + "seed: 1\n")
    provider.scripts = [done_at_once]
    first = launch("--yes").json["run_id"]
    assert launch("--yes", "--fresh").json["run_id"] != first
    assert len(live_runs(tmp_path)) == 1


def test_a_measuring_run_is_not_in_the_way(tmp_path: Path) -> None:
    launch("--yes", "--detach")
    with Journal.open(tmp_path / "home" / "journal.sqlite") as journal:
        digest = journal.live()[0].job_digest
        journal._db.execute("UPDATE runs SET run_json = json_set(run_json, '$.model_folder', '')")
        assert journal.live_of(digest) == []


@pytest.mark.parametrize(
    ("typed", "raised"),
    [
        (["\n"], Joined),
        (["y\n"], Joined),
        (["n\n", "y\n"], None),
        (["n\n", "\n"], DeclinedError),
        (["n\n", "n\n"], DeclinedError),
        ([""], BadInputError),
        ([], BadInputError),
    ],
)
def test_a_person_chooses_between_the_run_that_lives_another_one_and_neither(
    typed: list[str | None], raised: type[BaseException] | None
) -> None:
    """Attaching is what an empty line means; whoever does not answer launches nothing."""
    run = a_run(Phase.RUNNING, attempts=1)
    clock = FakeClock()
    terminal = FakeTerminal(clock, typed)
    if raised is None:
        ask_about(run, terminal, clock)
    else:
        with pytest.raises(raised):
            ask_about(run, terminal, clock)
    assert terminal.written.startswith(f"run {run.run_id} of this job is running at ")


# --- two launches at the very same moment --------------------------------------------------------------------------


def test_of_two_launches_at_the_same_moment_the_second_attaches_to_the_first(
    tmp_path: Path, provider: Preparing
) -> None:
    """The other launch begins its run after this one has looked for a run that lives, and before it records its own."""
    other: list[CommandResult] = []
    provider.meanwhile = [lambda: other.append(launch("--yes", "--detach"))]
    said = launch("--yes", "--detach")
    assert said.json["run_id"] == other[0].json["run_id"]
    assert (len(provider.machines), len(live_runs(tmp_path))) == (1, 1)


def test_two_launches_at_the_same_moment_that_go_on_with_an_ended_run_have_one_machine(provider: Preparing) -> None:
    provider.scripts = [ended_at_once(EndKind.STOPPED), trains_until_asked]
    first = launch("--yes").json["run_id"]
    provider.meanwhile = [lambda: launch("--yes", "--detach")]
    assert launch("--yes", "--detach").json["run_id"] == first
    live = [machine for machine in provider.machines.values() if machine.request.attempt > 1]
    assert len(live) == 1


def test_only_one_launch_of_a_job_decides_at_a_time(tmp_path: Path) -> None:
    first, second = RunLocks(tmp_path), RunLocks(tmp_path)
    with first.deciding("0011"):
        with pytest.raises(ThisMachineError, match="another plan launch of this job"), second.deciding("0011", 0):
            raise AssertionError
        with second.deciding("2233", 0):
            pass
    with second.deciding("0011", 0):
        pass


def test_the_phase_of_a_run_is_told_in_words() -> None:
    assert "of this job is tearing down at " in living_text(a_run(Phase.TEARING_DOWN, attempts=1))
