"""How to use the model without this product: a few lines of Python for the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainplan.workloads.trainer.backend import Toolkit

_CODE = """\
import json, os; os.environ["KERAS_BACKEND"] = "{framework}"
import numpy; from PIL import Image, ImageOps; {keras}
image = Image.open("IMAGE.jpg"); image.draft("{mode}", ({twice}, {twice})); image = ImageOps.exif_transpose(image).convert("{mode}")
side = min(image.size); left, top = ((length - side) // 2 for length in image.size)
pixels = image.resize(({size}, {size}), Image.Resampling.BILINEAR, (left, top, left + side, top + side))
scores = keras.models.load_model("model.keras", compile=False).predict(numpy.reshape(pixels, (1, {size}, {size}, {channels})))[0]
print(sorted(zip(scores.tolist(), {names}), reverse=True)[:5])"""  # noqa: E501  # code that is copied


def usage_lines(toolkit: Toolkit, size: int, channels: int, class_names: Sequence[str]) -> list[str]:
    """The lines of a report: what the model takes, and code that names an image, as the trainer reads it.

    `size` is the height and width of the model's images in pixels.
    """
    code = _CODE.format(
        framework=toolkit.framework,
        keras="import keras" if int(toolkit.keras_version.split(".")[0]) >= 3 else "from tensorflow import keras",
        mode="L" if channels == 1 else "RGB",
        twice=2 * size,
        size=size,
        channels=channels,
        names='json.load(open("metrics.json"))["class_names"]' if class_names else "range(len(scores))",
    )
    return [
        "## Use the model",
        "",
        "The model takes pixels from 0 to 255 and gives a probability for each class. `plan predict RUN IMAGES...` "
        "asks it; so does this code, in this folder, for images of 8 bits without transparency:",
        "",
        "```python",
        code,
        "```",
        "",
    ]
