"""What a machine gets: a spec that its agent reads, the trainer as a wheel, no secret, the same bytes every time."""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders import RUN_ID, a_job, a_script, an_offer
from trainplan.providers.agent.container import create_arguments
from trainplan.providers.agent.gate import program
from trainplan.providers.agent.spec import File, Paths, Spec, read_spec
from trainplan.providers.base import LaunchRequest
from trainplan.providers.cloud.agent_archive import agent_sha256
from trainplan.providers.cloud.bootstrap import MOST_BYTES
from trainplan.providers.cloud.images import Hardware, launchable
from trainplan.providers.cloud.launch import job_on_the_machine
from trainplan.providers.cloud.machine import CloudContext, MachinePart, images_by_digest, machine_part
from trainplan.providers.cloud.trainer_wheel import WHEEL, pinned, requirements, wheel_bytes
from trainplan.providers.errors import BadRequestError
from trainplan.workloads.job import TrainingJob, job_from_json

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
DIGEST = "sha256:" + "d" * 64
OWN = "registry.example/mine@sha256:" + "c" * 64
T4 = Hardware("aws", "T4", "turing", "x86_64", "7.5")
TPU = Hardware("gcp", "TPU v5e", "tpu", "x86_64")
CPU = Hardware("azure", "cpu", "cpu", "x86_64")
URIS = {"aws": "s3://bucket/runs/r", "gcp": "gs://bucket/runs/r", "azure": "azblob://account/box/runs/r"}
MACHINE = "attempts/2/machine"


def a_placement(cloud: str = "aws", **changes: Any) -> CloudContext:
    usual: dict[str, Any] = {
        "cloud": cloud,
        "run_uri": URIS[cloud],
        "region": "eu-west-1",
        "boot_deadline": NOON + timedelta(minutes=30),
        "end": {"kind": "power_off"},
        "image_digest": DIGEST,
    }
    return CloudContext(**{**usual, **changes})


def part(
    hardware: Hardware = T4,
    context: CloudContext | None = None,
    job: dict[str, Any] | TrainingJob | None = None,
    **changes: Any,
) -> MachinePart:
    wanted = job if isinstance(job, TrainingJob) else a_job(**(job or {}))
    offer = an_offer(provider=hardware.provider, device=hardware.device, device_count=4, memory_gib=64.0)
    usual: dict[str, Any] = {
        "run_id": RUN_ID,
        "attempt": 2,
        "offer": offer,
        "job": wanted,
        "deadline": NOON + timedelta(hours=8),
    }
    request = LaunchRequest(**{**usual, **changes})
    return machine_part(request, launchable(wanted, hardware), context or a_placement(hardware.provider))


def spec_of(part: MachinePart) -> Spec:
    return read_spec(part.objects[-1].data.decode())


@pytest.mark.parametrize(
    ("hardware", "kind", "framework", "privileged"),
    [(T4, "gpu", "tensorflow", False), (TPU, "tpu", "jax", True), (CPU, "cpu", "tensorflow", False)],
)
def test_the_agent_reads_what_it_is_sent(hardware: Hardware, kind: str, framework: str, privileged: bool) -> None:
    spec = spec_of(part(hardware, max_steps=7))
    assert (spec.run_id, spec.attempt, spec.framework, spec.privileged) == (RUN_ID, 2, framework, privileged)
    assert (spec.device.kind, spec.device.name, spec.device.count) == (kind, hardware.device, 4)
    assert (spec.deadline, spec.boot_deadline) == (NOON.timestamp() + 8 * 3600, NOON.timestamp() + 1800)
    assert spec.command[:3] == ("python", "-m", "trainplan.workloads.trainer")
    assert spec.command[-2:] == ("--max-steps", "7")
    assert program(spec.device, spec.framework, spec.precision)
    assert ("LD_LIBRARY_PATH" in spec.environment) is (kind == "gpu")


def test_the_gate_computes_in_the_precision_of_the_job() -> None:
    spec = spec_of(part(job={"precision": "amp_fp16"}))
    assert program(spec.device, spec.framework, spec.precision)[-1] == "amp_fp16"


def test_a_machine_without_accelerators_counts_as_one() -> None:
    made = part(CPU, offer=an_offer(provider="azure", device="cpu", device_count=0, memory_gib=3.0))
    assert (spec_of(made).device.count, spec_of(made).shm_gib) == (1, 1)


def test_images_are_tried_by_digest_from_two_registries_in_order() -> None:
    images = spec_of(part()).images
    assert [image.partition("/")[0] for image in images] == ["docker.io", "public.ecr.aws"]
    assert {image.partition("@")[2] for image in images} == {DIGEST}


@pytest.mark.parametrize("digest", ["", "latest"])
def test_without_a_digest_nothing_is_sent(digest: str) -> None:
    with pytest.raises(BadRequestError, match="digest of docker"):
        part(context=a_placement(image_digest=digest))


def test_what_lies_in_the_run_directory_is_what_the_spec_and_the_user_data_name() -> None:
    made = part()
    assert [stored.path for stored in made.objects] == [
        "job.json",
        f"{MACHINE}/requirements.txt",
        f"{MACHINE}/{WHEEL}",
        f"{MACHINE}/agent.pyz",
        f"{MACHINE}/spec.json",
    ]
    by_path = {stored.path: stored for stored in made.objects}
    for file in spec_of(made).files:
        assert file.sha256 == hashlib.sha256(by_path[file.path].data).hexdigest()
        assert file.size_bytes == len(by_path[file.path].data)
        assert file.to == f"machine/{file.path.rpartition('/')[2]}"
    assert made.boot.spec_sha256 == made.objects[-1].sha256
    assert made.boot.agent_sha256 == agent_sha256() == made.objects[-2].sha256
    assert made.boot.spec_sha256 in made.user_data
    assert sum(len(stored.data) for stored in made.objects) < 1_200_000
    assert len(made.user_data) <= MOST_BYTES


def test_the_same_request_is_the_same_bytes_and_another_is_not() -> None:
    assert part() == part()
    assert part().user_data == part().user_data
    assert part(attempt=3).boot.spec_sha256 != part().boot.spec_sha256


def test_what_is_installed_is_the_wheel_and_the_pins_of_the_run_directory() -> None:
    made = part()
    pins = next(stored.data.decode() for stored in made.objects if stored.path.endswith("requirements.txt"))
    assert pins == pinned("tensorflow-nvidia")
    assert spec_of(made).setup[:2] == ("sh", "-ec")
    assert "--require-hashes -r /machine/requirements.txt\n" in spec_of(made).setup[2]
    assert f"--no-index --no-deps /machine/{WHEEL}\n" in spec_of(made).setup[2], "it asks nobody for anything"


def test_the_setup_is_done_once_and_begun_anew_where_it_was_cut_off(tmp_path: Path) -> None:
    """The shell itself, with another Python and pip in place of the container's."""
    calls, venv = tmp_path / "calls", tmp_path / "venv"
    python = tmp_path / "python3"
    python.write_text(
        f"#!/bin/sh\necho venv >>{calls}\nrm -rf {venv}; mkdir -p {venv}/bin; cp {tmp_path}/pip {venv}/bin\n"
    )
    (tmp_path / "pip").write_text(f"#!/bin/sh\necho pip >>{calls}\ntest ! -e {tmp_path}/broken\n")
    for program_file in (python, tmp_path / "pip"):
        program_file.chmod(0o755)
    setup = spec_of(part()).setup
    text = setup[2].replace("/machine/venv", str(venv)).replace("/usr/local/bin/python3", str(python))
    (tmp_path / "broken").touch()
    codes = [subprocess.run([*setup[:2], text], check=False).returncode]
    (tmp_path / "broken").unlink()
    codes += [subprocess.run([*setup[:2], text], check=False).returncode for _ in range(2)]
    assert codes == [1, 0, 0]
    assert calls.read_text().split() == ["venv", "pip", "venv", "pip", "pip"]


def test_an_image_of_ones_own_gets_the_arguments_alone() -> None:
    made = part(context=a_placement(image_digest=""), job={"container": OWN})
    spec = spec_of(made)
    assert spec.images == (OWN,)
    assert (spec.setup, spec.files, dict(spec.environment)) == ((), (), {})
    assert spec.command[:2] == ("--job", "/run-dir/job.json")
    assert [stored.path for stored in made.objects] == ["job.json", f"{MACHINE}/agent.pyz", f"{MACHINE}/spec.json"]
    words = create_arguments(spec, Paths(), OWN, None)
    assert words[words.index(OWN) + 1 :] == spec.command


def test_a_data_set_and_secrets_go_as_references() -> None:
    reference = "aws-sm:arn:aws:secretsmanager:eu-west-1:123456789012:secret:token"
    shard = File(path="", uri="s3://bucket/data/abc/0001.tar", to="data/0001.tar", sha256="e" * 64, size_bytes=9)
    spec = spec_of(part(context=a_placement(secrets={"TOKEN": reference}, data=(shard,))))
    assert dict(spec.secrets) == {"TOKEN": reference}
    assert spec.files[-1] == shard


def test_a_secret_itself_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadRequestError, match="TOKEN is no reference") as caught:
        part(context=a_placement(secrets={"TOKEN": "hunter2hunter2"}))
    assert "hunter2" not in caught.value.message + caught.value.hint


def test_nothing_of_this_computer_is_in_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    before = part()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "abracadabra-secret")
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:password@index.example/simple")
    assert part() == before
    sent = b"".join(stored.data for stored in part().objects) + part().user_data.encode()
    for word in (b"abracadabra", b"password@", sys.prefix.encode()):
        assert word not in sent


def test_a_script_goes_as_its_text_and_without_where_it_lies() -> None:
    script = a_script(script="/home/me/private/train.py", requirements="/home/me/needs.txt")
    launched = job_on_the_machine(script, launchable(script, T4), ())
    sent = part(job=launched).objects[0].data.decode()
    assert "private" not in sent
    assert "needs.txt" not in sent
    read = job_from_json(sent)
    assert (read.script, read.framework) == ("train.py", "tensorflow")
    assert read.read_script == script.read_script
    assert "trainplan.workloads.trainer" in spec_of(part(job=launched)).command


def test_what_the_agent_would_refuse_is_refused_here() -> None:
    with pytest.raises(BadRequestError, match="end cannot be"):
        part(context=a_placement(end={"kind": "explode"}))


def test_a_boot_deadline_is_never_after_the_deadline() -> None:
    made = part(deadline=NOON + timedelta(minutes=5))
    assert made.boot.boot_deadline == made.boot.deadline
    assert spec_of(made).boot_deadline == spec_of(made).deadline


def test_the_wheel_is_a_wheel() -> None:
    with zipfile.ZipFile(io.BytesIO(wheel_bytes())) as wheel:
        names = set(wheel.namelist())
        assert {
            "trainplan/__init__.py",
            "trainplan/workloads/trainer/__main__.py",
            "trainplan/workloads/job.py",
            "trainplan/workloads/data/secret_rules.json",
        } <= names
        assert not any(
            "__pycache__" in name or name.startswith(("trainplan/planner", "trainplan/prov", "trainplan/pric"))
            for name in names
        )
        record = wheel.read("trainplan_trainer-0.dist-info/RECORD").decode().splitlines()
        listed = {}
        for line in record:
            name, digest, size = line.split(",")
            listed[name] = (digest, size)
        assert set(listed) == names
        for name, (digest, size) in listed.items():
            if digest:
                data = wheel.read(name)
                padded = digest.removeprefix("sha256=") + "="
                assert base64.urlsafe_b64decode(padded) == hashlib.sha256(data).digest()
                assert int(size) == len(data)
    assert len(wheel_bytes()) < 960_000, "of some GB that a machine fetches"


def test_the_trainer_runs_out_of_the_wheel_alone(tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(io.BytesIO(wheel_bytes())) as wheel:
        wheel.extractall(site)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from trainplan.workloads.trainer.__main__ import main; "
        "print(sys.modules['trainplan'].__file__); main(['--help'])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(site)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, "--run-dir" in done.stdout) == (0, True), done.stderr
    assert done.stdout.startswith(str(site))


def test_requirements_that_are_not_there_are_an_error() -> None:
    with pytest.raises(KeyError):
        requirements(["nothing"])


def test_a_job_s_own_image_needs_no_digest_looked_up() -> None:
    assert images_by_digest(launchable(a_job(container=OWN), T4), "") == (OWN,)
