"""The job's data: the digits' fixed hold-out, made images, and clear words where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import a_job, arrays
from trainplan.workloads.trainer.data import digits, open_data, synthetic
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.images import FileImages


@pytest.fixture(scope="module")
def sklearn() -> Any:
    return pytest.importorskip("sklearn")


def test_the_digits_hold_out_is_the_stratified_fifth_of_seed_0(sklearn: Any) -> None:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    train, hold_out = arrays(digits())
    held = load_digits()
    expected = train_test_split(np.arange(1797), test_size=0.2, stratify=held.target, random_state=0)[1]
    assert (hold_out.pixels[..., 0] == np.rint(held.images[expected] * 255 / 16)).all()
    assert (hold_out.labels == held.target[expected]).all()
    assert (train.count, hold_out.count) == (1437, 360)


def test_the_digits_hold_out_is_the_same_for_every_seed(sklearn: Any, tmp_path: Path) -> None:
    one, other = (arrays(open_data(a_job(seed=seed), tmp_path))[1] for seed in (0, 5))
    assert (one.pixels == other.pixels).all()


def test_no_digit_held_out_is_trained_on(sklearn: Any) -> None:
    train, hold_out = arrays(digits())
    assert train.count + hold_out.count == 1797
    held = {image.tobytes() for image in hold_out.pixels}
    assert not held & {image.tobytes() for image in train.pixels}


def test_the_digits_keep_their_sixteen_levels(sklearn: Any) -> None:
    train, _ = arrays(digits())
    assert train.pixels.dtype == np.uint8
    assert len(np.unique(train.pixels)) == 17
    assert (train.pixels.min(), train.pixels.max()) == (0, 255)


def make_job(**changes: Any) -> Any:
    data = {"name": "synthetic"} | changes.pop("data", {})
    return a_job(data=data, model={"layers": [8, "M"], "image_size": 24, "classes": 7}, **changes)


def test_made_images_hang_on_the_seed_alone() -> None:
    one, again, other = (arrays(synthetic(make_job(seed=seed)))[0] for seed in (3, 3, 4))
    assert (one.pixels == again.pixels).all()
    assert (one.pixels != other.pixels).any()


def test_made_images_have_the_jobs_shape_and_count() -> None:
    train, hold_out = arrays(synthetic(make_job(data={"images": 1_000_000})))
    assert train.pixels.shape[1:] == (24, 24, 3)
    assert train.count == 1_000_000
    assert train.pixels.nbytes <= 64 * 2**20
    assert hold_out.count == 1_000
    assert sorted(set(train.labels.tolist())) == list(range(7))


def test_a_folder_is_opened_at_its_path_or_where_the_launcher_brought_it(image_folder: Path, tmp_path: Path) -> None:
    model = {"layers": [8, "M"], "image_size": 8, "classes": 3}
    here = a_job(data={"path": str(image_folder), "channels": 1}, model=model)
    elsewhere = a_job(data={"path": "/home/somebody/images", "channels": 1}, model=model)
    for job, data_dir in ((here, tmp_path / "absent"), (elsewhere, image_folder)):
        split = open_data(job, data_dir)
        assert isinstance(split.train, FileImages)
        assert split.train.size == 8


@pytest.mark.parametrize("source", ["path", "url"])
def test_the_one_folder_around_everything_is_none_of_the_classes(
    image_folder: Path, tmp_path: Path, source: str
) -> None:
    """As an archive of other people brings it; what a computer adds by itself does not count."""
    wrapped = tmp_path / "data" / "set-v2" / "images"
    wrapped.parent.mkdir(parents=True)
    image_folder.rename(wrapped)
    (tmp_path / "data" / "__MACOSX").mkdir()
    (tmp_path / "data" / ".DS_Store").touch()
    data = {"path": str(tmp_path / "data")} if source == "path" else {"url": "https://example.org/set.tar"}
    model = {"layers": [8, "M"], "image_size": 8, "classes": 3}
    split = open_data(a_job(data=data | {"channels": 1}, model=model), tmp_path / "data")
    assert split.class_names == ("cat", "dog", "eel")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {"name": "imagenet"}, "model": {"preset": "vgg11"}}, r"put its TFRecords.*data: \{path: FOLDER\}"),
        (
            {"data": {"path": "/no/such"}, "model": {"layers": [8], "image_size": 8, "classes": 3}},
            "there is no folder /no/such",
        ),
        (
            {"data": {"url": "s3://bucket/x"}, "model": {"layers": [8], "image_size": 8, "classes": 3}},
            "s3://bucket/x was not fetched",
        ),
        ({"data": {"name": "digits", "channels": 3}}, "the images have 1 channels, the job says 3"),
        ({"model": {"layers": [8], "classes": 5}}, "write model.classes: 10"),
        ({"global_batch_size": 2_000}, "a batch of 2000 cannot be taken from 1437 training images"),
    ],
)
def test_data_that_does_not_fit_the_job_is_refused(
    tmp_path: Path, sklearn: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        open_data(a_job(**changes), tmp_path / "data")
