"""`plan export` as a person uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.planner.cli.command import plan
from trainplan.providers.cloud.trainer_wheel import WHEEL

JOB = """\
name: two
model: {preset: vgg11, classes: 10, image_size: 32}
data: {name: cifar10}
epochs: 1
global_batch_size: 64
framework: jax
nodes: 2
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB, encoding="utf-8")
    return path


def test_the_folder_has_what_the_printed_command_needs(job: Path, tmp_path: Path) -> None:
    made = plan("export", job, "--to", "skypilot", "--out", tmp_path / "out", "--device", "v100", "--count", "2")
    assert (made.code, made.out) == (0, f"sky launch --down {tmp_path}/out/task.yaml\n")
    assert "SkyPilot, not plan, ends the machines of this job; you must delete its bucket" in made.err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "job.json", "requirements.txt", "task.yaml", WHEEL,
    }  # fmt: skip
    task = yaml.safe_load((tmp_path / "out" / "task.yaml").read_text(encoding="utf-8"))
    assert (task["num_nodes"], task["resources"]["accelerators"]) == (2, "V100:2")


@pytest.mark.parametrize("image", ["trainer", "localhost:5000/a/trainer:1.2", f"r.example/t@sha256:{'a' * 64}"])
def test_an_image_is_written_as_it_was_named(job: Path, tmp_path: Path, image: str) -> None:
    assert plan("export", job, "--to", "jobset", "--out", tmp_path / "out", "--image", image).code == 0
    assert f"image: {image}\n" in (tmp_path / "out" / "jobset.yaml").read_text(encoding="utf-8")


def test_files_that_are_there_are_not_overwritten(job: Path, tmp_path: Path) -> None:
    words = ("export", job, "--to", "sbatch", "--out", tmp_path / "out")
    assert plan(*words).code == 0
    (tmp_path / "out" / "job.sbatch").write_text("mine", encoding="utf-8")
    again = plan(*words)
    assert (again.code, again.error) == (2, f"{tmp_path}/out/job.sbatch is there already")
    assert (tmp_path / "out" / "job.sbatch").read_text(encoding="utf-8") == "mine"
    assert plan(*words, "--force").code == 0


def test_nothing_is_written_beside_other_files_nor_among_the_images(job: Path, tmp_path: Path) -> None:
    """A tutorial names the folder of an export as that of the images: its folders would count as classes."""
    image: Any = pytest.importorskip("PIL.Image")
    for name in ("daisy", "rose"):
        (tmp_path / "flowers" / name).mkdir(parents=True)
        for number in range(30):
            image.new("RGB", (32, 32), (number, 7, 7)).save(tmp_path / "flowers" / name / f"{number}.png")
    assert plan("init", tmp_path / "own.yaml", "--data", tmp_path / "flowers").code == 0
    for out in ("flowers", "flowers/for-colab"):
        made = plan("export", tmp_path / "own.yaml", "--to", "colab", "--out", tmp_path / out)
        assert (made.code, made.error) == (
            2,
            f"{tmp_path}/{out} lies in the folder of the images, where it would count as a class",
        )
    made = plan("export", job, "--to", "sbatch", "--out", tmp_path / "flowers")
    assert made.code == 2
    assert made.error.startswith(f"{tmp_path}/flowers holds other files, ")
    assert {path.name for path in (tmp_path / "flowers").iterdir()} == {"daisy", "rose"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--device", "TPU v5e"), "TPU v5e is not exported"),
        (("--device", "nonesuch"), "nonesuch"),
        ((), "a pod needs an image, and the job names none"),
        (
            ("--image", "registry/trainer@sha256:..."),
            "--image: registry/trainer@sha256:... is not the name of an image",
        ),
        (("--image", f"registry/trainer@sha256:{'a' * 20}…"), "is not the name of an image"),
        (("--image", "registry/two words"), "is not the name of an image"),
    ],
)
def test_what_cannot_be_is_refused(job: Path, tmp_path: Path, words: tuple[str, ...], error: str) -> None:
    made = plan("export", job, "--to", "jobset", "--out", tmp_path / "out", *words)
    assert made.code == 2
    assert error in made.error
    assert made.hint
    assert not (tmp_path / "out").exists()


def test_slurm_is_told_the_upper_end_of_the_estimate_or_the_deadline(job: Path, tmp_path: Path) -> None:
    """Without a limit the job asks for the partition's longest, and waits as long as one that needs it."""

    def limit(text: str) -> int | None:
        job.write_text(text, encoding="utf-8")
        words = ("export", job, "--to", "sbatch", "--out", tmp_path / "out", "--force", "--device", "T4")
        assert plan(*words).code == 0
        script = (tmp_path / "out" / "job.sbatch").read_text(encoding="utf-8").splitlines()
        return next((int(line.partition("--time=")[2]) for line in script if "--time=" in line), None)

    short, long = limit(JOB), limit(JOB.replace("epochs: 1", "epochs: 2000"))
    assert short is not None
    assert 15 < short < 60
    assert long == 24 * 60
    assert limit(JOB + "constraints: {deadline: 5m}\n") == 5
    (tmp_path / "images").mkdir()
    assert limit(JOB.replace("{name: cifar10}", f"{{path: {tmp_path}/images}}")) is None, (
        "nobody has counted its images"
    )
