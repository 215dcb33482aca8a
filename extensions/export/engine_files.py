"""A job as the files that another engine runs: Slurm's sbatch, SkyPilot, or JobSet on Kubernetes."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shlex
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

from trainplan.extensions.export.labels import LONGEST_LABEL, place_name
from trainplan.planner.errors import BadInputError
from trainplan.planner.planning.own_networks import check_exported
from trainplan.providers.cloud.trainer_wheel import WHEEL, pinned, wheel_bytes
from trainplan.workloads.job import Framework, TrainingJob
from trainplan.workloads.pretrained import weights_address, weights_file
from trainplan.workloads.wording import Option

JOB, REQUIREMENTS = "job.json", "requirements.txt"
PORT = 29_400
"""Where rank 0 listens for the others, on machines that train nothing else. Any free port below Linux' usual ephemeral
ports (32768 on) does."""
STOP_SECONDS = 120
"""Between TERM and the end: time to write a checkpoint."""

_MOST_CONFIG_MAP_BYTES = 1024 * 1024
"""What the data of a ConfigMap may be in all (kubernetes.io/docs/concepts/configuration/configmap, 2026-11-28)."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a job is exported to: `folder` (absolute) of the computer `host`; `image` is a container image for JobSet
    and SkyPilot; `minutes` is what the job takes at the most, as Slurm is to know it (None: not known)."""

    folder: str
    host: str = ""
    image: str | None = None
    minutes: int | None = None


def engine_files(job: TrainingJob, engine: Engine, place: Place, accelerators: Accelerators | None) -> EngineFiles:
    """The files of a job for an engine.

    Raises BadInputError for a job that the engine's machines could not read or train.
    """
    _check(job, engine)
    if place.image is not None and not _IMAGE.fullmatch(place.image):
        hint = "registry/name:tag, or registry/name@sha256: and its 64 digits"
        raise BadInputError(f"{Option.IMAGE}: {place.image} is not the name of an image", hint)
    if engine is not Engine.SBATCH and _processes_of_node(job, accelerators) > 1:
        raise BadInputError(
            f"with {engine} torch trains on one GPU of each machine, not on several",
            f"write {Option.COUNT(1)}, with more nodes in the job file, framework: jax or tensorflow, or "
            f"{Option.TO(Engine.SBATCH)}",
        )
    _check_split(job, accelerators)
    made = {Engine.SBATCH: _sbatch, Engine.SKYPILOT: _skypilot, Engine.JOBSET: _jobset}[engine]
    packages = pinned(f"{job.framework}-{'nvidia' if accelerators else 'cpu'}")
    name, text, command = made(job, place, accelerators, packages)
    files = {
        name: text.encode(),
        JOB: job.to_json().encode(),
        WHEEL: wheel_bytes(),
        REQUIREMENTS: packages.encode(),
    }
    notes = tuple(
        f"{variable} is not in the files: give it to {engine} as {reference}"
        for variable, reference in job.secrets.items()
    )
    return EngineFiles(files=files, command=command, notes=notes)


_IMAGE = re.compile(r"[a-zA-Z0-9][\w.-]*(?::[0-9]+)?(?:/[\w.-]+)*(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?", re.ASCII)
"""Registry with its port, name, tag, digest. A digest that was copied with points in the place of its end is none."""


def _processes_of_node(job: TrainingJob, accelerators: Accelerators | None) -> int:
    """How many processes of the trainer each machine has: of PyTorch one for each GPU, else one for all of them."""
    return accelerators.count if accelerators is not None and job.framework is Framework.TORCH else 1


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as its lines."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def _check_split(job: TrainingJob, accelerators: Accelerators | None) -> None:
    """Raises BadInputError for a batch that the trainer would refuse to share among so many devices."""
    each = accelerators.count if accelerators is not None else 1
    devices = job.nodes * each
    if job.script is None and job.container is None and job.micro_batch_size % devices:
        parts = f" in {job.accumulate} parts" if job.accumulate > 1 else ""
        raise BadInputError(
            f"a batch of {job.global_batch_size}{parts} does not divide over {devices} devices ({job.nodes} x {each})",
            f"make global_batch_size a multiple of {devices * job.accumulate}, or take another {Option.COUNT} or nodes",
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
            f"name a data set, or use {Option.TO(Engine.SBATCH)} where the nodes share the folder",
        )


_ENVIRONMENT_PAIR = re.compile(r"Python (\d\.\d+) on (\w+)")
_PYTHONS = ("python3", "python3.12", "python3.13", "python3.11")
"""Where a Python is looked for, in this order: what `module load` or an environment has put in front counts first."""


def _pinned_for(packages: str) -> list[tuple[str, str]]:
    """The versions of Python, each with a processor as uname has it, that the first line of a pinned list names."""
    return _ENVIRONMENT_PAIR.findall(packages.partition("\n")[0])


def _find_python(packages: str) -> list[str]:
    """Lines of a shell that set `python` to one for which the packages are pinned, and `version`; `version` is empty
    where there is none."""
    pairs = " | ".join(f'"{python} {machine}"' for python, machine in _pinned_for(packages))
    return [
        f"for python in ${{TRAINPLAN_PYTHON:-{' '.join(_PYTHONS)}}}; do",
        '    version=$("$python" -c \'import sys; print("%d.%d" % sys.version_info[:2])\' 2>/dev/null) || version=',
        f'    case "$version $(uname -m)" in {pairs}) break ;; esac',
        "    version=",
        "done",
    ]


def _no_python(packages: str) -> str:
    """What a person reads where no Python of `_find_python` is there."""
    pythons = sorted({python for python, _ in _pinned_for(packages)})
    return (
        f"no Python {' or '.join(pythons)} is here, and the packages of this job are pinned for these alone; load one "
        f"(module load python/{pythons[0]}, conda activate), or set TRAINPLAN_PYTHON to its path"
    )


def _trainer(job: TrainingJob, here: str, run_dir: str, python: str = "python") -> str:
    """The command of one machine. A run that begins again goes on from its newest checkpoint."""
    words = ("-P", "-m", "trainplan.workloads.trainer", "--job", f"{here}/{JOB}", "--run-dir", run_dir)
    command = f"{python} {shlex.join((*words, '--attempt', '1', '--data-dir', f'{run_dir}/data'))}"
    if job.constraints.deadline is None:
        return command
    return f"timeout -k {STOP_SECONDS} -s TERM {job.constraints.deadline.total_seconds():.0f} {command}"


def _in_folder(folder: str) -> list[str]:
    return [
        "# The folder must be on the file system that the nodes share.",
        f"here={shlex.quote(folder)}",
        'say() { printf "%s %s\\n" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$*"; }',
        "",
        "# One job at a time trains in this folder; one that Slurm no longer has in its queue has left it.",
        'while ! (set -C; echo "$SLURM_JOB_ID" >"$here/job-number") 2>/dev/null; do',
        '    owner=$(cat "$here/job-number") || exit 70',
        '    [ "$owner" != "$SLURM_JOB_ID" ] || break',
        f'    if shown=$(squeue --noheader --format=%T --jobs="$owner" --states={_LIVING} 2>&1); then',
        '        [ -z "$shown" ] || { say "job $owner trains in $here; this one ends"; exit 75; }',
        "    else",
        '        case $shown in *"Invalid job id"*) ;; *) say "squeue: $shown"; sleep 20; continue ;; esac',
        "    fi",
        '    rm -f "$here/job-number"',
        "done",
        "",
    ]


def _check_words_of_sbatch(name: str, folder: str) -> None:
    """Raises BadInputError for what sbatch would misread in its options."""
    for what, text in (("the job's name", name), ("the folder", folder)):
        if found := _HETJOB.search(text):
            raise BadInputError(
                f"{what} has the word {found[0]}, which sbatch takes for the border between two jobs: {text}",
                f"give another name in the job file, or another folder with {Option.OUT}",
            )


def _sbatch(job: TrainingJob, place: Place, accelerators: Accelerators | None, packages: str) -> tuple[str, str, str]:
    folder, processes = place.folder, _processes_of_node(job, accelerators)
    one_gpu = f"sh -c {shlex.quote(_ONE_GPU)} sh " if processes > 1 else ""
    _check_words_of_sbatch(job.name, folder)
    deadline = None if job.constraints.deadline is None else -(-int(job.constraints.deadline.total_seconds()) // 60)
    minutes = min((limit for limit in (deadline, place.minutes) if limit is not None), default=None)
    # Slurm replaces what follows a per cent sign, also in a folder's name.
    log = shlex.quote(f"{folder.replace('%', '%%')}/log.txt")
    options = (
        f"--job-name={job.name}",
        f"--nodes={job.nodes}",
        f"--ntasks-per-node={processes}",
        f"--gres=gpu:{accelerators.device.lower()}:{accelerators.count}" if accelerators else "--exclusive",
        *(() if minutes is None else (f"--time={minutes}",)),
        f"--signal=TERM@{STOP_SECONDS}",
        "--requeue",
        "--open-mode=append",
        f"--output={log}",
    )
    # One environment for each set of packages and Python: a job exported anew does not find the former one's.
    name = hashlib.sha256(packages.encode() + wheel_bytes()).hexdigest()[:8]
    lines = [
        "#!/bin/sh",
        *(f"#SBATCH {option}" for option in options),
        *_in_folder(folder),
        *_find_python(packages),
        f'[ -n "$version" ] || {{ say {shlex.quote(_no_python(packages))}; exit 70; }}',
        f'environment="$here/python-$version-{name}"',
        'if [ ! -d "$environment" ]; then',
        "    # It gets its name when it is whole.",
        '    new="$here/.python.$SLURM_JOB_ID"',
        '    rm -rf "$new"',
        '    say "installing the packages with $python ($version), once"',
        '    "$python" -m venv "$new" &&',
        f'        "$new/bin/python" -m pip install --quiet --require-hashes -r "$here/{REQUIREMENTS}" &&',
        f'        "$new/bin/python" -m pip install --quiet --no-deps "$here/{WHEEL}" &&',
        '        mv -T "$new" "$environment" || { rm -rf "$new"; exit 70; }',
        "fi",
        "",
        'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "address=$(scontrol -o show node \"$first\" | tr ' ' '\\n' | sed -n 's/^NodeAddr=//p')",
        "# Jobs that share a node have a port each.",
        'export TRAINPLAN_COORDINATOR="${address:-$first}:$((20000 + SLURM_JOB_ID * 7 % 10000))"',
        f"srun --kill-on-bad-exit=1 {one_gpu}{_trainer(job, folder, f'{folder}/run', _IN_ENVIRONMENT)}",
        "code=$?",
        *_AT_THE_LIMIT,
        'exit "$code"',
    ]
    return "job.sbatch", "\n".join(lines) + "\n", f"sbatch {shlex.quote(f'{folder}/job.sbatch')}"


_HETJOB = re.compile("hetjob|packjob", re.IGNORECASE)
"""What sbatch cuts out of a #SBATCH line, also from a name or a path (Slurm's own get_argument; met by a
person in esm-tools/esm_tools#933)."""
_LIVING = "PENDING,RUNNING,SUSPENDED,COMPLETING"
_ONE_GPU = (
    'gpus=${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 "$SLURM_LOCALID")}; '
    'export CUDA_VISIBLE_DEVICES=$(echo "$gpus" | cut -d, -f$((SLURM_LOCALID + 1))); exec "$@"'
)
"""Gives each process of a node one GPU of those that Slurm has given the job there, by its number on the node."""
_IN_ENVIRONMENT = '"$environment/bin/python"'
_AT_THE_LIMIT = (
    f"# Slurm sends TERM {STOP_SECONDS} s before the time limit: the trainer has written a checkpoint.",
    'ends=$(squeue --noheader --format=%e --jobs="$SLURM_JOB_ID")',
    f'if [ "$code" = 75 ] && [ "$(date -d "$ends" +%s)" -le $(($(date +%s) + {STOP_SECONDS + 30})) ]; then',
    '    say "the time limit is reached; requeued"',
    '    scontrol requeue "$SLURM_JOB_ID" && sleep 60',
    "fi",
)


def _skypilot(job: TrainingJob, place: Place, accelerators: Accelerators | None, packages: str) -> tuple[str, str, str]:
    resources: dict[str, Any] = {"use_spot": "on_demand" not in job.constraints.markets}
    if accelerators:
        gpu = _SKYPILOT_NAMES.get(accelerators.device, accelerators.device)
        resources["accelerators"] = f"{gpu}:{accelerators.count}"
    if image := job.container or place.image:
        resources["image_id"] = f"docker:{image}"
    if len(job.constraints.providers) == 1:
        regions = job.constraints.regions
        resources["infra"] = "/".join((job.constraints.providers[0], *(regions if len(regions) == 1 else ())))
    name = place_name(job.name, place.host, place.folder, LONGEST_LABEL - len("trainplan-"))
    task = {
        "name": name,
        "num_nodes": job.nodes,
        "resources": resources,
        "file_mounts": {"/trainplan": place.folder, "/run-dir": {"name": f"trainplan-{name}", "mode": "MOUNT"}},
        "setup": "\n".join(_sky_setup(packages)) + "\n",
        "run": (
            "export TRAINPLAN_RANK=$SKYPILOT_NODE_RANK TRAINPLAN_PROCESSES=$SKYPILOT_NUM_NODES\n"
            f'export TRAINPLAN_COORDINATOR="$(echo "$SKYPILOT_NODE_IPS" | head -n 1):{PORT}"\n'
            f"{_trainer(job, '/trainplan', '/run-dir', f'{_SKY_ENVIRONMENT}/bin/python')}\n"
        ),
    }
    command = f"sky launch --down {shlex.quote(f'{place.folder}/task.yaml')}"
    return "task.yaml", yaml.dump(task, Dumper=_Dumper, sort_keys=False, width=120), command


_SKY_ENVIRONMENT = "~/trainplan-python"


def _sky_setup(packages: str) -> list[str]:
    """SkyPilot's images have a Python of their own choice, and uv."""
    newest = max(python for python, _ in _pinned_for(packages))
    return [
        "set -e",
        *_find_python(packages),
        'if [ -n "$version" ]; then',
        f'    "$python" -m venv {_SKY_ENVIRONMENT}',
        "else",
        f"    uv venv --quiet --seed --python {newest} {_SKY_ENVIRONMENT}",
        "fi",
        f"{_SKY_ENVIRONMENT}/bin/python -m pip install --quiet --require-hashes -r /trainplan/{REQUIREMENTS}",
        f"{_SKY_ENVIRONMENT}/bin/python -m pip install --quiet --no-deps /trainplan/{WHEEL}",
    ]


def _jobset(job: TrainingJob, place: Place, accelerators: Accelerators | None, packages: str) -> tuple[str, str, str]:
    del packages
    image = job.container or place.image
    if not image:
        raise BadInputError(
            "a pod needs an image, and the job names none",
            f"give {Option.IMAGE}: one with Python and what {REQUIREMENTS} lists",
        )
    # The longest name that is made of it is a pod's, with five random letters at its end.
    longest = LONGEST_LABEL - len(f"-workers-0-{job.nodes - 1}-12345")
    name = place_name(job.name, place.host, place.folder, longest)
    data, wheel = job.to_json(), _deflated(wheel_bytes())
    if (size := len(data.encode()) + len(wheel)) > _MOST_CONFIG_MAP_BYTES:
        raise BadInputError(
            f"job and trainer are {size:,} bytes, and a ConfigMap takes {_MOST_CONFIG_MAP_BYTES:,}",
            "its network makes the job large; name a preset, or put the files into an image of your own",
        )
    configuration = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {JOB: data},
        "binaryData": {WHEEL: base64.b64encode(wheel).decode()},
    }
    # Many clusters have no volume that several nodes share: it is asked for where several train.
    mode = "ReadWriteMany" if job.nodes > 1 else "ReadWriteOnce"
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{name}-run"},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "100Gi"}}},
    }
    documents = (configuration, claim, _jobset_document(job, name, accelerators, image))
    text = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120)
    # Without --server-side kubectl writes the whole text into an annotation, which takes 256 KiB.
    return "jobset.yaml", text, f"kubectl apply --server-side -f {shlex.quote(f'{place.folder}/jobset.yaml')}"


def _deflated(wheel: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(wheel)) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            data = source.read(entry)
            entry.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(entry, data)
    return packed.getvalue()


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
