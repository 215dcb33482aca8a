"""What becomes of a run on two real Slurm nodes (scripts/slurm.sh), and that no job is left.

The first four (with `resume on one node` in the second) run in make check, the others in make e2e."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.doubles.own_script import until_stopped
from tests.doubles.waiting import until
from tests.unit.providers.slurm.test_example_scripts import no_torch, weights
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.base import EndKind, InstanceState, LaunchRequest, RunId
from trainplan.providers.slurm.api import ShellHere
from trainplan.providers.slurm.provider import SlurmProvider
from trainplan.providers.slurm.reply import reference
from trainplan.providers.slurm.request import AttemptName
from trainplan.providers.slurm.settings import SlurmSettings
from trainplan.workloads.job import TrainingJob

pytestmark = [pytest.mark.train]
SCRIPT = ROOT / "scripts" / "slurm.sh"
PATIENCE_SECONDS = 400.0
REQUEUE_SECONDS = 500.0
"""Slurm notices a lost node after SlurmdTimeout (20 s here), and begins a requeued job two minutes later."""
JOB: dict[str, Any] = {
    "name": "two-nodes",
    "model": {"layers": [8, "M"], "batch_norm": True, "dense": [16], "dropout": 0.0},
    "data": {"name": "digits"},
    "epochs": 2,
    "global_batch_size": 128,
    "framework": "jax",
    "nodes": 2,
    "checkpoint_every": "2s",
}
LONG = {**JOB, "epochs": 4000}
"""Minutes: it is ended before."""


def run_script(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """The environment that leads to two idle nodes. Without Slurm: a failure when CI=true, else a skip."""
    made = run_script("up")
    if made.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(made.stderr)
    yield {**os.environ, "SLURM_CONF": made.stdout.strip().partition("=")[2]}
    run_script("down")


class Clients:
    """Commands of a person, and the provider beneath them, in one home."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        # Slurm shows a job for a while after its end: a name that another test has used is taken.
        self.run_id = RunId(uuid.uuid4().hex[:8])
        self.shared = folder / "shared"
        self.environment = {
            **environment,
            "PLAN_HOME": str(folder / "home"),
            "PLAN_SLURM_DIRECTORY": str(self.shared),
            "PLAN_SLURM_PYTHON": sys.executable,
            "PLAN_SLURM_USD_PER_DEVICE_HOUR": "36",
        }
        self.settings = SlurmSettings(directory=str(self.shared), python=sys.executable)

    def provider(self) -> SlurmProvider:
        return SlurmProvider(settings=self.settings, shell=ShellHere(self.environment), now=_now, device=lambda _: None)

    def plan(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("plan")), *words]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=600
        )

    def job_file(self, values: dict[str, Any]) -> str:
        path = self.folder / "job.yaml"
        path.write_text(json.dumps(values), encoding="utf-8")
        return str(path)

    def request(self, values: dict[str, Any], lasting: timedelta = timedelta(minutes=20)) -> LaunchRequest:
        provider = self.provider()
        return provider.resolve(
            LaunchRequest(
                run_id=self.run_id,
                attempt=1,
                offer=provider.offers(OfferQuery())[0],
                job=TrainingJob.model_validate(values),
                deadline=(_now() + lasting).replace(microsecond=0),
            )
        )

    def queue(self) -> str:
        """What Slurm still has of ours, but for jobs that have ended."""
        command = ["squeue", "--me", "--noheader", "--format", "%j %T %r"]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True).stdout

    def events(self, run: str, name: str) -> list[dict[str, Any]]:
        path = self.shared / "runs" / run / "attempts" / "1" / "progress.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def processes(self, rank: int) -> list[int]:
        """The pids of a rank's trainer."""
        return [
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/environ")
            if _is_rank(path, rank, str(self.shared))
        ]


def _is_rank(environ: Path, rank: int, shared: str) -> bool:
    try:
        variables = environ.read_bytes().split(b"\0")
        words = (environ.parent / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return (
        f"SLURM_PROCID={rank}".encode() in variables
        and b"trainplan.workloads.trainer" in words
        and shared.encode() in b" ".join(words)
    )


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  a real cluster's time


@pytest.fixture
def clients(tmp_path: Path, cluster: dict[str, str]) -> Iterator[Clients]:
    made = Clients(tmp_path, cluster)
    yield made
    subprocess.run(["scancel", "--me"], env=made.environment, check=False, capture_output=True)
    run_script("up")
    until(lambda: not made.queue(), "the queue is empty", seconds=PATIENCE_SECONDS)


def end_of(clients: Clients, seconds: float = PATIENCE_SECONDS) -> EndKind | None:
    """How the attempt ended, once it has, and nothing of it is in the queue."""
    provider, ref = clients.provider(), reference(AttemptName(run_id=clients.run_id, attempt=1))
    until(lambda: provider.get(ref).state is InstanceState.ENDED, "the attempt has ended", seconds=seconds)
    assert clients.queue() == ""
    return provider.get(ref).end


def trains(clients: Clients, checkpoints: int = 1, run: str = "") -> None:
    """Wait until it has written so many checkpoints."""
    until(
        lambda: len(clients.events(run or clients.run_id, "checkpoint")) >= checkpoints,
        "it trains",
        seconds=PATIENCE_SECONDS,
    )


def test_a_launch_brings_the_model_home(clients: Clients) -> None:
    done = clients.plan("launch", clients.job_file(JOB), "--provider", "slurm", "--yes")
    assert done.returncode == 0, done.stderr
    assert "2 x" in done.stdout
    assert "DataParallel over 2 processes" in done.stdout + done.stderr
    assert list(clients.folder.glob("two-nodes-*/model.keras"))
    assert clients.queue() == ""
    # What it took is what the accounting says, and what the next estimate counts with.
    words = ("sacct", "--allocations", "--noheader", "--parsable2", "--format=ElapsedRaw")
    elapsed = int(_said(clients, *words, f"--name={_job_name(clients)}"))
    receipt = json.loads(clients.plan("history", "--json").stdout)[0]["receipt"]
    assert receipt["actual_usd"] == pytest.approx(2 * 36 * elapsed / 3600, abs=2 * 36 * 2 / 3600)
    assert "at most: when everything of it ended" not in done.stdout
    estimated = clients.plan("estimate", "job.yaml", "--provider", "slurm")
    assert " measured " in estimated.stdout, estimated.stdout + estimated.stderr


def _said(clients: Clients, *words: str) -> str:
    return subprocess.run(words, env=clients.environment, capture_output=True, text=True, check=True).stdout


def _job_name(clients: Clients) -> str:
    (run,) = (path.name for path in (clients.shared / "runs").iterdir())
    return f"trainplan-{run}-1"


def test_an_exported_job_installs_its_packages_and_trains_on_both_nodes(clients: Clients) -> None:
    """With the Python that runs the tests; by the command that `plan export` prints."""
    printed = clients.plan("export", clients.job_file(JOB), "--to", "sbatch", "--out", "a job")
    assert printed.returncode == 0, printed.stderr
    environment = {**clients.environment, "TRAINPLAN_PYTHON": sys.executable}
    subprocess.run(["sh", "-c", printed.stdout], cwd="/", env=environment, check=True, capture_output=True)
    until(lambda: not clients.queue(), "the job has ended", seconds=PATIENCE_SECONDS)
    log = (clients.folder / "a job" / "log.txt").read_text(encoding="utf-8")
    assert (clients.folder / "a job" / "run" / "output" / "model.keras").is_file(), log


def test_a_stop_keeps_a_checkpoint_and_a_launch_on_one_node_goes_on(clients: Clients) -> None:
    """Also the scenario `resume on one node`."""
    launched = clients.plan("launch", clients.job_file(LONG), "--provider", "slurm", "--yes", "--detach")
    assert launched.returncode == 0, launched.stderr
    (run,) = (path.name for path in (clients.shared / "runs").iterdir())
    trains(clients, run=run)
    stopped = clients.plan("stop", run)
    until(lambda: not clients.queue(), "the job has ended", seconds=PATIENCE_SECONDS)
    assert "stop" in stopped.stdout + stopped.stderr
    clients.plan("attach", run)
    last = clients.events(run, "checkpoint")[-1]["step"]
    assert clients.events(run, "end")[-1]["step"] == last
    again = {**LONG, "nodes": 1}
    clients.plan("launch", clients.job_file(again), "--provider", "slurm", "--yes", "--detach")
    path = clients.shared / "runs" / run / "attempts" / "2" / "progress.jsonl"
    until(lambda: path.exists() and '"start"' in path.read_text(), "it goes on", seconds=PATIENCE_SECONDS)
    start = next(event for event in map(json.loads, path.read_text().splitlines()) if event["event"] == "start")
    assert (start["resumed_from_step"], start["device_count"]) == (last, 1)
    clients.plan("stop", run)
    until(lambda: not clients.queue(), "nothing is left", seconds=PATIENCE_SECONDS)


def test_two_launches_at_once_are_one_job(clients: Clients) -> None:
    run = clients.request(LONG)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: clients.provider().launch(run), range(2))
    assert first.ref == second.ref
    trains(clients)
    assert len(clients.queue().splitlines()) == 1
    clients.provider().stop(first.ref)
    assert end_of(clients) is EndKind.STOPPED


SCRIPT_OF_A_PERSON = """\
import sys, time
import trainplan_run
from pathlib import Path
folder = trainplan_run.resume_from()
value, done = (0, 0) if folder is None else (int((folder / name).read_text()) for name in ("value", "step"))
for step in range(done + 1, 201):
    value = (value * 31 + step) % 1_000_003
    time.sleep(0.1)
    trainplan_run.report(step, images=4, total_steps=200)
    stop = trainplan_run.should_stop()
    if stop or step % 50 == 0:
        with trainplan_run.checkpoint_folder() as folder:
            (folder / "value").write_text(str(value))
            (folder / "step").write_text(str(step))
    if stop:
        sys.exit(trainplan_run.EXIT_STOPPED)
Path("value.txt").write_text(str(value))
"""


@pytest.mark.e2e
def test_a_script_of_a_person_is_stopped_and_goes_on_to_the_same_result(clients: Clients) -> None:
    (clients.folder / "train.py").write_text(SCRIPT_OF_A_PERSON, encoding="utf-8")
    job = {"name": "mine", "script": "train.py", "checkpoints": True, "constraints": {"deadline": "20m"}}
    launched = clients.plan("launch", clients.job_file(job), "--provider", "slurm", "--yes", "--detach")
    assert launched.returncode == 0, launched.stderr
    (run,) = (path.name for path in (clients.shared / "runs").iterdir())
    trains(clients, run=run)
    clients.plan("stop", run)
    until(lambda: not clients.queue(), "the job has ended", seconds=PATIENCE_SECONDS)
    clients.plan("attach", run)
    assert clients.events(run, "end")[-1]["state"] == "stopped"
    last = clients.events(run, "checkpoint")[-1]["step"]
    again = clients.plan("launch", clients.job_file(job), "--provider", "slurm", "--yes", "--output", "result")
    assert again.returncode == 0, again.stderr
    lines = (clients.shared / "runs" / run / "attempts" / "2" / "progress.jsonl").read_text().splitlines()
    start = next(event for event in map(json.loads, lines) if event["event"] == "start")
    assert start["resumed_from_step"] == last
    value = 0
    for step in range(1, 201):
        value = (value * 31 + step) % 1_000_003
    assert (clients.folder / "result" / "value.txt").read_text() == str(value)
    assert clients.queue() == ""


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("example", "resumed_from"),
    [
        pytest.param("keras_images", 8, marks=pytest.mark.keras_3),
        pytest.param("torch_images", 12, marks=no_torch),
    ],
)
def test_an_example_script_is_stopped_and_goes_on_to_the_same_weights(
    clients: Clients, example: str, resumed_from: int
) -> None:
    source = until_stopped((ROOT / "examples" / "scripts" / f"{example}.py").read_text(encoding="utf-8"), 12)
    (clients.folder / "train.py").write_text(source, encoding="utf-8")
    job = {"name": "mine", "script": "train.py", "args": {"epochs": 4, "images": 256}}
    stopped = clients.plan("launch", clients.job_file(job), "--provider", "slurm", "--yes", "--detach")
    assert stopped.returncode == 0, stopped.stderr
    (run,) = (path.name for path in (clients.shared / "runs").iterdir())
    until(lambda: bool(clients.events(run, "warning")), "it trains", seconds=PATIENCE_SECONDS)
    clients.plan("stop", run)
    until(lambda: not clients.queue(), "the job has ended", seconds=PATIENCE_SECONDS)
    clients.plan("attach", run)
    again = clients.plan("launch", clients.job_file(job), "--provider", "slurm", "--yes", "--output", "result")
    assert again.returncode == 0, again.stderr
    lines = (clients.shared / "runs" / run / "attempts" / "2" / "progress.jsonl").read_text().splitlines()
    start = next(event for event in map(json.loads, lines) if event["event"] == "start")
    assert start["resumed_from_step"] == resumed_from
    whole = [sys.executable, "../train.py", "--epochs", "4", "--images", "256"]
    (clients.folder / "whole").mkdir()
    places = {"PYTHONPATH": str(ROOT / "workloads" / "reporting"), "WHOLE": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    subprocess.run(whole, cwd=clients.folder / "whole", env={**os.environ, **places}, check=True, timeout=300)
    assert weights(clients.folder / "result") == weights(clients.folder / "whole")
    assert clients.queue() == ""


@pytest.mark.e2e
def test_after_the_death_of_a_rank_it_goes_on_from_the_checkpoint(clients: Clients) -> None:
    ref = clients.provider().launch(clients.request(LONG)).ref
    trains(clients, 2)
    steps = [event["step"] for event in clients.events(clients.run_id, "checkpoint")]
    for pid in clients.processes(1):
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(clients.events(clients.run_id, "start")) == 2, "it begins again", seconds=PATIENCE_SECONDS)
    assert clients.events(clients.run_id, "start")[-1]["resumed_from_step"] >= steps[-1]
    clients.provider().stop(ref)
    assert end_of(clients) is EndKind.STOPPED


@pytest.mark.e2e
def test_after_the_death_of_a_node_it_is_requeued_and_goes_on(clients: Clients) -> None:
    ref = clients.provider().launch(clients.request(LONG)).ref
    trains(clients, 2)
    steps = [event["step"] for event in clients.events(clients.run_id, "checkpoint")]
    folder = Path(clients.environment["SLURM_CONF"]).parent
    os.kill(int((folder / "run" / "slurmd.n2.pid").read_text()), signal.SIGKILL)
    for pid in clients.processes(1):
        os.kill(pid, signal.SIGKILL)
    assert run_script("node", "n2").returncode == 0
    until(lambda: len(clients.events(clients.run_id, "start")) >= 2, "it begins again", seconds=REQUEUE_SECONDS)
    assert clients.events(clients.run_id, "start")[-1]["resumed_from_step"] >= steps[-1]
    clients.provider().stop(ref)
    assert end_of(clients) is EndKind.STOPPED


@pytest.mark.e2e
def test_a_daemon_that_dies_alone_leaves_a_script_that_gives_way(clients: Clients) -> None:
    """Its script and rank live on; Slurm gives the job other nodes, without a client."""
    ref = clients.provider().launch(clients.request({**LONG, "nodes": 1})).ref
    trains(clients, 2)
    folder = Path(clients.environment["SLURM_CONF"]).parent
    os.kill(int((folder / "run" / "slurmd.n1.pid").read_text()), signal.SIGKILL)
    until(lambda: len(clients.events(clients.run_id, "start")) == 2, "it begins again", seconds=REQUEUE_SECONDS)
    log = "\n".join(clients.provider().logs(ref))
    assert "was requeued by Slurm; this start ends" in log
    assert "a rank was lost" not in log
    clients.provider().stop(ref)
    assert end_of(clients) is EndKind.STOPPED


@pytest.mark.e2e
def test_the_deadline_ends_it_with_a_checkpoint(clients: Clients) -> None:
    clients.provider().launch(clients.request(LONG, timedelta(seconds=40)))
    trains(clients)
    assert end_of(clients) is EndKind.DEADLINE
    assert clients.events(clients.run_id, "end")[-1]["step"] == clients.events(clients.run_id, "checkpoint")[-1]["step"]


@pytest.mark.e2e
def test_a_node_that_never_comes_leaves_a_job_that_waits_and_costs_nothing(clients: Clients) -> None:
    drain = ["scontrol", "update", "nodename=n2", "state=drain", "reason=test"]
    subprocess.run(drain, env=clients.environment, check=True)
    try:
        provider = clients.provider()
        made = provider.launch(clients.request(LONG))
        until(lambda: "PENDING" in clients.queue(), "it waits")
        assert (provider.get(made.ref).state, provider.get(made.ref).bills) == (InstanceState.PENDING, False)
        provider.stop(made.ref)
        assert end_of(clients) is EndKind.STOPPED
    finally:
        subprocess.run(["scontrol", "update", "nodename=n2", "state=resume"], env=clients.environment, check=True)


@pytest.mark.e2e
def test_without_its_client_it_trains_to_the_end_and_comes_home_later(clients: Clients) -> None:
    launched = clients.plan("launch", clients.job_file(JOB), "--provider", "slurm", "--yes", "--detach")
    assert launched.returncode == 0, launched.stderr
    (run,) = (path.name for path in (clients.shared / "runs").iterdir())
    until(lambda: not clients.queue(), "the job has ended", seconds=PATIENCE_SECONDS)
    fetched = clients.plan("attach", run)
    assert fetched.returncode == 0, fetched.stderr
    assert list(clients.folder.glob("two-nodes-*/model.keras"))


@pytest.mark.e2e
def test_a_cleanup_ends_what_nobody_looks_after(clients: Clients) -> None:
    clients.provider().launch(clients.request(LONG))
    trains(clients)
    cleaned = clients.plan("cleanup", "--provider", "slurm", "--yes", "--all", "--client", "any")
    until(lambda: not clients.queue(), f"nothing is left: {cleaned.stdout}{cleaned.stderr}", seconds=PATIENCE_SECONDS)
