"""What befalls machines in the simulated cloud: timers, spot, maintenance, and the end of their trainer."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.unit.providers.sim.worlds import Practice
from trainplan.providers.sim.api import RefusedError

HOUR = timedelta(hours=1)
SHORT = timedelta(minutes=10)


def life_of(practice: Practice, machine: str) -> timedelta:
    """How long after its creation it stopped billing."""
    row = practice.row(machine)
    return datetime.fromisoformat(row["ended_at"]) - datetime.fromisoformat(row["created_at"])


def state(practice: Practice, run: str = "r1") -> str:
    return str(json.loads(practice.read("attempts/1/status.json", run))["state"])


def test_a_machine_ends_itself_when_its_trainer_is_done() -> None:
    practice = Practice()
    machine = practice.launch(lasting=HOUR)
    practice.wait(minutes=30)
    assert practice.look(machine)["exitCode"] == 0
    assert practice.row(machine)["why"] == "InstanceInitiatedShutdown"
    assert timedelta(minutes=20) < life_of(practice, machine) < timedelta(minutes=30)
    assert practice.ledger["left"] == []


@pytest.mark.parametrize(
    ("works", "why", "late"),
    [
        ({}, "InstanceInitiatedShutdown", timedelta(seconds=-2)),
        ({"machine_timer_works": False}, "InstanceInitiatedShutdown", timedelta(seconds=-2)),
    ],
)
def test_the_trainer_ends_before_its_deadline(works: dict[str, Any], why: str, late: timedelta) -> None:
    practice = Practice(works)
    machine = practice.launch(lasting=SHORT)
    practice.wait(hours=1)
    assert (practice.row(machine)["why"], life_of(practice, machine)) == (why, SHORT + late)
    assert state(practice) == "deadline"


@pytest.mark.parametrize(
    ("works", "why", "late"),
    [
        ({}, "MachineDeadline", timedelta(0)),
        ({"machine_timer_works": False}, "ScheduledDelete", timedelta(minutes=5)),
        ({"cloud_timer_works": False}, "MachineDeadline", timedelta(0)),
        ({"machine_timer_works": False, "timer_grace": "1m"}, "ScheduledDelete", timedelta(minutes=1)),
    ],
)
def test_a_machine_that_trains_nothing_is_ended_by_its_timers(works: dict[str, Any], why: str, late: timedelta) -> None:
    practice = Practice(works)
    machine = practice.launch(lasting=SHORT)
    practice.world.files.delete("r1", "job.json")
    practice.wait(hours=1)
    assert (practice.row(machine)["why"], life_of(practice, machine)) == (why, SHORT + late)
    assert practice.ledger["left"] == []


def test_without_any_timer_it_lives_for_ever() -> None:
    practice = Practice({"machine_timer_works": False, "cloud_timer_works": False})
    machine = practice.launch(lasting=SHORT)
    practice.world.files.delete("r1", "job.json")
    practice.wait(days=300)
    assert machine in practice.ledger["left"]


def test_a_deadline_in_the_past_ends_it_as_it_boots() -> None:
    practice = Practice()
    machine = practice.launch(lasting=timedelta(seconds=-1))
    practice.wait(minutes=2)
    assert (practice.row(machine)["why"], life_of(practice, machine)) == ("MachineDeadline", timedelta(minutes=1))


def test_a_schedule_is_a_timer_that_has_to_be_made_and_cleaned_up() -> None:
    practice = Practice({"standing_reaper": False, "machine_timer_works": False})
    machine = practice.launch(lasting=SHORT)
    practice.world.files.delete("r1", "job.json")
    at = practice.world.now + SHORT
    asked = {"instanceToken": "r1-1", "at": at.isoformat(), "labels": {"trainplan-run": "r1"}}
    made = practice.call("CreateSchedule", **asked)
    assert practice.call("CreateSchedule", **asked) == made
    practice.wait(minutes=9)
    assert practice.ids("ListSchedules") == [made["id"]]
    practice.wait(hours=1)
    assert (practice.row(machine)["why"], life_of(practice, machine)) == ("ScheduledDelete", SHORT)
    assert practice.ledger["left"] == []  # it deletes itself once it has fired


def test_a_schedule_outlives_a_machine_that_ended_earlier() -> None:
    practice = Practice({"standing_reaper": False})
    machine = practice.launch(lasting=timedelta(days=3))
    at = practice.world.now + timedelta(days=3)
    made = practice.call("CreateSchedule", instanceToken="r1-1", at=at.isoformat(), labels={"trainplan-run": "r1"})
    practice.call("DeleteInstance", id=machine)
    practice.wait(hours=2)
    assert practice.ledger["left"] == [made["id"]]
    practice.call("DeleteSchedule", id=made["id"])
    practice.wait(seconds=5)
    assert practice.ledger["left"] == []


def test_nothing_is_scheduled_for_a_machine_that_is_dead() -> None:
    practice = Practice({"standing_reaper": False})
    practice.call("DeleteInstance", id=practice.launch())
    with pytest.raises(RefusedError):
        practice.call("CreateSchedule", instanceToken="r1-1", at=practice.world.now.isoformat(), labels={})


def test_spot_is_taken_back_after_a_notice_and_leaves_a_checkpoint() -> None:
    practice = Practice()
    machine = practice.launch(market="spot")
    practice.script(incidents=[{"event": "reclaim", "run": "r1", "attempt": 1, "at": "11m"}])
    practice.wait(minutes=9, seconds=1)
    assert state(practice) == "running"
    practice.wait(seconds=5)
    assert state(practice) == "stopped"
    assert practice.look(machine)["state"] == "running"
    newest = practice.paths("checkpoints")[-2]
    practice.wait(minutes=2)
    assert practice.row(machine)["why"] == "SpotReclaim"
    assert life_of(practice, machine) == timedelta(minutes=11)
    assert json.loads(practice.read(newest))["step"] > 0
    practice.wait(minutes=2)
    assert practice.ledger["left"] == []


def test_without_a_notice_what_was_trained_since_the_checkpoint_is_lost() -> None:
    practice = Practice({"notice": "0s"})
    practice.launch(market="spot")
    practice.script(incidents=[{"event": "reclaim", "at": "10m"}])
    practice.wait(minutes=15)
    assert state(practice) == "running"
    assert len(practice.paths("checkpoints")) == 2  # weights and mark of the one after five minutes


def test_spot_is_taken_back_at_random_and_each_time_alike() -> None:
    def lifetimes(seed: int) -> list[timedelta]:
        practice = Practice({"reclaims_per_hour": 60, "seed": seed, "stock": 50, "quota": 50})
        machines = [practice.launch(f"r{number}", market="spot") for number in range(20)]
        kept = practice.launch("kept")
        practice.wait(hours=10)
        assert practice.row(kept)["why"] == "InstanceInitiatedShutdown"
        return [life_of(practice, machine) for machine in machines]

    assert lifetimes(1) == lifetimes(1) != lifetimes(2)
    mean = sum(lifetimes(3), timedelta(0)) / 20 - timedelta(minutes=1)
    assert timedelta(seconds=30) < mean < timedelta(seconds=90)


def test_how_often_spot_is_taken_back_hangs_on_the_placement() -> None:
    practice = Practice({"placements": [{"zone": "sim-east-b", "reclaims_per_hour": 600}]})
    calm, busy = practice.launch(market="spot"), practice.launch("r2", market="spot", zone="sim-east-b")
    practice.wait(hours=1)
    assert practice.row(calm)["why"] == "InstanceInitiatedShutdown"
    assert practice.row(busy)["why"] == "SpotReclaim"


def test_maintenance_stops_a_machine_and_its_disk_bills_on() -> None:
    practice = Practice()
    machine = practice.launch()
    practice.script(incidents=[{"event": "maintenance", "after": "5m"}])
    practice.wait(hours=3)
    assert practice.look(machine)["state"] == "stopped"
    assert len(practice.ledger["left"]) == 3
    assert life_of(practice, machine) == timedelta(minutes=6)
    practice.call("DeleteInstance", id=machine)
    practice.wait(minutes=2)
    assert practice.ledger["left"] == []
    assert practice.row(machine)["why"] == "HostMaintenance"
    assert life_of(practice, machine) == timedelta(minutes=6)


def test_the_cloud_timer_ends_a_stopped_machine_too() -> None:
    practice = Practice()
    practice.launch(lasting=HOUR)
    practice.script(incidents=[{"event": "maintenance", "after": "5m"}])
    practice.wait(hours=2)
    assert practice.ledger["left"] == []


@pytest.mark.parametrize(("event", "why"), [("lose_device", "AcceleratorLost"), ("crash", "HostFailure")])
def test_what_ends_a_machine_without_a_word(event: str, why: str) -> None:
    practice = Practice()
    machine = practice.launch()
    practice.script(incidents=[{"event": event, "after": "5m"}])
    practice.wait(minutes=8)
    assert practice.look(machine)["why"] == why
    assert state(practice) == "running"
    assert practice.ledger["left"] == []


def test_a_machine_that_vanishes_is_known_to_its_token_only() -> None:
    practice = Practice()
    machine = practice.launch()
    practice.script(incidents=[{"event": "vanish", "after": "5m"}])
    practice.wait(minutes=7)
    assert practice.ids() == []
    with pytest.raises(RefusedError):
        practice.look(machine)
    assert practice.launch() == machine
    assert practice.ledger["left"] == []


def test_an_incident_befalls_its_attempt_and_later_ones_are_spared() -> None:
    practice = Practice()
    first = practice.launch()
    practice.script(incidents=[{"event": "crash", "run": "r1", "attempt": 1, "after": "2m"}])
    practice.wait(minutes=5)
    second, other = practice.launch(attempt=2), practice.launch("r2")
    practice.wait(minutes=5)
    assert [practice.row(name)["why"] for name in (first, second, other)] == ["HostFailure", None, None]


def test_what_is_asked_to_stop_writes_a_checkpoint_and_ends() -> None:
    practice = Practice()
    machine = practice.launch()
    practice.wait(minutes=4)
    practice.call("StopTraining", id=machine)
    practice.call("StopTraining", id=machine)
    assert practice.look(machine)["stopAsked"]
    practice.wait(seconds=5)
    assert (practice.look(machine)["exitCode"], state(practice)) == (75, "stopped")
    assert practice.paths("checkpoints")
    practice.call("StopTraining", id=machine)


def test_a_stop_before_it_has_booted_counts_when_it_has() -> None:
    practice = Practice()
    machine = practice.launch()
    practice.call("StopTraining", id=machine)
    practice.wait(minutes=2)
    assert practice.look(machine)["exitCode"] == 75
    assert practice.paths("checkpoints") == []
