"""Jobs read without pydantic: whatever is read so is what TrainingJob reads, and nothing that it refuses."""

from __future__ import annotations

import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from tests.builders import job_values
from tests.conftest import ROOT
from workloads.job import Constraints, DataSpec, ModelSpec, OptimizerSpec, TrainingJob
from workloads.jobfile import parse_job
from workloads.plain_job import PlainJob, plain_job

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
FIGURES = ("micro_batch_size", "known_data", "data_bytes", "train_images", "image_size", "classes", "channels")


def same(plain: Any, checked: TrainingJob) -> None:
    assert list(plain.model_dump(mode="json").items()) == list(checked.model_dump(mode="json").items())
    for name in ("model", "data", "optimizer", "constraints"):
        part, other = getattr(plain, name), getattr(checked, name)
        assert list(part.model_dump(mode="json").items()) == list(other.model_dump(mode="json").items())
        assert {key: getattr(part, key) for key in type(other).model_fields} == dict(other)
        assert part.model_fields_set == other.model_fields_set
    assert {name: getattr(plain, name) for name in FIGURES} == {name: getattr(checked, name) for name in FIGURES}
    assert plain.net() == checked.net()
    assert plain.model_fields_set == checked.model_fields_set


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_the_same_either_way(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    quick, checked = (parse_job(text, path.name, to_estimate=way) for way in (True, False))
    assert isinstance(checked, TrainingJob)
    if isinstance(quick, PlainJob):
        same(quick, checked)


def test_the_usual_examples_are_beyond_doubt() -> None:
    read = {path.name: plain_job(yaml.safe_load(path.read_text(encoding="utf-8"))) is not None for path in EXAMPLES}
    assert read["vgg16-imagenet.yaml"]


PARTS: dict[str, type[BaseModel]] = {
    "": TrainingJob,
    "model": ModelSpec,
    "data": DataSpec,
    "optimizer": OptimizerSpec,
    "constraints": Constraints,
}


@pytest.mark.parametrize(("plain", "checked"), PARTS.items())
def test_every_field_is_there_in_its_order(plain: str, checked: type[BaseModel]) -> None:
    job: Any = plain_job(job_values())
    part = getattr(job, plain) if plain else job
    assert list(part.model_dump(mode="json")) == list(checked.model_fields)


LIKELY: dict[str, tuple[Any, ...]] = {
    "name": ("a", "a-b.c_9", "A", "-a", "a" * 63, "a" * 64),
    "preset": ("vgg11", "vgg19", "mnist-cnn"),
    "layers": ([64, "M"], ["M"] * 9, [64, 64, "M", 128]),
    "batch_norm": (True, False),
    "image_size": (32, 64, 1, 4096, 4097),
    "image_size_multiplier": (2, 0.5, 1.0, 64, 65, 0),
    "dense": ([], [64], [64, 64]),
    "classes": (2, 10, 1),
    "dropout": (0, 0.5, 1, 0.0),
    "model": ({"preset": "vgg11"}, {"layers": [8, "M"], "classes": 3}, {"preset": "mnist-cnn", "image_size": 28}),
    "data": ({"name": "mnist"}, {"name": "imagenet"}, {"name": "synthetic", "images": 5}, {"path": "."}),
    "epochs": (1, 1_000_000, 1_000_001),
    "global_batch_size": (64, 96, 1_048_576),
    "accumulate": (1, 2, 3, 64),
    "precision": ("amp_fp16", "fp32", "tf32"),
    "framework": ("torch", "jax", "tensorflow"),
    "optimizer": ({}, {"name": "adam"}, {"learning_rate": 1}),
    "learning_rate": (1, 0.1, 1e-9, 0),
    "momentum": (0, 0.5, 1),
    "weight_decay": (0, 0.5, -0.0),
    "seed": (0, 7, 2**32 - 1, 2**32),
    "checkpoint_every": ("10m", "1s", "0.5s", "1d 2h", "90S"),
    "deadline": ("8h", "0s"),
    "budget_usd": (20, 20.5, "20", 0, 10**9, 10**9 + 1),
    "providers": ([], ["aws"], ["aws", "gcp"]),
    "regions": ([], ["mars"]),
    "devices": (["T4"],),
    "markets": (["spot"], ["on_demand", "spot"], []),
    "objective": ("time", "cost", "balanced"),
    "on_slow": ("stop", "ask"),
    "container": (None, "me/it:1"),
    "secrets": ({},),
}
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 1.0, 0.5, 0.0, -0.0, float("nan"), float("inf"), 1e-9, 10**12, "", " "),
    *("vgg16", "ten", "5", "é", "²", "spot", "M", [], ["M"], [1, 2], [True], {}, {"name": "mnist"}, {"deadline": "8h"}),
)


def changed(random: Random) -> dict[str, Any]:
    """A job with one to four other values, most of them likely, and perhaps a key that is unknown."""
    values = job_values()
    for _ in range(random.randint(1, 4)):
        part = random.choice(list(PARTS))
        key = "colour" if random.random() < 0.02 else random.choice(list(PARTS[part].model_fields))
        value = random.choice(LIKELY.get(key, ODD) if random.random() < 0.85 else ODD)
        if part:
            inner = values.get(part)
            values[part] = (inner if isinstance(inner, dict) else {}) | {key: value}
        else:
            values[key] = value
    return values


def test_what_is_read_without_a_second_look_is_what_a_second_look_reads() -> None:
    read = 0
    for number in range(8_000):
        values = changed(Random(number))
        plain = plain_job(values)
        if plain is None:
            continue
        read += 1
        try:
            checked = TrainingJob.model_validate(values)
        except ValidationError as error:
            pytest.fail(f"{values} was read, and is refused: {error}")
        same(plain, checked)
    assert read > 800


def test_copies_and_values() -> None:
    job: Any = plain_job(job_values())
    copy = job.model_copy(update={"global_batch_size": 256})
    assert (copy.micro_batch_size, job.micro_batch_size) == (256, 128)
    assert copy.net() == job.net()
    assert copy != job
    assert job == plain_job(job_values())
    with pytest.raises(AttributeError, match="never changed"):
        job.epochs = 3


@pytest.mark.parametrize(
    ("arguments", "spared"),
    [
        (["--model", "vgg16", "--dataset", "cifar10"], ["pydantic", "yaml", "typer"]),
        ([str(ROOT / "examples" / "vgg16-imagenet.yaml")], ["pydantic", "typer"]),
    ],
)
def test_an_estimate_does_not_pay_for_what_it_does_not_use(
    arguments: list[str], spared: list[str], tmp_path: Path
) -> None:
    code = (
        "import sys; from planner.cli.main import run; "
        f"code = run(['estimate', *{arguments!r}]); "
        f"print(code, [name for name in {spared!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env={"PLAN_HOME": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "0 []"
