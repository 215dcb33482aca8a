"""A job for Hugging Face Jobs and for IBM Cloud: what is written, and what is refused before anything is."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.planner.cli.command import CommandResult, plan

JOB = """\
name: two.cats
model: {preset: vgg11, classes: 10, image_size: 32}
data: {name: cifar10}
epochs: 2
global_batch_size: 64
"""
HF, IBM = ("--to", "hf", "--user", "ada"), ("--to", "ibm", "--address", "https://b.example/my%20run/")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))


def exported(tmp_path: Path, text: str, *words: object) -> CommandResult:
    job = tmp_path / "job.yaml"
    job.write_text(text, encoding="utf-8")
    return plan("export", job, "--out", tmp_path / "out", *words)


def request(tmp_path: Path) -> Any:
    return json.loads((tmp_path / "out" / "create-instance.json").read_text(encoding="utf-8"))


def test_the_command_for_hugging_face_has_its_time_limit(tmp_path: Path) -> None:
    made = exported(tmp_path, JOB + "constraints: {deadline: 3h}\n", *HF, "--device", "T4")
    assert made.code == 0, made.err
    bucket, run = map(shlex.split, made.out.splitlines())
    assert re.fullmatch("hf buckets create ada/trainplan-two-cats-[0-9a-f]{8} --private --exist-ok", shlex.join(bucket))
    assert run[run.index("--timeout") + 1] == "10800s"
    assert run[run.index("--flavor") + 1] == "t4-small"
    assert f"{tmp_path}/out:/trainplan:ro" in run
    script = (tmp_path / "out" / "train.sh").read_text(encoding="utf-8")
    subprocess.run(["sh", "-n"], input=script.encode(), check=True)
    assert '"$((began + 10800 - 600))"' in script
    assert "--require-hashes" in script


def test_without_a_deadline_the_limit_is_beyond_the_estimate(tmp_path: Path) -> None:
    assert exported(tmp_path, JOB, *HF).code == 0
    words = shlex.split(exported(tmp_path, JOB.replace("epochs: 2", "epochs: 900"), *HF, "--force").out.splitlines()[1])
    assert int(words[words.index("--timeout") + 1].removesuffix("s")) > 3600


def test_the_request_for_ibm_ends_its_machine_before_anything_else(tmp_path: Path) -> None:
    made = exported(tmp_path, JOB + "constraints: {deadline: 2h}\n", *IBM, "--device", "V100")
    assert made.code == 0, made.err
    asked = request(tmp_path)
    assert re.fullmatch("trainplan-two-cats-[0-9a-f]{8}", asked["name"])
    assert asked["profile"]["name"] == "gx2-8x64x1v100"
    assert asked["boot_volume_attachment"]["delete_volume_on_instance_delete"] is True
    script = asked["user_data"]
    assert len(script) < 64 * 1024
    subprocess.run(["sh", "-n"], input=script.encode(), check=True)
    commands = [line for line in script.splitlines() if not line.startswith("#")]
    assert commands[0] == "systemd-run --on-active=7200s /sbin/poweroff"
    assert commands[-1] == "/sbin/poweroff"
    assert "'https://b.example/my%20run/job.json'" in script or "https://b.example/my%20run/job.json" in script
    assert "until you delete it" in made.err


@pytest.mark.parametrize(
    ("text", "words", "error"),
    [
        (JOB, ("--to", "hf"), "whose bucket keeps the checkpoints?"),
        (JOB, ("--to", "hf", "--user", "a/b"), "no name of an account"),
        (JOB, ("--to", "ibm"), "where does the machine fetch its files?"),
        (JOB, ("--to", "ibm", "--address", "http://b.example"), "no HTTPS address"),
        (JOB, ("--to", "ibm", "--address", "https://b.example/$(reboot) x"), "no HTTPS address"),
        (JOB, (*HF, "--device", "K80"), "huggingface has no K80 for this job"),
        (JOB + "constraints: {deadline: 5m}\n", HF, ""),
        (JOB + "nodes: 2\n", HF, "one machine"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(
    tmp_path: Path, text: str, words: tuple[str, ...], error: str
) -> None:
    made = exported(tmp_path, text, *words)
    assert made.code in (2, 3)
    assert error in made.error
    assert made.hint
    assert not (tmp_path / "out").exists()


def test_a_strange_address_stays_one_word(tmp_path: Path) -> None:
    assert exported(tmp_path, JOB, "--to", "ibm", "--address", "https://b.example/$(reboot)").code == 0
    assert "'https://b.example/$(reboot)/job.json'" in request(tmp_path)["user_data"]
