"""A job as the files of other engines: golden texts, ranks, refusals."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
from functools import cache
from typing import Any

import pytest
import yaml

from scripts.jobset_fields import paths
from tests.builders import a_job
from tests.conftest import ROOT, Golden
from trainplan.extensions.export.engine_files import Accelerators, Engine, EngineFiles, Place, engine_files
from trainplan.planner.errors import BadInputError
from trainplan.providers.cloud.trainer_wheel import WHEEL, wheel_bytes
from trainplan.workloads.job import job_from_json

V100S = Accelerators(device="V100", count=4)
TWO: dict[str, Any] = {
    "framework": "jax",
    "nodes": 2,
    "constraints": {"deadline": "8h", "providers": ["aws"], "regions": ["us-east-1"]},
}
OF_TWO_CLASSES = {"preset": "vgg11", "image_size": 64, "classes": 2}
HERE, NO_IMAGE = Place(folder="/f", image="me/it:1"), Place(folder="/f")
A_JOB = Place(folder="/shared/me/a job", host="here", image="me/it:1", minutes=90)
_WHEEL_IN_TEXT = re.compile(r"(?<=-py3-none-any.whl: )[A-Za-z0-9+/=\n ]{1000,}(?=\n---)")
FILES = {Engine.SBATCH: "job.sbatch", Engine.SKYPILOT: "task.yaml", Engine.JOBSET: "jobset.yaml"}


@cache
def made(engine: Engine) -> EngineFiles:
    """The files of one job: a YAML file with a wheel in it takes a while to write."""
    return engine_files(a_job(**TWO), engine, HERE, V100S)


@pytest.mark.parametrize("engine", Engine)
def test_the_files_are_what_they_were(engine: Engine, golden: Golden) -> None:
    files = engine_files(a_job(**TWO), engine, A_JOB, V100S)
    text = _WHEEL_IN_TEXT.sub("THE WHEEL", files.files[FILES[engine]].decode())
    text = re.sub(r"(python-\$version-)[0-9a-f]{8}", r"\1HASH", text)
    golden.check(f"export/{FILES[engine]}", text)
    assert FILES[engine] in files.command


@pytest.mark.parametrize("engine", Engine)
def test_the_job_the_trainer_and_its_packages_are_beside_it(engine: Engine) -> None:
    files = made(engine).files
    assert job_from_json(files["job.json"].decode()) == a_job(**TWO)
    assert hashlib.sha256(files[WHEEL]).digest() == hashlib.sha256(wheel_bytes()).digest()
    assert b"jax==" in files["requirements.txt"]
    assert b"--hash=sha256:" in files["requirements.txt"]


def test_the_shell_script_can_be_read_and_keeps_a_folder_with_a_space_whole() -> None:
    script = engine_files(a_job(**TWO), Engine.SBATCH, A_JOB, None).files["job.sbatch"]
    subprocess.run(["sh", "-n"], input=script, check=True)
    (srun,) = (line for line in script.decode().splitlines() if line.startswith("srun "))
    assert "/shared/me/a job/job.json" in shlex.split(srun)


def test_the_command_of_a_pod_and_of_a_task_end_at_the_deadline() -> None:
    for engine in (Engine.SKYPILOT, Engine.JOBSET):
        text = made(engine).files[FILES[engine]].decode()
        assert "timeout -k 120 -s TERM 28800 " in " ".join(text.split())


def test_each_pod_has_its_index_as_its_rank_and_the_first_ones_name() -> None:
    text = engine_files(a_job(name="my.job", **TWO), Engine.JOBSET, HERE, V100S).files["jobset.yaml"]
    *_, jobset = yaml.load_all(text, yaml.CSafeLoader)
    (replicated,) = jobset["spec"]["replicatedJobs"]
    work = replicated["template"]["spec"]
    assert (work["completions"], work["completionMode"]) == (2, "Indexed")
    (container,) = work["template"]["spec"]["containers"]
    variables = {variable["name"]: variable for variable in container["env"]}
    name = jobset["metadata"]["name"]
    assert variables["TRAINPLAN_COORDINATOR"]["value"] == f"{name}-workers-0-0.{name}:29400"
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 4}}


@pytest.mark.parametrize(
    ("changes", "engine", "message"),
    [
        ({"nodes": 2, "xla": True}, Engine.SBATCH, "tensorflow with xla: true trains on one machine"),
        ({"data": {"url": "s3://b/x"}, "model": OF_TWO_CLASSES}, Engine.SBATCH, "no address"),
        ({"data": {"path": "/x"}, "model": OF_TWO_CLASSES}, Engine.SKYPILOT, "a folder of this computer"),
    ],
)
def test_what_the_engines_machines_cannot_read_or_train_is_refused(
    changes: dict[str, Any], engine: Engine, message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        engine_files(a_job(**changes), engine, HERE, None)


@pytest.mark.parametrize(
    ("changes", "count", "message"),
    [
        ({"global_batch_size": 128}, 3, r"a batch of 128 does not divide over 3 devices \(1 x 3\)"),
        ({"global_batch_size": 128, "nodes": 8}, 32, r"a batch of 128 does not divide over 256 devices \(8 x 32\)"),
        ({"global_batch_size": 8, "accumulate": 4}, 4, "a batch of 8 in 4 parts does not divide over 4 devices"),
        ({"global_batch_size": 128, "nodes": 3}, None, r"does not divide over 3 devices \(3 x 1\)"),
    ],
)
def test_a_batch_that_the_trainer_could_not_share_is_refused(
    changes: dict[str, Any], count: int | None, message: str
) -> None:
    """It would be told so on the cluster, after the wait in its queue."""
    accelerators = None if count is None else Accelerators(device="V100", count=count)
    with pytest.raises(BadInputError, match=message):
        engine_files(a_job(**changes), Engine.SBATCH, NO_IMAGE, accelerators)
    whole = Accelerators(device="V100", count=4)
    assert engine_files(a_job(global_batch_size=128, nodes=2), Engine.SBATCH, NO_IMAGE, whole).files


def test_gpus_that_torch_would_leave_idle_are_refused() -> None:
    several = Accelerators(device="V100", count=4)
    for engine in (Engine.SKYPILOT, Engine.JOBSET):
        with pytest.raises(BadInputError, match=f"with {engine} torch trains on one GPU of each machine"):
            engine_files(a_job(framework="torch", nodes=2), engine, HERE, several)
    assert engine_files(a_job(framework="torch"), Engine.SKYPILOT, HERE, Accelerators(device="V100", count=1)).files


@pytest.mark.parametrize(("given", "taken"), [("", "012"), ("4,6,7", "467")])
def test_each_process_of_torch_on_a_node_has_a_gpu_of_its_own(given: str, taken: str) -> None:
    """Whether Slurm numbers those of the job from 0, or as the node has them, or says nothing of them."""
    three = Accelerators(device="V100", count=3)
    script = engine_files(a_job(framework="torch", global_batch_size=96), Engine.SBATCH, NO_IMAGE, three)
    lines = script.files["job.sbatch"].decode().splitlines()
    assert "#SBATCH --ntasks-per-node=3" in lines
    assert "#SBATCH --gres=gpu:v100:3" in lines
    (srun,) = (shlex.split(line) for line in lines if line.startswith("srun "))
    picking = srun[srun.index("sh") : srun.index("$environment/bin/python")]
    variables = {"PATH": "/usr/bin:/bin", **({"CUDA_VISIBLE_DEVICES": given} if given else {})}
    picked = (
        subprocess.check_output(
            [*picking, "printenv", "CUDA_VISIBLE_DEVICES"], env={**variables, "SLURM_LOCALID": str(number)}, text=True
        )
        for number in range(3)
    )
    assert "".join(line.strip() for line in picked) == taken


def test_a_pod_without_an_image_is_refused() -> None:
    with pytest.raises(BadInputError, match="a pod needs an image"):
        engine_files(a_job(), Engine.JOBSET, NO_IMAGE, None)


def test_secrets_are_told_and_not_written() -> None:
    job = a_job(secrets={"TOKEN": "aws-sm:arn:aws:secretsmanager:eu-west-1:1:secret:token"})
    told = engine_files(job, Engine.SKYPILOT, NO_IMAGE, None)
    assert told.notes == (
        "TOKEN is not in the files: give it to skypilot as aws-sm:arn:aws:secretsmanager:eu-west-1:1:secret:token",
    )
    assert b"TOKEN" not in told.files["task.yaml"]


def test_every_field_of_a_jobset_is_one_of_its_published_schema() -> None:
    """Names and types as JobSet's own definition states them (scripts/jobset_fields.py)."""
    fields = json.loads((ROOT / "tests" / "data" / "jobset" / "fields.json").read_text(encoding="utf-8"))["fields"]
    text = engine_files(a_job(**TWO), Engine.JOBSET, HERE, V100S).files["jobset.yaml"]
    *_, jobset = yaml.load_all(text, yaml.CSafeLoader)
    for path, kind in paths(jobset["spec"], "spec").items():
        assert kind in fields[path], path


def test_volumes_of_two_folders_are_two() -> None:
    here, there = (
        engine_files(a_job(), Engine.JOBSET, Place(folder=folder, image="me/it:1"), None).files["jobset.yaml"]
        for folder in ("/a", "/b")
    )
    names = re.compile(rb"^  name: (.*)$", re.MULTILINE)
    assert not set(names.findall(here)) & set(names.findall(there))


@pytest.mark.parametrize(("name", "folder"), [("tco-hetjob", "/f"), ("a", "/me/My-HetJob/x"), ("packjob.1", "/f")])
def test_words_that_sbatch_cuts_out_of_its_options_are_refused(name: str, folder: str) -> None:
    with pytest.raises(BadInputError, match="which sbatch takes for the border between two jobs"):
        engine_files(a_job(name=name), Engine.SBATCH, Place(folder=folder), None)
