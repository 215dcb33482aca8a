"""Exported files say what model.keras says, in processes without TensorFlow; the check notices those that do not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.conftest import HAS_TENSORFLOW
from trainplan.workloads.terms import ExportFormat
from trainplan.workloads.trainer.exports.compare import REFERENCE

if HAS_TENSORFLOW:
    from tests.e2e import exported_nets
    from trainplan.workloads.trainer.exports import conversions

pytestmark = [
    # Keras 3.15.1 looks for it on behalf of tf2onnx, which names types that numpy 1 had.
    pytest.mark.filterwarnings("ignore:In the future `np.object` will be defined:FutureWarning"),
    pytest.mark.train,
    pytest.mark.usefixtures("tensorflow"),
    pytest.mark.skipif(not HAS_TENSORFLOW, reason="TensorFlow is not installed (the extra train-cpu)"),
]
NETS = ("digits VGG", "mnist-cnn", "residual", "depthwise", pytest.param("VGG11 at 64 px", marks=pytest.mark.e2e))
ALONE = (ExportFormat.ONNX, ExportFormat.TFLITE, ExportFormat.TFLITE_INT8)
"""The formats that are opened without TensorFlow."""
WITHOUT_TENSORFLOW = """
import sys
for name in ("tensorflow", "keras", "jax", "torch"):
    sys.modules[name] = None  # to import it raises ModuleNotFoundError
from trainplan.workloads.trainer.exports.check import main
sys.exit(main())
"""


def checked(trained: Any, format: ExportFormat, folder: Path, convert: Callable[..., None]) -> dict[str, Any]:
    """What the check says of a file, calibrated with 200 images."""
    (folder / format).mkdir(exist_ok=True)
    probabilities = trained.model.predict(trained.pixels, verbose=0)
    np.savez(folder / REFERENCE, pixels=trained.pixels, labels=trained.labels, probabilities=probabilities)
    convert(exported_nets.keras(), trained.model, format, folder / format, trained.pixels[::5])
    program = ("-c", WITHOUT_TENSORFLOW) if format in ALONE else ("-m", "trainplan.workloads.trainer.exports.check")
    question = json.dumps({"folder": str(folder / format), "format": format, "allowed_loss": 0.02})
    ran = subprocess.run([sys.executable, "-P", *program], input=question, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


@pytest.mark.parametrize("format", ALONE)
@pytest.mark.parametrize("name", NETS)
def test_a_file_names_the_classes_that_the_model_names(name: str, format: ExportFormat, tmp_path: Path) -> None:
    refuse_no_likeness(name, format, tmp_path)


@pytest.mark.parametrize(
    "name",
    ["mnist-cnn", *(pytest.param(name, marks=pytest.mark.e2e) for name in ("digits VGG", "residual", "depthwise"))],
)
def test_a_saved_model_names_the_classes_that_the_model_names(name: str, tmp_path: Path) -> None:
    refuse_no_likeness(name, ExportFormat.SAVEDMODEL, tmp_path)


def refuse_no_likeness(name: str, format: ExportFormat, folder: Path) -> None:
    answer = checked(exported_nets.net(name), format, folder, conversions.convert)
    assert answer["faults"] == []
    figures = answer["figures"]
    assert figures["images"] == 1_000
    assert figures["top1_before"] > 0.8
    assert figures["milliseconds_per_image"] > 0
    if format is ExportFormat.TFLITE_INT8:
        assert figures["top1_before"] - figures["top1_after"] <= 0.02
        assert answer["output"] == {"classes": 10, "dtype": "uint8", "scale": 1 / 256, "zero_point": 0}
        assert "CAST" not in {row["name"] for row in answer["operations"]}
    else:
        assert figures["agreement"] == 1


PLANTED = [
    *(("without_scaling", format) for format in ALONE),
    *(("channels_swapped", format) for format in ALONE),
    ("calibrated_on_noise", ExportFormat.TFLITE_INT8),
    ("calibrated_on_bright_noise", ExportFormat.TFLITE_INT8),
]


@pytest.mark.parametrize(("defect", "format"), PLANTED)
def test_a_planted_defect_is_noticed(defect: str, format: ExportFormat, tmp_path: Path) -> None:
    assert checked(exported_nets.net("colours"), format, tmp_path, getattr(exported_nets, defect))["faults"]


@pytest.mark.parametrize("name", ["digits VGG", "mnist-cnn", "residual", "depthwise"])
def test_a_calibration_on_dark_noise_is_noticed_where_top_1_hardly_falls(name: str, tmp_path: Path) -> None:
    answer = checked(exported_nets.net(name), ExportFormat.TFLITE_INT8, tmp_path, exported_nets.calibrated_on_noise)
    assert "calibrated with other images" in " ".join(answer["faults"])
