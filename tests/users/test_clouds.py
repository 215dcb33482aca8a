"""`import trainplan` at clouds: runs that are launched, followed, listed and stopped over the doubles, and what is
raised where a cloud or a person stands in the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trainplan
from tests.desk import TINY
from tests.doubles.interrupts import pressed_at
from tests.users.worlds import SIGNED_IN_WORLDS, WORLDS, SignedInWorld, World

MINUTES_TO_DELETE = 2
LONG = {
    "name": "flowers",
    "model": {"preset": "vgg16"},
    "data": {"name": "cifar10"},
    "epochs": 8000,
    "global_batch_size": 256,
    "precision": "amp_fp16",
}


@pytest.fixture(params=sorted(SIGNED_IN_WORLDS))
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SignedInWorld:
    (tmp_path / "job.yaml").write_text(TINY)
    return SIGNED_IN_WORLDS[request.param](request.getfixturevalue(request.param), tmp_path, monkeypatch)


@pytest.fixture(params=sorted(WORLDS))
def any_world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Google's too."""
    (tmp_path / "job.yaml").write_text(TINY)
    return WORLDS[request.param](request.getfixturevalue(request.param), tmp_path, monkeypatch)


def planned(world: World) -> trainplan.Plan:
    return trainplan.estimate(
        trainplan.Job.read("job.yaml"), providers=[world.name], devices=["T4"], markets=["on_demand"]
    )


def launched(world: SignedInWorld) -> trainplan.Run:
    """A run that trains for long enough to be looked at."""
    world.slow()
    return trainplan.launch(planned(world)[0], max_cost_usd=5, yes=True, quiet=True)


def test_a_run_is_launched_listed_followed_and_leaves_nothing(world: SignedInWorld, tmp_path: Path) -> None:
    offer = planned(world)[0]
    run = trainplan.launch(offer, max_cost_usd=5, yes=True, quiet=True, model_folder=tmp_path / "model")
    assert (world.machines(), bool(world.remaining())) == (1, True)
    assert trainplan.runs() == [run]
    status = trainplan.runs()[0].wait(quiet=True)
    assert (status.outcome, status.is_done, status.provider) == ("succeeded", True, world.name)
    assert 0 < status.usd < 5
    assert status.usd_per_hour == 0
    assert status.step == status.total_steps
    assert world.remaining() == []
    receipt = run.receipt()
    assert receipt is not None
    (placement,) = receipt["placements"]
    assert offer.instance_type in placement["where"]
    assert offer.region in placement["where"]
    assert len(run.history()["epoch"]) == 2


def test_a_run_is_stopped(world: SignedInWorld) -> None:
    run = launched(world)
    status = run.status()
    assert status.phase in ("booting", "running")
    assert status.usd_per_hour > 0
    assert world.remaining()
    assert run.stop(quiet=True).outcome == "stopped"
    assert world.remaining() == []


def test_nobody_who_is_not_signed_in_launches(world: SignedInWorld) -> None:
    plan = planned(world)
    world.sign_out()
    with pytest.raises(trainplan.RefusedError, match="there is no sign-in for") as caught:
        trainplan.launch(plan[0], max_cost_usd=5, yes=True)
    assert caught.value.hint in ("plan doctor shows what is missing", "az login")
    assert trainplan.runs() == []


def test_a_permission_that_is_missing_is_named(world: SignedInWorld) -> None:
    world.forbid()
    with pytest.raises(trainplan.RefusedError, match=r"RunInstances|virtualMachines/write") as caught:
        trainplan.launch(planned(world)[0], max_cost_usd=5, yes=True, quiet=True)
    assert f"docs/permissions/{world.name}/" in caught.value.hint
    assert world.remaining() == []


def test_where_no_region_has_room_nothing_is_left(world: SignedInWorld) -> None:
    """Somebody interrupts the launch while it waits for room, and follows its run later."""
    world.full()
    plan = planned(world)
    with pressed_at(world.provider, 1), pytest.raises(KeyboardInterrupt):
        trainplan.launch(plan[0], max_cost_usd=5, yes=True, quiet=True)
    (run,) = trainplan.runs()
    status = run.status()
    assert (status.outcome, status.usd, status.usd_per_hour) == ("interrupted", 0, 0)
    with pytest.raises(trainplan.NoCapacityError, match="none has room") as caught:
        run.wait(quiet=True)
    assert caught.value.hint == "launch it again later, or with more regions, devices or markets"
    assert run.status().outcome == "no_capacity"
    assert world.remaining() == []
    with pytest.raises(trainplan.NoCapacityError):
        run.wait()


def test_a_cap_below_the_cheapest_asks_for_no_machine(any_world: World) -> None:
    plan = planned(any_world)
    for cap_usd in (plan[0].usd / 10, 0):
        with pytest.raises(trainplan.NothingLeftError) as caught:
            trainplan.launch(plan[0], max_cost_usd=cap_usd, yes=True)
        assert "max_cost_usd" in caught.value.hint
    assert trainplan.runs() == []
    assert any_world.machines() == 0


def test_a_run_ends_when_its_cap_is_spent(world: SignedInWorld) -> None:
    world.slow()
    offer, cap_usd = planned(world)[0], 0.2
    run = trainplan.launch(offer, max_cost_usd=cap_usd, yes=True, quiet=True)
    with pytest.raises(trainplan.LimitReachedError, match="the budget is used up") as caught:
        run.wait(quiet=True)
    # The slow machine of one world has saved a checkpoint by then, that of another none.
    assert caught.value.hint in (
        "launch it again to go on from its newest checkpoint; fresh=True starts anew",
        "it saved no checkpoint: launch it again to start from the beginning",
    )
    status = run.status()
    assert status.outcome == "budget"
    # What the machine costs until it is deleted comes on top.
    assert status.usd < cap_usd + offer.planning_usd_per_hour * MINUTES_TO_DELETE / 60
    assert world.remaining() == []


def test_whoever_interrupts_python_leaves_the_run_running(
    world: SignedInWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    run = launched(world)
    with pressed_at(world.provider, 3), pytest.raises(KeyboardInterrupt):
        run.wait()
    assert f"at the latest; Run('{run.id}').stop() ends it" in capsys.readouterr().err
    status = run.status()
    assert not status.is_done
    assert status.usd_per_hour > 0
    assert world.remaining()
    assert trainplan.Run(run.id).stop(quiet=True).outcome == "stopped"
    assert world.remaining() == []


def test_whoever_interrupts_a_create_finds_its_machine_again(any_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    launch, plan = any_world.provider.launch, planned(any_world)

    def interrupted_launch(*arguments: Any) -> None:
        launch(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(any_world.provider, "launch", interrupted_launch)
    with pytest.raises(KeyboardInterrupt):
        trainplan.launch(plan[0], max_cost_usd=5, yes=True, quiet=True)
    monkeypatch.setattr(any_world.provider, "launch", launch)
    assert any_world.remaining()
    (run,) = trainplan.runs()
    assert run.wait(quiet=True).outcome == "succeeded"
    assert any_world.machines() == 1
    assert any_world.remaining() == []


def pilot_of(world: World) -> trainplan.Pilots:
    """One pilot, which is asked for whatever it is worth."""
    job = trainplan.Job.from_dict(LONG)
    plan = trainplan.estimate(job, providers=[world.name], devices=["T4"], markets=["on_demand"])
    return trainplan.pilot(plan, max_cost_usd=5, batch="auto", yes=True, quiet=True)


def test_a_pilot_measures_and_leaves_nothing(any_world: World) -> None:
    pilots = pilot_of(any_world)
    (pilot,) = pilots
    assert (pilot.provider, pilot.outcome, pilot.why) == (any_world.name, "succeeded", "")
    assert pilot.images_per_second is not None
    assert pilot.kept is not None
    assert 0 < pilots.spent_usd < 5
    assert (any_world.machines(), any_world.remaining()) == (1, [])


def test_a_pilot_that_gets_no_machine_says_why(any_world: World) -> None:
    any_world.full()
    pilots = pilot_of(any_world)
    (pilot,) = pilots
    assert (pilot.outcome, pilot.images_per_second, pilots.spent_usd) == ("no_capacity", None, 0)
    assert "none has room" in pilot.why
    assert any_world.remaining() == []


def test_nobody_who_is_not_signed_in_runs_pilots(world: SignedInWorld) -> None:
    world.sign_out()
    with pytest.raises(trainplan.RefusedError, match="there is no sign-in for"):
        pilot_of(world)
