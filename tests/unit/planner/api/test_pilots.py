"""Pilots from Python, on the simulated cloud: what they measure, what they may cost, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import trainplan
from tests.desk import on_the_doubles_day, own_home
from tests.doubles.interrupts import pressed_at
from tests.json_output import complaint
from tests.unit.planner.cli.command import plan as command
from trainplan.planner.runs.journal.journal import Journal
from trainplan.providers.sim.provider import SimProvider

KEYS: dict[str, Any] = {
    "name": "flowers",
    "model": {"preset": "vgg16"},
    "data": {"name": "cifar10"},
    "epochs": 8000,
    "global_batch_size": 256,
    "precision": "amp_fp16",
}


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_home(tmp_path, monkeypatch)
    on_the_doubles_day(monkeypatch)
    monkeypatch.setenv("PLAN_SIM_SPEED", "0")
    scenario = tmp_path / "scenario.toml"
    scenario.write_text("start = 2026-11-21T12:00:00Z\nreclaims_per_hour = 0\n")
    monkeypatch.setenv("PLAN_SIM_SCENARIO", str(scenario))


def plan_of(**changes: Any) -> trainplan.Plan:
    """Two machines, of which the second is as cheap as the first if it is as fast as it may be."""
    job = trainplan.Job.from_dict({**KEYS, **changes})
    return trainplan.estimate(job, providers=["sim"], devices=["V100", "A100-40GB"])


def test_pilots_measure_and_the_plan_goes_by_it() -> None:
    plan = plan_of()
    pilots = trainplan.pilot(plan, max_cost_usd=6, yes=True, quiet=True)
    (pilot,) = pilots
    assert (pilots.is_worth_it, pilot.outcome, pilot.why) == (True, "succeeded", "")
    assert pilot.images_per_second is not None
    assert "outcome='succeeded'" in repr(pilot)
    assert pilot.run_id is not None
    receipt = trainplan.Run(pilot.run_id).receipt()
    assert receipt is not None
    assert pilot.usd == pytest.approx(receipt["actual_usd"], abs=1e-6)
    assert pilots.spent_usd == pilot.usd < 6
    assert plan[0].instance_type == "a100.one"
    first = pilots.plan[0]
    assert (first.instance_type, first.basis) == (pilot.instance_type, "measured") == ("v100.one", "measured")
    assert first.images_per_second == pytest.approx(pilot.images_per_second)
    assert "is the cheapest now" in repr(pilots)


def test_the_document_is_that_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps({**KEYS, "epochs": 40}))
    plan = trainplan.estimate(trainplan.Job.read("job.yaml"), providers=["sim"], devices=["V100", "A100-40GB"])
    pilots = trainplan.pilot(plan, max_cost_usd=6)
    assert (len(pilots), pilots.is_worth_it, pilots.spent_usd) == (0, False, 0)
    assert "no pilot is worth it" in repr(pilots)
    words = ["pilot", "job.yaml", "--budget", "6", "--provider", "sim", "--device", "V100", "--device", "A100-40GB"]
    assert pilots.to_dict() == command(*words, "--json").json
    assert complaint(words, json.dumps(pilots.to_dict())) == ""


def test_settings_are_tried_and_the_fastest_are_keys_of_the_job() -> None:
    (pilot,) = trainplan.pilot(plan_of(epochs=9), max_cost_usd=6, batch="auto", yes=True, quiet=True)
    assert pilot.outcome == "succeeded"
    assert pilot.kept is not None
    assert trainplan.Job.from_dict({**KEYS, **pilot.kept}).name == "flowers"


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"objective": "time"}, "pilots are weighed in dollars", "objective: cost"),
        ({"container": f"docker.io/me/trainer@sha256:{64 * '0'}"}, "has a container of its own", "plan launch"),
    ],
)
def test_a_job_that_no_pilot_measures_is_refused(changes: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(trainplan.BadInputError, match=message) as caught:
        trainplan.pilot(plan_of(**changes), max_cost_usd=6, yes=True)
    assert hint in caught.value.hint
    assert trainplan.runs() == []


def test_a_cap_that_is_too_small_says_what_a_pilot_takes() -> None:
    plan = plan_of()
    with pytest.raises(trainplan.BadInputError, match=r"^\$0.1 are not enough for any pilot") as caught:
        trainplan.pilot(plan, max_cost_usd=0.1, yes=True)
    name, least = caught.value.hint.split("=")
    assert name == "max_cost_usd"
    with pytest.raises(trainplan.BadInputError, match="not enough for any pilot") as caught:
        trainplan.launch(plan, max_cost_usd=50, pilots_usd=0.1, yes=True)
    assert caught.value.hint == f"pilots_usd={least}"
    assert trainplan.runs() == []
    assert trainplan.pilot(plan, max_cost_usd=float(least), yes=True, quiet=True).spent_usd <= float(least)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_cost_usd": 0}, "max_cost_usd: '0' is not an amount of dollars"),
        ({"max_cost_usd": "much"}, "max_cost_usd: 'much' is not an amount of dollars"),
        ({"max_cost_usd": 6, "top": 0}, "top: 0 is not a number of pilots"),
        ({"max_cost_usd": 6, "batch": "all"}, "batch: there is no 'all'"),
    ],
)
def test_a_wrong_argument_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(trainplan.BadInputError) as caught:
        trainplan.pilot(plan_of(), yes=True, **wrong)
    assert caught.value.message == message


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(trainplan.BadInputError, match="a plan is expected"):
        trainplan.pilot(plan_of()[0], max_cost_usd=6)  # type: ignore[arg-type]


def test_where_nobody_can_be_asked_nothing_is_run() -> None:
    for ask in (
        lambda: trainplan.pilot(plan_of(), max_cost_usd=6),
        lambda: trainplan.launch(plan_of(), max_cost_usd=90, pilots_usd=6),
    ):
        with pytest.raises(trainplan.BadInputError) as caught:
            ask()
        assert caught.value.hint == "yes=True runs them without asking"
    assert trainplan.runs() == []


def test_a_launch_runs_its_pilots_first_and_measures_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trainplan.launch(plan_of(epochs=4000), max_cost_usd=90, pilots_usd=6, yes=True)
    told = capsys.readouterr().err
    assert "pilots and run together never cost more than" in told
    newest, measured = trainplan.runs()
    assert newest == run
    with Journal.open(tmp_path / "home" / "journal.sqlite") as journal:
        assert journal.run(run.id).measures_first
        assert journal.run(measured.id).max_steps is not None
    assert run.stop(quiet=True).outcome == "stopped"


def test_whoever_waits_sees_the_run_leave_for_the_machine_that_a_pilot_measured(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(
        "start = 2026-11-21T12:00:00Z\nreclaims_per_hour = 0\nthroughput_factor = 0.55\n"
    )
    run = trainplan.launch(plan_of(epochs=3000), max_cost_usd=90, pilots_usd=8, yes=True, quiet=True)
    assert run.wait(quiet=True).outcome == "succeeded"
    receipt = run.receipt()
    assert receipt is not None
    where = [placement["where"] for placement in receipt["placements"]]
    assert ["a100.one" in where[0], "v100.one" in where[-1]] == [True, True]


def test_no_pilot_is_paid_for_a_run_that_the_cap_does_not_pay_for() -> None:
    plan = plan_of()
    for cap_usd, error in ((plan[0].usd / 2, trainplan.NothingLeftError), (0, trainplan.BadInputError)):
        with pytest.raises(error, match=r"max_cost_usd|budget"):
            trainplan.launch(plan, max_cost_usd=cap_usd, pilots_usd=6, yes=True)
    assert trainplan.runs() == []


def test_whoever_interrupts_it_leaves_one_machine_that_ends_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = plan_of()
    with pressed_at(SimProvider, 4), pytest.raises(KeyboardInterrupt):
        trainplan.pilot(plan, max_cost_usd=6, yes=True, quiet=True)
    (run,) = trainplan.runs()
    assert f"Run('{run.id}').stop() ends it" in capsys.readouterr().err
    with pytest.raises(trainplan.ThisMachineError, match=f"run {run.id} of an earlier pilot") as caught:
        trainplan.pilot(plan, max_cost_usd=6, yes=True, quiet=True)
    assert f"Run('{run.id}').wait() follows it to its end" in caught.value.hint
    assert run.wait(quiet=True).outcome == "succeeded"
    assert plan.anew()[0].basis == "measured"
