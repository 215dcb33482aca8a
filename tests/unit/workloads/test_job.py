"""Jobs as values: defaults, what they work out, their digest, JSON and back, the shipped schema and examples."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.builders import a_job, job_values
from tests.conftest import ROOT
from tests.rows import each_row
from trainplan.workloads.job import (
    Framework,
    Objective,
    OnSlow,
    OptimizerName,
    Precision,
    TrainingJob,
    job_from_json,
    json_schema,
)
from trainplan.workloads.jobfile import read_job
from trainplan.workloads.layers import figures, moving_statistics, parameters
from trainplan.workloads.terms import Preset

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Golden

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
FOLDER = {"path": "images", "images": 1000}


def test_what_is_not_said_has_a_default() -> None:
    job = a_job()
    assert (job.precision, job.xla, job.framework) == (Precision.FP32, False, Framework.TENSORFLOW)
    assert (job.seed, job.checkpoint_every, job.container) == (0, timedelta(minutes=10), None)
    assert (job.objective, job.on_slow) == (Objective.COST, OnSlow.ASK)
    assert job.optimizer.name is OptimizerName.SGD
    assert (job.optimizer.learning_rate, job.optimizer.momentum, job.optimizer.weight_decay) == (0.01, 0.9, 0.0)
    limits = job.constraints
    assert (limits.deadline, limits.budget_usd) == (None, None)
    assert (limits.providers, limits.regions, limits.devices) == ((), (), ())
    assert limits.markets == ("on_demand", "spot")


def test_the_data_set_tells_what_the_model_does_not() -> None:
    job = a_job(model={"preset": "vgg16"}, data={"name": "cifar100"})
    assert (job.image_size, job.classes, job.channels, job.train_images) == (32, 100, 3, 50_000)
    own = a_job(model={"preset": "vgg16", "image_size": 64, "classes": 7})
    assert (own.image_size, own.classes, own.net().classes) == (64, 7, 7)


@pytest.mark.parametrize(("multiplier", "size"), [(1, 28), (0.5, 14), (2, 56), (1.5, 42), (0.001, 1), (1.1, 31)])
def test_the_multiplier_scales_the_image(multiplier: float, size: int) -> None:
    job = a_job(model={"preset": "mnist-cnn", "image_size_multiplier": multiplier}, data={"name": "mnist"})
    assert job.image_size == job.net().image_size == size


@pytest.mark.parametrize(
    ("preset", "data", "trained", "moving"),
    [
        ("mnist-cnn", "mnist", 695_282, 600),
        ("vgg16", "imagenet", 138_357_544, 0),
        # 512 features to 4096 to 4096 to 10, behind 14,714,688 of convolutions.
        ("vgg16", "cifar10", 14_714_688 + 512 * 4096 + 4096 + 4096 * 4096 + 4096 + 40_960 + 10, 0),
    ],
)
def test_a_preset_is_built_for_its_data(preset: str, data: str, trained: int, moving: int) -> None:
    net = a_job(model={"preset": preset}, data={"name": data}).net()
    assert (parameters(net), moving_statistics(net)) == (trained, moving)


def test_a_head_of_ones_own_and_none_at_all() -> None:
    widths = {"preset": "vgg16", "dense": [512], "dropout": 0.1}
    assert [getattr(layer, "units", None) for layer in a_job(model=widths).net().layers[-2:]] == [512, 10]
    dropouts = [getattr(layer, "dropout", None) for layer in a_job(model=widths).net().layers[-2:]]
    assert dropouts == [0.1, 0.0]
    assert getattr(a_job().net().layers[-2], "dropout", None) == 0.5
    bare = a_job(model={"preset": "vgg16", "dense": []}).net()
    assert parameters(bare) == 14_714_688 + 512 * 10 + 10


def test_a_preset_with_batch_norm_is_named_so() -> None:
    assert a_job(model={"preset": "vgg16", "batch_norm": True}).net().name == "vgg16_bn"
    assert a_job(model={"layers": [8, "M"]}).net().name == "custom"


def test_a_folder_tells_nothing() -> None:
    job = a_job(model={"preset": "vgg16", "image_size": 64, "classes": 3}, data={"path": "images"})
    assert (job.known_data, job.train_images, job.channels) == (None, None, 3)
    grey = a_job(model={"preset": "vgg16", "image_size": 64, "classes": 3}, data=FOLDER | {"channels": 1})
    assert (grey.train_images, grey.channels) == (1000, 1)


# --- what is refused ---------------------------------------------------------------------------------------------


@each_row(
    ("changes", "message"),
    [
        ({"model": {}}, "give one of preset, layers"),
        ({"model": {"preset": "vgg16", "layers": [8]}}, "give one of preset, layers"),
        ({"model": {"preset": "mnist-cnn", "dense": [10]}, "data": {"name": "mnist"}}, "dense is for VGG nets"),
        ({"data": {}}, "one of name, path or url"),
        ({"data": {"name": "mnist", "path": "x"}}, "one of name, path or url"),
        ({"data": {"name": "cifar10", "images": 5}}, "leave out images"),
        ({"data": FOLDER}, "model.image_size is needed"),
        ({"data": FOLDER, "model": {"preset": "vgg16", "image_size": 64}}, "model.classes is needed"),
        ({"data": {"url": "ftp://x"}}, "is no address"),
        ({"model": {"preset": "vgg16", "image_size": 31}}, "maxpool5"),
        ({"checkpoint_every": "0.5s"}, "at least 1s"),
        ({"nodes": 0}, "greater than or equal to 1"),
        ({"container": "python:3.11"}, "digest"),
        ({"name": "Über"}, "pattern"),
        ({"name": "a" * 64}, "pattern"),
        ({"name": "-a"}, "pattern"),
        ({"epochs": True}, "valid integer"),
        ({"epochs": "3"}, "valid integer"),
        ({"epochs": 0}, "greater than or equal to 1"),
        ({"seed": 2**32}, "less than"),
        ({"optimizer": {"learning_rate": True}}, "needs a number, not true"),
        ({"optimizer": {"learning_rate": float("nan")}}, "finite"),
        ({"optimizer": {"momentum": 1}}, "less than 1"),
        ({"constraints": {"budget_usd": "1e999999"}}, "less than or equal"),
        ({"constraints": {"budget_usd": 0}}, "greater than 0"),
        ({"constraints": {"deadline": 8}}, "with its unit"),
        ({"constraints": {"markets": ["futures"]}}, "spot"),
        ({"model": {"layers": [8] * 401}}, "at most 400"),
        ({"spot": True}, "Extra inputs"),
        ({"data": {"name": "cifar10", "size_bytes": 5}}, "leave out size_bytes"),
        ({"data": {"name": "cifar10", "size_bytes": 0}}, "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        a_job(**changes)


@pytest.mark.parametrize(
    ("secrets", "message"),
    [
        ({"TOKEN": "hunter2hunter2"}, "TOKEN is no reference"),
        ({"TOKEN": 4711471147}, "TOKEN is no reference"),
        ({"TOKEN": "aws-sm:"}, "TOKEN is no reference"),
        ({"TOKEN": "aws-sm:a hunter2"}, "TOKEN is no reference"),
        ({"hunter2": "aws-sm:a"}, "the name of a variable"),
        ({"PATH": "aws-sm:a"}, "the name of a variable"),
        ({"PYTHONPATH": "aws-sm:a"}, "the name of a variable"),
        ({7: "aws-sm:a"}, "the name of a variable"),
        (["hunter2"], "names of variables"),
        ("hunter2", "names of variables"),
    ],
)
def test_a_secret_that_is_none_is_refused_and_not_repeated(secrets: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        a_job(secrets=secrets)
    assert "hunter2" not in str(caught.value)
    assert "4711" not in str(caught.value)


def test_how_much_data_there_is() -> None:
    assert a_job().data_bytes == 170_498_071
    folder = {"data": FOLDER, "model": {"preset": "vgg16", "image_size": 64, "classes": 3}}
    assert a_job(**folder).data_bytes is None
    sized = folder | {"data": FOLDER | {"size_bytes": 12_000_000_000}}
    assert a_job(**sized).data_bytes == 12_000_000_000
    assert a_job(**sized).digest() == a_job(**folder).digest()


def test_a_job_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        a_job().epochs = 3  # type: ignore[misc]


# --- digest ------------------------------------------------------------------------------------------------------

SAME_TRAINING: list[dict[str, Any]] = [
    {"name": "another"},
    {"constraints": {"deadline": "8h", "budget_usd": 3, "providers": ["aws"], "markets": ["spot"]}},
    {"objective": "time"},
    {"on_slow": "stop"},
    {"checkpoint_every": "1m"},
    {"nodes": 4},
    {"precision": "fp32", "xla": False, "framework": "tensorflow", "seed": 0, "container": None},
    {"secrets": {"TOKEN": "aws-sm:arn:aws:secretsmanager:eu-west-1:1:secret:token"}},
]
OTHER_TRAINING: list[dict[str, Any]] = [
    {"seed": 1},
    {"epochs": 3},
    {"global_batch_size": 64},
    {"accumulate": 2},
    {"precision": "tf32"},
    {"xla": True},
    {"framework": "jax"},
    {"optimizer": {"learning_rate": 0.1}},
    {"model": {"preset": "vgg19"}},
    {"model": {"preset": "vgg16", "dropout": 0.4}},
    {"data": {"name": "cifar100"}},
    {"container": f"here/mine@sha256:{'0' * 64}"},
]


def test_the_digest_stays_what_it_is() -> None:
    """It is how an earlier run's checkpoint is found: when this changes, those of every user are lost."""
    assert a_job().digest() == "0ae1139f0c2c21fa"


@pytest.mark.parametrize("changes", SAME_TRAINING)
def test_limits_and_names_leave_the_digest_alone(changes: dict[str, Any]) -> None:
    assert a_job(**changes).digest() == a_job().digest()


def test_whatever_is_trained_otherwise_has_a_digest_of_its_own() -> None:
    digests = [a_job(**changes).digest() for changes in [{}, *OTHER_TRAINING]]
    assert len(set(digests)) == len(digests)


# --- JSON --------------------------------------------------------------------------------------------------------


@each_row("changes", [{}, *SAME_TRAINING, *OTHER_TRAINING])
def test_json_and_back(changes: dict[str, Any]) -> None:
    job = a_job(**changes)
    again = job_from_json(job.to_json())
    assert again == job
    assert (again.to_json(), again.digest()) == (job.to_json(), job.digest())


def test_a_job_for_one_machine_can_be_read_by_an_earlier_trainer() -> None:
    assert "nodes" not in json.loads(a_job(nodes=1).to_json())
    assert json.loads(a_job(nodes=2).to_json())["nodes"] == 2


def test_a_budget_is_a_number_in_json() -> None:
    job = a_job(constraints={"budget_usd": "12.50"})
    assert json.loads(job.to_json())["constraints"]["budget_usd"] == 12.5
    assert job.constraints.budget_usd == Decimal("12.50")


_JOBS = st.builds(
    job_values,
    model=st.one_of(
        st.fixed_dictionaries({"preset": st.sampled_from(["vgg11", "vgg19"])}, optional={"batch_norm": st.booleans()}),
        st.fixed_dictionaries(
            {"layers": st.lists(st.integers(1, 64), min_size=1, max_size=6)},
            optional={"dense": st.lists(st.integers(1, 99), max_size=3), "dropout": st.floats(0, 0.99)},
        ),
    ),
    epochs=st.integers(1, 10**6),
    global_batch_size=st.integers(1, 2**20),
    precision=st.sampled_from(list(Precision)),
    xla=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
    checkpoint_every=st.timedeltas(timedelta(seconds=1), timedelta(days=3000)),
    optimizer=st.fixed_dictionaries(
        {"name": st.sampled_from(list(OptimizerName)), "learning_rate": st.floats(1e-9, 10)}
    ),
    constraints=st.fixed_dictionaries(
        {
            "deadline": st.none() | st.timedeltas(timedelta(microseconds=1), timedelta(days=3000)),
            "budget_usd": st.none() | st.decimals(Decimal("0.01"), Decimal(10**9), places=2),
            "providers": st.lists(st.text(), max_size=2),
        }
    ),
)


@given(_JOBS)
def test_every_job_survives_json(values: dict[str, Any]) -> None:
    job = TrainingJob.model_validate(values)
    assert job_from_json(job.to_json()) == job


# --- shipped -----------------------------------------------------------------------------------------------------


def test_the_shipped_schema_is_that_of_the_job(golden: Golden) -> None:
    file = ROOT / "workloads" / "data" / "job.schema.json"
    golden.check(file, json.dumps(json_schema(), indent=2) + "\n")


def test_the_schema_describes_what_people_must_choose_from() -> None:
    schema = json_schema()
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["name"]
    of_a_net, of_a_script = (row["required"] for row in schema["anyOf"])
    assert (of_a_net, of_a_script) == (["model", "data", "epochs", "global_batch_size"], ["script"])
    assert schema["$defs"]["Preset"]["enum"] == list(Preset)
    assert schema["$defs"]["Preset"]["enum"][:6] == ["vgg11", "vgg13", "vgg16", "vgg19", "mnist-cnn", "resnet18"]


def test_the_examples_that_are_promised_are_there() -> None:
    promised = {"digits-vgg", "mnist-cnn", "vgg16-cifar10", "vgg16-imagenet", "vgg19-imagenet-deadline"}
    assert promised <= {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_job_and_links_the_schema(path: Path) -> None:
    job = read_job(path)
    assert job.name == path.stem
    first = path.read_text(encoding="utf-8").splitlines()[0]
    linked = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / linked).resolve() == ROOT / "workloads" / "data" / "job.schema.json"
    assert figures(job.net())
