"""`plan pilot` on the simulated cloud and on a machine that is not there."""

from __future__ import annotations

import os
import re
import sys
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import ROOT
from tests.desk import TINY, on_the_doubles_day, signed_out
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import SIGHTING_OF_END, FakeMachine, Sighting, done_at_once, ended_at_once
from tests.doubles.fake_provider import FakeProvider
from tests.doubles.interrupts import pressed_at
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.errors import ExitCode
from trainplan.planner.planning.own_measurements import load_measurements
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.base import EndKind
from trainplan.providers.sim.provider import SimProvider
from trainplan.workloads.jobfile import read_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG = """\
name: flowers
model: {preset: vgg16}
data: {name: cifar10}
epochs: 8000
global_batch_size: 256
precision: amp_fp16
"""
SIM = ("--provider", "sim", "--device", "V100", "--device", "A100-40GB", "--device", "T4")
PAIR = ("--provider", "sim", "--device", "V100", "--device", "A100-40GB")


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signed_out(monkeypatch)
    on_the_doubles_day(monkeypatch)
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLAN_SIM_SPEED", "0")
    monkeypatch.chdir(tmp_path)
    scenario(tmp_path, "")
    (tmp_path / "job.yaml").write_text(LONG)


def scenario(folder: Path, text: str) -> None:
    # A spot machine is taken back by chance, drawn by the id of the run.
    (folder / "scenario.toml").write_text(f"start = 2026-11-21T12:00:00Z\nreclaims_per_hour = 0\n{text}")
    os.environ["PLAN_SIM_SCENARIO"] = str(folder / "scenario.toml")


@pytest.fixture(autouse=True)
def scenario_is_let_go() -> Iterator[None]:
    yield
    os.environ.pop("PLAN_SIM_SCENARIO", None)


def pilot(*more: object, budget: str = "6.00") -> CommandResult:
    return plan("pilot", "job.yaml", "--budget", budget, "--yes", *more)


def runs(folder: Path) -> list[Run]:
    with Journal.open(folder / "home" / "journal.sqlite") as journal:
        return list(journal.runs())


def test_the_page_names_what_each_costs_takes_and_settles_and_then_what_it_told(
    request: pytest.FixtureRequest,
) -> None:
    said = pilot(*PAIR)
    assert said.code == 0
    # How long a machine boots is drawn by the id of the run.
    text = re.sub(r"\d{6}-[0-9a-f]{8}", "RUN", said.err + said.out)
    text = re.sub(r"\$0\.0\d+", "$0.0X", text)
    text = re.sub(r"boot with image \d+\.\d s", "boot with image N s", text)
    golden = ROOT / "tests" / "golden" / "pilot.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_a_pilot_is_a_run_with_a_receipt_and_re_ranks_the_job_and_later_ones(tmp_path: Path) -> None:
    answer = plan("pilot", "job.yaml", "--budget", "6.00", "--yes", *PAIR, "--json").json
    (run,) = runs(tmp_path)
    assert (run.phase, run.outcome, run.model_folder) == (Phase.DONE, Outcome.SUCCEEDED, "")
    with Journal.open(tmp_path / "home" / "journal.sqlite") as journal:
        receipt = journal.receipt(run.run_id)
    assert receipt is not None
    assert receipt["actual_usd"] == pytest.approx(answer["spent_usd"], abs=1e-6)
    assert answer["is_worth_it"]
    assert answer["first_before"]["instance_type"] == "a100.one"
    assert answer["first_after"]["instance_type"] == "v100.one"
    rows = plan("estimate", "job.yaml", *PAIR, "--json").json["candidates"]
    first = rows[0]
    assert (first["instance_type"], first["basis"]) == ("v100.one", "measured")
    assert first["images_per_second"] == pytest.approx(answer["pilots"][0]["images_per_second"])
    # Another home's estimate knows nothing of it; this one's later job of the same shape does.
    (tmp_path / "job.yaml").write_text(LONG.replace("8000", "4000"))
    assert plan("estimate", "job.yaml", *PAIR, "--json").json["candidates"][0]["basis"] == "measured"
    explained = plan("estimate", "job.yaml", *PAIR, "--explain", 1).out
    assert "measured on such a machine on 2026-11-21" in explained


def test_no_pilot_is_worth_it_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(LONG.replace("8000", "40"))
    said = pilot(*PAIR)
    assert said.code == 0
    assert re.search(r"no pilot is worth it: it would cost \$\S+ and is expected to save \$", said.out)
    assert not (tmp_path / "home" / "journal.sqlite").exists()
    answer = pilot(*PAIR, "--json").json
    assert (answer["is_worth_it"], answer["pilots"], answer["first_after"]) == (False, [], None)


def test_a_refusal_is_knowledge_of_what_is_to_be_had(tmp_path: Path) -> None:
    scenario(tmp_path, '[[placements]]\ninstance_type = "v100.one"\nmarket = "spot"\nstock = 0\n')
    said = pilot(*PAIR, "--json")
    assert (said.code, "none has room" in said.error) == (5, True)
    answer = said.json
    (refused,) = answer["pilots"]  # the other machine has no rival any more, and is worth no pilot
    assert (refused["outcome"], refused["usd"], refused["images_per_second"]) == ("no_capacity", 0.0, None)
    assert "none has room" in refused["why"]
    explained = plan(
        "estimate", "job.yaml", "--provider", "sim", "--device", "V100", "--region", "sim-east", "--explain", 1
    )
    assert "of this home got a machine" in explained.out


def test_every_cap_holds(tmp_path: Path) -> None:
    for budget in ("1.50", "2.10", "2.60"):
        answer = pilot(*PAIR, "--json", budget=budget).json
        assert answer["spent_usd"] <= float(budget)
        for row in answer["candidates"]:
            assert row["pilot_most_usd"] is None or row["pilot_most_usd"] <= float(budget)


def test_a_launch_can_run_its_pilots_first(tmp_path: Path) -> None:
    """The proposal that follows is the one by what they measured; the pilot is no run that the launch attaches to."""
    (tmp_path / "job.yaml").write_text(LONG.replace("8000", "4000"))
    said = plan("launch", "job.yaml", *PAIR, "--pilot", "6", "--yes", "--detach")
    assert said.code == 0
    pilots, _, launch = said.err.partition("is the cheapest now")
    assert "1 pilot" in pilots or "2 pilots" in pilots
    assert "flowers on sim v100.one (spot)" in launch
    newest, measured = runs(tmp_path)
    assert (measured.max_steps is not None, newest.max_steps, newest.phase) == (True, None, Phase.BOOTING)


def test_a_run_that_measures_itself_leaves_for_the_machine_that_a_pilot_measured_after_one_question(
    tmp_path: Path,
) -> None:
    """The pilot of the other machine comes first; the run measures its own, and goes on from there."""
    scenario(tmp_path, "throughput_factor = 0.55\n")
    (tmp_path / "job.yaml").write_text(LONG.replace("8000", "3000"))
    said = plan("launch", "job.yaml", *PAIR, "--pilot", "8", "--yes", "--output", tmp_path / "model", "--json")
    assert said.code == 0
    run, measured = runs(tmp_path)
    before, _, after = said.err.partition(f"pilot on {measured.targets[0].where if measured.targets else 'sim v100'}")
    most = re.search(r"together never cost more than \$(\S+): \$8\.00 for the pilots, \$(\S+) for the run", before)
    assert most is not None
    assert "flowers on sim a100.one" in before
    assert "launch?" not in after
    assert "images/s ± 0.0%: the rest costs" in after
    assert "it leaves for there, with a checkpoint" in after
    assert (run.measures_first, run.outcome) == (True, Outcome.SUCCEEDED)
    machines = [attempt.target.offer.instance_type for attempt in run.attempts if attempt.target]
    assert list(dict.fromkeys(machines)) == ["a100.one", "v100.one"]
    assert run.attempts[0].leaves
    assert (measured.max_steps is not None, measured.outcome) == (True, Outcome.SUCCEEDED)
    assert run.budget_usd is not None
    assert said.json["actual_usd"] < float(run.budget_usd) < float(most[2])
    kept = {row.machine for row in load_measurements(tmp_path / "home" / "measurements.jsonl")}
    assert kept == {"sim/v100.one", "sim/a100.one"}


def test_pilots_and_run_are_asked_about_before_anything_is_created(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(LONG.replace("8000", "4000"))
    said = plan("launch", "job.yaml", *PAIR, "--pilot", "6")
    assert (said.code, said.hint) == (2, "--yes runs them without asking")
    assert "together never cost more than" in said.err
    assert runs(tmp_path) == []


def test_a_cap_of_a_launch_that_is_too_small_for_any_pilot_names_its_own_option(tmp_path: Path) -> None:
    said = plan("launch", "job.yaml", *PAIR, "--pilot", "0.10", "--yes")
    assert said.code == 2
    assert re.fullmatch(r"--pilot \d\.\d\d", said.hint)
    assert runs(tmp_path) == []


def test_no_pilot_is_paid_for_a_run_that_may_not_cost_so_much(tmp_path: Path) -> None:
    said = plan("launch", "job.yaml", *PAIR, "--pilot", "6", "--max-cost", "0.50", "--yes")
    assert said.code == 3
    assert "above the $0.50 of --max-cost" in said.error
    assert runs(tmp_path) == []


def test_no_pilot_is_paid_for_a_job_that_was_trained_or_whose_run_lives(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(LONG.replace("8000", "4000"))
    launch = ("launch", "job.yaml", *PAIR)
    trained = plan(*launch, "--yes", "--output", tmp_path / "model", "--json").json["run_id"]
    for more in ((), ("--detach",)):
        said = plan(*launch, "--pilot", "6", "--yes", "--json", *more)
        assert (said.code, said.json["run_id"], said.json["outcome"]) == (0, trained, "succeeded")
        assert "nothing was launched (--fresh or --another trains it once more)" in said.err
    elsewhere = plan(*launch, "--pilot", "6", "--yes", "--output", tmp_path / "other")
    assert (elsewhere.code, elsewhere.hint) == (4, "--fresh or --another trains it once more")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    full = plan(*launch, "--pilot", "6", "--yes", "--fresh", "--output", tmp_path / "full")
    assert (full.code, full.hint) == (2, "choose another --output")
    asked = plan(*launch, "--pilot", "6")
    assert "this launch trains it once more\n" in asked.err[: asked.err.index("together never cost more than")]
    assert len(runs(tmp_path)) == 1
    again = plan(*launch, "--yes", "--fresh", "--detach", "--json").json["run_id"]
    attached = plan(*launch, "--pilot", "6", "--yes", "--detach", "--json")
    assert attached.json["run_id"] == again
    assert ": attaching to it (--another launches another)" in attached.err
    assert len(runs(tmp_path)) == 2


def test_whoever_agrees_to_pilots_of_a_trained_job_has_it_trained_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.yaml").write_text(LONG.replace("8000", "4000"))
    launch = ("launch", "job.yaml", *PAIR, "--json")
    first = plan(*launch, "--yes", "--output", tmp_path / "model").json["run_id"]
    person, terminal = os.openpty()
    os.write(person, b"y\n")
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        said = plan(*launch, "--pilot", "6")
    os.close(person)
    assert (said.code, said.json["outcome"]) == (0, "succeeded")
    newest, measured, trained = runs(tmp_path)
    assert (newest.run_id, measured.max_steps is not None, trained.run_id) == (said.json["run_id"], True, first)


def test_a_launch_without_a_pilot_that_is_worth_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(LONG.replace("8000", "40"))
    said = plan("launch", "job.yaml", *PAIR, "--pilot", "6", "--yes", "--detach")
    assert said.code == 0
    assert "no pilot is worth it" in said.err
    assert len(runs(tmp_path)) == 1


def test_a_run_that_measures_itself_says_so_although_no_pilot_is_worth_it(tmp_path: Path) -> None:
    for why in ("no pilot is worth it", "no other machine is worth a pilot"):
        (tmp_path / "job.yaml").write_text(LONG.replace("8000", "4000"))
        said = plan("launch", "job.yaml", *PAIR[:4], "--device", "T4", "--device", "K80", "--pilot", "6")
        assert said.code == 2, "nobody was asked"
        assert why in said.err
        assert "the run measures its own speed first" in said.err
        (tmp_path / "job.yaml").write_text(LONG)
        assert pilot(*PAIR).code == 0  # of the machines above one is measured then


# --- settings are tried ------------------------------------------------------------------------------------------

ONE = ("--provider", "sim", "--device", "A100-40GB", "--market", "on_demand", "--batch", "auto")
BIG = """\
name: big
model: {preset: vgg16, image_size: 224, classes: 10}
data: {name: cifar10}
epochs: 100
global_batch_size: 1024
"""
"""Of which no device of the simulated cloud has the memory at once."""


def kept_of(told: dict[str, Any]) -> dict[str, Any]:
    (row,) = [row for row in told["tries"] if {name: row[name] for name in told["kept"]} == told["kept"]]
    return dict(row)


def test_settings_are_tried_on_one_machine_and_kept_under_their_own_key(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(BIG)
    answer = pilot(*ONE, "--json").json
    (run,) = runs(tmp_path)
    (told,) = answer["pilots"]
    kept = kept_of(told)
    assert (run.outcome, run.try_settings) == (Outcome.SUCCEEDED, True)
    assert kept["state"] == "measured"
    assert kept["accumulate"] > 1
    assert told["images_per_second"] == kept["images_per_second"]
    assert told["boot_seconds"] > 0
    assert told["phase_seconds"]["compile"] > 0
    assert told["checkpoint_bytes"] > 0
    assert answer["spent_usd"] <= 6
    rows = load_measurements(tmp_path / "home" / "measurements.jsonl")
    assert len(rows) == len([row for row in told["tries"] if row["images_per_second"]])
    phases = told["phase_seconds"]
    starting = sum(phases.get(name, 0) for name in ("import", "build", "compile"))
    (measured,) = {(row.boot_seconds, row.start_seconds) for row in rows}
    assert measured == pytest.approx((told["boot_seconds"], starting))
    (tmp_path / "job.yaml").write_text(f"{BIG}accumulate: {kept['accumulate']}\nxla: {str(kept['xla']).lower()}\n")
    (first, *_) = plan("estimate", "job.yaml", *ONE[:-2], "--json").json["candidates"]
    assert first["basis"] == "measured"
    assert first["images_per_second"] == pytest.approx(told["images_per_second"])


def test_the_page_says_what_to_write_into_the_job_file(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(BIG)
    said = pilot(*ONE)
    text = re.sub(r"\$0\.\d+", "$0.XX", re.sub(r"\d{6}-[0-9a-f]{8}", "RUN", said.err + said.out))
    text = re.sub(r"boot with image \d+\.\d s", "boot with image N s", text)
    golden = ROOT / "tests" / "golden" / "pilot_batch.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_the_cap_of_settings_that_are_tried_holds(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(BIG)
    said = pilot(*ONE, budget="0.10")
    assert said.code == 2
    assert said.error.startswith("$0.10 are not enough for any pilot: the cheapest may cost up to $")
    assert not (tmp_path / "home" / "journal.sqlite").exists()
    least = said.hint.removeprefix("--budget ")
    answer = pilot(*ONE, "--json", budget=least).json
    assert answer["spent_usd"] <= float(least)
    assert answer["candidates"][0]["pilot_most_usd"] <= float(least)


@pytest.mark.parametrize(
    ("more", "hint"),
    [
        ("accumulate: 4\n", "leave accumulate out of the job file, or leave out --batch auto"),
        ("nodes: 2\n", "leave nodes out of the job file"),
        ("sweep: {optimizer.learning_rate: [0.1, 0.01], budget_usd: 5}\n", "leave sweep out"),
    ],
)
def test_a_job_that_settles_it_itself_is_refused(tmp_path: Path, more: str, hint: str) -> None:
    (tmp_path / "job.yaml").write_text(LONG + more)
    said = pilot(*ONE)
    assert (said.code, said.hint) == (2, hint)
    assert not (tmp_path / "home" / "journal.sqlite").exists()


def test_where_nothing_fits_and_no_batch_is_trained_in_parts_it_says_what_was_wrong_first(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(BIG)
    said = pilot("--provider", "sim", "--device", "K80", "--batch", "auto")  # whose TensorFlow has no accumulate
    assert said.code == 3
    assert said.error == "no offer fits: the batch does not fit its memory"


def test_batch_has_one_value() -> None:
    said = pilot(*PAIR, "--batch", "64")
    assert said.code == 2
    assert "auto" in said.error


# --- what is typed wrong -----------------------------------------------------------------------------------------


def test_a_budget_too_small_for_any_pilot_says_what_one_takes(tmp_path: Path) -> None:
    said = pilot(*PAIR, budget="0.10")
    assert said.code == 2
    assert said.error.startswith("$0.10 are not enough for any pilot: the cheapest may cost up to $")
    least = said.hint.removeprefix("--budget ")
    assert Decimal(least) < 3
    assert pilot(*PAIR, budget=least).code == 0
    assert len(runs(tmp_path)) >= 1


@pytest.mark.parametrize("budget", ["0", "-1", "nothing", "NaN"])
def test_a_budget_that_is_none(budget: str) -> None:
    said = pilot(*PAIR, budget=budget)
    assert (said.code, said.hint) == (2, "for example --budget 20")


def test_a_budget_has_to_be_typed() -> None:
    said = plan("pilot", "job.yaml", "--yes")
    assert said.code == 2
    assert "--budget" in said.error


def test_without_a_terminal_nothing_is_run_unasked(tmp_path: Path) -> None:
    said = plan("pilot", "job.yaml", "--budget", "6", *PAIR)
    assert (said.code, said.hint) == (2, "--yes runs them without asking")
    assert not (tmp_path / "home" / "journal.sqlite").exists()


def test_data_that_is_missing_is_told_before_anything_is_launched(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        LONG.replace("{name: cifar10}", "{path: ./nothing, images: 500}").replace(
            "vgg16}", "vgg16, image_size: 32, classes: 10}"
        )
    )
    said = pilot(*PAIR)
    assert said.code == 2
    assert "nothing" in said.error
    assert not (tmp_path / "home" / "journal.sqlite").exists()


def test_a_container_of_ones_own_has_no_pilot(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(LONG + "container: docker.io/me/trainer@sha256:" + 64 * "0" + "\n")
    said = pilot(*PAIR)
    assert (said.code, said.hint) == (2, "plan launch launches it")


def test_another_objective_is_none_that_dollars_weigh(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(LONG + "objective: time\n")
    said = pilot(*PAIR)
    assert (said.code, said.hint) == (2, "objective: cost")


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    job = read_job(tmp_path / "job.yaml")
    with RunLocks(tmp_path / "home" / "locks").piloting(job.digest()):
        said = pilot(*PAIR)
    assert said.error == "another plan pilot of this job is running on this computer"
    assert runs(tmp_path) == []


def test_the_months_budget_holds_too(tmp_path: Path) -> None:
    """It counts clouds alone; the simulated one sends no bill."""
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "settings.toml").write_text("budget_usd_per_month = 0.01\n")
    assert pilot(*PAIR).code == 0


# --- what goes wrong on the way ----------------------------------------------------------------------------------


def test_a_launch_that_lets_go_of_its_run_is_no_success(tmp_path: Path) -> None:
    """Nobody has a model yet: what a shell would do after `&&` is not done."""
    with pressed_at(SimProvider, 4):
        said = plan("launch", "job.yaml", "--provider", "sim", "--yes")
    assert said.code == ExitCode.INTERRUPTED
    (run,) = runs(tmp_path)
    assert run.live
    assert f"plan attach {run.run_id} follows it again" in said.err


def test_ctrl_c_leaves_one_run_that_ends_itself_and_starts_no_further_one(tmp_path: Path) -> None:
    with pressed_at(SimProvider, 4):
        said = pilot(*PAIR)
    assert said.code == ExitCode.INTERRUPTED
    (run,) = runs(tmp_path)
    assert run.live
    assert f"plan attach {run.run_id} follows it again" in said.err
    assert run.deadline - run.created_at < timedelta(minutes=30)


def test_an_earlier_pilot_is_not_paid_twice(tmp_path: Path) -> None:
    test_ctrl_c_leaves_one_run_that_ends_itself_and_starts_no_further_one(tmp_path)
    (run,) = runs(tmp_path)
    said = pilot(*PAIR)
    assert (said.code, said.error) == (9, f"run {run.run_id} of an earlier pilot or measurement of this job goes on")
    ended = plan("attach", run.run_id)
    assert ended.code == 0
    (run,) = runs(tmp_path)
    assert (run.outcome, run.phase) == (Outcome.SUCCEEDED, Phase.DONE)
    # What it measured is kept, whoever saw it to its end.
    assert plan("estimate", "job.yaml", *PAIR, "--json").json["candidates"][0]["basis"] == "measured"


def test_a_network_that_is_lost_for_minutes_loses_no_pilot(tmp_path: Path) -> None:
    scenario(tmp_path, '[[faults]]\ncode = "InternalError"\ntimes = 1000\nstart = "90s"\nend = "5m"\n')
    answer = pilot(*PAIR, "--json").json
    assert answer["pilots"][0]["outcome"] == "succeeded"
    assert answer["pilots"][0]["images_per_second"]
    assert all(run.phase is Phase.DONE and run.unverified is None for run in runs(tmp_path))


# --- this machine ------------------------------------------------------------------------------------------------


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeProvider]:
    (tmp_path / "job.yaml").write_text(TINY)
    with fake_provider.as_this_machine(FakeProvider(FakeClock(), [done_at_once], tidy=True), monkeypatch) as made:
        yield made


def test_a_pilot_on_this_machine_costs_nothing_and_is_kept(local: FakeProvider, tmp_path: Path) -> None:
    said = pilot("--provider", "local")
    assert said.code == 0
    assert "1 pilot, it costs nothing" in said.err
    (request,) = [machine.request for machine in local.machines.values()]
    assert request.until_steady
    assert request.max_steps is not None
    assert request.max_steps < 88  # the steps of the whole job
    (row,) = load_measurements(tmp_path / "home" / "measurements.jsonl")
    assert (row.device, row.images_per_second) == ("", 4000.0)


@pytest.mark.parametrize(
    ("ending", "code", "told"), [(EndKind.FAILED, 6, "training failed"), (EndKind.BAD_JOB, 6, "cannot train this job")]
)
def test_a_job_that_fails_in_its_pilot_ends_the_command_as_it_ends_a_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: EndKind, code: int, told: str
) -> None:
    """It left with 0, so that a program that goes on with the launch went on with a job that cannot be trained."""
    (tmp_path / "job.yaml").write_text(TINY)
    for more in ((), ("--json",)):
        with fake_provider.as_this_machine(FakeProvider(FakeClock(), [ended_at_once(ending)], tidy=True), monkeypatch):
            said = pilot("--provider", "local", *more)
        run = runs(tmp_path)[0]
        assert said.code == code
        assert f"run {run.run_id}: " in said.error
        assert told in said.error
        assert said.hint == f"plan logs {run.run_id} shows its output"
    (row,) = said.json["pilots"]
    assert (row["outcome"], row["images_per_second"]) == ("failed", None)


def test_a_job_that_fails_in_all_its_pilots_is_not_launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.yaml").write_text(TINY)
    machine = FakeProvider(FakeClock(), [ended_at_once(EndKind.FAILED)], tidy=True)
    with fake_provider.as_this_machine(machine, monkeypatch):
        said = plan("launch", "job.yaml", "--provider", "local", "--pilot", "6", "--yes", "--detach")
    (piloted,) = runs(tmp_path)
    assert said.code == 6
    assert piloted.max_steps is not None
    assert said.error.startswith(f"every pilot that ran has failed, nothing was launched: run {piloted.run_id}: ")
    assert said.hint == f"plan logs {piloted.run_id} shows its output"


def tells_no_rate(machine: FakeMachine) -> Iterator[Sighting]:
    machine.start()
    yield SIGHTING_OF_END[EndKind.DONE]


def test_a_pilot_that_ends_without_a_rate_has_measured_nothing(local: FakeProvider, tmp_path: Path) -> None:
    local.scripts = [tells_no_rate]
    said = pilot("--provider", "local")
    assert said.code == 6
    assert said.error == f"run {runs(tmp_path)[0].run_id} ended before it reported a steady rate"
