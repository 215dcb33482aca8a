"""Launching from the command line, on a machine that is not there: codes, questions, what the next command sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.desk import TINY, own_home
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import MODEL, RUNNING, FakeMachine, Sighting, done_at_once, ended_at_once, waits
from tests.doubles.fake_provider import FakeProvider
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.providers.base import Check, EndKind, PreflightState, RunId
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    MachineError,
    QuotaError,
    TransientError,
)


@pytest.fixture(autouse=True)
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """This machine, whose runs are over before anybody looks, so that nobody waits for them."""
    own_home(tmp_path, monkeypatch)
    (tmp_path / "job.yaml").write_text(TINY)
    with fake_provider.as_this_machine(FakeProvider(FakeClock(), [done_at_once], tidy=True), monkeypatch) as made:
        yield made


def launch(*more: object) -> CommandResult:
    return plan("launch", "job.yaml", "--provider", "local", "--yes", *more)


def the_run(tmp_path: Path) -> tuple[Phase, Outcome | None]:
    with Journal.open(tmp_path / "home" / "journal.sqlite") as journal:
        run = journal.runs()[0]
        return run.phase, run.outcome


def test_a_model_never_goes_among_the_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default it goes to a folder where the command is typed, and there its folder would count as a class."""
    image: Any = pytest.importorskip("PIL.Image")
    for label, name in enumerate(("daisy", "rose")):
        (tmp_path / "flowers" / name).mkdir(parents=True)
        for number in range(30):
            image.new("RGB", (32, 32), (number, label, 7)).save(tmp_path / "flowers" / name / f"{number}.png")
    assert plan("init", "own.yaml", "--data", "flowers").code == 0
    monkeypatch.chdir(tmp_path / "flowers")
    for more in ((), ("--output", "model"), ("--output", ".")):
        said = plan("launch", "../own.yaml", "--provider", "local", "--yes", *more)
        assert said.code == 2
        assert "lies in the folder of the images" in said.error or "is not empty" in said.error
    assert {path.name for path in (tmp_path / "flowers").iterdir()} == {"daisy", "rose"}


def test_a_launch_says_what_it_does_and_prints_a_receipt(tmp_path: Path) -> None:
    said = launch("--output", "model")
    assert said.code == 0
    assert said.out.startswith("receipt of tiny, run ")
    assert "97.50%   on 360 test images" in said.out
    for line in (
        "tiny on this machine: ",
        "ends by ",
        "preparing",
        "starting",
        "waiting for the trainer",
        "training on AMD EPYC (one device), tensorflow 2.20.0",
        "fetching the model",
        "deleting what was created",
        "nothing is left",
    ):
        assert f"\n{line}" in f"\n{said.err}"
    assert "; this computer ends it, even if you close this terminal\n" in said.err
    # Without a terminal a line every ten seconds is enough, and this took less.
    assert "\nepoch 1/2, step 44/88, loss 0.500, accuracy 75.0%, 4,000 images/s, 0s left, $0.00 so far\n" in said.err
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == MODEL


def test_a_deadline_below_the_estimate_is_asked_about_here_too(tmp_path: Path) -> None:
    """It started without a word, and ended after ten seconds with code 8."""
    said = plan("launch", "job.yaml", "--provider", "local", "--deadline", "1s")
    assert said.code == 2
    assert "and would be ended at its deadline of 1s, with a checkpoint\n" in said.err
    assert not (tmp_path / "home" / "runs").exists()


def test_data_goes_to_stdout_and_everything_else_to_stderr() -> None:
    said = launch("--json")
    receipt = said.json
    assert (receipt["outcome"], receipt["steps"], receipt["attempts"]) == ("succeeded", 88, 1)
    assert "training on" in said.err


def test_the_model_goes_to_a_folder_named_after_the_run(tmp_path: Path) -> None:
    receipt = launch("--json").json
    assert (tmp_path / f"tiny-{receipt['run_id']}" / "model.keras").is_file()
    assert receipt["model_folder"] == str(tmp_path / f"tiny-{receipt['run_id']}")


def test_the_next_estimate_for_this_machine_says_measured(tmp_path: Path) -> None:
    assert " measured, " not in plan("estimate", "job.yaml", "--limit", 1).out.partition("this machine")[2]
    launch()
    # The low end and the middle hang on what other programs have of this computer now.
    assert "-5,200) images/s, measured, " in plan("estimate", "job.yaml", "--limit", 1).out


# --- how it can end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "code", "error", "outcome"),
    [
        (EndKind.FAILED, 6, "training failed", Outcome.FAILED),
        (EndKind.OUT_OF_MEMORY, 6, "killed: the memory limit was reached", Outcome.FAILED),
        (EndKind.BAD_JOB, 6, "the trainer cannot train this job", Outcome.FAILED),
        (EndKind.DEADLINE, 8, "the deadline has passed", Outcome.DEADLINE),
        (EndKind.STOPPED, 130, "", Outcome.STOPPED),
    ],
)
def test_each_ending_has_its_code_and_says_how_to_go_on(
    tmp_path: Path, provider: FakeProvider, kind: EndKind, code: int, error: str, outcome: Outcome
) -> None:
    provider.scripts = [ended_at_once(kind)]
    said = launch("--json")
    assert said.code == code
    assert said.json["outcome"] == outcome
    assert said.error.endswith(error)
    assert ("goes on from the newest checkpoint" in said.err) == (outcome is not Outcome.FAILED)
    assert the_run(tmp_path) == (Phase.DONE, outcome)


def test_why_a_run_failed_stands_once_in_the_live_view_and_once_on_the_receipt(provider: FakeProvider) -> None:
    provider.scripts = [ended_at_once(EndKind.OUT_OF_MEMORY)]
    said = launch()
    why = "killed: the memory limit was reached"
    assert (said.code, said.err.count(why), said.out.count(why)) == (6, 1, 1), said.err
    assert "its receipt gives the reason" in said.error
    assert "plan logs" in said.hint


@pytest.mark.parametrize(
    ("refusal", "code", "outcome"),
    [
        (CredentialsError("who?"), 4, Outcome.REFUSED),
        (BadRequestError("no such type"), 2, Outcome.FAILED),
        (MachineError("no engine"), 9, Outcome.FAILED),
    ],
)
def test_a_refused_launch_has_its_code(
    tmp_path: Path, provider: FakeProvider, refusal: Exception, code: int, outcome: Outcome
) -> None:
    provider.refuse["launch", 1] = refusal
    said = launch()
    assert (said.code, said.error, said.out) == (code, str(refusal), "")
    assert the_run(tmp_path) == (Phase.DONE, outcome)


@pytest.mark.parametrize(
    ("refusal", "code", "outcome"),
    [
        (CapacityError("none left"), 5, Outcome.NO_CAPACITY),
        (QuotaError("too many", quota="vCPUs"), 4, Outcome.REFUSED),
    ],
)
def test_a_launch_that_no_placement_takes_has_its_code_and_a_receipt(
    tmp_path: Path, provider: FakeProvider, refusal: Exception, code: int, outcome: Outcome
) -> None:
    provider.down["launch"] = refusal
    said = launch("--json", "--deadline", "10m")  # no second pass begins before it
    assert (said.code, said.json["outcome"]) == (code, outcome)
    assert str(refusal) in said.err
    assert the_run(tmp_path) == (Phase.DONE, outcome)


def test_a_run_that_is_taken_away_goes_on_from_its_checkpoint(tmp_path: Path, provider: FakeProvider) -> None:
    provider.scripts = [ended_at_once(EndKind.KILLED), ended_at_once(EndKind.DEVICE_LOST), done_at_once]
    said = launch("--json")
    assert said.code == 0
    receipt = said.json
    assert (receipt["outcome"], receipt["attempts"], receipt["interruptions"]) == ("succeeded", 3, 2)
    assert ", going on from step 6" in said.err
    assert "killed (signal 9)" in said.err
    assert the_run(tmp_path) == (Phase.DONE, Outcome.SUCCEEDED)


def test_a_detached_run_is_found_again(tmp_path: Path, provider: FakeProvider) -> None:
    said = launch("--detach")
    (run_id,) = (machine.request.run_id for machine in provider.machines.values())
    assert (said.code, said.out) == (0, "")
    *_, bills, follow = said.err.splitlines()
    assert bills.startswith(f"run {run_id} bills $0.000/h until 20")
    assert bills.endswith(f" at the latest; plan stop {run_id} ends it")
    assert follow == f"plan attach {run_id} follows it again"
    assert the_run(tmp_path) == (Phase.BOOTING, None)
    assert plan("attach", run_id, "--json").json["outcome"] == "succeeded"
    assert the_run(tmp_path) == (Phase.DONE, Outcome.SUCCEEDED)


def test_a_detached_run_is_named_on_stdout_for_machines(provider: FakeProvider) -> None:
    (run_id,) = {launch("--detach", "--json").json["run_id"]}
    assert [machine.request.run_id for machine in provider.machines.values()] == [run_id]


def test_ctrl_c_during_the_launch_ends_with_130(tmp_path: Path, provider: FakeProvider) -> None:
    provider.refuse["launch", 1] = KeyboardInterrupt()
    said = launch()
    assert said.code == 130
    assert "Traceback" not in said.err
    assert the_run(tmp_path) == (Phase.DONE, Outcome.STOPPED)


def test_a_provider_that_loses_touch_is_asked_again(tmp_path: Path, provider: FakeProvider) -> None:
    provider.refuse["get", 1] = TransientError("connection lost")
    said = launch()
    assert (said.code, said.error) == (0, "")
    assert "\nno answer: connection lost; trying again\n" in said.err
    assert the_run(tmp_path) == (Phase.DONE, Outcome.SUCCEEDED)


@pytest.mark.parametrize(
    ("name", "fix"), [("engine", "make engine sets one up"), ("disk", "free some space"), ("memory", "close something")]
)
def test_what_this_machine_lacks_is_said_before_anything_is_recorded(
    tmp_path: Path, provider: FakeProvider, name: str, fix: str
) -> None:
    ok = Check(name="other", state=PreflightState.OK, detail="fine")
    unknown = Check(name="network", state=PreflightState.UNKNOWN, detail="cannot tell")
    refused = Check(name=name, state=PreflightState.REFUSED, detail="there is none", fix=fix)
    provider.checks = (ok, unknown, refused)
    said = launch()
    assert (said.code, said.error, said.hint) == (9, f"{name}: there is none", fix)
    assert plan("history", "--json").json == []
    provider.checks = (ok, unknown)
    assert launch().code == 0


# --- before it starts --------------------------------------------------------------------------------------------


def test_what_the_trainer_leaves_idle_is_estimated_and_never_rented(tmp_path: Path) -> None:
    """PyTorch with a batch that fits four T4 and no single one."""
    of_torch = {"framework": "torch", "model": {"preset": "vgg16"}, "data": {"name": "imagenet"}}
    (tmp_path / "torch.yaml").write_text(
        json.dumps({"name": "shared", "epochs": 1, "global_batch_size": 512, **of_torch})
    )
    where = ("torch.yaml", "--provider", "sim", "--device", "T4")
    shown = plan("estimate", *where, "--json").json
    assert {(row["device_count"], "estimate only" in row["remarks"]) for row in shown["candidates"]} == {(4, True)}
    (reason,) = {row["launchable"]["reason"] for row in shown["candidates"]}
    assert "torchrun" in reason
    assert f"estimate only: {reason}" in plan("estimate", *where).out.splitlines()
    assert plan("estimate", *where, "--html", "page.html").code == 0
    assert "at sim in sim-east (estimate only), " in (tmp_path / "page.html").read_text(encoding="utf-8")
    explained = plan("estimate", *where, "--explain", "1").out
    assert "DistributedDataParallel" in explained
    assert "buckets of gradients 0.52" in explained
    refused = plan("launch", *where, "--yes")
    assert (refused.code, reason in refused.hint) == (3, True)
    assert plan("status", "--json").json == []


def test_without_somebody_to_ask_it_needs_a_yes(provider: FakeProvider) -> None:
    said = plan("launch", "job.yaml", "--provider", "local")
    assert (said.code, said.error) == (2, "the input is not a terminal, so nobody can be asked")
    assert "--yes" in said.hint
    assert provider.calls == []
    assert plan("history", "--json").json == []


def test_a_dry_run_prints_the_requests_and_asks_for_nothing(tmp_path: Path, provider: FakeProvider) -> None:
    said = plan("launch", "job.yaml", "--provider", "local", "--dry-run")
    assert said.code == 0
    assert said.out.startswith("fake start\n{")
    (row,) = plan("launch", "job.yaml", "--provider", "local", "--dry-run", "--json").json
    assert (row["service"], row["operation"]) == ("fake", "start")
    assert provider.calls == []
    assert plan("history", "--json").json == []


@pytest.mark.parametrize(("obstacle", "message"), [("file", "is there and is not a folder"), ("full", "is not empty")])
def test_a_folder_for_the_model_that_is_taken_is_bad_input(tmp_path: Path, obstacle: str, message: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    answer = launch("--output", obstacle)
    assert answer.code == 2
    assert message in answer.error
    assert plan("history", "--json").json == []


def test_a_deadline_and_a_budget_end_the_run_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_USD_PER_HOUR", "2")

    def lasting(*more: object) -> float:
        launch("--fresh", *more)
        with Journal.open(tmp_path / "home" / "journal.sqlite") as journal:
            run = journal.runs()[0]
            return (run.deadline - run.created_at).total_seconds()

    assert lasting("--deadline", "2h") == 7200
    assert lasting("--deadline", "2h", "--budget", "1") == 7200  # the fake machine is free
    assert lasting() >= 1800


# --- going on ----------------------------------------------------------------------------------------------------


def test_the_same_job_goes_on_and_fresh_does_not(provider: FakeProvider) -> None:
    provider.scripts = [ended_at_once(EndKind.STOPPED), done_at_once]
    first = launch("--json").json
    again = launch("--json")
    assert f"continuing run {first['run_id']} from its newest checkpoint" in again.err
    assert ", going on from step 3" in again.err
    assert (again.json["run_id"], again.json["attempts"]) == (first["run_id"], 2)
    third = launch("--json", "--fresh").json
    assert (third["run_id"] == first["run_id"], third["attempts"]) == (False, 1)


def test_a_changed_job_begins_anew_and_says_what_waits(tmp_path: Path, provider: FakeProvider) -> None:
    provider.scripts = [ended_at_once(EndKind.STOPPED), done_at_once]
    first = launch("--json").json
    text = (tmp_path / "job.yaml").read_text()
    assert "global_batch_size: 32" in text
    (tmp_path / "job.yaml").write_text(text.replace("global_batch_size: 32", "global_batch_size: 16"))
    again = launch("--json")
    waits = f"run {first['run_id']} waits at step 3; the job has changed (global_batch_size 32 -> 16), so that"
    assert waits in again.err
    assert (again.json["run_id"] == first["run_id"], again.json["attempts"]) == (False, 1)
    (tmp_path / "job.yaml").write_text(text.replace("global_batch_size: 32", "global_batch_size: 8"))
    assert "waits at step" not in launch("--json", "--fresh").err


def test_what_waits_is_left_unsaid_where_it_cannot_be_read_and_the_launch_goes_on(
    tmp_path: Path, provider: FakeProvider
) -> None:
    provider.scripts = [ended_at_once(EndKind.STOPPED), done_at_once]
    first = launch("--json").json
    with Journal.open(tmp_path / "home" / "journal.sqlite") as journal:
        journal._db.execute("UPDATE runs SET job_json = '{' WHERE run_id = ?", (first["run_id"],))
    job = tmp_path / "job.yaml"
    job.write_text(job.read_text().replace("global_batch_size: 32", "global_batch_size: 16"))
    again = launch("--json")
    assert (again.json["run_id"] == first["run_id"], again.json["attempts"]) == (False, 1)
    assert "waits at step" not in again.err


def test_the_command_that_goes_on_is_the_one_that_was_typed(provider: FakeProvider) -> None:
    provider.scripts = [ended_at_once(EndKind.STOPPED)]
    said = launch("--deadline", "2h", "--fresh")
    typed = "plan launch job.yaml --provider local --yes --deadline 2h"
    assert f"stopped; {typed} goes on from the newest checkpoint" in said.err
    provider.scripts = [done_at_once]
    assert "continuing run" in plan(*typed.split()[1:]).err


def test_fresh_begins_anew(provider: FakeProvider) -> None:
    provider.scripts = [ended_at_once(EndKind.STOPPED)]
    first = launch("--json").json
    provider.scripts = [done_at_once]
    again = launch("--json", "--fresh")
    assert (again.json["run_id"] == first["run_id"], again.json["attempts"]) == (False, 1)
    assert "going on" not in again.err


def test_another_seed_begins_anew(tmp_path: Path, provider: FakeProvider) -> None:
    provider.scripts = [ended_at_once(EndKind.STOPPED)]
    first = launch("--json").json
    (tmp_path / "job.yaml").write_text(TINY + "seed: 1\n")
    assert launch("--json").json["run_id"] != first["run_id"]


# --- measure, status, logs, stop, history ------------------------------------------------------------------------


def test_measure_keeps_a_rate_and_no_model(tmp_path: Path, provider: FakeProvider) -> None:
    said = plan("measure", "job.yaml", "--steps", 20)
    assert said.code == 0
    assert said.out == "tiny: 4,000.0 images/s on this machine, tensorflow 2.20.0; kept as a measurement\n"
    assert [machine.request.max_steps for machine in provider.machines.values()] == [20]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "job.yaml"]
    assert plan("measure", "job.yaml", "--json").json["images_per_second"] == 4000.0


def test_measure_that_was_too_short_says_so(provider: FakeProvider) -> None:
    def too_short(machine: FakeMachine) -> Iterator[Sighting]:
        *_, last = done_at_once(machine)
        machine.store.delete(f"attempts/{machine.request.attempt}/progress.jsonl")
        yield last

    provider.scripts = [too_short]
    said = plan("measure", "job.yaml", "--steps", 5)
    assert (said.code, said.error) == (6, "5 steps were too few for a steady rate")


def test_measure_that_fails_has_the_code_of_training(provider: FakeProvider) -> None:
    provider.scripts = [ended_at_once(EndKind.OUT_OF_MEMORY)]
    assert plan("measure", "job.yaml").code == 6


def test_history_shows_estimated_against_actual(provider: FakeProvider) -> None:
    provider.scripts = [ended_at_once(EndKind.FAILED)]
    launch()
    provider.scripts = [done_at_once]
    launch("--fresh")
    lines = plan("history").out.splitlines()
    assert lines[0].split() == [
        "run", "job", "where", "started", "outcome", "estimated", "actual", "off", "images/s", "accuracy", "cost",
        "billed",
    ]  # fmt: skip
    assert " succeeded " in lines[1]
    assert " 97.50% " in lines[1]
    assert " failed " in lines[2]
    rows = plan("history", "--json").json
    assert [row["outcome"] for row in rows] == ["succeeded", "failed"]
    assert [row["receipt"]["steps"] for row in rows] == [88, 3]


def _still_running(tmp_path: Path, provider: FakeProvider) -> str:
    """A run that nobody follows while it trains."""

    def trains_on(machine: FakeMachine) -> Iterator[Sighting]:
        machine.start()
        machine.train(5, 4000.0)
        while not machine.stop_asked:
            yield RUNNING
        machine.checkpoint()
        machine.end("stopped", 4000.0)
        yield from ended_at_once(EndKind.STOPPED)(machine)

    provider.scripts = [trains_on]
    launch("--detach")
    with Journal.open(tmp_path / "home" / "journal.sqlite") as journal:
        (run,) = journal.live()
        return run.run_id


def test_status_finds_a_run_that_nobody_follows(tmp_path: Path, provider: FakeProvider) -> None:
    run_id = _still_running(tmp_path, provider)
    for said in (plan("status"), plan("status", run_id[:9])):
        assert said.out.splitlines()[1].split()[:4] == [run_id, "tiny", "local", "running"]
        assert "step 5 of 88" in said.out
    (row,) = plan("status", "--json").json
    assert (row["run_id"], row["phase"], row["progress"], row["attempts"]) == (run_id, "running", "step 5 of 88", 1)


def test_status_says_that_a_run_waits_for_its_machine(provider: FakeProvider) -> None:
    provider.scripts = [waits(600, done_at_once)]
    launch("--detach")
    (row,) = plan("status", "--json").json
    assert (row["phase"], row["progress"]) == ("booting", "waits for a machine")
    assert row["usd_so_far"] == 0


def test_stop_ends_a_run_and_keeps_its_checkpoint(tmp_path: Path, provider: FakeProvider) -> None:
    run_id = _still_running(tmp_path, provider)
    provider.machines[f"{run_id}-1"].stop_asked = True  # or the next look would come a second from now
    said = plan("stop", run_id, "--json")
    assert said.code == 0
    assert provider.store(RunId(run_id)).list("checkpoints")
    assert the_run(tmp_path) == (Phase.DONE, Outcome.STOPPED)
    again = plan("stop", run_id)
    assert (again.code, again.out) == (0, "")
    assert "has ended already: stopped" in again.err
    ended = plan("stop", run_id, "--json").json
    assert (ended["outcome"], ended["had_ended"], ended["ended"]) == ("stopped", True, [f"{run_id}-1"])
    assert ended["ended_at"] is not None


def test_logs_are_the_trainers_words(tmp_path: Path, provider: FakeProvider) -> None:
    run_id = launch("--json").json["run_id"]
    assert "the instance's own words" in plan("logs", run_id).out
    provider.store(run_id).put("attempts/1/log/output.log", b"one\ntwo\n\xff\n")
    assert plan("logs", run_id).out == "one\ntwo\n\ufffd\n"
    events = [json.loads(line)["event"] for line in plan("logs", run_id, "--json").out.splitlines()]
    assert events == ["start", "epoch", "step", "epoch", "step", "end"]
    assert plan("logs", run_id, "-f").out == plan("logs", run_id).out
