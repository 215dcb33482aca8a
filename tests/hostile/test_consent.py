"""A stranger's job: what it brings along is shown before anybody agrees, and an empty line does not agree to it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from planner.consent import foreign_parts
from providers.sim.api import STOP, Address, exchange
from tests.builders import a_job
from tests.doubles.typing_person import AtPty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVIL = "evil.example/train@sha256:" + "e" * 64
HUB = "aws-sm:arn:aws:secretsmanager:eu-west-1:123456789012:secret:trainplan/hub"
JOB: dict[str, Any] = {
    "name": "long",
    "model": {"preset": "vgg16"},
    "data": {"name": "imagenet"},
    "epochs": 90,
    "global_batch_size": 256,
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a job lies; its simulated cloud ends with the test."""
    yield tmp_path
    address = tmp_path / "home" / "sim" / "server.json"
    if address.exists():
        told = json.loads(address.read_text())
        exchange(Address(port=told["port"], token=told["token"]), STOP, {})


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals")
def test_an_empty_line_does_not_launch_a_strangers_image(folder: Path) -> None:
    (folder / "job.yaml").write_text(json.dumps(JOB | {"container": EVIL}))
    with AtPty(folder, "launch", "job.yaml", "--provider", "sim", "--deadline", "600h", PLAN_SIM_SPEED="30") as first:
        first.wait_for("launch with the image, data and secrets above? [y/N]:")
        first.type("\n")
        code, _ = first.ended()
    assert code == 130
    assert EVIL in "".join(first.shown.split("\r\n"))
    assert "Traceback" not in first.shown


def test_image_address_and_secrets_are_listed_each() -> None:
    job = a_job(
        container=EVIL,
        model={"preset": "vgg16", "image_size": 32, "classes": 2},
        data={"url": "https://evil.example/data", "images": 100},
        secrets={"HUB_TOKEN": HUB},
    )
    image, data, secret = foreign_parts(job)
    assert image.startswith(f"image: {EVIL}, named by the job")
    assert data == "data: https://evil.example/data, named by the job"
    assert secret == f"secret: HUB_TOKEN from {HUB}; the image's program reads its value"


def test_a_job_of_known_parts_has_nothing_to_list() -> None:
    assert foreign_parts(a_job()) == []
