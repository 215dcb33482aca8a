"""Augmentation: what happens to an image, what a mixture is worth, and that a run with it goes on bit for bit."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import a_job, attempt, events, final_state, stopped_in_epoch_2
from trainplan.workloads.layers import Dense, Flatten, Net
from trainplan.workloads.recipe import AugmentSpec
from trainplan.workloads.trainer.augment import make_loss
from trainplan.workloads.trainer.model import Models, Preprocessing, build, compile_for_training

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("default")]


def augmented_images(tensorflow: Any, images: Any, size: int, *, training: bool, **spec: Any) -> Any:
    """What the net's first layer sees of images, in pixels of 0 to 255: the net is nothing but a flatten layer."""
    net = Net(name="eye", image_size=size, channels=images.shape[-1], layers=(Flatten(),))
    models = build(
        tensorflow.keras, net, images.shape[1], 0, preprocessing=Preprocessing(augment=AugmentSpec.model_validate(spec))
    )
    model = models.training if training else models.testing
    flat = np.asarray(model(images, training=training))[:, : size * size * images.shape[-1]]
    return (flat.reshape(-1, size, size, images.shape[-1]) + 1) * 127.5


def ramps(count: int = 64, side: int = 16) -> Any:
    """Red rises from left to right, green from top to bottom, by ten a pixel."""
    images = np.zeros((count, side, side, 3), np.uint8)
    images[..., 0] = 10 * np.arange(side)
    images[..., 1] = 10 * np.arange(side)[:, None]
    return images


@pytest.mark.keras_3
def test_a_net_is_tested_on_the_centre(tensorflow: Any) -> None:
    images = ramps(2)
    centre = augmented_images(tensorflow, images, 12, training=False, resize=16, crop=0.1, flip=True, mixup=0.3)
    assert centre == pytest.approx(images[:, 2:14, 2:14].astype(float), abs=1e-3)


@pytest.mark.keras_3
def test_random_crops_are_parts_of_the_image(tensorflow: Any) -> None:
    """Along a ramp the step from pixel to pixel is the crop's width; no crop leaves the image, and no two are alike."""
    images = ramps()
    crops = augmented_images(tensorflow, images, 8, training=True, resize=16, crop=0.25)
    inner = crops[:, 1:-1, 1:-1]
    across = np.diff(inner[..., 0], axis=2)
    assert across.std(axis=(1, 2)).max() < 0.01
    widths, heights = across.mean(axis=(1, 2)) / 10 * 8, np.diff(inner[..., 1], axis=1).mean(axis=(1, 2)) / 10 * 8
    shares = widths * heights / 16**2
    assert 0.2 < shares.min() < shares.max() <= 1.001
    assert shares.std() > 0.05
    assert crops.min() >= -0.01
    assert crops.max() <= 150.01
    assert len(np.unique(np.round(widths, 3))) > 50
    assert np.abs(np.log(widths / heights)).max() > 0.1


@pytest.mark.keras_3
def test_a_crop_of_the_whole_is_the_image(tensorflow: Any) -> None:
    """Where each aspect ratio is cut to the image, a share of 1 keeps one side whole."""
    crops = augmented_images(tensorflow, ramps(), 16, training=True, crop=1.0)
    widths = np.diff(crops[:, :, 2:-2, 0], axis=2).mean(axis=(1, 2)) / 10
    heights = np.diff(crops[:, 2:-2, :, 1], axis=1).mean(axis=(1, 2)) / 10
    assert np.maximum(widths, heights) == pytest.approx(np.ones(64), abs=1e-3)


def test_about_every_second_image_is_mirrored(tensorflow: Any) -> None:
    images = ramps()
    shown = augmented_images(tensorflow, images, 16, training=True, flip=True)
    mirrored = np.abs(shown - images[:, :, ::-1]).max(axis=(1, 2, 3)) < 0.01
    same = np.abs(shown - images).max(axis=(1, 2, 3)) < 0.01
    assert (mirrored ^ same).all()
    assert 15 < mirrored.sum() < 50


@pytest.mark.parametrize("key", ["brightness", "contrast", "saturation"])
@pytest.mark.keras_3
def test_colours_change_within_their_range(tensorflow: Any, key: str) -> None:
    images = ramps() // 4 + 64
    shown = augmented_images(tensorflow, images, 16, training=True, **{key: 0.2})
    changed = np.abs(shown - images).max(axis=(1, 2, 3))
    assert changed.std() > 0.5
    assert changed.max() <= 0.2 * 255 + 0.01
    assert ((shown >= -0.01) & (shown <= 255.01)).all()
    assert augmented_images(tensorflow, images, 16, training=False, **{key: 0.2}) == pytest.approx(
        images.astype(float), abs=1e-3
    )


@pytest.mark.keras_3
def test_mixup_mixes_images_from_both_ends_by_one_share(tensorflow: Any) -> None:
    images = np.zeros((4, 2, 2, 1), np.uint8)
    images[:, ...] = np.array([0, 100, 200, 40], np.uint8)[:, None, None, None]
    net = Net(name="eye", image_size=2, channels=1, layers=(Flatten(),))
    model = build(tensorflow.keras, net, 2, 0, preprocessing=Preprocessing(augment=AugmentSpec(mixup=1.0))).training
    outputs = np.asarray(model(images, training=True))
    shown, shares = (outputs[:, 0] + 1) * 127.5, outputs[:, -1]
    assert shares == pytest.approx(np.full(4, shares[0]))
    share = shares[0]
    assert 0 < share < 1
    whole = np.array([0.0, 100.0, 200.0, 40.0])
    assert shown == pytest.approx(share * whole + (1 - share) * whole[::-1], abs=1e-3)
    assert np.asarray(model(images, training=False))[:, -1] == pytest.approx(np.ones(4))


@pytest.mark.keras_3
def test_the_loss_of_a_mixture_is_the_mixture_of_losses(tensorflow: Any) -> None:
    logits = np.log(np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], np.float32))
    outputs = np.concatenate([logits, np.full((2, 1), 0.75, np.float32)], axis=1)
    loss = make_loss(tensorflow.keras, AugmentSpec(mixup=0.2))
    found = np.asarray(loss(np.array([0, 2]), outputs))
    by_hand = [-0.75 * math.log(0.7) - 0.25 * math.log(0.1), -0.75 * math.log(0.6) - 0.25 * math.log(0.1)]
    assert found == pytest.approx(by_hand, abs=1e-5)


@pytest.mark.keras_3
def test_smoothed_labels_are_spread_over_all_classes(tensorflow: Any) -> None:
    logits = np.log(np.array([[0.7, 0.2, 0.1]], np.float32))
    found = np.asarray(make_loss(tensorflow.keras, AugmentSpec(label_smoothing=0.3))(np.array([[0]]), logits))
    assert found == pytest.approx([-0.8 * math.log(0.7) - 0.1 * math.log(0.2) - 0.1 * math.log(0.1)], abs=1e-5)


@pytest.mark.keras_3
def test_the_accuracy_of_mixtures_is_that_of_their_logits(tensorflow: Any) -> None:
    keras = tensorflow.keras
    net = Net(name="flat", image_size=2, channels=1, layers=(Flatten(), Dense(units=7, softmax=True)))
    spec = AugmentSpec(mixup=0.2)
    models: Models = build(keras, net, 2, 0, preprocessing=Preprocessing(augment=spec))
    compile_for_training(keras, models.training, keras.optimizers.SGD(), xla=False, top5=True, augment=spec)
    images = np.arange(32 * 4, dtype=np.uint8).reshape(32, 2, 2, 1)
    taken = np.asarray(models.testing(images)).argmax(axis=1)
    found = models.training.evaluate(images, taken, verbose=0, return_dict=True)
    assert (found["accuracy"], found["top5"]) == (1.0, 1.0)


@pytest.mark.keras_3
def test_a_run_with_augmentation_goes_on_bit_for_bit(tmp_path: Path, tensorflow: Any) -> None:
    """All random streams are in the checkpoint; the model that comes home is tested and loaded without them."""
    job = a_job(
        model={"layers": [4, "M"], "batch_norm": True, "dense": [], "dropout": 0.2, "image_size": 8},
        global_batch_size=256,
        epochs=3,
        validation={"every_epochs": 1},
        augment={"resize": 10, "crop": 0.5, "flip": True, "brightness": 0.1, "contrast": 0.1, "mixup": 0.2}
        | {"label_smoothing": 0.1},
    )
    attempt(job, tmp_path / "whole")
    stopped_in_epoch_2(job, tmp_path / "cut")
    attempt(job, tmp_path / "cut", 2)
    for gone_on, undisturbed in zip(final_state(tmp_path / "cut"), final_state(tmp_path / "whole"), strict=True):
        np.testing.assert_array_equal(gone_on, undisturbed)
    from trainplan.workloads.trainer.data import digits

    hold_out: Any = digits().hold_out
    model = tensorflow.keras.models.load_model(tmp_path / "whole/output/model.keras")
    right = model.predict(hold_out.pixels, verbose=0).argmax(axis=1) == hold_out.labels
    assert events(tmp_path / "whole", 1, "end")[0]["hold_out_accuracy"] == pytest.approx(right.mean(), abs=1e-5)


def test_the_plain_loss_needs_nothing_of_keras_3() -> None:
    """Keras 2.14, the last one for a K80, has no `ops`: every training there failed when the loss asked for it."""
    keras_2 = SimpleNamespace(losses=SimpleNamespace(SparseCategoricalCrossentropy=lambda from_logits: from_logits))
    assert make_loss(keras_2, AugmentSpec()) is True
