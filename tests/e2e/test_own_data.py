"""Images of a person's own: packed, uploaded and fetched by the machine, which trains on them and on nothing else."""

from __future__ import annotations

import hashlib
import json
import struct
from itertools import product
from pathlib import Path
from random import Random

import pytest

from tests.e2e.test_gcp_machine import REGION, Project, console_text, project
from tests.e2e.test_rented_machine import digits
from trainplan.planner.datasets.pack import read, scan

__all__ = ["project"]  # the fixture
pytestmark = [pytest.mark.container, pytest.mark.train, pytest.mark.e2e]
CLASSES, SIDE = 3, 16
EACH = {"train": 32, "validation": 6}
"""Images of a class."""
EPOCHS = 2


def test_it_comes_along(project: Project, trainer_image: str, tmp_path: Path) -> None:
    folder = images(tmp_path / "images")
    model = {"layers": [16, "M", 32, "M"], "dense": [32], "batch_norm": True, "image_size": SIDE, "classes": CLASSES}
    trained_on = CLASSES * EACH["train"]
    data = {"path": str(folder), "channels": 3, "images": trained_on}
    job = digits(name="own-images", model=model, data=data, epochs=EPOCHS)
    ran = project.launch(trainer_image, job)
    assert ran.returncode == 0, f"{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}\n{console_text(project)}"
    receipt = json.loads(ran.stdout)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1)
    assert receipt["steps"] == receipt["total_steps"] == EPOCHS * trained_on / job["global_batch_size"]

    (machine,) = project.machines
    content = read(folder, scan(folder).items, lambda _: None).content
    fetched = [path for path in (machine.disk / "trainplan" / "data").iterdir() if path.is_dir()]
    assert [digests(path) for path in fetched] == [digests(folder)]
    stored = {name for there in project.world.bucket.objects.values() for name in there}
    assert {name.rpartition("/")[0] for name in stored if name.startswith("data/")} == {f"data/{content}"}
    again = project.plan("data", "upload", str(folder), "--provider", "gcp", "--region", REGION, "--yes")
    assert "it is stored already: nothing is sent" in again.stderr, again


def images(folder: Path) -> Path:
    """A folder for each class, whose images have its colour and some noise."""
    chance = Random(0)
    for (part, count), number in product(EACH.items(), range(CLASSES)):
        place = folder / part / f"class-{number}"
        place.mkdir(parents=True)
        for image in range(count):
            pixels = bytearray(chance.randrange(120) for _ in range(3 * SIDE * SIDE))
            pixels[number::3] = bytes(chance.randrange(136, 256) for _ in range(SIDE * SIDE))
            (place / f"{image:03}.bmp").write_bytes(bitmap(bytes(pixels)))
    return folder


def bitmap(pixels: bytes) -> bytes:
    """A BMP file of SIDE x SIDE pixels of 24 bits."""
    start = 14 + 40
    head = struct.pack("<2sIHHI", b"BM", start + len(pixels), 0, 0, start)
    return head + struct.pack("<IiiHHIIiiII", 40, SIDE, SIDE, 1, 24, 0, len(pixels), 2835, 2835, 0, 0) + pixels


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file, by its path."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
