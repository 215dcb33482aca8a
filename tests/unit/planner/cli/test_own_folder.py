"""From a folder of one's own images to a complete job file and to an estimate, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders import small_catalog
from tests.desk import own_home
from tests.unit.planner.cli.command import plan
from trainplan.planner.cli.own_folder import job_of_folder
from trainplan.planner.errors import BadInputError
from trainplan.workloads.data_folder.counts import count_images
from trainplan.workloads.jobfile import read_job

Image: Any = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder; state below it."""
    own_home(tmp_path, monkeypatch)
    return tmp_path


def images(
    folder: Path, *, count: int = 20, size: tuple[int, int] = (20, 16), mode: str = "RGB", classes: str = "abc"
) -> Path:
    """So many images of each class, none like another."""
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            colour = number + 1 if mode == "L" else (10 + 60 * label, number + 1, 7)
            image = Image.new(mode, size, colour)
            image.putpixel((label, 0), 255 if mode == "L" else (255, 255, 255))
            image.save(folder / name / f"{number}.png")
    return folder


def test_a_folder_becomes_a_job_file_that_lacks_nothing(here: Path) -> None:
    images(here / "my flowers")
    said = plan("init", "job.yaml", "--data", "./my flowers", "--model", "VGG11")
    assert (said.code, said.out) == (0, "wrote job.yaml; next: plan estimate job.yaml\n")
    assert "held out, 3 classes (a, b, c); all 60 images read; colour, 20x16 to 20x16 px (median 20x16)" in said.err
    job = read_job(here / "job.yaml")
    assert (job.name, job.model.preset, job.classes, job.channels) == ("vgg11-my-flowers", "vgg11", 3, 3)
    assert job.image_size == 32, "the least that the net takes; the images are smaller"
    assert job.global_batch_size == 4, "an epoch has ten steps"
    assert job.validation.every_epochs == 1
    assert job.data.path == str(here / "my flowers")
    assert 'data: {path: "./my flowers", channels: 3}\n' in (here / "job.yaml").read_text()


def test_the_file_in_another_folder_names_the_images_from_there(here: Path) -> None:
    images(here / "flowers")
    (here / "jobs").mkdir()
    assert plan("init", "jobs/job.yaml", "--data", "flowers").code == 0
    assert "path: ../flowers," in (here / "jobs" / "job.yaml").read_text()
    assert read_job(here / "jobs" / "job.yaml").data.path == str(here / "flowers")


def test_an_estimate_takes_a_folder_without_a_file(here: Path) -> None:
    images(here / "flowers")
    said = plan("estimate", "--data", "flowers", "--model", "vgg16", "--epochs", 3, "--catalog", small_catalog(here))
    assert said.code == 0, said.err
    head = said.out.splitlines()[0]
    assert head.startswith("vgg16-flowers: vgg16 (")
    assert head.endswith(f" on {here / 'flowers'} at 32 px, 3 epochs, batch 4, fp32, tensorflow")


def test_a_job_file_may_be_estimated_on_another_folder(here: Path) -> None:
    images(here / "one")
    images(here / "two", classes="abcd", mode="L")
    assert plan("init", "--data", "one", "--model", "vgg11", "--batch", 8).code == 0
    said = plan("estimate", "job.yaml", "--data", "two", "--json", "--catalog", small_catalog(here))
    job = said.json["job"]
    assert (job["data"]["path"], job["data"]["channels"], job["model"]["classes"]) == (str(here / "two"), 1, 4)
    assert job["data"]["images"] == count_images(here / "two").train
    assert (job["global_batch_size"], job["model"]["image_size"]) == (8, 32)


def test_grey_images_of_a_size_and_options_are_taken_over(here: Path) -> None:
    images(here / "grey", mode="L", size=(300, 260), count=4)
    looked_at = job_of_folder(here / "grey", "vgg11")
    assert looked_at.values["data"]["channels"] == 1
    assert looked_at.values["model"] == {"image_size": 224, "classes": 3}
    assert plan("init", "--data", "grey", "--image-size", 64, "--batch", 2, "--epochs", 5).code == 0
    job = read_job(here / "job.yaml")
    assert (job.image_size, job.global_batch_size, job.epochs) == (64, 2, 5)


DEFAULTS: dict[str, tuple[int, str, dict[str, Any]]] = {
    "none": (20, "RGB", {"layers": [32, "M", 64, "M", 128, "M", 128, "M"], "batch_norm": True, "image_size": 16}),
    "vgg16": (20, "RGB", {"weights": "imagenet", "freeze": "block5", "dense": [256]}),
    "VGG11": (20, "RGB", {"weights": None, "batch_norm": True, "dense": [256]}),
    "vgg19": (20, "L", {"weights": None, "batch_norm": True}),
    "resnet18": (60, "RGB", {"preset": "resnet18"}),
}


@pytest.mark.parametrize("model", DEFAULTS)
def test_the_job_of_a_folder_fits_its_images_and_an_estimate_takes_the_same(here: Path, model: str) -> None:
    count, mode, network = DEFAULTS[model]
    images(here / "photos", count=count, mode=mode)
    named = () if model == "none" else ("--model", model)
    said = plan("init", "job.yaml", "--data", "photos", *named)
    assert said.code == 0, said.err
    assert said.err.splitlines()[-1].startswith("job: ")
    job = read_job(here / "job.yaml")
    assert network.items() <= job.model.model_dump(mode="json").items()
    images_of_training = count_images(here / "photos").train
    assert (job.optimizer.name, job.optimizer.schedule.name, job.augment.crop) == ("adam", "cosine", 0.7)
    assert (job.validation.every_epochs, job.validation.keeps_best, job.validation.patience) == (1, True, 20)
    assert images_of_training // job.global_batch_size >= 10
    catalog = small_catalog(here)
    estimate = plan("estimate", "--data", "photos", *named, "--json", "--catalog", catalog)
    assert estimate.code == 0, estimate.err
    assert estimate.json["job"] == plan("estimate", "job.yaml", "--json", "--catalog", catalog).json["job"]


def test_the_batch_of_a_network_of_ones_own_is_that_of_its_images_too(here: Path) -> None:
    images(here / "photos", count=90)
    (here / "net.py").write_text("def build(image_size, channels, classes): ...")
    assert job_of_folder(here / "photos", "").values["global_batch_size"] == 16


def test_force_replaces_a_job_file(here: Path) -> None:
    (here / "job.yaml").write_text("mine")
    said = plan("init", "--model", "vgg11", "--dataset", "cifar10")
    assert (said.code, said.hint) == (2, "choose another name, or --force replaces it")
    assert (here / "job.yaml").read_text() == "mine"
    assert plan("init", "--force", "--model", "vgg11", "--dataset", "cifar10").code == 0
    assert read_job(here / "job.yaml").model.preset == "vgg11"
    assert [path.name for path in here.glob("*job.yaml*")] == ["job.yaml"]


REFUSED = [
    (("--dataset", "./flowers"), "--dataset: ./flowers is a folder", "--data ./flowers trains on its images"),
    (("--data", "nowhere"), "there is no folder nowhere", ""),
    (("here",), "here is a folder; name the file to write", "plan init job.yaml --data here writes a job"),
    (("--data", "flowers.zip"), "flowers.zip is a file; unpack it, then name its folder", ""),
    (
        ("--data", "two ills"),
        "two ills cannot be trained on: 2 classes (c, d) have no image to train on; add some, or take the class out;",
        "",
    ),
    (("--data", "flowers/a"), "flowers/a holds 20 .png files", ""),
    (("--data", "one"), "one cannot be trained on: there is 1 class (a)", "plan data check one lists every problem"),
    (("--data", "flowers", "--model", "no.py:build"), "--model: there is no file ", "FILE.py:FUNCTION"),
    (("--data", "flowers", "--model", "no.onnx"), "--model: there is no file ", "FILE.py:FUNCTION"),
    (("--data", "my one"), "my one cannot be trained on", "plan data check 'my one' lists every problem"),
    (("--data", "flowers", "--dataset", "mnist"), "--data and --dataset name two sets of images", ""),
    (("--data", "flowers", "--recipe", "vgg16-imagenet"), "a recipe has a model, data, epochs and a batch", ""),
    (("--data", "flowers", "--model", "resnet"), "--model: there is no 'resnet'", "did you mean resnet50?"),
    (("--data", "flowers", "--model", "whisper"), "--model: there is no 'whisper'", "known: vgg11"),
]


@pytest.mark.parametrize(("arguments", "error", "hint"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED])
def test_what_cannot_be_is_refused_and_nothing_written(
    here: Path, arguments: tuple[str, ...], error: str, hint: str
) -> None:
    images(here / "flowers")
    images(here / "one", classes="a")
    images(here / "my one", classes="a")
    images(here / "two ills", classes="ab")
    for name in ("c", "d"):
        (here / "two ills" / name).mkdir()
    for broken in (here / "two ills/a/broken.png", here / "flowers.zip"):
        broken.write_bytes(b"")
    (here / "here").mkdir()
    said = plan("init", *([] if arguments == ("here",) else ["job.yaml"]), *arguments)
    assert said.code == 2
    assert said.error.startswith(error)
    assert said.hint.startswith(hint)
    assert not (here / "job.yaml").exists()


def test_another_file_is_never_written_over_and_no_folder_looked_at_for_it(here: Path) -> None:
    (here / "job.yaml").write_text("mine")
    said = plan("init", "job.yaml", "--data", "nowhere")
    assert said.error == "job.yaml already exists"
    assert (here / "job.yaml").read_text() == "mine"


def test_a_folder_that_cannot_be_read_is_bad_input(here: Path) -> None:
    with pytest.raises(BadInputError, match="there is no folder"):
        job_of_folder(here / "none", "vgg16")
