"""A stranger's job: what it brings along is shown before anybody agrees, and an empty line does not agree to it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job, an_offer
from tests.doubles.typing_person import AtPty
from trainplan.planner.runs.proposal.consent import foreign_parts, readers
from trainplan.pricing.offers import Offer

EVIL = "evil.example/train@sha256:" + "e" * 64
HUB = "aws-sm:arn:aws:secretsmanager:eu-west-1:123456789012:secret:trainplan/hub"
JOB: dict[str, Any] = {
    "name": "long",
    "model": {"preset": "vgg16"},
    "data": {"name": "imagenet"},
    "epochs": 90,
    "global_batch_size": 256,
}


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals")
def test_an_empty_line_does_not_launch_a_strangers_image(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps(JOB | {"container": EVIL}))
    with AtPty(tmp_path, "launch", "job.yaml", "--provider", "sim", "--deadline", "600h", PLAN_SIM_SPEED="30") as first:
        first.wait_for("launch with the image, data and secrets above? [y/N]:")
        first.type("\n")
        code, _ = first.wait_for_end()
    assert code == 130
    assert EVIL in "".join(first.screen.split("\r\n"))
    assert "who can read what it uses: the image's program" in first.screen
    assert "Traceback" not in first.screen


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
    assert readers(a_job(), [an_offer()]) == []


def test_a_folder_that_a_strangers_image_reads_is_listed() -> None:
    """Without an image of somebody else's it is this installation's own trainer that reads it."""
    data = {"path": "/home/mary/.ssh", "images": 100}
    model = {"preset": "vgg16", "image_size": 32, "classes": 2}
    _, folder = foreign_parts(a_job(container=EVIL, model=model, data=data))
    assert folder == "data: the folder /home/mary/.ssh of this computer; the image's program reads all of it"
    assert foreign_parts(a_job(model=model, data=data)) == []


@pytest.mark.parametrize(
    ("offers", "lines", "unsaid"),
    [
        ([an_offer(provider="local")], ["the image's program"], ["bucket", "every machine", "TPU"]),
        ([an_offer(provider="aws")], ["the image's program", "bucket", "every machine of the account"], ["TPU"]),
        ([an_offer(provider="gcp", device="TPU v4")], ["bucket", "every machine", "on a TPU"], []),
    ],
)
def test_who_could_read_it_is_said(offers: list[Offer], lines: list[str], unsaid: list[str]) -> None:
    (line,) = readers(a_job(container=EVIL, secrets={"HUB_TOKEN": HUB}), offers)
    assert all(word in line for word in lines)
    assert not any(word in line for word in unsaid)


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals")
def test_an_empty_line_does_not_measure_a_strangers_image(tmp_path: Path) -> None:
    """It would run on this computer."""
    (tmp_path / "job.yaml").write_text(json.dumps(JOB | {"container": EVIL}))
    with AtPty(tmp_path, "measure", "job.yaml") as first:
        first.wait_for("on this machine? [y/N]:")
        first.type("\n")
        code, _ = first.wait_for_end()
    assert code == 130
    assert EVIL in "".join(first.screen.split("\r\n"))
    assert "who can read what it uses: the image's program" in first.screen
