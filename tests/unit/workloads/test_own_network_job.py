"""Jobs whose network is in a file of the person's own."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from trainplan.workloads.graph import Graph, GraphError, Shape
from trainplan.workloads.graph_builder import GraphBuilder
from trainplan.workloads.graph_file import graph_json
from trainplan.workloads.job import TrainingJob, job_from_json, job_keys, json_schema
from trainplan.workloads.job_changes import changed_job
from trainplan.workloads.jobfile import JobFileError, read_job
from trainplan.workloads.key_changes import Change
from trainplan.workloads.read_network import ReadNetwork, packed

if TYPE_CHECKING:
    from pathlib import Path

JOB = "name: own\nmodel: {{{model}}}\ndata: {{name: cifar10}}\nepochs: 1\nglobal_batch_size: 8\n"


def a_graph() -> Graph:
    builder = GraphBuilder("net", Shape(32, 32, 3))
    builder.dense(builder.flatten(builder.image), 10)
    return builder.graph()


def own_job(**model: Any) -> TrainingJob:
    values = {"python": "my_net.py:build"} | model
    return TrainingJob.model_validate(
        {"name": "own", "model": values, "data": {"name": "cifar10"}, "epochs": 1, "global_batch_size": 8}
    )


def read_network(text: str) -> dict[str, Any]:
    return {"sha256": "0" * 64, "packed": text, "image_size": 32, "channels": 3, "classes": 10}


def test_weights_that_are_frozen_at_random_are_told() -> None:
    builder = GraphBuilder("net", Shape(32, 32, 3))
    builder.freeze(frozen=True)
    builder.dense(builder.flatten(builder.image), 10)
    (line,) = ReadNetwork(**read_network(packed(graph_json(builder.graph()))), source="build = None").lines()
    assert line.startswith(
        "30,730 of its parameters are frozen (trainable = False) and stay as they are drawn at random"
    )
    assert not ReadNetwork(**read_network(packed(graph_json(a_graph()))), source="build = None").lines()


def test_a_path_begins_at_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "my_net.py").touch()
    (tmp_path / "net.onnx").touch()
    job_file = tmp_path / "job.yaml"
    for model, key, written in (
        ("python: 'nets/my_net.py:build'", "python", f"{tmp_path}/nets/my_net.py:build"),
        ("onnx: net.onnx", "onnx", f"{tmp_path}/net.onnx"),
    ):
        job_file.write_text(JOB.format(model=model))
        job = read_job(job_file)
        assert getattr(job.model, key) == written
        assert (job.is_read, job.is_layer_list, job.needs_keras_3) == (False, False, True)
    job_file.write_text(JOB.format(model="python: 'gone.py:build'"))
    with pytest.raises(JobFileError, match=r"model\.python: there is no file .*gone\.py"):
        read_job(job_file)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("python: my_net.py", "python"),
        ("python: 'my_net.txt:build'", "python"),
        ("python: 'my_net.py:build()'", "python"),
        ("onnx: net.pb", "onnx"),
        ("python: 'my_net.py:build', preset: vgg16", "give one of preset, layers, python or onnx"),
        ("python: 'my_net.py:build', dense: [8]", "model.dense is for VGG nets"),
        ("onnx: net.onnx, weights: imagenet", "model.weights is for VGG nets"),
        ("python: 'my_net.py:build', read: {}", "model.read is what plan reads"),
    ],
)
def test_what_does_not_go_together_is_told(model: str, message: str, tmp_path: Path) -> None:
    job_file = tmp_path / "job.yaml"
    job_file.write_text(JOB.format(model=model))
    with pytest.raises(JobFileError, match=message):
        read_job(job_file)


def test_what_was_read_counts_for_images_of_that_size_alone() -> None:
    job = own_job(read=read_network(packed(graph_json(a_graph()))))
    assert job.is_read
    assert job.graph() == a_graph()
    larger = changed_job(job, [Change(("model", "image_size"), 64, "--image-size 64")], "job.yaml")
    assert (larger.is_read, larger.model.read) == (False, job.model.read)
    other = changed_job(job, [Change(("model", "preset"), "vgg11", "--model vgg11")], "job.yaml")
    assert (other.model.python, other.model.read) == (None, None)


def test_without_its_network_a_job_says_so() -> None:
    with pytest.raises(ValueError, match=r"my_net\.py was not read"):
        own_job().graph()


@pytest.mark.parametrize(
    "text",
    [
        "no base64!", base64.b64encode(b"no zlib").decode(), packed("{}"), packed("x" * 17 * 1024**2),
        base64.b64encode(zlib.compress(b"[" * 10**6)).decode(),
    ],
)  # fmt: skip
def test_a_job_whose_graph_is_none_is_told(text: str) -> None:
    read = ReadNetwork.model_validate(read_network(text))
    with pytest.raises(GraphError):
        read.graph()


def test_jobs_without_a_file_say_nothing_of_it() -> None:
    job = TrainingJob.model_validate(
        {"name": "own", "model": {"preset": "vgg11"}, "data": {"name": "cifar10"}, "epochs": 1, "global_batch_size": 8}
    )
    assert not {"python", "onnx", "read"} & set(job.model_dump(mode="json")["model"])
    assert job_from_json(job.to_json()) == job


def test_no_person_is_offered_what_plan_writes() -> None:
    schema = json_schema()["$defs"]["ModelSpec"]["properties"]
    assert {"python", "onnx"} <= set(schema)
    assert "read" not in schema
    assert "model.read" not in job_keys()
    assert "model.python" in job_keys()


def test_a_job_of_somebody_else_cannot_bring_an_endless_source() -> None:
    with pytest.raises(ValidationError):
        own_job(read=read_network(packed(graph_json(a_graph()))) | {"source": "#" * 10**6})
