"""Attempts that are interrupted: notices, restarts, stops, deadlines, and how the next life goes on."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

from tests.unit.providers.agent.machine import NOON, FakeRunning, Rented
from tests.unit.providers.agent.stored import checkpoints, write
from trainplan.providers.agent import watch
from trainplan.providers.agent.status import FINAL
from trainplan.workloads.output_files import STOPPED_FOR_GOOD


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


@pytest.mark.parametrize("is_for_good", [True, False])
def test_what_a_script_saved_is_stored_where_a_person_stops_it_for_good(rented: Rented, *, is_for_good: bool) -> None:
    """Where the run goes on elsewhere, an output would end it."""
    rented.trainer.total_steps, rented.trainer.is_script = 1000, True
    mark = {f"attempts/1/{STOPPED_FOR_GOOD}": b"stopped by a person\n"} if is_for_good else {}
    rented.at(60, lambda: rented.store.objects.update({watch.STOP: b"", **mark}))
    ending = rented.run()
    assert (ending.state, ending.exit_code) == (("done", 77) if is_for_good else ("stopped", 75))
    assert ("output/manifest.json" in rented.store.objects) is is_for_good
    assert checkpoints(rented.store)[-1] == f"step-{rented.trainer.step:08}"


def test_a_stop_for_good_that_comes_while_it_ends_for_a_move_is_heard(rented: Rented) -> None:
    rented.trainer.total_steps, rented.trainer.is_script, rented.trainer.seconds_to_end = 1000, True, 60.0
    rented.at(60, lambda: rented.store.objects.update({watch.STOP: b""}))
    rented.at(100, lambda: rented.store.objects.update({f"attempts/1/{STOPPED_FOR_GOOD}": b"stopped by a person\n"}))
    ending = rented.run()
    assert (ending.state, ending.exit_code) == ("done", 77)
    assert "output/manifest.json" in rented.store.objects


def test_the_mark_of_a_stop_is_not_written_through_a_link_of_the_container(rented: Rented, tmp_path: Path) -> None:
    rented.trainer.total_steps = 1000
    (tmp_path / "elsewhere").mkdir()

    def swap() -> None:
        folder = rented.trainer.folder
        folder.rename(folder.with_name("old"))
        folder.symlink_to(tmp_path / "elsewhere")
        rented.store.objects.update({watch.STOP: b"", f"attempts/1/{STOPPED_FOR_GOOD}": b""})

    rented.at(60, swap)
    assert rented.run().state == "stopped"
    assert not (tmp_path / "elsewhere" / STOPPED_FOR_GOOD).exists()


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
    assert second.docker.calls_of("docker", "rm", "-f", "trainplan-job")


def _power_cut() -> None:
    raise KeyboardInterrupt


def test_a_machine_that_had_ended_does_not_train_again(tmp_path: Path) -> None:
    first = Rented(tmp_path)
    first.run()
    second = Rented(tmp_path, store=first.store, clock=first.clock)
    assert second.run().state == "done"
    assert not second.docker.calls_of("docker")


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


def test_in_the_face_of_a_notice_the_checkpoint_goes_before_what_is_left_to_tell(rented: Rented) -> None:
    rented.trainer.total_steps = 1000
    (rented.trainer.folder / "log").mkdir(parents=True)
    write(rented.trainer.folder / "log" / "traceback.txt", "Traceback")
    rented.at(100, rented.preempt)
    rented.run()
    order = rented.store.puts
    newest = order.index(f"checkpoints/step-{rented.trainer.step:08}/complete.json")
    assert newest < order.index("attempts/1/log/traceback.txt") < len(order) - 1
    assert b'"end"' in rented.store.objects["attempts/1/progress.jsonl"]
