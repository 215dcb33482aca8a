"""The forty networks of keras.applications with random weights, each read as a person's file of one line."""

from __future__ import annotations

from typing import Any

import pytest

from trainplan.workloads.graph_file import graph_from_json
from trainplan.workloads.network_reader.keras_graph import read_keras

pytestmark = [
    *(pytest.mark.train, pytest.mark.keras_3, pytest.mark.filterwarnings("default")),
    pytest.mark.usefixtures("tensorflow"),
]

PLAIN, BYTES = (-1.0, 1.0), (0.0, 255.0)
# Parameters in millions are those of keras.io/api/applications; multiply-accumulates are of the networks' papers,
# torchvision 0.15's or timm 0.9's tables (2026-11). None: not published for Keras' form.
NETWORKS: list[tuple[str, int, float, float | None, tuple[float, float]]] = [
    ("Xception", 299, 22.9, 8.4e9, PLAIN),
    ("VGG16", 224, 138.4, 15.47e9, PLAIN),
    ("VGG19", 224, 143.7, 19.63e9, PLAIN),
    ("ResNet50", 224, 25.6, 3.86e9, PLAIN),
    ("ResNet101", 224, 44.7, 7.58e9, PLAIN),
    ("ResNet152", 224, 60.4, 11.3e9, PLAIN),
    ("ResNet50V2", 224, 25.6, None, PLAIN),
    ("ResNet101V2", 224, 44.7, None, PLAIN),
    ("ResNet152V2", 224, 60.4, None, PLAIN),
    ("InceptionV3", 299, 23.9, 5.71e9, PLAIN),
    ("InceptionResNetV2", 299, 55.9, 13.18e9, PLAIN),
    ("MobileNet", 224, 4.3, 0.569e9, PLAIN),
    ("MobileNetV2", 224, 3.5, 0.300e9, PLAIN),
    ("MobileNetV3Small", 224, 2.6, 0.0565e9, BYTES),
    ("MobileNetV3Large", 224, 5.5, 0.217e9, BYTES),
    ("DenseNet121", 224, 8.1, 2.83e9, PLAIN),
    ("DenseNet169", 224, 14.3, 3.36e9, PLAIN),
    ("DenseNet201", 224, 20.2, 4.29e9, PLAIN),
    ("NASNetMobile", 224, 5.3, 0.564e9, PLAIN),
    ("NASNetLarge", 331, 88.9, 23.8e9, PLAIN),
    ("EfficientNetB0", 224, 5.3, 0.39e9, BYTES),
    ("EfficientNetB1", 240, 7.9, 0.70e9, BYTES),
    ("EfficientNetB2", 260, 9.2, 1.0e9, BYTES),
    ("EfficientNetB3", 300, 12.3, 1.8e9, BYTES),
    ("EfficientNetB4", 380, 19.5, 4.4e9, BYTES),
    ("EfficientNetB5", 456, 30.6, 10.3e9, BYTES),
    ("EfficientNetB6", 528, 43.3, 19.0e9, BYTES),
    ("EfficientNetB7", 600, 66.7, 37.8e9, BYTES),
    ("EfficientNetV2B0", 224, 7.2, 0.73e9, BYTES),
    ("EfficientNetV2B1", 240, 8.2, 1.21e9, BYTES),
    ("EfficientNetV2B2", 260, 10.2, 1.71e9, BYTES),
    ("EfficientNetV2B3", 300, 14.5, 3.04e9, BYTES),
    ("EfficientNetV2S", 384, 21.6, 8.37e9, BYTES),
    ("EfficientNetV2M", 480, 54.4, 24.58e9, BYTES),
    ("EfficientNetV2L", 480, 119.0, 56.08e9, BYTES),
    ("ConvNeXtTiny", 224, 28.6, 4.46e9, BYTES),
    ("ConvNeXtSmall", 224, 50.2, 8.68e9, BYTES),
    ("ConvNeXtBase", 224, 88.6, 15.36e9, BYTES),
    ("ConvNeXtLarge", 224, 197.8, 34.36e9, BYTES),
    ("ConvNeXtXLarge", 224, 350.2, 60.97e9, BYTES),
]


@pytest.mark.parametrize(("name", "size", "millions", "macs", "pixels"), NETWORKS)
def test_a_network_of_keras_has_its_published_size(
    name: str, size: int, millions: float, macs: float | None, pixels: tuple[float, float]
) -> None:
    question: dict[str, Any] = {
        "source": "import keras\n\n\ndef build(image_size, channels, classes):\n    return keras.applications."
        f"{name}(weights=None, input_shape=(image_size, image_size, channels), classes=classes)\n",
        "file": "one_line.py", "builder": "build", "size": size, "channels": 3, "classes": 1000,
        "framework": "tensorflow",
    }  # fmt: skip
    answer = read_keras(question, lambda: None, lambda: lambda: "")
    graph = graph_from_json(answer["graph"])
    assert (graph.unknown, tuple(answer["pixel_range"])) == ((), pixels)
    assert (graph.parameters + graph.statistics) / 1e6 == pytest.approx(millions, abs=0.06, rel=0.005)
    assert macs is None or graph.macs == pytest.approx(macs, rel=0.03)
