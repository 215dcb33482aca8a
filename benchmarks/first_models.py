"""Ten folders of the kinds that people have: the job that `plan init --data FOLDER` writes, against logistic
regression on small pixels and a hand-written Keras recipe that trains for the same seconds of the processor.

    python -m benchmarks.first_models [KIND ...]

Images are made here, in a temporary folder. Each line is one folder: images, classes, accuracy on the same held-out
images. Needs the train extra; takes 1 to 5 minutes a folder on two idle cores.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SIDE = 32
"""Pixels: small, so that ten folders are trained on within half an hour."""
Draw = Callable[[Any, int], Any]
"""From a random generator and a class to an image of 8 bits, (pixels, pixels, 3) or (pixels, pixels)."""


class Kind(NamedTuple):
    """A folder: how many images each class has, and what draws them."""

    counts: tuple[int, ...]
    draw: Draw


def _noise(rng: Any, size: int, strength: float) -> Any:
    """A background of a random colour with a random slope of brightness."""
    across, down = np.meshgrid(np.linspace(-1, 1, size), np.linspace(-1, 1, size))
    slope = rng.normal(0, 25) * across + rng.normal(0, 25) * down
    return rng.uniform(60, 190, 3) + slope[..., None] + rng.normal(0, strength, (size, size, 3))


def _bits(values: Any) -> Any:
    return np.clip(values, 0, 255).astype(np.uint8)


def _texture(rng: Any, label: int, size: int = SIDE) -> Any:
    across, down = np.meshgrid(np.arange(size), np.arange(size))
    angle, length = label * 0.6 + rng.normal(0, 0.12), 4 + 1.5 * (label % 3) + rng.normal(0, 0.3)
    waves = np.sin(2 * np.pi * (across * np.cos(angle) + down * np.sin(angle)) / length + rng.uniform(0, 6))
    return _bits(_noise(rng, size, 25) + (waves * rng.uniform(25, 60))[..., None])


def _shape(rng: Any, label: int, size: int = SIDE) -> Any:
    """A circle, square, triangle or ring of any place, size and colour."""
    across, down = np.meshgrid(np.arange(size), np.arange(size))
    reach = rng.uniform(0.18, 0.32) * size
    x, y = (values - rng.uniform(reach, size - reach) for values in (across, down))
    far = np.hypot(x, y)
    inside = (
        far < reach,
        np.maximum(abs(x), abs(y)) < 0.85 * reach,
        (y < 0.7 * reach) & (y > 2 * abs(x) - 1.2 * reach),
        (far < reach) & (far > 0.6 * reach),
    )[label]
    image = _noise(rng, size, 20)
    image[inside] += rng.choice([-1, 1]) * rng.uniform(50, 110) + rng.normal(0, 15, 3)
    return _bits(image)


def _digit(rng: Any, label: int) -> Any:
    """A digit of scikit-learn's, enlarged, somewhere in a picture."""
    from sklearn.datasets import load_digits

    data = load_digits()
    pixels = data.images[rng.choice(np.flatnonzero(data.target == label))] / 16
    image, (top, left) = _noise(rng, SIDE, 18), rng.integers(0, SIDE - 23, 2)
    image[top : top + 24, left : left + 24] += np.kron(pixels, np.ones((3, 3)))[..., None] * rng.uniform(70, 120)
    return _bits(image)


def _photo(rng: Any, label: int) -> Any:
    """A piece of one of the two photos that come with scikit-learn."""
    from sklearn.datasets import load_sample_images

    photo = load_sample_images().images[label]
    top, left = rng.integers(0, photo.shape[0] - SIDE), rng.integers(0, photo.shape[1] - SIDE)
    return photo[top : top + SIDE, left : left + SIDE]


def _letter(rng: Any, label: int) -> Any:
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("L", (SIDE, SIDE), 0)
    font: Any = ImageFont.load_default(int(rng.integers(16, 24)))
    left, top = rng.integers(1, 9, 2)
    ImageDraw.Draw(picture).text((int(left), int(top)), chr(ord("A") + label), fill=255, font=font)
    turned = np.asarray(picture.rotate(float(rng.normal(0, 10)))) / 255
    return _bits(_noise(rng, SIDE, 15) + turned[..., None] * rng.choice([-1, 1]) * rng.uniform(60, 110))


def _dots(rng: Any, label: int) -> Any:
    """One to six dots."""
    image, across = _noise(rng, SIDE, 12), np.arange(SIDE)
    places = rng.permutation(16)[: label + 1]
    for place in places:
        x, y = 4 + 8 * (place % 4), 4 + 8 * (place // 4)
        image[np.hypot(across - x, across[:, None] - y) < 2.8] += 80
    return _bits(image)


def _grey(draw: Draw) -> Draw:
    return lambda rng, label: draw(rng, label).mean(axis=2).astype(np.uint8)


def _colours(rng: Any, label: int) -> Any:
    """A stain whose colour and form are the class: 5 colours, 4 shapes."""
    image = _shape(rng, label // 5).astype(float)
    image[..., (0, 1, 2, 0, 1)[label % 5]] *= (0.5, 0.5, 0.5, 1.4, 1.4)[label % 5]
    return _bits(image)


KINDS: dict[str, Kind] = {
    "textures": Kind((54,) * 5, _texture),
    "shapes": Kind((100,) * 4, _shape),
    "digits": Kind((100,) * 10, _digit),
    "grey": Kind((50,) * 2, _grey(_shape)),
    "unbalanced": Kind((300, 100, 50, 20), _shape),
    "photos": Kind((200,) * 2, _photo),
    "letters": Kind((50,) * 26, _letter),
    "dots": Kind((250,) * 6, _dots),
    "colours": Kind((30,) * 20, _colours),
    "many": Kind((500,) * 10, _grey(_digit)),
}


def write_folder(kind: Kind, folder: Path) -> None:
    """The images by class, the same every time."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for label, count in enumerate(kind.counts):
        place = folder / f"class-{label:02}"
        place.mkdir(parents=True)
        for number in range(count):
            Image.fromarray(kind.draw(rng, label)).save(place / f"{number:04}.png")


def default_job(folder: Path, run: Path) -> tuple[Any, dict[str, Any], float]:
    """The job that `plan init` writes, its metrics.json, and the seconds of the processor that its training took."""
    import json

    from trainplan.planner.cli.job_options import job_from_options
    from trainplan.workloads.trainer.loop import train
    from trainplan.workloads.trainer.prepare import Setting
    from trainplan.workloads.trainer.progress import Clock, Progress
    from trainplan.workloads.trainer.watch import Limits

    job = job_from_options({}, folder)
    clock = Clock()
    began = time.process_time()
    train(
        job,
        Setting(
            run_dir=run,
            data_dir=run / "data",
            limits=Limits(checkpoint_every_seconds=600),
            progress=Progress(run / "attempts" / "1", clock),
            clock=clock,
        ),
    )
    return job, json.loads((run / "output" / "metrics.json").read_bytes()), time.process_time() - began


def logistic_regression(train: tuple[Any, Any], test: tuple[Any, Any]) -> float:
    """Accuracy on pixels of at most 16 a side."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def small(images: Any) -> Any:
        part = images[:, :: max(1, images.shape[1] // 16), :: max(1, images.shape[2] // 16)]
        return part.reshape(len(part), -1).astype(np.float32)

    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
    return float(model.fit(small(train[0]), train[1]).score(small(test[0]), test[1]))


def keras_recipe(train: tuple[Any, Any], test: tuple[Any, Any], classes: int, seconds: float) -> float:
    """Accuracy of the network of Keras' and TensorFlow's tutorials on image classification, with its augmentation,
    after so many seconds of the processor."""
    import keras

    began = time.process_time()

    def end(*_: object) -> None:
        model.stop_training = time.process_time() - began > seconds

    layers = keras.layers
    keras.utils.set_random_seed(0)
    flat = [
        layers.RandomFlip("horizontal"),
        layers.RandomRotation(0.1),
        layers.RandomZoom(0.1),
        layers.Rescaling(1 / 255),
    ]
    body = [layer for width in (16, 32, 64) for layer in (
        layers.Conv2D(width, 3, padding="same", activation="relu"), layers.MaxPooling2D(),
    )]  # fmt: skip
    head = [layers.Dropout(0.2), layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(classes)]
    model = keras.Sequential([keras.Input(train[0].shape[1:]), *flat, *body, *head])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    model.fit(
        *train, batch_size=32, epochs=1_000, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=end)], verbose=0
    )
    return float(model.evaluate(*test, verbose=0)[1])


def compare(name: str) -> str:
    """One line for a kind of folder."""
    from trainplan.workloads.trainer.data import open_data
    from trainplan.workloads.trainer.feed import read_rows

    kind = KINDS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / name
        write_folder(kind, folder)
        job, figures, seconds = default_job(folder, Path(place) / "run")
        split = open_data(job, Path(place))
        train, test = (read_rows(part, np.arange(part.count)) for part in (split.train, split.hold_out))
    by_lines = logistic_regression(train, test)
    by_recipe = keras_recipe(train, test, len(kind.counts), seconds)
    return (
        f"{name:11}{sum(kind.counts):6}{len(kind.counts):4}{len(test[1]):6}{job.image_size:5}"
        f"{figures['hold_out_accuracy']:9.1%}{by_lines:9.1%}{by_recipe:9.1%}{figures['steps']:7}{seconds:7.0f}"
    )


def main(names: list[str]) -> None:
    """A table, one line a folder."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    columns = (("images", 6), ("cl.", 4), ("held", 6), ("px", 5), ("default", 9), ("logistic", 9), ("Keras", 9))
    print(f"{'folder':11}" + "".join(f"{name:>{width}}" for name, width in (*columns, ("steps", 7), ("CPU s", 7))))
    for name in names or list(KINDS):
        print(compare(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
