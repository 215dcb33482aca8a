"""Two homes on one account of the simulated cloud, a home that was copied, and one of the version before."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.sim import DirectApi, NamedTrainer
from tests.desk import signed_out
from tests.doubles.clock import NOON
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.errors import ExitCode
from trainplan.planner.home.client import Client, own_client
from trainplan.planner.runs.decision.next_action import TIMER_GRACE
from trainplan.planner.runs.journal.reader import readable_runs
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.settings import load_settings
from trainplan.providers import registry
from trainplan.providers.base import ProviderSettings
from trainplan.providers.sim.ledger import ledger
from trainplan.providers.sim.provider import SimProvider
from trainplan.providers.sim.scenario import Scenario
from trainplan.providers.sim.world import World

RULES = Scenario.model_validate({"reclaims_per_hour": 0, "boot": ["60s", "60s"], "listing_lag": "0s"})
WORLDS: list[World] = []
JOB = """\
name: vgg16-cifar10
model: {preset: vgg16}
data: {name: cifar10}
epochs: 900
global_batch_size: 128
checkpoint_every: 5m
"""


def make(settings: ProviderSettings) -> SimProvider:
    """What the registry calls: every home reaches the one cloud."""
    del settings
    return SimProvider(RULES, DirectApi(WORLDS[-1]))


class Person:
    """Somebody at a computer, with one home at a time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._set = monkeypatch.setenv
        self.world = World(RULES, NOON)

    def has(self, **rules: object) -> None:
        """Another cloud, under these rules."""
        self.world = World(RULES.model_copy(update=rules), NOON, NamedTrainer())
        WORLDS.append(self.world)

    def sits_at(self, computer: str, home: str) -> Client:
        """The client that commands are from now on."""
        self._set("PLAN_COMPUTER", computer)
        self._set("PLAN_HOME", str(self.folder / home))
        return own_client(self.settings)

    @property
    def settings(self) -> Any:
        return load_settings(os.environ, self.folder / "none")

    def launches(self) -> CommandResult:
        said = plan("launch", "job.yaml", "--provider", "sim", "--deadline", "2d", "--detach", "--yes", "--fresh")
        assert said.code == 0, said.err
        return said

    def cleanups(self, *more: str) -> CommandResult:
        return plan("cleanup", "--provider", "sim", "--yes", "--json", *more)

    def run(self) -> Run:
        (run,) = (readable_runs(self.settings.journal) or {}).values()
        return run

    def passes(self, **span: float) -> None:
        self.world.advance(self.world.now + timedelta(**span))

    @property
    def machines(self) -> list[str]:
        """What computes at this moment."""
        rows = ledger(self.world.state, self.world.now)["resources"]
        return [row["id"] for row in rows if row["kind"] == "instance" and row["ended_at"] is None]


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    signed_out(monkeypatch)
    made = Person(tmp_path, monkeypatch)
    monkeypatch.setitem(registry.FACTORIES, "sim", f"{__name__}:make")
    monkeypatch.setattr(f"{__name__}.WORLDS", [made.world])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    return made


def fates(result: CommandResult) -> list[str]:
    assert result.code == 0, result.err
    return [row["fate"] for row in result.json if row["kind"] == "instance"]


@pytest.mark.parametrize("options", [(), ("--all",)])
def test_a_cleanup_leaves_the_other_homes_live_machine_alone(person: Person, options: tuple[str, ...]) -> None:
    """Both containers have the same host name and home; what they do not share is the folder itself."""
    ours = person.sits_at("trainer", "one/root")
    person.launches()
    person.passes(hours=1)
    theirs = person.sits_at("trainer", "two/root")
    assert ours.id != theirs.id
    assert fates(person.cleanups(*options)) == ["foreign"]
    assert len(person.machines) == 1
    person.sits_at("trainer", "one/root")
    assert fates(person.cleanups(*options)) == ["live"]
    assert len(person.machines) == 1


def test_a_person_who_says_so_and_sees_whose_it_is_ends_it(person: Person) -> None:
    ours = person.sits_at("alpha", "one")
    person.launches()
    person.sits_at("beta", "two")
    table = plan("cleanup", "--provider", "sim", "--dry-run", "--client", "any")
    assert ours.id in table.out
    assert (
        plan("cleanup", "--provider", "sim", "--client", "any").code == ExitCode.BAD_INPUT
    )  # the input is not a terminal, so nobody can be asked
    said = plan("cleanup", "--provider", "sim", "--yes", "--client", "0123456789abcdef")
    assert "nothing there was created by client 0123456789abcdef" in said.err
    assert len(person.machines) == 1
    person.cleanups("--client", ours.id)
    assert person.machines == []


def test_what_another_client_left_past_its_deadline_is_ended(person: Person) -> None:
    person.has(machine_timer_works=False, cloud_timer_works=False)
    (person.folder / "job.yaml").write_text(JOB.replace("vgg16-cifar10", "wait"))  # its trainer hangs
    person.sits_at("alpha", "one")
    person.launches()
    person.passes(days=2)
    person.sits_at("beta", "two")
    assert fates(person.cleanups()) == ["foreign"]
    person.passes(seconds=TIMER_GRACE.total_seconds() + 60)
    assert fates(person.cleanups()) == ["expired"]
    assert person.machines == []


@pytest.fixture
def copied(person: Person) -> Person:
    """A home with a run that trains, copied to another computer, at which the person sits now."""
    person.sits_at("alpha", "home")
    person.launches()
    person.passes(minutes=5)
    shutil.copytree(person.folder / "home", person.folder / "copy")
    person._set("PLAN_COMPUTER", "beta")
    person._set("PLAN_HOME", str(person.folder / "copy"))
    return person


def test_status_in_a_copy_says_whose_the_runs_are_and_acts_on_none(copied: Person) -> None:
    copied.passes(hours=1)
    first, second = plan("status"), plan("status")
    notice = "is a copy of "
    assert (notice in first.err, notice in second.err) == (True, False)
    run = copied.run()
    assert run.run_id not in first.out
    assert f"left to client {run.client} on " in second.err
    assert f"{run.run_id}; plan attach RUN --client any takes one over" in second.err
    assert plan("status", run.run_id).code == 0
    assert len(copied.machines) == 1
    assert copied.run() == run


@pytest.mark.parametrize("command", ["stop", "attach"])
def test_stop_and_attach_in_a_copy_say_how_to_take_a_run_over(copied: Person, command: str) -> None:
    run = copied.run()
    said = plan(command, run.run_id)
    assert said.code == ExitCode.REFUSED
    assert said.error.startswith(f"run {run.run_id} was launched by client {run.client} on ")
    assert f"plan stop {run.run_id} --client any ends it" in said.hint
    assert len(copied.machines) == 1
    assert copied.run() == run
    assert plan(command, run.run_id, "--client", "all").code == ExitCode.BAD_INPUT


def test_the_same_launch_in_a_copy_needs_another_and_is_a_run_of_its_own(copied: Person) -> None:
    run, before = copied.run(), copied.machines
    words = ("launch", "job.yaml", "--provider", "sim", "--deadline", "2d", "--detach", "--yes")
    refused = plan(*words)
    assert refused.code == ExitCode.REFUSED
    assert refused.error.startswith(f"run {run.run_id} of this job is booting at ")
    assert f"it is left to client {run.client} on " in refused.error
    assert "--another launches another run" in refused.hint
    assert copied.machines == before
    said = plan(*words, "--another")
    assert said.code == 0, said.err
    assert set(before) < set(copied.machines)
    runs = readable_runs(copied.settings.journal)
    assert runs is not None
    assert runs[run.run_id] == run
    assert len(runs) == 2


@pytest.mark.parametrize("hours", [0.5, 6])
def test_a_cleanup_in_a_copy_ends_nothing_of_the_original(copied: Person, hours: float) -> None:
    """Whatever the copied journal says: that the run lives, or that it is over."""
    copied.passes(hours=hours)
    before = copied.machines
    assert set(fates(copied.cleanups("--all"))) <= {"foreign"}
    assert copied.machines == before
    stored = copied.cleanups("--stored")
    assert "no ended run of this" in stored.err


def test_stop_in_a_copy_ends_the_run_for_whoever_says_any(copied: Person) -> None:
    run = copied.run()
    said = plan("stop", run.run_id, "--client", "any")
    assert f"was launched by client {run.client}; this home takes it over" in said.err
    assert copied.machines == []
    ended = copied.run()
    assert (ended.phase, ended.outcome, ended.taken_over) == (Phase.DONE, Outcome.STOPPED, True)


def test_a_run_that_was_taken_over_is_ours(copied: Person) -> None:
    run = copied.run()
    assert plan("attach", run.run_id, "--client", "any", "--json").code == 0
    ended = copied.run()
    assert (ended.outcome, ended.taken_over, len(ended.attempts)) == (Outcome.SUCCEEDED, True, 1)


def test_the_original_goes_on_as_if_nothing_had_happened(copied: Person) -> None:
    plan("status")
    copied.cleanups()
    copied.sits_at("alpha", "home")
    said = plan("attach", copied.run().run_id)
    assert said.code == 0, said.err
    assert copied.run().outcome is Outcome.SUCCEEDED


def test_the_original_leaves_alone_what_a_copy_has_taken_over_and_launched(copied: Person) -> None:
    """The copy stops the run and goes on with it; the original's journal still has it live on its old machine."""
    name = copied.run().run_id
    plan("stop", name, "--client", "any")
    again = plan("launch", "job.yaml", "--provider", "sim", "--deadline", "2d", "--detach", "--yes")
    assert again.code == 0, again.err
    assert copied.run().run_id == name
    (machine,) = copied.machines
    copied.passes(minutes=10)
    copied.sits_at("alpha", "home")
    said = plan("status")
    assert said.code == ExitCode.TEARDOWN_UNVERIFIED
    assert machine in said.error
    assert f"plan stop {name} --client any ends it all the same" in said.hint
    assert copied.machines == [machine]
    plan("stop", name, "--client", "any")
    assert copied.machines == []


def test_a_copy_does_not_go_on_from_the_originals_checkpoint(person: Person) -> None:
    """Both would write into one run directory."""
    person.sits_at("alpha", "home")
    person.launches()
    person.passes(minutes=15)
    name = person.run().run_id
    plan("stop", name)
    shutil.copytree(person.folder / "home", person.folder / "copy")
    person.sits_at("beta", "copy")
    said = plan("launch", "job.yaml", "--provider", "sim", "--deadline", "2d", "--detach", "--yes")
    assert f"run {name} of this job is of client " in said.err
    assert len(readable_runs(person.settings.journal) or {}) == 2


@pytest.fixture
def shared(person: Person) -> Person:
    """A home on which a run was launched from one login node; the person sits at another one now."""
    person.sits_at("alpha", "home")
    person.launches()
    person.passes(minutes=5)
    person._set("PLAN_COMPUTER", "beta")
    return person


def test_another_computer_of_one_home_attaches_to_the_run_and_follows_it(shared: Person) -> None:
    """It rented a second machine for the job, and status said that nothing is live."""
    run, before = shared.run(), shared.machines
    again = plan("launch", "job.yaml", "--provider", "sim", "--deadline", "2d", "--detach", "--yes")
    assert (again.code, shared.machines) == (0, before), again.err
    assert "is used on " in again.err
    assert "is a copy of" not in again.err
    shown = plan("status")
    assert run.run_id in shown.out
    assert "left to" not in shown.err
    assert plan("attach", run.run_id, "--json").code == 0
    assert shared.run().outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}"])
def test_a_home_with_a_damaged_client_file_keeps_its_runs(shared: Person, text: str) -> None:
    """It disowned them: status did not show them, stop refused, a launch rented a second machine."""
    shared.sits_at("alpha", "home")
    run, before = shared.run(), shared.machines
    (shared.folder / "home" / "client.json").write_text(text)
    again = plan("launch", "job.yaml", "--provider", "sim", "--deadline", "2d", "--detach", "--yes")
    assert (again.code, shared.machines) == (0, before), again.err
    assert "the runs in its journal stay its own" in again.err
    assert run.run_id in plan("status").out
    stopped = plan("stop", run.run_id)
    assert (stopped.code, shared.machines) == (0, []), stopped.err


@pytest.mark.parametrize("is_there", [True, False])
def test_an_empty_or_missing_journal_beside_the_locks_of_runs_is_told_and_nothing_is_launched(
    shared: Person, is_there: bool
) -> None:
    shared.sits_at("alpha", "home")
    run, before = shared.run(), shared.machines
    journal = shared.folder / "home" / "journal.sqlite"
    journal.unlink()
    if is_there:
        journal.write_bytes(b"")
    for command in (("status",), ("launch", "job.yaml", "--provider", "sim", "--deadline", "2d", "--detach", "--yes")):
        said = plan(*command)
        assert said.code == ExitCode.THIS_MACHINE
        assert f"is missing or empty, and this home has launched 1 runs, the newest {run.run_id}" in said.error
        journal.unlink(missing_ok=not is_there)  # a look leaves an empty one
        if is_there:
            journal.write_bytes(b"")
    assert shared.machines == before
    assert plan("stop", run.run_id).code == 0
    assert shared.machines == []


def test_a_model_at_home_whose_record_was_lost_is_said_and_not_trained_again(person: Person) -> None:
    person.sits_at("alpha", "home")
    words = ("launch", "job.yaml", "--provider", "sim", "--deadline", "2d", "--yes")
    assert plan(*words).code == 0
    (model,) = person.folder.glob("vgg16-cifar10-*")
    shutil.rmtree(person.folder / "home")
    again = plan(*words, "--detach")
    assert again.code == ExitCode.REFUSED
    assert f"the trained model of this very job is in {model}" in again.error
    assert again.hint == "--fresh trains it anew"
    assert person.machines == []
    (person.folder / "job.yaml").write_text(JOB.replace("epochs: 900", "epochs: 901"))
    assert plan(*words, "--detach").code == 0, "another job"
