"""What `plan export --to hf` and `--to ibm` write, read by the vendors' own programs: nothing is sent."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.unit.planner.cli.command import plan

PYTHON = ROOT / ".build" / "places" / "bin" / "python"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists() and os.environ.get("CI") != "true", reason="make check installs the vendors' programs"
    ),
]
JOB = """\
name: cats
model: {preset: vgg11, classes: 10, image_size: 32}
data: {name: cifar10}
epochs: 2
global_batch_size: 64
"""
READ_BY_IBM = """\
import json, sys
from ibm_cloud_sdk_core.authenticators import NoAuthAuthenticator
from ibm_vpc import vpc_v1 as vpc

class Kept(vpc.VpcV1):
    def send(self, request, **options):
        print(json.dumps([request["method"], request["url"], json.loads(request["data"])]))

asked = json.load(open(sys.argv[1]))
parts = {
    "profile": vpc.InstanceProfileIdentityByName, "zone": vpc.ZoneIdentityByName, "vpc": vpc.VPCIdentityById,
    "image": vpc.ImageIdentityById, "primary_network_interface": vpc.NetworkInterfacePrototype,
    "boot_volume_attachment": vpc.VolumeAttachmentPrototypeInstanceByImageContext,
}
models = {name: parts[name].from_dict(asked[name]) for name in parts}
models["keys"] = [vpc.KeyIdentityById.from_dict(key) for key in asked["keys"]]
rest = {name: asked[name] for name in asked if name not in models}
whole = vpc.InstancePrototypeInstanceByImageInstanceByImageInstanceByNetworkInterface(**models, **rest)
Kept("2026-11-26", authenticator=NoAuthAuthenticator()).create_instance(whole)
"""
"""Each part is read by its model, which drops what it does not know; the request is the one that the SDK would send."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    path = tmp_path / "job.yaml"
    path.write_text(JOB, encoding="utf-8")
    return path


def ran(words: list[str], home: Path) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "HF_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run(
        words,
        env={**environment, "HF_TOKEN": f"hf_{'a' * 30}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_hugging_faces_command_reads_every_option(job: Path, tmp_path: Path) -> None:
    made = plan(
        "export", job, "--to", "hf", "--user", "ada", "--device", "T4", "--out", tmp_path / "out", "--json"
    ).json
    _, run = made["commands"]
    hf, jobs, verb, *options = shlex.split(run)
    said = ran([str(PYTHON.parent / hf), jobs, verb, "--dry-run", *options], tmp_path)
    assert "flavor   t4-small" in said
    assert f"{tmp_path / 'out'}:/trainplan" in said
    assert re.search("hf://buckets/ada/trainplan-cats-[0-9a-f]{8}:/run-dir", said)
    assert "timeout  " in said


def test_ibms_models_take_the_request_as_it_is(job: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = plan("export", job, "--to", "ibm", "--address", "https://b.example", "--out", out, "--device", "V100")
    assert made.code == 0, made.err
    said = ran([str(PYTHON), "-c", READ_BY_IBM, str(out / "create-instance.json")], tmp_path)
    method, url, sent = json.loads(said)
    assert (method, url.rpartition("/")[2]) == ("POST", "instances")
    assert sent == json.loads((out / "create-instance.json").read_text(encoding="utf-8"))
