"""Augmentation on the device: layers before the net that change images while it trains, and mixup at its end.

Their random streams are variables of the model, and so in every checkpoint.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trainplan.workloads.trainer.seeds import derived_seed

if TYPE_CHECKING:
    from trainplan.workloads.recipe import AugmentSpec

# Aspect ratios of a random crop, as usual since Szegedy et al., arXiv:1409.4842.
_ASPECTS = (3 / 4, 4 / 3)


def changes_images(spec: AugmentSpec) -> bool:
    """Whether images are changed while the net trains: more than resizing and smoothed labels."""
    return bool(spec.crop or spec.flip or spec.brightness or spec.contrast or spec.saturation or spec.mixup)


def augmented(keras: Any, spec: AugmentSpec, images: Any, size: int, seed: int) -> tuple[Any, Any | None]:
    """Float images of 0 to 255 at `size` px a side from `images`, and the share of each in its mixture.

    The share, of shape (batch, 1), is 1 while the net does not train; None without mixup.
    """
    layers = keras.layers
    value = layers.Rescaling(1.0, dtype="float32", name="pixels")(images)
    if spec.crop is not None or int(images.shape[1]) != size:
        value = _crop_class(keras)(spec.crop, size, derived_seed(seed, "crop"), name="crop")(value)
    if spec.flip:
        value = layers.RandomFlip("horizontal", seed=derived_seed(seed, "flip"), dtype="float32", name="flip")(value)
    for layer in _colours(keras, spec, seed):
        value = layer(value)
    if not spec.mixup:
        return value, None
    value, share = _mix_class(keras)(spec.mixup, derived_seed(seed, "mixup"), name="mixup")(value)
    return value, share


def _colours(keras: Any, spec: AugmentSpec, seed: int) -> list[Any]:
    layers, steps = keras.layers, []
    for name, strength, kind in (
        ("brightness", spec.brightness, layers.RandomBrightness),
        ("contrast", spec.contrast, layers.RandomContrast),
    ):
        if strength:
            more = {"seed": derived_seed(seed, name), "dtype": "float32", "name": name}
            steps.append(kind(strength, value_range=(0, 255), **more))
    if spec.saturation:
        # Keras multiplies by factor / (1 - factor), and keeps the saturation of pixels of 0 to 1 below 1 only.
        low, high = ((1 + part) / (2 + part) for part in (-spec.saturation, spec.saturation))
        more = {"seed": derived_seed(seed, "saturation"), "dtype": "float32", "name": "saturation"}
        steps += [
            layers.Rescaling(1 / 255, dtype="float32", name="shares"),
            layers.RandomSaturation((low, high), value_range=(0, 1), **more),
            layers.Rescaling(255.0, dtype="float32", name="pixels_again"),
        ]
    return steps


def make_loss(keras: Any, spec: AugmentSpec) -> Any:
    """Cross-entropy on logits, with smoothed labels, and of mixtures by their shares (a last column of the logits)."""
    losses = keras.losses
    if not spec.mixup and not spec.label_smoothing:
        return losses.SparseCategoricalCrossentropy(from_logits=True)
    # Keras 2, the last one for a K80, has no `ops`; the trainer refuses mixtures and smoothed labels there.
    ops, smoothing = keras.ops, spec.label_smoothing

    def of(labels: Any, logits: Any) -> Any:
        targets = ops.one_hot(labels, logits.shape[-1], dtype="float32")
        targets = targets * (1 - smoothing) + smoothing / logits.shape[-1]
        return losses.categorical_crossentropy(targets, logits, from_logits=True)

    def loss(labels: Any, outputs: Any) -> Any:
        labels = ops.reshape(ops.cast(labels, "int32"), (-1,))
        if not spec.mixup:
            return of(labels, outputs)
        logits, share = outputs[:, :-1], outputs[:, -1]
        return share * of(labels, logits) + (1 - share) * of(ops.flip(labels, axis=0), logits)

    return loss


def _crop_class(keras: Any) -> Any:
    """Return the class, made when first needed, as all classes here: its base is part of the Keras in use."""
    ops = keras.ops

    class Crop(keras.layers.Layer):  # type: ignore[misc]
        """`size` px a side: a random part of each image, resized, while training; else the centre. `least` is the
        smallest share of an image's area that a part has (None: always the centre)."""

        def __init__(self, least: float | None, size: int, seed: int, name: str) -> None:
            super().__init__(name=name, dtype="float32")
            self.least = least
            self.size = size
            self.random = keras.random.SeedGenerator(seed)

        def call(self, images: Any, training: bool | None = None) -> Any:
            images = ops.cast(images, "float32")
            if training and self.least is not None:
                return self._random(images)
            begin = (images.shape[1] - self.size) // 2
            return images[:, begin : begin + self.size, begin : begin + self.size, :]

        def _random(self, images: Any) -> Any:
            side, count = images.shape[1], ops.shape(images)[0]

            def drawn(low: float, high: float) -> Any:
                return keras.random.uniform((count,), low, high, dtype="float32", seed=self.random)

            area = drawn(float(self.least or 1), 1.0)
            aspect = ops.exp(drawn(math.log(_ASPECTS[0]), math.log(_ASPECTS[1])))
            width = ops.minimum(ops.sqrt(area * aspect), 1.0) * side
            height = ops.minimum(ops.sqrt(area / aspect), 1.0) * side
            left_px, top_px = drawn(0.0, 1.0) * (side - width), drawn(0.0, 1.0) * (side - height)
            across, down = width / self.size, height / self.size
            zero = ops.zeros_like(across)
            # From a pixel of the result to one of the image, both by the centres of the pixels.
            by_column = [across, zero, left_px + across / 2 - 0.5, zero, down, top_px + down / 2 - 0.5, zero, zero]
            moved = ops.image.affine_transform(
                images, ops.stack(by_column, axis=1), interpolation="bilinear", fill_mode="nearest",
                data_format="channels_last",
            )  # fmt: skip
            return moved[:, : self.size, : self.size, :]

        def compute_output_shape(self, input_shape: Any) -> Any:
            return (input_shape[0], self.size, self.size, input_shape[-1])

    return Crop


def _mix_class(keras: Any) -> Any:
    ops = keras.ops

    class Mix(keras.layers.Layer):  # type: ignore[misc]
        """mixup (Zhang et al., arXiv:1710.09412): each image with the one as far from the batch's end as it is from
        its beginning, one share for the whole batch, of Beta(alpha, alpha)."""

        def __init__(self, alpha: float, seed: int, name: str) -> None:
            super().__init__(name=name, dtype="float32")
            self.alpha = alpha
            self.random = keras.random.SeedGenerator(seed)

        def call(self, images: Any, training: bool | None = None) -> Any:
            whole = ops.ones_like(images[:, :1, 0, 0])
            if not training:
                return images, whole
            share = keras.random.beta((1, 1), self.alpha, self.alpha, dtype="float32", seed=self.random)
            mixed = share[:, :, None, None] * images + (1 - share[:, :, None, None]) * ops.flip(images, axis=0)
            return mixed, whole * share

        def compute_output_shape(self, input_shape: Any) -> Any:
            return input_shape, (input_shape[0], 1)

    return Mix
