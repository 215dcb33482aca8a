"""Docker and Podman by their command lines, without either."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from trainplan.providers.errors import MachineError, TransientError
from trainplan.providers.local.api import BuildSpec, ContainerSpec, ContainerStatus, EngineName, Mount
from trainplan.providers.local.command import Completed, SystemRunner
from trainplan.providers.local.engine import CliEngine, EngineInfo, probe, why_not_built

SPEC = ContainerSpec(name="trainplan-r1-1", image="img:1", command=("sh", "-c", "true"), labels={"trainplan-run": "r1"})
DOCKER = EngineInfo(name=EngineName.DOCKER, version="27", owner="1000:1000")
PODMAN = EngineInfo(name=EngineName.PODMAN, version="4")


class ScriptedRunner:
    """Answers by the first two words of a command, in turn; keeps what it was asked."""

    def __init__(self, answers: dict[str, list[Completed | Exception]]) -> None:
        self.answers = answers
        self.requests: list[list[str]] = []
        self.environments: list[dict[str, str]] = []

    def run(
        self, command: Sequence[str], *, timeout_seconds: float, environment: Mapping[str, str] = MappingProxyType({})
    ) -> Completed:
        self.environments.append(dict(environment))
        self.requests.append(list(command))
        for words in (" ".join(command[1:3]), command[1]):
            if words in self.answers:
                answers = self.answers[words]
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                if isinstance(answer, Exception):
                    raise answer
                return answer
        return Completed(exit_code=127, stdout="", stderr="no such thing")

    def follow(self, command: Sequence[str], report: Callable[[str], None]) -> Completed:
        done = self.run(command, timeout_seconds=0)
        for line in done.stdout.splitlines():
            report(line)
        return done


def says(text: str, exit_code: int = 0) -> Completed:
    return Completed(exit_code=exit_code, stdout=text, stderr="")


def fails(text: str = "Error: nope") -> Completed:
    return Completed(exit_code=125, stdout="", stderr=text)


def container_state(**state: Any) -> dict[str, Any]:
    return {
        "Id": "abc",
        "Name": "/trainplan-r1-1",
        "Created": "2026-11-21T12:56:33.232220355Z",
        "Config": {"Labels": {"trainplan-run": "r1"}},
        "State": {"Status": "exited", "ExitCode": 0, "OOMKilled": False, "Error": "", **state},
    }


def engine(runner: ScriptedRunner, info: EngineInfo = PODMAN) -> CliEngine:
    return CliEngine(info, runner)


@pytest.mark.parametrize(
    ("answer", "name", "rootless"),
    [
        ({"host": {"security": {"rootless": True}}, "version": {"Version": "4.3.1"}}, EngineName.PODMAN, True),
        ({"ServerVersion": "27.1", "SecurityOptions": ["name=seccomp"]}, EngineName.DOCKER, False),
        ({"ServerVersion": "27.1", "SecurityOptions": ["name=rootless"]}, EngineName.DOCKER, True),
    ],
)
def test_probe_tells_the_engine_by_its_answer(answer: dict[str, Any], name: EngineName, rootless: bool) -> None:
    info = probe(EngineName.DOCKER, ScriptedRunner({"info": [says(json.dumps(answer))]}))
    assert info is not None
    assert (info.name, info.owner is None) == (name, rootless)


@pytest.mark.parametrize(
    "answer",
    [fails(), says("not json"), says('{"ServerErrors": ["no daemon"]}'), TransientError("too slow")],
)
def test_an_engine_that_does_not_answer_is_none(answer: Completed | Exception) -> None:
    assert probe(EngineName.DOCKER, ScriptedRunner({"info": [answer]})) is None


def test_docker_runs_as_the_person_and_rootless_engines_map_root_to_them() -> None:
    runner = ScriptedRunner({})
    assert "--user" in engine(runner, DOCKER).create_arguments(SPEC)
    assert "--user" not in engine(runner, PODMAN).create_arguments(SPEC)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"network": False}, ["--network", "none"]),
        ({"vcpus": 2}, ["--cpus", "2"]),
        ({"memory_gib": 1.5}, ["--memory", "1536m", "--memory-swap", "1536m"]),
        ({"mounts": (Mount(source="/a b", target="/x"),)}, ["--mount", "type=bind,source=/a b,target=/x"]),
        (
            {"mounts": (Mount(source="/a,b", target="/x", read_only=True),)},
            ["--mount", 'type=bind,"source=/a,b",target=/x,readonly'],
        ),
        ({"gpus": (0, 1)}, ["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1"]),
        ({"environment": {"A": "b"}}, ["--env", "A=b"]),
    ],
)
def test_create_arguments(change: dict[str, Any], words: list[str]) -> None:
    line = list(engine(ScriptedRunner({})).create_arguments(replace(SPEC, **change)))
    at = line.index(words[0])
    assert line[at : at + len(words)] == words


def test_create_arguments_leave_out_what_is_not_limited() -> None:
    line = engine(ScriptedRunner({})).create_arguments(replace(SPEC, network=True))
    assert not {"--network", "--cpus", "--memory", "--device", "--gpus", "--rm"} & set(line)
    assert line[line.index("--entrypoint") :] == ("--entrypoint", "sh", "img:1", "-c", "true")


def test_docker_takes_gpus_as_one_quoted_list() -> None:
    line = engine(ScriptedRunner({}), DOCKER).create_arguments(replace(SPEC, gpus=(0, 2)))
    assert line[line.index("--gpus") + 1] == '"device=0,2"'


@pytest.mark.parametrize(
    ("state", "status", "exit_code"),
    [
        ({"Status": "created"}, ContainerStatus.CREATED, None),
        ({"Status": "configured"}, ContainerStatus.CREATED, None),
        ({"Status": "running"}, ContainerStatus.RUNNING, None),
        ({"Status": "paused"}, ContainerStatus.RUNNING, None),
        ({"Status": "exited", "ExitCode": 75}, ContainerStatus.EXITED, 75),
        ({"Status": "dead", "ExitCode": 137}, ContainerStatus.EXITED, 137),
    ],
)
def test_container_states(state: dict[str, Any], status: ContainerStatus, exit_code: int | None) -> None:
    found = engine(ScriptedRunner({"container inspect": [says(json.dumps([container_state(**state)]))]})).container(
        "trainplan-r1-1"
    )
    assert found is not None
    assert (found.status, found.exit_code, found.name) == (status, exit_code, "trainplan-r1-1")
    assert found.created_at == datetime(2026, 11, 21, 12, 56, 33, 232220, tzinfo=UTC)


def test_docker_time_with_an_offset_is_read() -> None:
    answer = container_state() | {"Created": "2026-11-21T12:56:33.2322203+01:00"}
    found = engine(ScriptedRunner({"container inspect": [says(json.dumps([answer]))]})).container("x")
    assert found is not None
    assert found.created_at is not None
    assert found.created_at.astimezone(UTC).hour == 11


def test_absent_counts_only_when_the_engine_answered() -> None:
    gone = ScriptedRunner({"container inspect": [fails()], "ps": [says("other another")]})
    assert engine(gone).container("trainplan-r1-1") is None
    still_there = ScriptedRunner({"container inspect": [fails()], "ps": [says("other trainplan-r1-1")]})
    with pytest.raises(TransientError):
        engine(still_there).container("trainplan-r1-1")
    silent = ScriptedRunner({"container inspect": [fails()], "ps": [fails()]})
    with pytest.raises(TransientError):
        engine(silent).container("trainplan-r1-1")


def test_a_container_that_goes_while_listing_is_read_again() -> None:
    runner = ScriptedRunner(
        {"ps": [says("a b"), says("a")], "container inspect": [fails(), says(json.dumps([container_state()]))]}
    )
    assert [known.id for known in engine(runner).containers("trainplan-run")] == ["abc"]


def test_a_list_that_never_holds_still_is_no_answer() -> None:
    runner = ScriptedRunner({"ps": [says("a b")], "container inspect": [fails()]})
    with pytest.raises(TransientError):
        engine(runner).containers("trainplan-run")


def test_no_containers_is_an_answer() -> None:
    assert engine(ScriptedRunner({"ps": [says("")]})).containers("trainplan-run") == []


def test_create_and_start_that_fail_say_what_the_engine_said() -> None:
    runner = ScriptedRunner({"create": [fails("Error: no space left")], "start": [fails("Error: no such device")]})
    with pytest.raises(MachineError, match="no space left"):
        engine(runner).create(SPEC)
    with pytest.raises(MachineError, match="no such device"):
        engine(runner).start("trainplan-r1-1")
    runner = ScriptedRunner({"start": [fails("Error: could not find slirp4netns, the network cannot be configured")]})
    with pytest.raises(MachineError, match="could not find slirp4netns") as caught:
        engine(runner).start("trainplan-r1-1")
    assert caught.value.hint == "install slirp4netns: Podman without root needs it to reach the network"


def test_a_signal_to_what_has_ended_is_no_error() -> None:
    runner = ScriptedRunner({"kill": [fails()], "container inspect": [says(json.dumps([container_state()]))]})
    engine(runner).signal("trainplan-r1-1", "TERM")
    running = says(json.dumps([container_state(Status="running")]))
    with pytest.raises(TransientError):
        engine(ScriptedRunner({"kill": [fails()], "container inspect": [running]})).signal("trainplan-r1-1", "TERM")


def test_remove_fails_only_where_it_is_still_there() -> None:
    gone = ScriptedRunner({"kill": [fails()], "rm": [fails()], "container inspect": [fails()], "ps": [says("")]})
    engine(gone).remove("trainplan-r1-1")
    there = ScriptedRunner(
        {"kill": [says("")], "rm": [fails()], "container inspect": [says(json.dumps([container_state()]))]}
    )
    with pytest.raises(TransientError):
        engine(there).remove("trainplan-r1-1")


def test_a_build_that_fails_tells_its_cause_in_one_line(tmp_path: Path) -> None:
    """All lines were shown while it was built."""
    log = "\n".join(["line 1", "ERROR: disk: no space left on device", *(f"line {number}" for number in range(20))])
    lines: list[str] = []
    spec = BuildSpec(tag="t:1", context=tmp_path, secrets={"ca": tmp_path / "ca.pem"}, flags=("--isolation=chroot",))
    runner = ScriptedRunner({"build": [says(log, exit_code=1)]})
    with pytest.raises(MachineError, match=r"t:1: ERROR: disk: no space left on device$") as caught:
        engine(runner).build(spec, lines.append)
    assert caught.value.hint == "free some space on the disk of the engine"
    assert len(lines) == 22
    assert f"id=ca,src={tmp_path / 'ca.pem'}" in runner.requests[0]
    assert "--isolation=chroot" in runner.requests[0]


def test_a_docker_without_its_build_component_says_what_to_install(tmp_path: Path) -> None:
    said = "ERROR: BuildKit is enabled but the buildx component is missing or broken.\n  Install the buildx component"
    runner = ScriptedRunner({"build": [says(said, exit_code=1)]})
    with pytest.raises(MachineError, match="buildx component is missing") as caught:
        engine(runner).build(BuildSpec(tag="t:1", context=tmp_path), lambda _: None)
    assert "docker-buildx" in caught.value.hint
    assert "Debian 13" in caught.value.hint  # Debian 12 has no such package


def test_builds_ask_docker_for_the_builder_that_knows_secrets() -> None:
    """Docker 20.10 of Debian 12 refused the trainer image: its default builder knows no `RUN --mount`."""
    done = SystemRunner().follow([sys.executable, "-c", "import os; print(os.environ['DOCKER_BUILDKIT'])"], print)
    assert (done.exit_code, done.stdout.strip()) == (0, "1")


def test_image_tags_are_listed_without_the_nameless() -> None:
    runner = ScriptedRunner({"images": [says("localhost/a:1\n<none>:<none>\nlocalhost/b:2\n")]})
    assert list(engine(runner).images("trainplan-image=cpu")) == ["localhost/a:1", "localhost/b:2"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shm_gib": 8}, ["--shm-size", "8g"]),
        ({"processes": 16384}, ["--pids-limit", "16384"]),
        ({"network": True, "uses_host_network": True}, ["--network", "host"]),
        ({"private": {"PIP_INDEX_URL": "https://me:word@x"}}, ["--env", "PIP_INDEX_URL"]),
    ],
)
def test_create_arguments_of_limits_and_of_the_world_outside(change: dict[str, Any], words: list[str]) -> None:
    line = list(engine(ScriptedRunner({})).create_arguments(replace(SPEC, **change)))
    at = line.index(words[0])
    assert line[at : at + len(words)] == words
    assert "word" not in " ".join(line)


def test_private_variables_reach_the_engine_by_its_environment() -> None:
    runner = ScriptedRunner({"create": [says("")]})
    engine(runner).create(replace(SPEC, private={"HTTPS_PROXY": "http://me:word@x"}))
    assert runner.environments == [{"HTTPS_PROXY": "http://me:word@x"}]
    done = SystemRunner().run(
        [sys.executable, "-c", "import os; print(os.environ['A'])"], timeout_seconds=30, environment={"A": "b"}
    )
    assert done.stdout == "b\n"


@pytest.mark.parametrize(
    ("answer", "limits"),
    [
        ({"host": {"cgroupControllers": ["cpu", "memory", "pids", "blkio"]}}, {"cpu", "memory", "pids"}),
        ({"host": {"cgroupControllers": ["memory", "pids"]}}, {"memory", "pids"}),
        ({"host": {"cgroupControllers": []}}, set()),
        ({"host": {}}, {"cpu", "memory", "pids"}),
        ({"ServerVersion": "27", "MemoryLimit": False, "PidsLimit": True}, {"cpu", "pids"}),
    ],
)
def test_no_limit_is_asked_for_that_the_engine_cannot_hold(answer: dict[str, Any], limits: set[str]) -> None:
    """Podman without root, on cgroup v2 without the controller of processors: `the requested cgroup controller `cpu`
    is not available`, and no container."""
    info = probe(EngineName.PODMAN, ScriptedRunner({"info": [says(json.dumps(answer))]}))
    assert info is not None
    assert info.limits == limits
    spec = replace(SPEC, vcpus=1, memory_gib=1.0, processes=100)
    line = engine(ScriptedRunner({}), info).create_arguments(spec)
    asked = {"cpu": "--cpus", "memory": "--memory", "pids": "--pids-limit"}
    assert {name for name, word in asked.items() if word in line} == limits


@pytest.mark.parametrize(
    ("output", "cause", "hint"),
    [
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/keras/\n"
            "ERROR: Could not find a version that satisfies the requirement keras==3 (from versions: none)\n"
            "ERROR: No matching distribution found for keras==3\nError: building at STEP 3: exit status 1",
            "Could not find a version",
            "was not reached",
        ),
        ('Error response from daemon: Unsupported isolation: "chroot"', "Unsupported isolation", "build_flags"),
        ("STEP 1\nError: unknown flag: --isolaton", "unknown flag", "build_flags"),
        (
            "Step 1\nERROR: failed to solve: write /x: no space left on device\nerror: exit 1",
            "no space left",
            "free some space",
        ),
        (
            'Error: initializing source docker://x: pinging container registry r: Get "https://r/v2/": dial tcp: '
            "lookup r: no such host",
            "no such host",
            "was not reached",
        ),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\nerror: exit 1",
            "DO NOT MATCH THE HASHES",
            "Python 3.12",
        ),
        (
            "ERROR: Ignored the following versions that require a different python version: 2.3.1 Requires-Python\n"
            "ERROR: Could not find a version that satisfies the requirement numpy==2.3.1 (from versions: 1.26.4)\n",
            "a different python",
            "Python 3.12",
        ),
        ("one\nERROR: process exited with 2\nlast line", "exited with 2", "base_image"),
        ("", "without a word", "base_image"),
    ],
)
def test_why_an_image_was_not_built(output: str, cause: str, hint: str) -> None:
    found, advice = why_not_built(output)
    assert cause in found
    assert "\n" not in found
    assert hint in advice
