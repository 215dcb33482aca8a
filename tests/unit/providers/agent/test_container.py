"""The words with which the agent makes a container and asks the gate in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.rows import each_row
from tests.unit.providers.agent.machine import IMAGE, spec
from trainplan.providers.agent.container import (
    Container,
    EngineError,
    Exit,
    container_memory_gib,
    create_arguments,
    firewall,
    once_arguments,
)
from trainplan.providers.agent.endings import Ending, judge_ending
from trainplan.providers.agent.processes import MachineProcesses, ProcessResult
from trainplan.providers.agent.spec import Device, Paths

PATHS = Paths()


def test_the_containers_words() -> None:
    words = create_arguments(
        spec(memory_gib=12.5, environment={"A": "b c"}), PATHS, IMAGE, "/run/trainplan/secrets.env"
    )
    line = " ".join(words)
    assert words[:4] == ("docker", "create", "--name", "trainplan-job")
    for part in (
        "--stop-timeout 110",
        "--init",
        "--shm-size 8g",
        "--memory 12800m",
        "--pids-limit 16384 --ulimit nofile=65536:65536",
        "--gpus all",
        "--env-file /run/trainplan/secrets.env",
        "-v /var/lib/trainplan/run-dir:/run-dir",
        "--log-driver local --log-opt max-size=20m --log-opt max-file=3",
    ):
        assert part in line
    assert "A=b c" in words
    assert "--privileged" not in words
    assert "--network" not in words
    assert words[words.index(IMAGE) + 1 :] == spec().command


@pytest.mark.parametrize(("machine_gib", "container_gib"), [(1, 0.5), (4, 3.5), (16, 15), (64, 60), (488, 484)])
def test_the_system_keeps_some_of_the_memory(machine_gib: float, container_gib: float) -> None:
    assert container_memory_gib(int(machine_gib * 1024**3)) == container_gib


@pytest.mark.parametrize(("error", "log_text"), [("no such device", "no such device"), ("", ""), (None, "")])
def test_what_the_engine_says_of_a_container_that_did_not_start_is_told(error: str | None, log_text: str) -> None:
    """A person can do something about the engine's own words, and little about `exit code 127`."""

    class Engine(MachineProcesses):
        def run(self, words: Sequence[str], seconds: float, text: str = "") -> ProcessResult:
            return ProcessResult(
                0, json.dumps({"Status": "exited", "ExitCode": 125, "OOMKilled": False, "Error": error})
            )

    ended = Container(Engine()).exit()
    assert ended is not None
    assert ended.error == log_text
    message = judge_ending(ended, None, "").message
    assert message == ": ".join(["the container could not be started", *([log_text] if log_text else [])])


@each_row(
    ("said", "code", "reason"),
    [
        ("OSError: [Errno 24] Too many open files: '/data/7.png'", 1, "OPEN_FILE_LIMIT"),
        ("the data cannot be read: Too many open files", 65, "OPEN_FILE_LIMIT"),
        ("OSError: [Errno 28] No space left on device", 1, "DISK_FULL"),
        ("RuntimeError: can't start new thread", 70, "PROCESS_LIMIT"),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", 1, "PROCESS_LIMIT"),
        ("sh: 1: Cannot fork", 2, "PROCESS_LIMIT"),
        ("RuntimeError: can't start new thread", 137, "KILLED"),
        ("ValueError: 7 classes, 8 folders", 1, "TRAINING_FAILED"),
    ],
)
@each_row("in_output", [True, False])
def test_a_limit_that_was_reached_is_told_as_one(said: str, code: int, reason: str, in_output: bool) -> None:
    """A person can start fewer loaders; of `training failed` they know nothing."""
    message, output = ("", f"epoch 1\n{said}\n") if in_output else (said, "")
    ending = judge_ending(Exit(code, out_of_memory=False, error=""), None, message, output)
    assert (ending.state, ending.reason, ending.exit_code) == ("failed", reason, code)
    if reason.endswith("_LIMIT"):
        assert "the limit of" in ending.message


@pytest.mark.parametrize(
    ("code", "reason"), [(137, "OUT_OF_MEMORY"), (70, "OUT_OF_MEMORY"), (1, "OUT_OF_MEMORY"), (65, "BAD_JOB")]
)
def test_a_trainer_whose_loader_was_killed_for_memory_is_told_so(code: int, reason: str) -> None:
    assert judge_ending(Exit(code, out_of_memory=True, error=""), None, "").reason == reason


def test_the_daemons_own_reason_is_told() -> None:
    """`docker start` prints it, and then that it failed."""

    class Engine(MachineProcesses):
        def run(self, words: Sequence[str], seconds: float, text: str = "") -> ProcessResult:
            said = (
                "Error response from daemon: AppArmor enabled on system but\nError: failed to start containers: a job\n"
            )
            return ProcessResult(1, said)

    with pytest.raises(EngineError, match=r"^docker start: AppArmor enabled on system but$"):
        Container(Engine()).start()


def test_an_image_whose_entry_point_is_its_trainer_is_asked_for_something_else() -> None:
    words = once_arguments(spec(), PATHS, IMAGE, ("python", "-c", "print()"))
    assert words[words.index("--entrypoint") + 1] == "python"
    assert words[words.index(IMAGE) :] == (IMAGE, "-c", "print()")


@pytest.mark.parametrize(
    ("kind", "privileged", "flags"),
    [
        ("gpu", False, {"--gpus"}),
        ("cpu", False, set()),
        ("tpu", True, {"--privileged", "--network"}),
        ("tpu", False, set()),
    ],
)
def test_what_each_kind_of_device_needs(kind: str, privileged: bool, flags: set[str]) -> None:
    wanted = spec(device=Device(kind, "x", 1), privileged=privileged)
    for words in (create_arguments(wanted, PATHS, IMAGE, None), once_arguments(wanted, PATHS, IMAGE, ("true",))):
        assert {"--gpus", "--privileged", "--network"} & set(words) == flags
        assert "--network" not in words or words[words.index("--network") + 1] == "host"
        assert ("PJRT_DEVICE=TPU" in words) == (kind == "tpu")


def test_a_gpu_machine_never_gives_its_container_the_machine() -> None:
    """A container with --privileged could take the deadline's timer away."""
    words = create_arguments(replace(spec(), privileged=True), PATHS, IMAGE, None)
    assert not {"--privileged", "--network"} & set(words)


def test_the_wall_before_the_metadata_service_leaves_names_alone() -> None:
    words = " ".join(firewall("-I", "169.254.169.254/32"))
    assert words.startswith("iptables -w 10 -I DOCKER-USER -d 169.254.169.254/32 -p tcp ! --dport 53 -j REJECT")


@pytest.mark.parametrize(
    ("asked", "unstored"), [(None, "failed"), (Ending("deadline", "DEADLINE", "late", by=7.0), "deadline")]
)
def test_a_training_that_failed_and_left_results_is_done_and_where_they_cannot_be_stored_it_is_not(
    asked: Ending | None, unstored: str
) -> None:
    exited = Exit(77, out_of_memory=True, error="")
    ending = judge_ending(exited, asked, "the script ended with exit code 1")
    assert (ending.state, ending.unstored_state) == ("done", unstored)
    assert ending.by == (asked.by if asked else None)
    assert ending.message == "killed: the memory limit was reached: the script ended with exit code 1"
