"""A run that nobody has looked at for hours: the command line against the simulated cloud, whose time a test moves."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.clock import NOON
from tests.unit.planner.cli.command import plan
from tests.unit.providers.sim.worlds import JOB
from trainplan.planner.runs.cleanup.last_cleanup import LastCleanup, keep_cleanup, last_cleanup
from trainplan.providers import registry
from trainplan.providers.base import ProviderSettings
from trainplan.providers.sim.cloud import SimCloud
from trainplan.providers.sim.provider import SimProvider
from trainplan.providers.sim.scenario import Script

HOURS = 3600


class Cloud:
    """The simulated cloud of a home folder, in which time passes only when it is told to."""

    def __init__(self, home: Path, scenario: Path) -> None:
        self.home = home
        options = {"sim_speed": "0", "sim_scenario": str(scenario)}
        settings = ProviderSettings(home=home, options=options, environment={}, now=lambda: NOON)
        provider = registry.provider("sim", settings)
        assert isinstance(provider, SimProvider)
        assert isinstance(provider.api, SimCloud)
        self.provider, self._api = provider, provider.api

    def advance(self, seconds: float) -> None:
        self._api.advance(seconds)

    def machines(self) -> list[dict[str, Any]]:
        return [row for row in self._api.ledger()["resources"] if row["kind"] == "instance"]

    def living(self) -> list[str]:
        return [row["id"] for row in self.machines() if row["ended_at"] is None]

    def script(self, **fault: Any) -> None:
        """One more thing that goes wrong (trainplan.providers.sim.scenario.FaultRule)."""
        self._api.play(Script.model_validate({"faults": [fault]}))


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(f"reclaims_per_hour = 0\nstart = {NOON.isoformat()}\n")
    home = tmp_path / "home"
    monkeypatch.setenv("PLAN_HOME", str(home))
    monkeypatch.setenv("PLAN_SIM_SPEED", "0")
    monkeypatch.setenv("PLAN_SIM_SCENARIO", str(scenario))
    monkeypatch.chdir(tmp_path)
    return Cloud(home, scenario)


@pytest.fixture
def launched(cloud: Cloud) -> str:
    """A run of about 2 h 10 min, launched as a person does it, and left alone for two hours."""
    job = cloud.home.parent / "job.json"
    job.write_text(JOB.model_copy(update={"epochs": 470}).to_json())
    placement = ("--provider", "sim", "--device", "T4", "--market", "on_demand", "--deadline", "30h")
    said = plan("launch", job, *placement, "--detach", "--yes", "--json")
    assert said.code == 0, said.err
    (row,) = plan("status", "--json").json
    cloud.advance(2 * HOURS)
    return str(row["run_id"])


def step_of(progress: str) -> int:
    return int(progress.split()[-3]) if " of " in progress else 0


def test_status_leaves_a_machine_alone_that_trains(cloud: Cloud, launched: str) -> None:
    before = cloud.living()
    said = plan("status", "--json")
    assert said.code == 0, said.err
    (row,) = said.json
    assert (row["run_id"], row["phase"], row["attempts"]) == (launched, "running", 1)
    assert (cloud.living(), len(before)) == (before, 1)
    cloud.advance(240)
    (later,) = plan("status", "--json").json
    assert step_of(later["progress"]) > step_of(row["progress"]) > 0, "training goes on"
    assert cloud.living() == before


def test_stop_ends_a_run_with_its_checkpoint_and_says_stopped(cloud: Cloud, launched: str) -> None:
    said = plan("stop", launched, "--json")
    assert said.code == 0, said.err
    assert (said.json["outcome"], said.json["attempts"], cloud.living()) == ("stopped", 1, [])
    assert said.json["steps"] > 0


def test_attach_follows_the_machine_that_trains_to_its_end(cloud: Cloud, launched: str) -> None:
    said = plan("attach", launched, "--json")
    assert said.code == 0, said.err
    assert (said.json["outcome"], said.json["attempts"]) == ("succeeded", 1)
    assert len(cloud.machines()) == 1


# --- what nobody has asked the providers -------------------------------------------------------------------------


def test_status_says_what_the_journal_knows_and_who_was_asked_beside_it(cloud: Cloud, launched: str) -> None:
    """The journal is lost, its machine bills: nobody says that nothing is running."""
    for file in cloud.home.glob("journal.sqlite*"):
        file.unlink()
    refused = plan("status")
    assert "plan cleanup" in refused.hint
    shutil.rmtree(cloud.home / "locks")
    said = plan("status")
    assert said.out == "no active runs; plan cleanup asks the providers for leftovers\n"
    assert plan("status", "--json").json == []
    assert cloud.living(), launched


def test_status_tells_when_a_cleanup_had_its_last_answer(cloud: Cloud) -> None:
    one = plan("cleanup", "--provider", "sim", "--dry-run")
    assert (one.code, last_cleanup(cloud.home)) == (0, None), "one provider is not all of them"
    cleaned = plan("cleanup", "--dry-run")
    assert cleaned.code == 0, cleaned.err
    kept = last_cleanup(cloud.home)
    assert kept is not None
    assert "sim" in kept.providers
    said = plan("status")
    assert said.out.startswith(
        "no active runs; plan cleanup asks the providers for leftovers: local, sim last answered"
    )


def test_a_cleanup_without_every_answer_is_none(cloud: Cloud) -> None:
    cloud.script(operation="ListInstances", where={"region": "sim-west"}, code="PlacementUnavailable", times=None)
    cleaned = plan("cleanup", "--dry-run")
    assert (cleaned.code, last_cleanup(cloud.home)) == (7, None)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"at": "soon", "asked": []}', '{"at": 5, "asked": []}'])
def test_a_damaged_note_of_a_cleanup_is_none(tmp_path: Path, text: str) -> None:
    keep_cleanup(tmp_path / "home", LastCleanup(NOON, ("aws",)))
    assert last_cleanup(tmp_path / "home") == LastCleanup(NOON, ("aws",))
    (tmp_path / "home" / "last-cleanup.json").write_text(text)
    assert last_cleanup(tmp_path / "home") is None
