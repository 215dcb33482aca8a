"""The command itself, with real processes: a `docker` on the PATH that is a script, and Google's store on loopback."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.providers.agent.cloud import Cloud, cloud
from trainplan.providers.agent.__main__ import act, machine
from trainplan.providers.agent.clock import Clock
from trainplan.providers.agent.machine import AgentMachine
from trainplan.providers.agent.processes import MachineProcesses
from trainplan.providers.agent.spec import Paths, SpecError
from trainplan.providers.cloud.agent_archive import agent_bytes

# A container is a process whose pid, log and exit code lie in a folder.
pytestmark = pytest.mark.slow
DOCKER = """#!{python}
import json, os, pathlib, signal, subprocess, sys
here, words = pathlib.Path({here!r}), sys.argv[1:]
with (here / "calls").open("a") as calls:
    calls.write(json.dumps(words) + "\\n")
state = here / "state.json"
read = lambda: json.loads(state.read_text()) if state.exists() else {{}}
def alive(pid):
    try:
        return "Z" not in pathlib.Path(f"/proc/{{pid}}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
def image_at(words):
    return next(n for n, word in enumerate(words) if "@sha256:" in word)
verb = words[0]
if verb == "pull":
    if "first.example" in words[-1]:
        sys.exit("toomanyrequests: You have reached your pull rate limit")
elif verb == "run":
    print("tensorflow 2.21.0 sees 1 gpu\\nACCELERATOR VISIBLE")
elif verb == "create":
    run_dir = next(word for word in words if word.endswith(":/run-dir")).rpartition(":")[0]
    state.write_text(json.dumps(dict(command=words[image_at(words) + 1:], run_dir=run_dir)))
elif verb == "start":
    known = read()
    shell = '"$@"; echo $? >' + str(here / "code")
    with (here / "log").open("wb") as log:
        process = subprocess.Popen(["sh", "-c", shell, "x", *known["command"]], stdout=log, stderr=log,
            env={{**os.environ, "RUN_DIR": known["run_dir"]}}, start_new_session=True)
    state.write_text(json.dumps(dict(known, pid=process.pid)))
elif verb == "inspect":
    ended = (here / "code").exists() and not alive(read()["pid"])
    code = int((here / "code").read_text()) if ended else 0
    print(json.dumps({{"Status": "exited" if ended else "running", "ExitCode": code}}))
elif verb == "logs":
    os.execvp("tail", ["tail", "-c", "+1", "--pid", str(read()["pid"]), "-s", "0.02", "-f", str(here / "log")])
elif verb == "exec":
    print("NVIDIA T4")
"""
TRAINER = """
import hashlib, json, os, pathlib
run = pathlib.Path(os.environ["RUN_DIR"])
attempt, output = run / "attempts" / "1", run / "output"
attempt.mkdir(parents=True), output.mkdir()
lines = [{"event": "start", "device_kind": "gpu"}, {"event": "end", "step": 3}]
(attempt / "progress.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
print("trained", json.loads((run / "job.json").read_text())["name"], flush=True)
(output / "model.keras").write_bytes(b"model")
(output / "manifest.json").write_text(json.dumps(
    [{"path": "model.keras", "size_bytes": 5, "sha256": hashlib.sha256(b"model").hexdigest()}]))
"""


class Brief(Clock):
    """Waits for a moment, so that real processes get on, and tells that all it was asked for has passed."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._never = threading.Event()

    def now(self) -> float:
        return super().now() + self._ahead

    def steady(self) -> float:
        return super().steady() + self._ahead

    def sleep(self, seconds: float) -> None:
        self._never.wait(min(seconds, 0.02))
        self._ahead += seconds


@pytest.fixture
def double() -> Iterator[Cloud]:
    with cloud() as known:
        known.objects["plan/r1/job.json"] = b'{"name": "digits"}'
        known.objects["plan/r1/attempts/1/machine/wheel.whl"] = b"wheel"
        yield known


def script(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def here(tmp_path: Path, double: Cloud) -> AgentMachine:
    """A machine of Google's, as its files describe it."""
    placement = tmp_path / "bin"
    placement.mkdir()
    script(placement, "docker", DOCKER.format(python=sys.executable, here=str(tmp_path)))
    for name, text in {
        "iptables": "",
        "systemctl": f"echo $* >>{tmp_path}/power",
        "nvidia-smi": "echo NVIDIA T4",
    }.items():
        script(placement, name, f"#!/bin/sh\n{text}\n")
    script(placement, "sh", '#!/bin/sh\ncase "$*" in *sysrq*) exit 0 ;; esac\nexec /bin/sh "$@"\n')
    (tmp_path / "trainer.py").write_text(TRAINER)
    (tmp_path / "boot.json").write_text(json.dumps(double.boot("gcp", "gs://bucket/plan/r1")))
    (tmp_path / "spec.json").write_text(json.dumps(_spec(tmp_path)))
    processes = MachineProcesses({**os.environ, "PATH": f"{placement}:{os.environ['PATH']}"})
    assert processes.run(["sh", "-c", "exit 7 # sysrq"], 5).code == 0, "this computer must not be what is powered off"
    paths = Paths(tmp_path / "disk", tmp_path / "memory")
    return machine(tmp_path / "boot.json", tmp_path / "spec.json", paths, Brief(), processes)


def _spec(folder: Path) -> dict[str, Any]:
    now = datetime.now(UTC)  # noqa: TID251  real processes live in real time
    wheel = {"path": "attempts/1/machine/wheel.whl", "to": "machine/wheel.whl", "size_bytes": 5}
    return {
        "run_id": "r1",
        "attempt": 1,
        "images": [f"{host}.example/train@sha256:" + "0" * 64 for host in ("first", "second")],
        "command": [sys.executable, str(folder / "trainer.py")],
        "device": {"kind": "gpu", "name": "T4", "count": 1},
        "deadline": (now + timedelta(hours=8)).isoformat(),
        "job_sha256": hashlib.sha256(b'{"name": "digits"}').hexdigest(),
        "boot_deadline": (now + timedelta(hours=1)).isoformat(),
        "files": [{**wheel, "sha256": hashlib.sha256(b"wheel").hexdigest()}],
        "end": {"kind": "gcp_delete", "project": "p", "zone": "z", "name": "n"},
    }


def status(double: Cloud) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(double.objects["plan/r1/attempts/1/status.json"])
    return found


def test_an_attempt_with_real_processes(here: AgentMachine, double: Cloud, tmp_path: Path) -> None:
    double.answers["DELETE /compute/v1/projects/p/zones/z/instances/n"] = 200
    assert act(["run"], here) == 0
    assert status(double)["state"] == "done", status(double)
    assert status(double)["image"].startswith("second.example/")
    assert double.objects["plan/r1/output/model.keras"] == b"model"
    assert (
        json.loads(double.objects["plan/r1/output/manifest.json"])[0]["sha256"] == hashlib.sha256(b"model").hexdigest()
    )
    assert double.objects["plan/r1/attempts/1/log/00001.log"] == b"trained digits\n"
    events = [json.loads(line)["event"] for line in double.objects["plan/r1/attempts/1/progress.jsonl"].splitlines()]
    assert events == ["start", "end"]
    assert (tmp_path / "disk" / "machine" / "wheel.whl").read_bytes() == b"wheel"
    deleted = next(n for n, (verb, path, _) in enumerate(double.requests) if "/instances/n" in path)
    last_put = max(n for n, (verb, path, _) in enumerate(double.requests) if "status.json" in path)
    assert last_put < deleted, "the last word comes before the end"
    assert (tmp_path / "power").read_text().splitlines()[0] == "poweroff --no-block"


def test_a_trainer_that_fails(here: AgentMachine, double: Cloud, tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text("import sys; print('no such file'); sys.exit(65)")
    assert act(["run"], here) == 0
    assert (status(double)["reason"], status(double)["exit_code"]) == ("BAD_JOB", 65)
    assert double.objects["plan/r1/attempts/1/log/00001.log"] == b"no such file\n"
    assert (tmp_path / "power").exists()


@pytest.mark.parametrize(
    ("word", "state", "reason"),
    [
        ("deadline", "deadline", "DEADLINE"),
        ("boot", "failed", "BOOT_DEADLINE"),
        ("after", "failed", "AGENT_DIED"),
        ("failed", "failed", "AGENT_DIED"),
    ],
)
def test_who_ends_the_machine_in_the_agents_placement_says_why(
    here: AgentMachine, double: Cloud, tmp_path: Path, word: str, state: str, reason: str
) -> None:
    assert act(["end", word], here) == 0
    assert (status(double)["state"], status(double)["reason"]) == (state, reason)
    assert (tmp_path / "power").exists()


def test_a_last_word_is_not_overwritten(here: AgentMachine, double: Cloud) -> None:
    act(["run"], here)
    act(["end", "after"], here)
    assert status(double)["state"] == "done"


RESTARTED = """
import os, pathlib, signal, sys, time
pathlib.Path(os.environ["RUN_DIR"], "attempts", "1").mkdir(parents=True)
os.kill({pid}, signal.SIGTERM)
while '["stop",' not in pathlib.Path({calls!r}).read_text():
    time.sleep(0.01)
sys.exit(75)
"""


@pytest.mark.parametrize(("target", "state"), [("reboot", "restarting"), ("poweroff", "interrupted")])
def test_a_restart_of_the_machine_is_not_its_end(
    here: AgentMachine, double: Cloud, tmp_path: Path, target: str, state: str
) -> None:
    calls = tmp_path / "calls"
    (tmp_path / "trainer.py").write_text(RESTARTED.format(pid=os.getpid(), calls=str(calls)))
    jobs = f"#!/bin/sh\n[ $1 = list-jobs ] && echo 61 {target}.target start waiting || echo $* >>{tmp_path}/power\n"
    script(tmp_path / "bin", "systemctl", jobs)
    assert act(["run"], here) == 0
    assert status(double)["state"] == state
    ended = (tmp_path / "power").exists() or any("/instances/n" in path for _, path, _ in double.requests)
    assert ended is (target == "poweroff")


def test_start_up_that_failed_is_told_and_the_machine_goes_on_to_its_end_elsewhere(
    here: AgentMachine, double: Cloud, tmp_path: Path
) -> None:
    assert act(["say", "DOCKER_NOT_INSTALLED", "Docker could not be installed"], here) == 0
    assert status(double)["reason"] == "DOCKER_NOT_INSTALLED"
    assert not (tmp_path / "power").exists()


@pytest.mark.parametrize(
    ("journal", "told"),
    [
        ("echo 'nvme0: I/O timeout'; echo 'the last line'", "three times; nvme0: I/O timeout; the last line"),
        ("exit 1", "three times"),
    ],
)
def test_a_machine_that_crashed_tells_what_its_kernel_said_before(
    here: AgentMachine, double: Cloud, tmp_path: Path, journal: str, told: str
) -> None:
    script(tmp_path / "bin", "journalctl", f"#!/bin/sh\n{journal}\n")
    assert act(["say", "MACHINE_CRASHES", "three times"], here) == 0
    assert (status(double)["reason"], status(double)["message"]) == ("MACHINE_CRASHES", told)


def test_a_store_that_does_not_answer_does_not_keep_the_machine(
    here: AgentMachine, double: Cloud, tmp_path: Path
) -> None:
    double.faults = [503] * 1000
    assert act(["end", "deadline"], here) == 0
    assert (tmp_path / "power").exists()


@pytest.mark.parametrize("words", [[], ["dance"], ["say", "X"]])
def test_what_nobody_asks_for(here: AgentMachine, words: list[str], tmp_path: Path) -> None:
    assert act(words, here) == 2
    assert not (tmp_path / "power").exists()


@pytest.mark.parametrize("text", ["{", "{}", '{"cloud": "gcp", "run_uri": "ftp://x"}'])
def test_files_that_cannot_be_meant(here: AgentMachine, tmp_path: Path, text: str) -> None:
    (tmp_path / "boot.json").write_text(text)
    with pytest.raises(SpecError, match=r"boot\.json"):
        machine(tmp_path / "boot.json", tmp_path / "spec.json", Paths(), Clock(), MachineProcesses())


def test_without_its_files_the_archive_says_so(tmp_path: Path) -> None:
    (tmp_path / "agent.pyz").write_bytes(agent_bytes())
    ran = subprocess.run(
        [sys.executable, tmp_path / "agent.pyz", "run"], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("trainplan: ")
    assert "Traceback" not in ran.stderr
