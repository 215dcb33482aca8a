"""Whole attempts on a machine that is not there: how training goes and ends, and what is in the store then."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.providers.agent.machine import IMAGE, NOON, SECOND_IMAGE, FakeRunning, Rented
from tests.unit.providers.agent.stored import checkpoints, write
from trainplan.providers.agent import watch


def test_crashes_before_a_checkpoint_are_not_in_a_row_with_later_ones(rented: Rented) -> None:
    rented.paths.crashes.parent.mkdir(parents=True, exist_ok=True)
    rented.paths.crashes.write_text("crashed\ncrashed\n")
    rented.run()
    assert not rented.paths.crashes.exists()


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
    assert not rented.docker.calls_of("docker", "create")


def test_a_step_that_the_accelerator_cannot_do_ends_the_run_before_training(rented: Rented) -> None:
    """As a V100 with a cuDNN that has no code for it: it is listed, multiplies, and fails at the first batch norm."""
    words = b"trying the batch norm\nthe batch norm failed: CUDNN_STATUS_EXECUTION_FAILED\n"
    rented.docker.gate_code, rented.docker.gate_says = 1, b"tensorflow 2.21.0 sees 1 gpu\n" + words
    assert rented.run().reason == "ACCELERATOR_NOT_VISIBLE"
    assert "failed at the batch norm" in rented.status["message"]
    assert "CUDNN_STATUS_EXECUTION_FAILED" in rented.status["message"]
    assert not rented.docker.calls_of("docker", "create")


def test_a_gate_that_says_nothing_does_not_pass(rented: Rented) -> None:
    rented.docker.gate_says = b""
    assert rented.run().reason == "ACCELERATOR_NOT_VISIBLE"


def test_a_machine_without_its_gpu_does_not_train(rented: Rented) -> None:
    rented.docker.gpus = 0
    assert rented.run().reason == "ACCELERATOR_NOT_VISIBLE"
    assert not rented.docker.calls_of("docker", "create")


def test_a_trainer_that_falls_back_to_the_processor_is_ended(rented: Rented) -> None:
    rented.trainer.device_kind = "cpu"
    assert rented.run().reason == "ACCELERATOR_NOT_VISIBLE"
    assert rented.status["state"] == "failed"
    assert len(rented.trainer.done_steps) < 10


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
    assert [words[-1] for words in rented.docker.calls_of("docker", "pull")] == [IMAGE, SECOND_IMAGE]


def test_an_image_that_nobody_gives(rented: Rented) -> None:
    rented.docker.refused = {"registry.example": "toomanyrequests: 429", "second.example": "no such host"}
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "IMAGE_NOT_PULLED")
    assert "429" in rented.status["message"]
    assert "no such host" in rented.status["message"]
    assert len(rented.docker.calls_of("docker", "pull")) == 8


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
    rented.at(20, lambda: write(rented.trainer.folder / "status.json", '{"message": "7 classes, 8 folders"}'))
    rented.run()
    assert "7 classes, 8 folders" in rented.status["message"]


def test_a_limit_in_the_last_lines_of_the_output_is_told(rented: Rented) -> None:
    rented.trainer.exit_code = 1
    said = b"epoch 1\nRuntimeError: can't start new thread"
    rented.at(100, lambda: setattr(rented.docker.log, "says", said))
    assert rented.run().reason == "PROCESS_LIMIT"
    assert "the limit of 16,384 processes and threads was reached" in rented.status["message"]
    assert b"new thread" in rented.store.objects["attempts/1/log/00001.log"]


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
    assert not rented.docker.calls_of("docker", "run")
    assert not rented.docker.calls_of("docker", "create")


def test_a_setup_that_fails_is_told(tmp_path: Path) -> None:
    rented = Rented(tmp_path, setup=("pip", "install", "x"))
    rented.docker.gate_code, rented.docker.gate_says = 1, b"no such wheel\n"
    assert rented.run().reason == "SETUP_FAILED"
    assert "no such wheel" in rented.status["message"]
    assert len(rented.docker.calls_of("docker", "run")) == 3, "an index that is down may be up again"


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
    since = rented.docker.calls_of("docker", "logs")[-1]
    assert float(since[since.index("--since") + 1]) == pytest.approx(NOON + 50, abs=5)


def test_a_spool_that_cannot_be_written_costs_lines_not_the_run(rented: Rented) -> None:
    def spoil() -> None:
        rented.agent.training._progress.push()
        spool = rented.paths.spool / "progress.jsonl"
        spool.unlink()
        spool.mkdir()

    rented.at(50, spoil)
    assert rented.run().state == "done"
