"""Exports of a model: what is kept where, and what is left alone. A script stands for the process that converts.

The script writes an ONNX file of its own, which is checked in a process without TensorFlow, as always.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.unit.planner.cli.test_predict import METRICS, an_image
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.runs.exports import Export, ExportQuery, doubt, export_model
from trainplan.planner.runs.predictions import KeptModel, exported_model, kept_model, predictions
from trainplan.workloads.exported.record import read_record
from trainplan.workloads.terms import ExportFormat

NEEDED = ("tensorflow", "tf2onnx", "onnx", "onnxruntime", "ai_edge_litert")
pytestmark = pytest.mark.skipif(not all(map(find_spec, NEEDED)), reason="needs the extras convert and train-cpu")
CONVERTER = """
import json, sys
import numpy as np, onnx
from onnx import TensorProto, helper
question = json.load(sys.stdin)
pixels = np.random.default_rng(0).integers(0, 256, (100, 4, 4, 3)).astype(np.uint8)
means = pixels.mean(axis=(1, 2)).astype(np.float32) * 0.02
expected = np.exp(means) / np.exp(means).sum(axis=1, keepdims=True)
labels = means.argmax(axis=1).astype(np.int32)
np.savez(question["to"] + "/reference.npz", pixels=pixels, labels=labels, probabilities=expected)
print(json.dumps({"images": 100, "calibration_images": 200, "calibration_overlap": 0, "versions": {"keras": "3"}}))
import os
for name in question["formats"]:
    os.mkdir(f"{question['to']}/{name}")
    if name != "onnx":
        print(json.dumps({"format": name, "error": "no such thing"}))
        continue
    axes = helper.make_tensor("axes", TensorProto.INT64, [2], [1, 2])
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [], [SCALE])
    nodes = [
        helper.make_node("Cast", ["image"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["float", "axes"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "scale"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probability"], axis=1),
    ]
    given = helper.make_tensor_value_info("image", TensorProto.UINT8, [None, 4, 4, 3])
    told = helper.make_tensor_value_info("probability", TensorProto.FLOAT, [None, 3])
    graph = helper.make_graph(nodes, "g", [given], [told], [axes, scale])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, f"{question['to']}/{name}/model.onnx")
    print(json.dumps({"format": name, "error": ""}))
"""
WITHOUT_TENSORFLOW = """
import sys
for name in ("tensorflow", "keras", "jax", "torch"):
    sys.modules[name] = None  # to import it raises ModuleNotFoundError
from trainplan.workloads.trainer.predict import main
sys.exit(main())
"""


@pytest.fixture
def model(tmp_path: Path) -> KeptModel:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.keras").write_bytes(b"a model")
    (folder / "metrics.json").write_text(json.dumps(METRICS | {"name": "net", "hold_out_accuracy": 0.99}))
    return kept_model(folder)


def exported(model: KeptModel, *formats: ExportFormat, scale: float = 0.02) -> list[Export]:
    shown: list[Export] = []
    query = ExportQuery(
        model=model,
        formats=formats,
        to=model.folder / "exports",
        data_dir=model.folder,
        allowed_loss=0.02,
        processor="one",
        converter=(sys.executable, "-P", "-c", CONVERTER.replace("SCALE", str(scale))),
    )
    exports = export_model(query, shown.append)
    assert shown == exports
    return exports


def test_a_file_is_kept_with_its_record_and_predicts_without_tensorflow(model: KeptModel, tmp_path: Path) -> None:
    (export,) = exported(model, ExportFormat.ONNX)
    assert export.folder == model.folder / "exports" / "onnx"
    assert read_record(export.folder) == export.record
    record: Any = export.record
    assert (record.job_name, record.class_names, record.file) == ("net", ("red", "green", "blue"), "model.onnx")
    assert (record.check.images, record.check.top1_after, record.check.processor) == (100, 1, "one")
    assert {row.name: row.version for row in record.operations}["Softmax"] == 18
    assert record.versions.keys() == {"keras", "onnxruntime"}
    assert [path.name for path in (model.folder / "exports").iterdir()] == ["onnx"]
    assert doubt(model, export) == ""
    image = an_image(tmp_path / "blue.png", (0, 0, 255))
    program = (sys.executable, "-P", "-c", WITHOUT_TENSORFLOW)
    (told,) = predictions(exported_model(export.folder), [str(image)], pytest.fail, program)
    assert told.classes[0][0] == "blue"


def test_what_converts_checks_and_predicts_gets_no_credential_of_the_person(
    model: KeptModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a credential")
    tell = "import os, sys; sys.exit('error: ' + os.environ.get('AWS_SECRET_ACCESS_KEY', 'none here'))"
    program = (sys.executable, "-c", tell)
    query = ExportQuery(
        model=model, formats=(ExportFormat.ONNX,), to=tmp_path, data_dir=tmp_path, allowed_loss=0.02, processor="one",
        converter=program,
    )  # fmt: skip
    with pytest.raises(ThisMachineError, match="could not be converted: none here"):
        export_model(query, lambda _: None)
    (export,) = exported(model, ExportFormat.ONNX)
    assert export.folder is not None
    with pytest.raises(ThisMachineError, match="could not be asked: none here"):
        predictions(exported_model(export.folder), ["a.png"], pytest.fail, program)
    ends = "import os\nif 'AWS_SECRET_ACCESS_KEY' in os.environ: os._exit(3)\n"
    (tmp_path / "sitecustomize.py").write_text(ends)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    assert doubt(model, exported(model, ExportFormat.ONNX)[0]) == ""


def test_a_file_that_fails_its_check_is_not_kept_and_an_earlier_one_stays(model: KeptModel) -> None:
    (kept,) = exported(model, ExportFormat.ONNX)
    (failed,) = exported(model, ExportFormat.ONNX, scale=0.5)
    assert failed.folder is None
    assert "differs by" in failed.error
    assert failed.record is not None
    assert kept.folder is not None
    assert read_record(kept.folder) == kept.record
    assert [path.name for path in (model.folder / "exports").iterdir()] == ["onnx"]
    assert (model.folder / "model.keras").read_bytes() == b"a model"


def test_a_format_that_cannot_be_converted_leaves_the_others(model: KeptModel) -> None:
    tflite, onnx = exported(model, ExportFormat.TFLITE, ExportFormat.ONNX)
    assert (tflite.folder, tflite.error) == (None, "it could not be converted: no such thing")
    assert onnx.error == ""
    assert [path.name for path in (model.folder / "exports").iterdir()] == ["onnx"]


def test_a_later_export_takes_the_place_of_the_earlier_one(model: KeptModel) -> None:
    exported(model, ExportFormat.ONNX)
    (model.folder / "exports" / "onnx" / "left").write_text("")
    (again,) = exported(model, ExportFormat.ONNX)
    assert again.folder is not None
    assert sorted(path.name for path in again.folder.iterdir()) == ["export.json", "model.onnx"]


def test_a_process_that_ends_early_is_quoted_and_leaves_nothing(model: KeptModel) -> None:
    query = ExportQuery(
        model=model,
        formats=(ExportFormat.ONNX,),
        to=model.folder / "exports",
        data_dir=model.folder,
        allowed_loss=0.02,
        processor="one",
        converter=(sys.executable, "-c", "import sys; sys.exit('error: the digits come with scikit-learn')"),
    )
    with pytest.raises(ThisMachineError, match=r"could not be converted: the digits come with scikit-learn"):
        export_model(query, lambda _: None)
    assert [*(model.folder / "exports").iterdir()] == []


def test_other_images_than_those_of_the_run_are_doubted(model: KeptModel) -> None:
    (export,) = exported(model, ExportFormat.ONNX)
    other = KeptModel(
        folder=model.folder,
        accuracy=0.6,
        size=4,
        channels=3,
        framework=model.framework,
        class_names=(),
    )
    assert "right in 100.0% of these 100 images, and the run's own test in 60.0%" in doubt(other, export)
