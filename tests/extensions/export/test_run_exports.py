"""The files of other engines run by a shell, as the engine runs them: with programs that stand in for Slurm's and for
Python. tests/e2e/test_slurm.py trains on two real nodes from such a folder."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.utils import parse_wheel_filename

from tests.builders import a_job
from trainplan.extensions.export.engine_files import Engine, Place, engine_files
from trainplan.planner.errors import BadInputError

PYTHON = r"""#!/bin/sh
# Says that it is $VERSION, makes environments, and writes down what it is asked to install and train.
for last; do :; done
case "$*" in
-c*) echo "${VERSION:?}" ;;
*"-m venv "*) mkdir -p "$last/bin" && cp "$0" "$last/bin/python" ;;
*"-m pip install"*)
    [ -f "$last" ] || exit 2
    echo "$last" >>"$RECORD/installed"
    [ ! -e "$RECORD/fails" ] ;;
*trainplan.workloads.trainer*)
    echo "$0 $TRAINPLAN_COORDINATOR $*" >>"$RECORD/trained"
    exit "$(cat "$RECORD/code" 2>/dev/null || echo 0)" ;;
*) exit 2 ;;
esac
"""
SQUEUE = r"""#!/bin/sh
case "$*" in
*%e*) date -d "+${LEFT:-3600} seconds" +%Y-%m-%dT%H:%M:%S ;;
*) cat "$RECORD/queue" ;;
esac
"""
SCONTROL = r"""#!/bin/sh
case "$1" in
requeue) echo "$2" >>"$RECORD/requeued" ;;
show) echo n1 ;;
*) echo NodeAddr=127.0.0.1 ;;
esac
"""
UV = r"""#!/bin/sh
for last; do :; done
mkdir -p "$last/bin" && cp "$(command -v python3)" "$last/bin/python"
"""
SRUN = '#!/bin/sh\nshift; exec "$@"\n'
SLURM = {"srun": SRUN, "squeue": SQUEUE, "scontrol": SCONTROL, "sleep": "#!/bin/sh\n"}


@dataclass
class Cluster:
    """A folder with an exported job, and the programs of a node."""

    folder: Path
    record: Path
    environment: dict[str, str]

    def sbatch(self, number: int = 7, **variables: str) -> subprocess.CompletedProcess[str]:
        words = {"SLURM_JOB_ID": str(number), "SLURM_JOB_NODELIST": "n1"}
        return subprocess.run(
            ["sh", str(self.folder / "job.sbatch")],
            env={**self.environment, **words, **variables},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def lines(self, name: str) -> list[str]:
        path = self.record / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def programs(folder: Path, texts: Mapping[str, str]) -> Path:
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    folder = tmp_path / "my 100% job"
    record = programs(tmp_path / "record", {"queue": ""})
    commands = programs(tmp_path / "bin", {**SLURM, "python3": PYTHON, "uname": "#!/bin/sh\necho x86_64\n"})
    files = engine_files(a_job(framework="jax"), Engine.SBATCH, Place(folder=str(folder), minutes=9), None).files
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    environment = {"PATH": f"{commands}:/usr/bin:/bin", "RECORD": str(record), "VERSION": "3.12", "LANG": "C"}
    return Cluster(folder, record, environment)


def test_a_job_installs_its_packages_once_and_trains(cluster: Cluster) -> None:
    first, second = cluster.sbatch(7), cluster.sbatch(8)
    assert (first.returncode, second.returncode) == (0, 0), first.stdout + first.stderr
    wheel = Path(cluster.lines("installed")[1]).name
    parse_wheel_filename(wheel)  # pip takes no other name
    assert [Path(path).name for path in cluster.lines("installed")] == ["requirements.txt", wheel]
    trained = cluster.lines("trained")
    assert [re.findall(r" 127.0.0.1:(\d+) ", line) for line in trained] == [["20049"], ["20056"]], "a port for each job"
    assert not list(cluster.folder.glob(".python*"))
    text = (cluster.folder / "job.sbatch").read_text(encoding="utf-8")
    assert f"--output='{str(cluster.folder).replace('%', '%%')}/log.txt'" in text, "Slurm puts something else for %j"


def test_an_installation_that_failed_is_made_again(cluster: Cluster) -> None:
    (cluster.record / "fails").touch()
    assert cluster.sbatch(7).returncode == 70
    (cluster.record / "fails").unlink()
    assert cluster.sbatch(8).returncode == 0
    assert len(cluster.lines("trained")) == 1


@pytest.mark.parametrize("version", ["3.10", "3.14", "2.7"])
def test_a_python_without_pinned_packages_is_named_before_anything_is_installed(cluster: Cluster, version: str) -> None:
    done = cluster.sbatch(VERSION=version, TRAINPLAN_PYTHON="python3")
    assert done.returncode == 70
    assert "no Python 3.11 or 3.12 or 3.13 is here" in done.stdout
    assert "set TRAINPLAN_PYTHON" in done.stdout
    assert not cluster.lines("installed")


def test_one_job_at_a_time_trains_in_a_folder(cluster: Cluster) -> None:
    (cluster.folder / "job-number").write_text("6\n", encoding="utf-8")
    (cluster.record / "queue").write_text("RUNNING\n", encoding="utf-8")
    busy = cluster.sbatch(7)
    assert (busy.returncode, cluster.lines("trained")) == (75, [])
    assert "job 6 trains in" in busy.stdout
    (cluster.record / "queue").write_text("", encoding="utf-8")
    assert cluster.sbatch(7).returncode == 0, "it has left the queue"
    assert cluster.sbatch(7).returncode == 0, "the same job, requeued"


@pytest.mark.parametrize(("code", "left", "requeued"), [(75, 100, ["7"]), (75, 3000, []), (0, 100, []), (70, 100, [])])
def test_a_job_that_slurms_time_limit_stops_is_requeued(
    cluster: Cluster, code: int, left: int, requeued: list[str]
) -> None:
    """And no other: a person's own `scancel --signal=TERM` comes long before the limit."""
    (cluster.record / "code").write_text(str(code), encoding="utf-8")
    assert cluster.sbatch(7, LEFT=str(left)).returncode == code
    assert cluster.lines("requeued") == requeued


@pytest.mark.parametrize("version", ["3.13", "3.10"])
def test_the_set_up_and_the_run_of_a_task_of_skypilot(tmp_path: Path, version: str) -> None:
    """Its images have a Python of their own choice; without one of ours uv brings it."""
    text = engine_files(a_job(framework="jax"), Engine.SKYPILOT, Place(folder=str(tmp_path)), None).files
    for name, data in text.items():
        (tmp_path / name).write_bytes(data)
    task: dict[str, Any] = yaml.safe_load(text["task.yaml"])
    record = programs(tmp_path / "record", {})
    bin_ = programs(tmp_path / "bin", {"python3": PYTHON, "uv": UV, "uname": "#!/bin/sh\necho x86_64\n"})
    variables = {
        "PATH": f"{bin_}:/usr/bin:/bin", "HOME": str(tmp_path), "RECORD": str(record), "VERSION": version,
        "TRAINPLAN_PYTHON": "python3", "SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "1",
        "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
    }  # fmt: skip
    for part in ("setup", "run"):
        script = task[part].replace("/trainplan/", f"{tmp_path}/")
        done = subprocess.run(["bash", "-c", script], env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert len((record / "installed").read_text().splitlines()) == 2
    assert f"{tmp_path}/trainplan-python/bin/python 10.0.0.1:29400 " in (record / "trained").read_text()


NAMES = ["3dcnn", "my_net.v2", "my-net-v2", "my.net", "n" * 63, "a" + "-" * 61 + "b", "0"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_those_that_the_engines_take(name: str) -> None:
    """JobSet's webhook: RFC 1035, and a pod's name (-workers-0-N-12345 behind it) of at most 63 (kubernetes-sigs/jobset
    #408). SkyPilot 0.14.1, sky.data.storage: 3 to 63 small letters, digits and hyphens do at every store."""
    label = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
    place = Place(folder="/f", host="here", image="me/it:1")
    jobset = engine_files(a_job(name=name, nodes=2, framework="jax"), Engine.JOBSET, place, None).files["jobset.yaml"]
    for document in yaml.load_all(jobset, yaml.CSafeLoader):
        made = document["metadata"]["name"]
        assert label.fullmatch(made), made
    assert len(f"{made}-workers-0-1-12345") <= 63
    task = yaml.safe_load(engine_files(a_job(name=name), Engine.SKYPILOT, place, None).files["task.yaml"])
    assert label.fullmatch(task["name"])
    bucket = task["file_mounts"]["/run-dir"]["name"]
    assert label.fullmatch(bucket)
    assert 3 <= len(bucket) <= 63


def test_two_names_or_folders_never_share_a_volume_or_a_bucket() -> None:
    buckets = []
    for name, folder in (("my_net.v2", "/f"), ("my-net-v2", "/f"), ("my-net-v2", "/g")):
        task = engine_files(a_job(name=name), Engine.SKYPILOT, Place(folder=folder), None).files["task.yaml"]
        buckets.append(yaml.safe_load(task)["file_mounts"]["/run-dir"]["name"])
    assert len(set(buckets)) == 3


def test_a_config_map_that_kubernetes_would_refuse_is_refused_here() -> None:
    place = Place(folder="/f", image="me/it:1")
    made = engine_files(a_job(), Engine.JOBSET, place, None)
    assert made.command == "kubectl apply --server-side -f /f/jobset.yaml"
    assert len(made.files["jobset.yaml"]) < 700_000
    large = a_job(secrets={f"V{number}": "aws-sm:arn:" + "x" * 30_000 for number in range(40)})
    with pytest.raises(BadInputError, match="and a ConfigMap takes 1,048,576"):
        engine_files(large, Engine.JOBSET, place, None)
