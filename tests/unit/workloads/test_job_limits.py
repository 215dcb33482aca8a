"""The limits of each field of a job: the last value that is taken and the first that is refused, and odd ones."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from tests.builders import a_job, job_values
from tests.rows import each_row
from trainplan.workloads.job import Constraints, DataSpec, ModelSpec, OptimizerSpec, TrainingJob, job_from_json
from trainplan.workloads.jobfile import JobFileError, parse_job
from trainplan.workloads.recipe import AugmentSpec, ValidationSpec

PARTS: dict[str, type[BaseModel]] = {
    "": TrainingJob,
    "model": ModelSpec,
    "data": DataSpec,
    "optimizer": OptimizerSpec,
    "constraints": Constraints,
    "validation": ValidationSpec,
    "augment": AugmentSpec,
}
VGG = {"preset": "vgg16"}
REQUIRED: dict[str, dict[str, Any]] = {"model": VGG, "validation": {"every_epochs": 1}}
"""What a part needs beside the field that is tried."""
ELSEWHERE = ("script", "args", "requirements", "checkpoints", "read_script", "sweep")
"""Keys with a module of their own: of a script (test_script_job.py), and of several trials (test_sweep.py)."""
# Part, field, values that are taken, values that are refused.
LIMITS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("", "name", ["a", "a-b.c_9", "a" * 63], ["A", "-a", "a-", "a" * 64, "", "a b", "é", 7, None]),
    ("", "epochs", [1, 1_000_000], [0, 1_000_001, -1, 1.0, "2", True, None]),
    ("", "global_batch_size", [1, 1_048_576], [0, 1_048_577, 64.0, "64", True]),
    ("", "accumulate", [1, 2, 64, 128], [0, 3, 1.0, True, None]),
    ("", "precision", ["fp32", "tf32", "amp_fp16", "amp_bf16", "FP32"], ["fp16", "float", 32, None]),
    ("", "xla", [True, False], ["perhaps", 2, None, []]),
    ("", "framework", ["tensorflow", "jax", "torch"], ["keras", "", None]),
    ("", "seed", [0, 7, 2**32 - 1], [-1, 2**32, 1.0, True]),
    ("", "nodes", [1, 2, 1_024], [0, 1_025, -1, 2.0, "2", True, None]),
    ("", "checkpoint_every", ["10m", "1s", "1d 2h", "90S"], ["0.5s", "0s", "90", 90, True, "", "10 minutes"]),
    ("", "objective", ["cost", "time", "balanced", "COST"], ["cheap", "costs", None]),
    ("", "on_slow", ["ask", "continue", "stop", "replan"], ["go", None]),
    ("", "project", ["", "thesis", "a_b-9", "x" * 63], ["Thesis", "-a", "a b", "x" * 64, "é", 7, None]),
    ("", "container", [None, f"me/it@sha256:{'0' * 64}"], ["me/it:1", "", 7]),
    ("", "secrets", [{}], [None, [], "x"]),
    ("", "export", [[], ["onnx", "tflite_int8"], ["SavedModel"]], ["onnx", ["pickle"], [1], None]),
    ("", "track", [[], ["mlflow", "wandb", "trackio"]], ["mlflow", ["aim"], [1], None]),
    ("", "colour", [], ["red"]),
    ("model", "preset", ["vgg11", "vgg19"], ["vgg12", 16, None]),
    ("model", "batch_norm", [True, False], ["perhaps", 2, None]),
    ("model", "image_size", [32, 64, 4096, None], [1, 31, 4097, 32.0, "32", True]),
    ("model", "image_size_multiplier", [1, 0.99, 2.0], [0, 0.5, 65, -1, True, float("nan"), float("inf"), "big"]),
    ("model", "dense", [[], [64], [64, 64], None], [[0], [65_537], [1.0], [True], [1] * 17, "64"]),
    ("model", "classes", [2, 1_000_000, None], [1, 1_000_001, 10.0, True]),
    ("model", "dropout", [0, 0.0, 0.5, None], [1, -0.1, True, float("nan")]),
    ("model", "weights", [None, "imagenet", "a/model.keras"], ["coco", "", "model.h5", ".keras", 7, True]),
    ("model", "freeze", [None], ["block5", "block0", "block100", "5", 5]),
    ("optimizer", "base_rate_share", [1, 1.0], [0.1, 0, 1.5, True, None]),
    ("optimizer", "name", ["sgd", "adam", "rmsprop", "SGD"], ["sgdm", "", None]),
    ("optimizer", "learning_rate", [1e-9, 0.1, 1, 1e6], [0, -0.0, -1, True, float("nan"), float("inf"), None]),
    ("optimizer", "momentum", [0, 0.5, -0.0], [1, -0.1, True, None]),
    ("optimizer", "weight_decay", [0, 0.5, -0.0], [-0.5, True, float("inf"), None]),
    ("optimizer", "nesterov", [True, False], ["perhaps", 2, None]),
    ("optimizer", "clip_norm", [None, 1, 0.5], [0, -1, True, float("inf")]),
    ("optimizer", "ema", [None, 0.999], [0, 1, -0.5, True, float("nan")]),
    (
        "optimizer",
        "schedule",
        [
            {"name": "constant", "warmup_epochs": 0.5},
            {"name": "step", "at_epochs": [30, 60], "factor": 0.5},
            {"name": "cosine", "final_share": 0.1},
        ],
        [
            {"name": "linear"},
            {"name": "step"},
            {"name": "step", "at_epochs": [60, 30]},
            {"name": "step", "at_epochs": [0]},
            {"name": "cosine", "factor": 0.5},
            {"name": "cosine", "final_share": 1},
            {"name": "constant", "patience": 3},
            {"name": "plateau"},
            {"warmup_epochs": -1},
            [],
            None,
        ],
    ),
    ("augment", "resize", [None, 256, 4096], [0, 8, 256.0, True]),
    ("augment", "crop", [None, 0.08, 1], [0, 1.1, -1, True, float("nan")]),
    ("augment", "flip", [True, False], ["perhaps", 2, None]),
    ("augment", "brightness", [0, 0.4], [-0.1, True, float("nan"), None]),
    ("augment", "contrast", [0, 0.4], [-0.1, True, float("nan"), None]),
    ("augment", "saturation", [0, 0.4], [-0.1, True, float("nan"), None]),
    ("augment", "mixup", [0, 0.2, 10], [-0.1, 11, True, None]),
    ("augment", "label_smoothing", [0, 0.1], [-0.1, 1, True, None]),
    ("validation", "every_epochs", [None, 1, 1_000_000], [0, 1.0, True, "1"]),
    ("validation", "measure", ["accuracy", "loss"], ["speed", None]),
    ("validation", "min_change", [0, 0.01], [-1, True, float("nan")]),
    ("validation", "keep_best", [True, False], ["perhaps", 2, None]),
    ("validation", "patience", [None, 3], [0, 1.0, True]),
    ("constraints", "deadline", ["8h", "1s", None], ["0s", 8, True, "soon"]),
    ("constraints", "budget_usd", [20, 20.5, "20", 10**9, None], [0, -1, 10**9 + 1, True, "much", float("nan")]),
    ("constraints", "providers", [[], ["aws"], ["aws", "gcp"]], ["aws", None, [7], {}]),
    ("constraints", "regions", [[], ["mars"]], ["mars", [None]]),
    ("constraints", "devices", [["T4"]], ["T4", [True]]),
    ("constraints", "markets", [["spot"], ["on_demand", "spot"], []], [["futures"], "spot", None]),
]
CASES = [
    (part, field, value, taken)
    for part, field, good, bad in LIMITS
    for taken, values in ((True, good), (False, bad))
    for value in values
]


@each_row(("part", "field", "value", "is_valid"), CASES)
def test_a_value_is_taken_or_refused(part: str, field: str, value: object, is_valid: bool) -> None:
    changes = {part: REQUIRED.get(part, {}) | {field: value}} if part else {field: value}
    if is_valid:
        a_job(**changes)
        return
    with pytest.raises(ValidationError):
        a_job(**changes)


def test_every_field_has_its_limits_here() -> None:
    named = {(part, field) for part, field, _, _ in LIMITS} - {("", "colour")}
    fields = {(part, field) for part, kind in PARTS.items() for field in kind.model_fields}
    # Parts are made of fields; layers and data sets have combinations of their own below, files a module of their own.
    files = {("model", name) for name in ("python", "onnx", "read", "task")} | {("", name) for name in ELSEWHERE}
    apart = {("", part) for part in PARTS if part} | {("model", "layers")} | files
    assert fields - apart - named == {("data", field) for field in DataSpec.model_fields}


@each_row(
    ("changes", "is_valid"),
    [
        ({"model": {"layers": [64, "M"]}}, True),
        ({"model": {"layers": [65_536]}}, True),
        ({"model": {"layers": [65_537]}}, False),
        ({"model": {"layers": [0]}}, False),
        ({"model": {"layers": ["m"]}}, False),
        ({"model": {"layers": ["M"] * 5}}, True),
        ({"model": {"layers": ["M"] * 6}}, False),
        ({"model": {"layers": []}}, False),
        ({"model": {"preset": "mnist-cnn", "image_size": 28}}, True),
        ({"model": {"preset": "mnist-cnn", "batch_norm": True}}, False),
        ({"model": {"preset": "mnist-cnn", "dropout": 0.1}}, False),
        ({"data": {"name": "imagenet"}}, True),
        ({"data": {"name": "synthetic", "images": 5}, "model": VGG | {"image_size": 32, "classes": 2}}, True),
        ({"data": {"name": "imagenet", "images": 5}}, False),
        ({"data": {"name": "faces"}}, False),
        ({"data": {"name": "cifar10", "channels": 2}}, False),
        ({"data": {"path": ""}, "model": VGG | {"image_size": 32, "classes": 2}}, False),
        ({"data": {"url": "s3://b"}, "model": VGG | {"image_size": 32, "classes": 2}}, True),
        ({"data": None}, False),
        ({"global_batch_size": 96, "accumulate": 64}, False),
    ],
)
def test_what_belongs_together_is_judged_together(changes: dict[str, Any], is_valid: bool) -> None:
    if is_valid:
        assert a_job(**changes).net().layers
        return
    with pytest.raises(ValidationError):
        a_job(**changes)


def test_a_changed_copy_is_another_value() -> None:
    job = a_job()
    copy = job.model_copy(update={"global_batch_size": 256})
    assert (copy.micro_batch_size, job.micro_batch_size) == (256, 128)
    assert copy.net() == job.net()
    assert copy != job
    assert job == a_job()


ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 1.0, 0.5, 0.0, -0.0, float("nan"), float("inf"), 1e-9, 10**12, "", " "),
    *("vgg16", "ten", "5", "é", "²", "spot", "M", [], ["M"], [1, 2], [True], {}, {"name": "mnist"}, {"deadline": "8h"}),
)
LIKELY = {(part, field): (*good, *bad) for part, field, good, bad in LIMITS}


def changed(random: Random) -> dict[str, Any]:
    """A job with one to four other values, most of them likely, and perhaps a key that is unknown."""
    values = job_values()
    for _ in range(random.randint(1, 4)):
        part = random.choice(list(PARTS))
        keys = [name for name in PARTS[part].model_fields if name not in ELSEWHERE]
        key = "colour" if random.random() < 0.02 else random.choice(keys)
        value = random.choice(LIKELY.get((part, key), ODD) if random.random() < 0.85 else ODD)
        if part:
            inner = values.get(part)
            values[part] = (inner if isinstance(inner, dict) else {}) | {key: value}
        else:
            values[key] = value
    return values


def read_or_refused(values: dict[str, Any]) -> TrainingJob | JobFileError:
    # Dumped without aliases: two keys may hold one list.
    text = yaml.dump(values, Dumper=_NoAliases, allow_unicode=True)
    try:
        return parse_job(text, "job.yaml")
    except JobFileError as error:
        return error


def test_any_values_are_a_job_that_survives_its_way_to_the_trainer_or_are_refused_for_a_person() -> None:
    answers = [read_or_refused(changed(Random(number))) for number in range(2_000)]
    jobs = [answer for answer in answers if isinstance(answer, TrainingJob)]
    for job in jobs:
        assert job_from_json(job.to_json()) == job
        assert job.net().layers
        dumped = job.model_dump(mode="json")
        assert list(dumped) == [field for field in TrainingJob.model_fields if field in dumped]
        left_out = TrainingJob.model_fields.keys() - dumped.keys()
        assert all(getattr(job, field) == TrainingJob.model_fields[field].get_default() for field in left_out)
    errors = [answer for answer in answers if isinstance(answer, JobFileError)]
    for error in errors:
        assert error.message.startswith("job.yaml")
        assert all(line.startswith("  ") for line in error.message.splitlines()[1:]), "one line for each mistake"
    assert min(len(jobs), len(errors)) > 150


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True
