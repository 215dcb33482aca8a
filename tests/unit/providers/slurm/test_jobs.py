"""A job's script as it runs, and clients that do the same at once: over a double whose jobs are processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.contract.harness import Ask, request, wait_for, wait_until_it_trains
from tests.contract.slurm import SlurmHarness
from tests.doubles.waiting import until
from trainplan.providers.base import EndKind, InstanceState, RunId
from trainplan.providers.cloud.exit_codes import ENDS, how_it_ended
from trainplan.providers.errors import (
    BadRequestError,
    CredentialsError,
    PermissionDeniedError,
    TransientError,
    UnrecognizedError,
)
from trainplan.providers.slurm.api import Completed, ShellOverSsh
from trainplan.providers.slurm.errors import error_of
from trainplan.providers.slurm.request import MOST_LOSSES, SlurmResolution
from trainplan.providers.slurm.settings import parse_settings


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SlurmHarness]:
    made = SlurmHarness(tmp_path)
    yield made
    made.clean()


def test_of_two_jobs_of_one_attempt_one_trains(harness: SlurmHarness) -> None:
    """Two clients that have both seen no job submit at once; their jobs begin before either looks again."""
    provider = harness.provider()
    run = request(provider, Ask())
    first = provider.launch(run)
    wait_until_it_trains(provider, run)
    (call,) = provider.requests(run)
    parameters: Any = call.parameters
    harness.cluster.submit(tuple(parameters["arguments"]), parameters["script"])
    second = harness.cluster.jobs[1]
    until(lambda: second.state == "COMPLETED", "the second job gives way")
    assert provider.get(first.ref).state is InstanceState.RUNNING
    assert provider.store(run.run_id).get("attempts/1/slurm-job") == b"1\n"


def test_a_client_that_was_too_late_cancels_its_own_job(harness: SlurmHarness) -> None:
    provider = harness.provider()
    run = request(provider, Ask())
    harness.cluster.is_full = True
    provider.launch(run)
    (call,) = provider.requests(run)
    parameters: Any = call.parameters
    harness.cluster.submit(tuple(parameters["arguments"]), parameters["script"])
    provider.leave_the_oldest(RunId("r1"), 1)
    assert [job.state for job in harness.cluster.jobs] == ["PENDING", "CANCELLED"]


def test_a_job_in_the_queue_is_stopped_and_never_begins(harness: SlurmHarness) -> None:
    provider = harness.provider()
    run = request(provider, Ask())
    harness.cluster.is_full = True
    ref = provider.launch(run).ref
    assert provider.get(ref).state is InstanceState.PENDING
    provider.stop(ref)
    ended = provider.get(ref)
    assert (ended.state, ended.end, ended.bills) == (InstanceState.ENDED, EndKind.STOPPED, False)
    assert provider.launch(run).end is EndKind.STOPPED


def test_a_job_that_begins_after_its_deadline_trains_nothing(harness: SlurmHarness) -> None:
    provider = harness.provider()
    run = request(provider, Ask(lasting=timedelta(seconds=-1)))
    ended = wait_for(provider, provider.launch(run).ref, InstanceState.ENDED)
    assert ended.end is EndKind.DEADLINE
    assert "attempts/1/status.json" not in provider.store(run.run_id).list()


def test_a_deleted_attempt_is_not_begun_again(harness: SlurmHarness) -> None:
    provider = harness.provider()
    run = request(provider, Ask())
    ref = provider.launch(run).ref
    wait_until_it_trains(provider, run)
    provider.delete(ref)
    assert provider.launch(run).end is EndKind.KILLED
    assert len(harness.cluster.jobs) == 1


def test_a_rank_that_dies_is_begun_again_and_not_for_ever(harness: SlurmHarness) -> None:
    provider = harness.provider()
    run = request(provider, Ask(behaviour="dies"))
    ended = wait_for(provider, provider.launch(run).ref, InstanceState.ENDED)
    assert ended.end is EndKind.KILLED
    log = "\n".join(provider.logs(ended.ref))
    assert log.count("a rank was lost; begun again from the last checkpoint") == MOST_LOSSES


def test_every_end_of_a_trainer_is_the_end_of_its_job(harness: SlurmHarness) -> None:
    """As providers/cloud/exit_codes.py has them, and of programs that know none of these. A cluster that has ended the
    trainer (75, 143: nobody asked it to stop) gives its job nodes again; after the loss of a rank it begins again."""
    provider = harness.provider()
    codes = sorted({*ENDS, 1, 2, 66, 126, 127, 139})
    runs = {code: request(provider, Ask(behaviour=f"exit-{code}", run_id=f"of-{code}")) for code in codes}
    refs = {code: provider.launch(run).ref for code, run in runs.items()}
    for code, ref in refs.items():
        if code in (75, 143):
            waiting = wait_for(provider, ref, InstanceState.PENDING)
            assert "attempts/1/slurm-end" not in provider.store(waiting.run_id).list()
            continue
        ended = wait_for(provider, ref, InstanceState.ENDED)
        is_loss = code in (135, 137, 139)
        expected, _ = how_it_ended(137 if is_loss else code)
        log = "\n".join(provider.logs(ref))
        assert (code, ended.end, log.count(", start ")) == (code, expected, 1 + MOST_LOSSES * is_loss)


def test_after_slurm_has_requeued_its_job_a_script_that_lives_on_gives_way(harness: SlurmHarness) -> None:
    """The daemon of its node died alone: Slurm begins the job elsewhere while script and trainer of its first start
    are at work. Their end is not that of the attempt, and they make room."""
    provider = harness.provider()
    run = request(provider, Ask())
    ref = provider.launch(run).ref
    wait_until_it_trains(provider, run)
    left = harness.cluster.lose_slurmd(harness.cluster.jobs[0])
    until(lambda: left.poll() is not None, "the first start makes room")
    assert left.returncode == 0
    instance = provider.get(ref)
    assert (instance.state, instance.end) == (InstanceState.RUNNING, None)
    log = "\n".join(provider.logs(ref))
    assert "the attempt has ended before" not in log
    assert log.count("a rank was lost") == 0
    provider.stop(ref)
    assert wait_for(provider, ref, InstanceState.ENDED).end is EndKind.STOPPED


def test_a_job_that_slurmctld_has_forgotten_ended_when_the_accounting_says(harness: SlurmHarness) -> None:
    provider = harness.provider()
    run = request(provider, Ask(behaviour="finish"))
    ref = provider.launch(run).ref
    wait_for(provider, ref, InstanceState.ENDED)
    harness.cluster.jobs.clear()
    assert provider.get(ref).ended_at is None, "it keeps none"
    harness.cluster.accounting = f"1|{ref.id}|COMPLETED|1795467462|1795467465|1795467765|None|1|\n"
    ended = provider.get(ref)
    assert (ended.end, ended.ended_at) == (EndKind.DONE, datetime.fromtimestamp(1795467765, UTC))
    harness.cluster.accounting = f"1|{ref.id}|RUNNING|1795467462|1795467465|Unknown|None|1|\n"
    assert provider.get(ref).state is InstanceState.ENDED, "slurmctld knows of no such job"


def test_what_a_run_brought_with_it_goes_with_it(harness: SlurmHarness) -> None:
    """One that ends by itself, and one that is deleted."""
    provider = harness.provider()
    run = request(provider, Ask(behaviour="finish"))
    ref = provider.launch(run).ref
    wait_for(provider, ref, InstanceState.ENDED)
    paths = provider.store(run.run_id).list()
    assert not [path for path in paths if path.startswith("trainer")]
    assert "attempts/1/log/trainer.log" in paths
    killed = request(provider, Ask(run_id="r2"))
    ref = provider.launch(killed).ref
    wait_until_it_trains(provider, killed)
    provider.delete(ref)
    assert not [path for path in provider.store(killed.run_id).list() if path.startswith("trainer")]


def test_slurms_limit_is_the_deadline_or_the_partitions(harness: SlurmHarness) -> None:
    provider = harness.provider()
    for lasting, minutes in ((timedelta(minutes=10), 12), (timedelta(hours=9), 60)):
        run = provider.resolve(replace(request(provider, Ask(lasting=lasting)), resolution=None))
        assert isinstance(run.resolution, SlurmResolution)
        assert run.resolution.time_minutes in (minutes - 1, minutes)


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", BadRequestError),
        ("sbatch: error: Batch job submission failed: Access/permission denied", PermissionDeniedError),
        ("squeue: error: Unable to contact slurm controller (connect failure)", TransientError),
        ("sbatch: error: something new", UnrecognizedError),
    ],
)
def test_complaints_become_errors(stderr: str, expected: type[Exception]) -> None:
    assert isinstance(error_of(Completed(exit_code=1, stderr=stderr), "the job was not accepted"), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"directory": "relative"},
        {"login": "-oProxyCommand=x"},
        {"flags": "'"},
        {"usd_per_device_hour": "-1"},
        {"x": "y"},
    ],
)
def test_a_setting_that_cannot_be_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(BadRequestError, match=r"slurm: "):
        parse_settings(options)


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [("me@here: Permission denied (publickey).", CredentialsError), ("ssh: connect to host: refused", TransientError)],
)
def test_a_login_node_that_lets_nobody_in_is_told_apart_from_a_silent_one(
    tmp_path: Path, stderr: str, expected: type[Exception]
) -> None:
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\necho '{stderr}' >&2\nexit 255\n", encoding="utf-8")
    program.chmod(0o755)
    shell = ShellOverSsh("cluster", {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    with pytest.raises(expected):
        shell.run(("squeue",))


def test_over_ssh_words_arrive_as_they_were_sent(tmp_path: Path) -> None:
    """ssh joins words by spaces and has the other side's shell read them: one with a space must stay one."""
    program = tmp_path / "ssh"
    program.write_text('#!/bin/sh\nshift 6\nexec sh -c "$*"\n', encoding="utf-8")
    program.chmod(0o755)
    shell = ShellOverSsh("cluster", {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert shell.run(("printf", "%s|", "a b", "c'd", "$HOME")).text == "a b|c'd|$HOME|"


def test_a_batch_that_does_not_divide_over_the_nodes_is_refused_before_anything_is_submitted(
    harness: SlurmHarness,
) -> None:
    provider = harness.provider()
    run = request(provider, Ask(job={"nodes": 3}))
    with pytest.raises(BadRequestError, match="a batch of 32 does not divide over 3 nodes of 1 devices"):
        provider.launch(run)
    assert not harness.cluster.jobs
    (call,) = provider.requests(request(provider, Ask(job={"nodes": 2})))
    parameters: Any = call.parameters
    assert "--nodes=2" in parameters["arguments"]


def test_a_job_hands_no_credentials_of_the_submitting_shell_to_what_it_trains() -> None:
    script = files("trainplan.providers.slurm").joinpath("data/job.sh").read_text(encoding="utf-8")
    begin = script.index("for name in $(env | awk")
    part = script[begin : script.index("done\n", begin)] + "done\nenv"
    secret = {"WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "hf_token", "GOOGLE_APPLICATION_CREDENTIALS", "DB_PASSWORD"}
    plain = {"LD_LIBRARY_PATH": "/opt/lib", "SLURM_JWT": "srun", "CONDA_PREFIX": "a\nMY_TOKEN=b", "SLURM_JOB_ID": "3"}
    environment = {"PATH": os.environ["PATH"], **dict.fromkeys(secret, "x"), **plain}
    done = subprocess.run(["sh", "-eu", "-c", part], env=environment, capture_output=True, text=True, check=True)
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert names.isdisjoint(secret)
    assert names >= {*plain}


def test_what_trains_on_a_node_has_not_the_token_that_srun_needs(tmp_path: Path) -> None:
    script = files("trainplan.providers.slurm").joinpath("data/job.sh").read_text(encoding="utf-8")
    begin = script.index("sh -c '", script.index("srun --nodes")) + len("sh -c '")
    part = script[begin : script.index("'", begin)]
    (tmp_path / "ranks-first").mkdir()
    environment = {"PATH": os.environ["PATH"], "SLURM_JWT": "a token", "SLURM_PROCID": "0"}
    done = subprocess.run(
        ["sh", "-c", part, str(tmp_path), "first", "env"], env=environment, capture_output=True, text=True, check=True
    )
    assert "SLURM_PROCID=0" in done.stdout
    assert "a token" not in done.stdout
