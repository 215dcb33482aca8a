"""Commands about a job whose network is in a file of the person's own: nothing of it runs that nobody agreed to."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.desk import own_home
from tests.unit.planner.cli.command import plan
from trainplan.planner.api.own_network import agree, promise
from trainplan.planner.errors import BadInputError
from trainplan.planner.planning.own_networks import Reading, with_network
from trainplan.workloads.graph import Shape
from trainplan.workloads.graph_builder import GraphBuilder, Window
from trainplan.workloads.graph_file import graph_json
from trainplan.workloads.job import job_from_json
from trainplan.workloads.jobfile import read_job
from trainplan.workloads.network_reader.confinement import Part

if TYPE_CHECKING:
    from collections.abc import Callable

JOB = "name: own\nmodel: {{{model}}}\ndata: {{name: cifar10}}\nepochs: 1\nglobal_batch_size: 64\n"
PYTHON = "python: 'my_net.py:build'"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own_home(tmp_path, monkeypatch)
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "my_net.py").write_text("raise SystemExit('it ran')\n")
    (tmp_path / "net.onnx").touch()
    return tmp_path


def answer(question: dict[str, Any], limits: object) -> dict[str, Any]:
    builder = GraphBuilder("net", Shape(question["size"], question["size"], question["channels"]))
    x = builder.activation(builder.batch_norm(builder.convolution(builder.image, 16, Window(3, 2), bias=False)))
    builder.dense(builder.global_pool(x), question["classes"])
    return {"graph": graph_json(builder.graph()), "own": ["Gain"], "notes": ["a note"]}


@pytest.fixture
def kept(folder: Path) -> Callable[[str], Path]:
    """Writes a job whose network was read before."""

    def keep(model: str) -> Path:
        job_file = folder / "job.yaml"
        job_file.write_text(JOB.format(model=model))
        reading = Reading(folder / "home", date(2026, 11, 26), lambda file, parts: None, ask=answer, parts=frozenset)
        with_network(read_job(job_file), reading)
        return job_file

    return keep


@pytest.mark.parametrize(
    "arguments",
    [
        ("estimate",),
        ("estimate", "--json"),
        ("launch", "--yes", "--provider", "local"),
        ("measure", "--yes"),
        ("doctor",),
    ],
)
def test_a_file_that_nobody_agreed_to_is_not_run(arguments: tuple[str, ...], folder: Path) -> None:
    command, *rest = arguments
    (folder / "job.yaml").write_text(JOB.format(model=PYTHON))
    said = plan(command, *(["local"] if command == "doctor" else []), "job.yaml", *rest)
    assert said.code == 2
    text = said.err + said.out
    assert "my_net.py was not run before with this content, and nobody has agreed to it" in text
    assert "plan estimate JOB.yaml --run-file" in text
    assert not list((folder / "home").glob("networks/*"))


def test_an_estimate_of_a_file_that_was_read_runs_nothing(kept: Callable[[str], Path]) -> None:
    said = plan("estimate", kept(PYTHON), "--limit", 1)
    assert (said.code, said.err) == (0, "")
    heading = said.out.splitlines()
    assert heading[0].startswith("own: my_net (634 parameters, 0.22 MFLOPs forward) on cifar10 at 32 px")
    assert heading[1] == "layers of your own: Gain; plan predict cannot load a model that holds them"


def test_the_json_of_an_estimate_leaves_the_file_and_its_graph_out(kept: Callable[[str], Path]) -> None:
    job_file = kept(PYTHON)
    said = plan("estimate", job_file, "--json", "--limit", 1)
    read = said.json["job"]["model"]["read"]
    assert (said.code, read["own_layers"], {"source", "packed"} & set(read)) == (0, ["Gain"], set())
    beside = plan("estimate", job_file, "--compare", "epochs=2", "--json")
    assert "it ran" not in said.out + beside.out


def test_exported_files_bring_the_network(kept: Callable[[str], Path], folder: Path) -> None:
    said = plan("export", kept(PYTHON), "--to", "sbatch", "--out", folder / "there")
    assert (said.code, said.error) == (0, "")
    job = job_from_json((folder / "there" / "job.json").read_text())
    assert (job.model.read and job.model.read.source, job.is_read) == ("raise SystemExit('it ran')\n", True)


@pytest.mark.parametrize(
    "command",
    [
        ("launch", "--yes", "--provider", "local"),
        ("measure", "--yes"),
        ("export", "--to", "sbatch", "--out", "there"),
    ],
)
def test_an_onnx_file_is_not_trained(command: tuple[str, ...], kept: Callable[[str], Path]) -> None:
    said = plan(command[0], kept("onnx: net.onnx"), *command[1:])
    assert said.code == 2
    assert said.error.endswith("can be estimated and not trained: an ONNX file does not say how its network is trained")
    assert "model.python" in said.hint


def test_a_network_that_is_no_classifier_is_estimated_and_trained_by_a_script(kept: Callable[[str], Path]) -> None:
    job_file = kept(f"{PYTHON}, task: other")
    estimated = plan("estimate", job_file, "--limit", 1)
    assert (estimated.code, estimated.error) == (0, "")
    assert "task: other: the trainer trains classifiers, and does not train it" in estimated.err + estimated.out
    said = plan("launch", job_file, "--yes", "--provider", "local")
    assert said.code == 2
    assert "can be estimated and not trained: it is no classifier" in said.error
    assert "script: train.py" in said.hint


@pytest.mark.parametrize(
    ("model", "written"),
    [
        ("my_net.py:build", {"python": "./my_net.py:build"}),
        ("my_net.py:wide", {"python": "./my_net.py:wide"}),
        ("net.onnx", {"onnx": "./net.onnx"}),
    ],
)
def test_init_writes_the_file_as_the_job_file_names_it(model: str, written: dict[str, str], folder: Path) -> None:
    said = plan("init", "job.yaml", "--model", model, "--dataset", "cifar10", "--image-size", 64)
    assert (said.code, said.err) == (0, "")
    values = yaml.safe_load((folder / "job.yaml").read_text())
    assert values["model"] == written | {"image_size": 64}
    name = {"my_net.py:build": "my-net", "my_net.py:wide": "wide", "net.onnx": "net"}[model]
    assert values["name"] == f"{name}-cifar10"
    assert read_job(folder / "job.yaml").model.file == folder / model.partition(":")[0]


def test_a_model_that_is_neither_a_name_nor_a_file_is_refused() -> None:
    said = plan("init", "job.yaml", "--model", "my_net.py", "--dataset", "cifar10")
    assert said.code == 2
    assert "my_net.py" in said.error


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (set(Part), "sees Python's files alone, changes none, has no network, reaches no other program"),
        ({"Landlock", "seccomp"}, "within a minute (by Landlock and seccomp; this computer has no namespaces)."),
        ({"Landlock"}, "Without namespaces and seccomp of the kernel, it could change modes, owners and times of your"),
        ({"seccomp"}, "it could read your files, change your files and look into your processes."),
        (set(), "Without namespaces, Landlock and seccomp of the kernel, it could read your files, change your files,"),
    ],
)
def test_the_question_promises_what_the_parts_of_the_kernel_hold(parts: set[str], words: str) -> None:
    assert words in promise(frozenset(parts))


def test_no_file_runs_in_ci_where_less_holds_than_is_promised(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    agree(Path("my_net.py"), frozenset(Part), may_ask=False, agreed=True)
    with pytest.raises(BadInputError, match="it could read your files, change your files and look into") as refused:
        agree(Path("my_net.py"), frozenset({"seccomp"}), may_ask=False, agreed=True)
    assert "CI= plan estimate JOB.yaml --run-file" in refused.value.hint
    monkeypatch.delenv("CI")
    agree(Path("my_net.py"), frozenset({"seccomp"}), may_ask=False, agreed=True)
