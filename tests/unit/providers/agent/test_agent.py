"""Whole attempts on a machine that is not there: how each ends, and what is in the store then."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from providers.agent import watch
from providers.agent.status import FINAL
from providers.agent.store import DeniedError
from tests.unit.providers.agent.machine import IMAGE, NOON, SECOND_IMAGE, FakeRunning, MemoryStore, Rented

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def rented(tmp_path: Path) -> Rented:
    return Rented(tmp_path)


def checkpoints(store: MemoryStore) -> list[str]:
    return sorted(path.split("/")[1] for path in store.objects if path.endswith("/complete.json"))


def test_a_run_is_trained_and_brought_home(rented: Rented) -> None:
    ending = rented.run()
    assert ending.state == rented.status["state"] == "done"
    assert rented.status["exit_code"] == 0
    assert rented.status["checkpoint"] == "step-00000090", "after a good end the results are what counts"
    assert rented.store.objects["output/model.keras"] == b"model"
    manifest = rented.store.json("output/manifest.json")
    assert [row["path"] for row in manifest] == ["model.keras"]
    order = rented.store.puts
    assert order.index("output/manifest.json") > order.index("output/model.keras")
    lines = [json.loads(line) for line in rented.store.objects["attempts/1/progress.jsonl"].splitlines()]
    assert [line["event"] for line in lines][:2] == ["start", "step"]
    assert lines[-1]["event"] == "end"


def test_the_newest_two_checkpoints_are_kept_and_marks_come_last(rented: Rented) -> None:
    rented.run()
    assert checkpoints(rented.store) == ["step-00000060", "step-00000090"]
    order = rented.store.puts
    for name in ("step-00000060", "step-00000090"):
        assert order.index(f"checkpoints/{name}/complete.json") > order.index(f"checkpoints/{name}/state.npz")
    # What is half removed must not look whole.
    oldest = "checkpoints/step-00000030"
    assert rented.store.deleted[:2] == [f"{oldest}/complete.json", f"{oldest}/state.npz"]


def test_the_heart_beats_while_anything_runs(rented: Rented) -> None:
    beats: list[float] = []
    rented.store.at_put = lambda path: beats.append(rented.clock.instant) if path.endswith("status.json") else None
    rented.trainer.total_steps = 600
    rented.run()
    gaps = [later - earlier for earlier, later in itertools.pairwise(beats)]
    assert max(gaps) <= 30
    assert len(beats) < 60


def test_the_state_goes_through_its_stations(rented: Rented) -> None:
    states: list[str] = []

    def note(path: str) -> None:
        if path.endswith("status.json"):
            state = rented.agent.status.state
            states.extend([state] if states[-1:] != [state] else [])

    rented.store.at_put = note
    rented.run()
    assert states == ["booting", "fetching", "preparing", "checking", "running", "stopping", "done"]


def test_an_accelerator_that_the_framework_does_not_see_ends_the_run_before_training(rented: Rented) -> None:
    rented.docker.gate_code, rented.docker.gate_says = 1, b"tensorflow 2.21.0 sees 0 gpu:\npromised: 1\n"
    assert rented.run().reason == "ACCELERATOR_NOT_VISIBLE"
    assert "sees 0 gpu" in rented.status["message"]
    assert "NVIDIA T4" in rented.status["message"], "the machine's own view is told too"
    assert not rented.docker.asked("docker", "create")


def test_a_gate_that_says_nothing_does_not_pass(rented: Rented) -> None:
    rented.docker.gate_says = b""
    assert rented.run().reason == "ACCELERATOR_NOT_VISIBLE"


def test_a_machine_without_its_gpu_does_not_train(rented: Rented) -> None:
    rented.docker.gpus = 0
    assert rented.run().reason == "ACCELERATOR_NOT_VISIBLE"
    assert not rented.docker.asked("docker", "create")


def test_a_trainer_that_falls_back_to_the_processor_is_ended(rented: Rented) -> None:
    rented.trainer.device_kind = "cpu"
    assert rented.run().reason == "ACCELERATOR_NOT_VISIBLE"
    assert rented.status["state"] == "failed"
    assert len(rented.trainer.done_steps) < 10


@pytest.mark.parametrize("where", ["gpus", "gpus_inside"])
def test_an_accelerator_lost_while_training_is_an_interruption(rented: Rented, where: str) -> None:
    rented.trainer.total_steps = 1000
    rented.at(200, lambda: setattr(rented.docker, where, 0))
    ending = rented.run()
    assert (ending.state, ending.reason) == ("interrupted", "ACCELERATOR_LOST")
    assert rented.clock.instant - NOON < 200 + 60 + 30
    assert checkpoints(rented.store)[-1] == f"step-{rented.trainer.step:08}"


def test_a_driver_that_is_slow_once_is_no_loss(rented: Rented) -> None:
    rented.trainer.total_steps = 300
    seen = {"looks": 0}
    usual = rented.docker.start

    def start(words: Any) -> Any:
        if words[0] == "nvidia-smi":
            seen["looks"] += 1
            rented.docker.gpus = 0 if seen["looks"] == 3 else 1
        return usual(words)

    rented.docker.start = start  # type: ignore[method-assign]
    assert rented.run().state == "done"
    assert seen["looks"] > 5


def test_a_notice_leaves_the_last_checkpoint(rented: Rented) -> None:
    rented.trainer.total_steps = 1000
    rented.at(100, rented.preempt)
    ending = rented.run()
    assert (ending.state, rented.status["state"]) == ("interrupted", "interrupted")
    assert "Google" in rented.status["message"]
    assert checkpoints(rented.store)[-1] == f"step-{rented.trainer.step:08}"
    assert rented.clock.instant < NOON + 100 + 30


def test_a_checkpoint_that_does_not_fit_the_notice_is_not_tried(rented: Rented) -> None:
    rented.store.seconds_per_byte = 0.045  # 45 s for one of 1000 bytes; the notice gives 30
    rented.trainer.total_steps, rented.trainer.checkpoint_every = 1000, 100
    rented.at(270, rented.preempt)
    assert rented.run().state == "interrupted"
    assert checkpoints(rented.store) == ["step-00000100", "step-00000200"]
    assert not [path for path in rented.store.objects if "step-000002" in path and "step-00000200" not in path]
    assert rented.trainer.step > 250


def test_a_trainer_that_ignores_the_notice_is_killed_in_time(rented: Rented) -> None:
    rented.trainer.ignores_term = True
    rented.trainer.total_steps = 1000
    rented.at(100, rented.preempt)
    assert rented.run().state == "interrupted"
    assert rented.clock.instant < NOON + 130
    assert rented.status["exit_code"] == 137


@pytest.mark.parametrize("jobs", ["", "No jobs running.", "  61 poweroff.target start waiting\n"])
def test_a_machine_that_is_shut_down_says_so(rented: Rented, jobs: str) -> None:
    rented.trainer.total_steps, rented.docker.jobs = 1000, jobs
    rented.at(50, lambda: setattr(rented.agent.watch, "going_down", True))
    ending = rented.run()
    assert (ending.state, ending.reason) == ("interrupted", "MACHINE_GOING_DOWN")
    assert checkpoints(rented.store)


@pytest.mark.parametrize("away_seconds", [60, 7000 - 3600])
def test_a_machine_that_is_told_to_restart_goes_on_in_its_attempt(tmp_path: Path, away_seconds: float) -> None:
    """Nobody may take the attempt for over: with a last word, its machine would be deleted and another one rented."""
    first = Rented(tmp_path)
    first.trainer.total_steps, first.docker.jobs = 1000, "  61 reboot.target start waiting\n"
    first.at(95, lambda: setattr(first.agent.watch, "going_down", True))
    assert first.run().state == first.status["state"] == "restarting"
    assert first.status["state"] not in FINAL
    step = first.trainer.step
    assert checkpoints(first.store)[-1] == f"step-{step:08}"
    assert first.clock.instant < NOON + 95 + 30
    first.clock.instant += away_seconds
    second = Rented(tmp_path, store=first.store, clock=first.clock)
    second.trainer.total_steps = step + 60
    assert second.run().state == second.status["state"] == "done"
    assert second.trainer.done_steps[0] == step + 1


def test_a_machine_that_comes_back_and_does_not_train_ends(tmp_path: Path) -> None:
    first = Rented(tmp_path, deadline=NOON + 36_000)
    first.at(95, lambda: _power_cut())
    with pytest.raises(KeyboardInterrupt):
        first.run()
    back = first.clock.instant = NOON + 9000
    second = Rented(tmp_path, store=first.store, clock=first.clock, deadline=NOON + 36_000)
    second.docker.start = _slow_pull(second)  # type: ignore[method-assign]
    assert second.run().reason == "BOOT_DEADLINE"
    assert back + watch.BACK_SECONDS <= second.clock.instant < back + watch.BACK_SECONDS + 60


def test_a_stop_of_the_person(rented: Rented) -> None:
    rented.trainer.total_steps = 1000
    rented.at(60, lambda: rented.store.objects.update({watch.STOP: b""}))
    ending = rented.run()
    assert (ending.state, ending.exit_code) == ("stopped", 75)
    assert rented.clock.instant < NOON + 60 + 30
    assert checkpoints(rented.store)[-1] == f"step-{rented.trainer.step:08}"


def test_the_deadline_leaves_time_to_bring_the_checkpoint_home(tmp_path: Path) -> None:
    rented = Rented(tmp_path, deadline=NOON + 600)
    rented.trainer.total_steps = 5000
    assert rented.run().state == "deadline"
    assert NOON + 400 < rented.clock.instant < NOON + 600
    assert checkpoints(rented.store)[-1] == f"step-{rented.trainer.step:08}"


def test_the_boot_deadline(rented: Rented) -> None:
    rented.docker.refused = {"registry.example": "toomanyrequests: 429", "second.example": "timeout"}
    rented.docker.start = _slow_pull(rented)  # type: ignore[method-assign]
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "BOOT_DEADLINE")
    assert "fetching" in rented.status["message"]
    # Said before the machine's own timer ends it.
    assert NOON + 1790 < rented.clock.instant < NOON + 1800


def _slow_pull(rented: Rented) -> Any:
    usual = rented.docker.start
    return lambda words: FakeRunning(None) if words[1] == "pull" else usual(words)


def test_a_hung_container(tmp_path: Path) -> None:
    rented = Rented(tmp_path, hung_seconds=300)
    rented.trainer.silent = True
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "HUNG")
    assert rented.clock.instant < NOON + 360


def test_output_alone_is_a_sign_of_life(tmp_path: Path) -> None:
    rented = Rented(tmp_path, hung_seconds=300)
    rented.trainer.silent = True

    def speaks(now: float) -> None:
        if rented.docker.state == "running" and now - NOON < 2000:
            rented.docker.log.says = b"downloading\n"
        elif rented.docker.state == "running":
            rented.trainer.step = 120
            rented.trainer.finish()

    rented.clock.at_sleep.append(speaks)
    assert rented.run().state == "done"


def test_a_full_disk(rented: Rented) -> None:
    rented.trainer.total_steps = 1000
    rented.at(100, lambda: setattr(rented, "free_bytes", watch.LEAST_FREE_BYTES - 1))
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "DISK_FULL")
    assert "larger" in rented.status["message"]
    assert checkpoints(rented.store)[-1] == f"step-{rented.trainer.step:08}"


def test_the_second_registry_helps_where_the_first_refuses(rented: Rented) -> None:
    rented.docker.refused = {"registry.example": "toomanyrequests: 429"}
    assert rented.run().state == "done"
    assert rented.status["image"] == SECOND_IMAGE
    assert [words[-1] for words in rented.docker.asked("docker", "pull")] == [IMAGE, SECOND_IMAGE]


def test_an_image_that_nobody_gives(rented: Rented) -> None:
    rented.docker.refused = {"registry.example": "toomanyrequests: 429", "second.example": "no such host"}
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "IMAGE_NOT_PULLED")
    assert "429" in rented.status["message"]
    assert "no such host" in rented.status["message"]
    assert len(rented.docker.asked("docker", "pull")) == 8


def test_a_store_that_is_away_for_minutes_costs_nothing(rented: Rented) -> None:
    rented.trainer.total_steps = 900
    rented.at(100, lambda: setattr(rented.store, "away", True))
    rented.at(500, lambda: setattr(rented.store, "away", False))
    assert rented.run().state == "done"
    assert rented.status["state"] == "done"
    assert checkpoints(rented.store) == ["step-00000840", "step-00000870"]
    steps = rented.store.objects["attempts/1/progress.jsonl"].count(b'"step"')
    assert steps > 80


def test_a_store_that_stays_away_does_not_keep_the_machine(tmp_path: Path) -> None:
    rented = Rented(tmp_path, store_patience_seconds=900)
    rented.at(100, lambda: setattr(rented.store, "away", True))
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "RESULTS_NOT_STORED")
    assert rented.clock.instant < NOON + 120 + 1900
    assert json.loads((rented.paths.root / "status.json").read_text())["reason"] == "RESULTS_NOT_STORED"


def test_a_store_that_never_answers_is_a_boot_deadline(rented: Rented) -> None:
    rented.store.away = True
    assert rented.run().reason == "BOOT_DEADLINE"
    assert rented.clock.instant < NOON + 1800 + 1900


@pytest.mark.parametrize(
    ("code", "state", "reason"),
    [
        (65, "failed", "BAD_JOB"),
        (70, "failed", "TRAINING_FAILED"),
        (75, "stopped", "STOPPED"),
        (76, "deadline", "DEADLINE"),
        (86, "failed", "OUT_OF_MEMORY"),
        (127, "failed", "CONTAINER_NOT_STARTED"),
        (137, "failed", "KILLED"),
        (3, "failed", "TRAINING_FAILED"),
    ],
)
def test_what_exit_codes_become(rented: Rented, code: int, state: str, reason: str) -> None:
    rented.trainer.exit_code = code
    ending = rented.run()
    assert (ending.state, ending.reason, rented.status["exit_code"]) == (state, reason, code)
    assert checkpoints(rented.store), "the last checkpoint is kept however it ended"
    assert "output/manifest.json" not in rented.store.objects


def test_the_trainers_own_words_are_told(rented: Rented) -> None:
    rented.trainer.exit_code = 65
    rented.at(20, lambda: _write(rented.trainer.folder / "status.json", '{"message": "7 classes, 8 folders"}'))
    rented.run()
    assert "7 classes, 8 folders" in rented.status["message"]


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def test_a_kill_for_memory(rented: Rented) -> None:
    rented.docker.out_of_memory = True
    rented.trainer.exit_code = 137
    assert rented.run().reason == "OUT_OF_MEMORY"


def test_a_good_end_without_output_is_a_failure(rented: Rented) -> None:
    rented.trainer.finish = lambda: rented.docker.exits(0)  # type: ignore[method-assign]
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "NO_OUTPUT")


def test_output_that_differs_from_its_manifest_is_not_vouched_for(rented: Rented) -> None:
    usual = rented.trainer.finish

    def finish() -> None:
        usual()
        (rented.paths.run_dir / "output" / "model.keras").write_bytes(b"other")

    rented.trainer.finish = finish  # type: ignore[method-assign]
    assert rented.run().reason == "NO_OUTPUT"
    assert "output/manifest.json" not in rented.store.objects


def test_it_goes_on_from_the_newest_whole_checkpoint(tmp_path: Path) -> None:
    first = Rented(tmp_path / "a")
    first.trainer.total_steps = 1000
    first.at(100, first.preempt)
    first.run()
    step = first.trainer.step
    first.store.objects["checkpoints/step-00000999/state.npz"] = b"half"
    second = Rented(tmp_path / "b", store=first.store, clock=first.clock, attempt=2)
    second.trainer.total_steps = step + 60
    assert second.run().state == "done"
    assert second.trainer.done_steps[0] == step + 1
    assert second.status["resumed_from"] == f"step-{step:08}"


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    first = Rented(tmp_path / "a")
    first.run()
    first.store.objects["checkpoints/step-00000090/state.npz"] = b"damaged"
    second = Rented(tmp_path / "b", store=first.store, clock=first.clock, attempt=2)
    second.trainer.total_steps = 150
    second.run()
    assert second.trainer.done_steps[0] == 61


def test_a_restarted_machine_goes_on_by_itself(tmp_path: Path) -> None:
    """The disk is still there, and what was told is told on."""
    first = Rented(tmp_path)
    first.trainer.total_steps = 1000
    first.at(95, lambda: _power_cut())
    with pytest.raises(KeyboardInterrupt):
        first.run()
    first.store.objects["attempts/1/log/00007.log"] = b"before\n"
    told = first.store.objects["attempts/1/progress.jsonl"]
    second = Rented(tmp_path, store=first.store, clock=first.clock)
    second.trainer.total_steps = 200
    second.at(0, lambda: setattr(second.docker.log, "says", b""))
    assert second.run().state == "done"
    assert second.trainer.done_steps[0] == 91
    assert second.store.objects["attempts/1/progress.jsonl"].startswith(told)
    assert second.docker.asked("docker", "rm", "-f", "trainplan-job")


def _power_cut() -> None:
    raise KeyboardInterrupt


def test_a_machine_that_had_ended_does_not_train_again(tmp_path: Path) -> None:
    first = Rented(tmp_path)
    first.run()
    second = Rented(tmp_path, store=first.store, clock=first.clock)
    assert second.run().state == "done"
    assert not second.docker.asked("docker")


def test_three_interruptions_at_random_moments_and_the_run_still_ends_with_all_its_steps(tmp_path: Path) -> None:
    """Each costs at most a checkpoint interval and 30 seconds, whether there was a notice or the power just went."""
    draw = random.Random(7)
    for trial in range(6):
        store, clock, done, lost = None, None, False, []
        for attempt in range(1, 6):
            rented = Rented(tmp_path / f"{trial}-{attempt}", store=store, clock=clock, attempt=attempt)
            store, clock = rented.store, rented.clock
            rented.trainer.total_steps = 400
            began, cut, noticed = clock.instant - NOON, draw.uniform(20, 150), draw.random() < 0.5
            if attempt <= 3:
                rented.at(began + cut, rented.preempt if noticed else _power_cut)
            with contextlib.suppress(KeyboardInterrupt):
                done = rented.run().state == "done"
            kept = int(checkpoints(store)[-1][5:]) if checkpoints(store) else 0
            lost.append(rented.trainer.step - kept)
            if done:
                break
        assert done
        assert rented.trainer.step == 400
        assert max(lost) <= 30 + 30
        assert "output/manifest.json" in rented.store.objects


def test_secrets_reach_the_container_and_nothing_else(tmp_path: Path) -> None:
    rented = Rented(tmp_path, secrets={"API_KEY": "gcp-sm:projects/p/secrets/s/versions/1"})
    rented.secrets = {"projects/p/secrets/s/versions/1": "hunter2-secret"}
    usual = rented.docker.on_start

    def start() -> None:
        usual()
        rented.docker.log.says = b"my key is hunter2-secret, hunter2-\nsecret no\n"

    rented.docker.on_start = start
    rented.trainer.tell = _leaky(rented.trainer.tell)  # type: ignore[method-assign]
    rented.run()
    assert rented.docker.env_file == "API_KEY=hunter2-secret\n"
    assert not any("hunter2" in word for words in rented.docker.words for word in words)
    assert not [path for path, data in rented.store.objects.items() if b"hunter2-secret" in data]
    assert b"my key is ***" in rented.store.objects["attempts/1/log/00001.log"]
    assert not list(tmp_path.rglob("secrets.env"))


def _leaky(tell: Any) -> Any:
    return lambda event, **fields: tell(event, note="hunter2-secret", **fields)


def test_docker_that_does_not_work_is_told(rented: Rented) -> None:
    rented.docker.broken = {"docker create": "Cannot connect to the Docker daemon"}
    assert rented.run().reason == "ENGINE"
    assert "Cannot connect" in rented.status["message"]


def test_no_container_without_the_wall_before_the_metadata_service(rented: Rented) -> None:
    rented.docker.broken = {"iptables -w": "iptables: No chain/target/match by that name."}
    assert rented.run().reason == "ENGINE"
    assert not rented.docker.asked("docker", "run")
    assert not rented.docker.asked("docker", "create")


def test_a_setup_that_fails_is_told(tmp_path: Path) -> None:
    rented = Rented(tmp_path, setup=("pip", "install", "x"))
    rented.docker.gate_code, rented.docker.gate_says = 1, b"no such wheel\n"
    assert rented.run().reason == "SETUP_FAILED"
    assert "no such wheel" in rented.status["message"]


def test_a_fault_of_our_own_still_leaves_a_status(rented: Rented) -> None:
    rented.docker.broken = {}
    rented.agent.checkpoints.restore = _fault  # type: ignore[method-assign]
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "AGENT_FAILED")
    assert "ZeroDivisionError" in rented.status["message"]


def _fault() -> Any:
    raise ZeroDivisionError


def test_docker_that_dies_while_it_trains_still_leaves_the_checkpoint(rented: Rented) -> None:
    rented.trainer.total_steps = 1000
    rented.at(100, lambda: rented.docker.broken.update({"docker inspect": "Cannot connect to the Docker daemon"}))
    assert rented.run().reason == "ENGINE"
    assert rented.clock.instant < NOON + 130
    assert checkpoints(rented.store)


def test_docker_that_is_slow_to_answer_is_not_dead(rented: Rented) -> None:
    rented.at(50, lambda: rented.docker.broken.update({"docker inspect": "timeout"}))
    rented.at(55, rented.docker.broken.clear)
    assert rented.run().state == "done"


def test_a_log_that_was_cut_off_is_followed_on(rented: Rented) -> None:
    def cut() -> None:
        rented.docker.log = FakeRunning(0)
        rented.agent.training._follow = rented.docker.log  # the one that ended
        rented.docker.log = FakeRunning(says=b"and on\n", ends=lambda: None if rented.docker.state == "running" else 0)

    rented.at(50, cut)
    rented.run()
    assert rented.store.objects["attempts/1/log/00001.log"] == b"and on\n"
    since = rented.docker.asked("docker", "logs")[-1]
    assert float(since[since.index("--since") + 1]) == pytest.approx(NOON + 50, abs=5)


def test_a_spool_that_cannot_be_written_costs_lines_not_the_run(rented: Rented) -> None:
    def spoil() -> None:
        rented.agent.training._progress.push()
        spool = rented.paths.spool / "progress.jsonl"
        spool.unlink()
        spool.mkdir()

    rented.at(50, spoil)
    assert rented.run().state == "done"


def test_in_the_face_of_a_notice_the_checkpoint_goes_before_what_is_left_to_tell(rented: Rented) -> None:
    rented.trainer.total_steps = 1000
    (rented.trainer.folder / "log").mkdir(parents=True)
    _write(rented.trainer.folder / "log" / "traceback.txt", "Traceback")
    rented.at(100, rented.preempt)
    rented.run()
    order = rented.store.puts
    newest = order.index(f"checkpoints/step-{rented.trainer.step:08}/complete.json")
    assert newest < order.index("attempts/1/log/traceback.txt") < len(order) - 1
    assert b'"end"' in rented.store.objects["attempts/1/progress.jsonl"]


# --- a store that lets nobody in ---------------------------------------------------------------------------------


def denied(path: str) -> None:
    if path.endswith("/status.json"):
        raise DeniedError(f"{path}: 403 AccessDenied")


@pytest.mark.parametrize("pull_seconds", [0.0, 400.0])
def test_a_store_that_refuses_every_write_ends_the_machine_within_minutes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], pull_seconds: float
) -> None:
    """It can tell nobody but its console: planner/looking.py reads that."""
    rented = Rented(tmp_path, refused_seconds=120.0)
    rented.docker.pull_seconds = pull_seconds
    rented.trainer.total_steps = 900
    rented.store.at_put = denied
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "STORE_REFUSED")
    assert 120 <= rented.clock.instant - NOON < 180
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "STORE_REFUSED" in line]
    assert line.startswith("trainplan: STORE_REFUSED: this machine may not write its run directory: attempts/1/status")


def test_a_right_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    rented = Rented(tmp_path, refused_seconds=120.0)
    rented.docker.pull_seconds = 400.0
    rented.store.at_put = denied
    rented.at(100, lambda: setattr(rented.store, "at_put", lambda path: None))
    assert rented.run().state == "done"


def test_a_right_that_is_lost_while_it_trains_does_not_end_the_training(tmp_path: Path) -> None:
    rented = Rented(tmp_path, refused_seconds=120.0)
    rented.trainer.total_steps = 900
    rented.at(100, lambda: setattr(rented.store, "at_put", denied))
    rented.at(600, lambda: setattr(rented.store, "at_put", lambda path: None))
    assert rented.run().state == "done"
