"""A job as the files that another engine runs: Slurm's sbatch, SkyPilot, or JobSet on Kubernetes."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

from trainplan.planner.errors import BadInputError
from trainplan.planner.planning.own_networks import check_exported
from trainplan.providers.cloud.trainer_wheel import pinned, wheel_bytes
from trainplan.workloads.job import Framework, TrainingJob
from trainplan.workloads.pretrained import weights_address, weights_file

JOB, WHEEL, REQUIREMENTS = "job.json", "trainer.whl", "requirements.txt"
PORT = 29_400
"""Where rank 0 listens for the others. Any free port below Linux' usual ephemeral ports (32768 on) does."""
STOP_SECONDS = 120
"""Between TERM and the end: time to write a checkpoint."""

# SkyPilot's names where they differ from the catalog's (sky show-gpus of SkyPilot 0.14, 2026-11-23).
_SKYPILOT_NAMES = {"A100-40GB": "A100", "V100-16GB": "V100"}


class Engine(StrEnum):
    """Who runs the job."""

    SBATCH = "sbatch"
    SKYPILOT = "skypilot"
    JOBSET = "jobset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerators:
    """Of each machine: `count` of a catalog's `device`, by its canonical name."""

    device: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFiles:
    """`files` by name, all in one folder; `command` starts the job; `notes` say what the engine is still to be told."""

    files: Mapping[str, bytes]
    command: str
    notes: tuple[str, ...] = ()


def engine_files(
    job: TrainingJob, engine: Engine, folder: str, accelerators: Accelerators | None, image: str | None
) -> EngineFiles:
    """The files of a job for an engine, in `folder` (absolute). `image` is a container image for JobSet and SkyPilot.

    Raises BadInputError for a job that the engine's machines could not read or train.
    """
    _check(job, engine)
    if image is not None and not _IMAGE.fullmatch(image):
        hint = "registry/name:tag, or registry/name@sha256: and its 64 digits"
        raise BadInputError(f"--image: {image} is not the name of an image", hint)
    if job.framework is Framework.TORCH and accelerators is not None and accelerators.count > 1:
        raise BadInputError(
            f"torch trains on one GPU of each machine, not on {accelerators.count}",
            "write --count 1, with more nodes in the job file, or framework: jax or tensorflow",
        )
    _check_split(job, accelerators)
    made = {Engine.SBATCH: _sbatch, Engine.SKYPILOT: _skypilot, Engine.JOBSET: _jobset}[engine]
    name, text, command = made(job, folder, accelerators, job.container or image)
    kind = "nvidia" if accelerators else "cpu"
    files = {
        name: text.encode(),
        JOB: job.to_json().encode(),
        WHEEL: wheel_bytes(),
        REQUIREMENTS: pinned(f"{job.framework}-{kind}").encode(),
    }
    notes = tuple(
        f"{variable} is not in the files: give it to {engine} as {reference}"
        for variable, reference in job.secrets.items()
    )
    return EngineFiles(files=files, command=command, notes=notes)


_IMAGE = re.compile(r"[a-zA-Z0-9][\w.-]*(?::[0-9]+)?(?:/[\w.-]+)*(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?", re.ASCII)
"""Registry with its port, name, tag, digest. A digest that was copied with points in the place of its end is none."""


def _check_split(job: TrainingJob, accelerators: Accelerators | None) -> None:
    """Raises BadInputError for a batch that the trainer would refuse to share among so many devices."""
    each = accelerators.count if accelerators is not None else 1
    devices = job.nodes * each
    if job.script is None and job.container is None and job.micro_batch_size % devices:
        parts = f" in {job.accumulate} parts" if job.accumulate > 1 else ""
        raise BadInputError(
            f"a batch of {job.global_batch_size}{parts} does not divide over {devices} devices ({job.nodes} x {each})",
            f"make global_batch_size a multiple of {devices * job.accumulate}, or take another --count or nodes",
        )


def _check(job: TrainingJob, engine: Engine) -> None:
    check_exported(job)
    if job.nodes > 1 and job.framework is Framework.TENSORFLOW and job.xla:
        raise BadInputError("tensorflow with xla: true trains on one machine", "leave xla out, or write nodes: 1")
    if job.data.url is not None or weights_address(job) is not None:
        raise BadInputError(
            f"{engine} fetches no address of a job", "name a data set, or a folder that its machines see (data.path)"
        )
    if engine is not Engine.SBATCH and (job.data.path is not None or weights_file(job) is not None):
        raise BadInputError(
            f"a folder of this computer is not on the machines that {engine} starts",
            "name a data set, or use --to sbatch where the nodes share the folder",
        )


def _trainer(job: TrainingJob, here: str, run_dir: str) -> str:
    """The command of one machine. A run that begins again goes on from its newest checkpoint."""
    words = ("python", "-P", "-m", "trainplan.workloads.trainer", "--job", f"{here}/{JOB}", "--run-dir", run_dir)
    command = shlex.join((*words, "--attempt", "1", "--data-dir", f"{run_dir}/data"))
    if job.constraints.deadline is None:
        return command
    return f"timeout -k {STOP_SECONDS} -s TERM {job.constraints.deadline.total_seconds():.0f} {command}"


def _sbatch(
    job: TrainingJob, folder: str, accelerators: Accelerators | None, image: str | None
) -> tuple[str, str, str]:
    del image
    minutes = None if job.constraints.deadline is None else -(-int(job.constraints.deadline.total_seconds()) // 60)
    options = (
        f"--job-name={job.name}",
        f"--nodes={job.nodes}",
        "--ntasks-per-node=1",
        f"--gres=gpu:{accelerators.device.lower()}:{accelerators.count}" if accelerators else "--exclusive",
        *(() if minutes is None else (f"--time={minutes}",)),
        f"--signal=TERM@{STOP_SECONDS}",
        "--requeue",
        "--open-mode=append",
        f"--output={shlex.quote(f'{folder}/log.txt')}",
    )
    quoted = shlex.quote(folder)
    lines = [
        "#!/bin/sh",
        *(f"#SBATCH {option}" for option in options),
        "# The folder must be on the file system that the nodes share.",
        f"here={quoted}",
        '[ -d "$here/venv" ] || { python3 -m venv "$here/venv" &&',
        f'    "$here/venv/bin/pip" install --quiet --require-hashes -r "$here/{REQUIREMENTS}" &&',
        f'    "$here/venv/bin/pip" install --quiet --no-deps "$here/{WHEEL}"; }} || exit 70',
        'PATH="$here/venv/bin:$PATH"',
        'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "address=$(scontrol -o show node \"$first\" | tr ' ' '\\n' | sed -n 's/^NodeAddr=//p')",
        f'export PATH TRAINPLAN_COORDINATOR="${{address:-$first}}:{PORT}"',
        f"exec srun --kill-on-bad-exit=1 {_trainer(job, folder, f'{folder}/run')}",
    ]
    return "job.sbatch", "\n".join(lines) + "\n", f"sbatch {shlex.quote(f'{folder}/job.sbatch')}"


def _skypilot(
    job: TrainingJob, folder: str, accelerators: Accelerators | None, image: str | None
) -> tuple[str, str, str]:
    resources: dict[str, Any] = {"use_spot": "on_demand" not in job.constraints.markets}
    if accelerators:
        name = _SKYPILOT_NAMES.get(accelerators.device, accelerators.device)
        resources["accelerators"] = f"{name}:{accelerators.count}"
    if image:
        resources["image_id"] = f"docker:{image}"
    if len(job.constraints.providers) == 1:
        regions = job.constraints.regions
        resources["infra"] = "/".join((job.constraints.providers[0], *(regions if len(regions) == 1 else ())))
    task = {
        "name": job.name,
        "num_nodes": job.nodes,
        "resources": resources,
        "file_mounts": {"/trainplan": folder, "/run-dir": {"name": f"trainplan-{job.name}", "mode": "MOUNT"}},
        "setup": (
            f"pip install --quiet --require-hashes -r /trainplan/{REQUIREMENTS}\n"
            f"pip install --quiet --no-deps /trainplan/{WHEEL}\n"
        ),
        "run": (
            "export TRAINPLAN_RANK=$SKYPILOT_NODE_RANK TRAINPLAN_PROCESSES=$SKYPILOT_NUM_NODES\n"
            f'export TRAINPLAN_COORDINATOR="$(echo "$SKYPILOT_NODE_IPS" | head -n 1):{PORT}"\n'
            f"{_trainer(job, '/trainplan', '/run-dir')}\n"
        ),
    }
    command = f"sky launch --down {shlex.quote(f'{folder}/task.yaml')}"
    return "task.yaml", yaml.safe_dump(task, sort_keys=False, width=120), command


def _jobset(
    job: TrainingJob, folder: str, accelerators: Accelerators | None, image: str | None
) -> tuple[str, str, str]:
    if not image:
        raise BadInputError(
            "a pod needs an image, and the job names none",
            f"give --image: one with Python and what {REQUIREMENTS} lists",
        )
    name = job.name.replace("_", "-").replace(".", "-")
    configuration = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {JOB: job.to_json()},
        "binaryData": {WHEEL: base64.b64encode(wheel_bytes()).decode()},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{name}-run"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "100Gi"}}},
    }
    documents = (configuration, claim, _jobset_document(job, name, accelerators, image))
    text = yaml.safe_dump_all(documents, sort_keys=False, width=120)
    return "jobset.yaml", text, f"kubectl apply -f {shlex.quote(f'{folder}/jobset.yaml')}"


def _jobset_document(job: TrainingJob, name: str, accelerators: Accelerators | None, image: str) -> dict[str, Any]:
    """Field names of jobset.x-k8s.io/v1alpha2 and batch/v1, as their published schemas have them."""
    index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    unpack = f"python -m zipfile -e /trainplan/{WHEEL} /tmp/trainer"
    container: dict[str, Any] = {
        "name": "trainer",
        "image": image,
        "command": ["sh", "-c", f"{unpack} && exec {_trainer(job, '/trainplan', '/run-dir')}"],
        "env": [
            {"name": "PYTHONPATH", "value": "/tmp/trainer"},
            {"name": "TRAINPLAN_RANK", "valueFrom": index},
            {"name": "TRAINPLAN_PROCESSES", "value": str(job.nodes)},
            {"name": "TRAINPLAN_COORDINATOR", "value": f"{name}-workers-0-0.{name}:{PORT}"},
        ],
        "volumeMounts": [
            {"name": "job", "mountPath": "/trainplan"},
            {"name": "run", "mountPath": "/run-dir"},
        ],
    }
    if accelerators:
        container["resources"] = {"limits": {"nvidia.com/gpu": accelerators.count}}
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": STOP_SECONDS,
        "containers": [container],
        "volumes": [
            {"name": "job", "configMap": {"name": name}},
            {"name": "run", "persistentVolumeClaim": {"claimName": f"{name}-run"}},
        ],
    }
    work: dict[str, Any] = {
        "parallelism": job.nodes,
        "completions": job.nodes,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"spec": pod},
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": {"maxRestarts": 3},
            "network": {"enableDNSHostnames": True, "subdomain": name},
            "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": work}}],
        },
    }
