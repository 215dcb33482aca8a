"""A file is read once for each content, function and size of images, after a question, and kept in the home."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from trainplan.planner.errors import BadInputError
from trainplan.planner.planning.own_networks import FOLDER, Reading, plain_graph, trained_modules, with_network
from trainplan.workloads.graph import Shape
from trainplan.workloads.graph_builder import GraphBuilder
from trainplan.workloads.graph_file import graph_json
from trainplan.workloads.job import TrainingJob, job_from_json

if TYPE_CHECKING:
    from pathlib import Path

    from trainplan.workloads.graph import Graph
    from trainplan.workloads.network_reader.confinement import Limits

TODAY = date(2026, 11, 26)


def a_graph(size: int = 32, channels: int = 3, classes: int = 10) -> Graph:
    builder = GraphBuilder("net", Shape(size, size, channels))
    builder.dense(builder.flatten(builder.convolution(builder.image, 4, 3)), classes)
    return builder.graph()


class Reader:
    """Gives the graph that is asked for, or an answer of the test's, and counts questions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "my_net.py"
        self.file.write_text("def build(): ...\n")
        self.questions: list[dict[str, Any]] = []
        self.agreed: list[Path] = []
        self.parts = frozenset({"namespaces"})
        self.answer: dict[str, Any] | None = None

    def ask(self, question: dict[str, Any], limits: Limits) -> dict[str, Any]:
        self.questions.append(question)
        graph = a_graph(question["size"], question["channels"], question["classes"])
        return self.answer or {"graph": graph_json(graph), "own": ["Gain"], "notes": []}

    @property
    def reading(self) -> Reading:
        def agree(file: Path, parts: frozenset[str]) -> None:
            self.agreed.append(file)

        return Reading(self.folder / "home", TODAY, agree, ask=self.ask, parts=lambda: self.parts)

    def job(self, **model: Any) -> TrainingJob:
        values = {"python": f"{self.file}:build"} | model
        return TrainingJob.model_validate(
            {"name": "own", "model": values, "data": {"name": "cifar10"}, "epochs": 1, "global_batch_size": 8}
        )


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def test_a_file_is_read_once(reader: Reader) -> None:
    first = with_network(reader.job(), reader.reading)
    assert first == with_network(reader.job(), reader.reading)
    assert first.graph() == plain_graph(graph_json(a_graph()), "my_net")
    assert (len(reader.questions), reader.agreed) == (1, [reader.file])
    assert first.model.read is not None
    assert (first.model.read.source, first.model.read.own_layers) == ("def build(): ...\n", ("Gain",))


def test_another_size_or_function_is_read_anew_without_a_question(reader: Reader) -> None:
    with_network(reader.job(), reader.reading)
    assert with_network(reader.job(image_size=64), reader.reading).graph().digest == a_graph(64).digest
    with_network(reader.job(python=f"{reader.file}:other"), reader.reading)
    assert ([question["builder"] for question in reader.questions], len(reader.agreed)) == (
        ["build", "build", "other"],
        1,
    )


def test_another_content_is_asked_about_and_read(reader: Reader) -> None:
    before = with_network(reader.job(), reader.reading)
    reader.file.write_text("def build(): return 1\n")
    after = with_network(reader.job(), reader.reading)
    assert (len(reader.questions), len(reader.agreed)) == (2, 2)
    assert before.digest() != after.digest()


def test_what_a_file_calls_its_layers_does_not_travel(reader: Reader) -> None:
    named = tuple(replace(one, name="6b6579") for one in a_graph().operators)
    graph = replace(a_graph(), name="6b6579", operators=named)
    reader.answer = {"graph": graph_json(graph), "own": [], "notes": ["6b"]}
    job = with_network(reader.job(), reader.reading)
    assert {job.graph().name, *(one.name for one in job.graph().operators)} == {
        "my_net", *(f"{one.kind}_001" for one in a_graph().operators)
    }  # fmt: skip
    assert job.model.read is not None
    assert job.model.read.notes == ()


def test_agreement_counts_for_no_computer_that_confines_less(reader: Reader) -> None:
    with_network(reader.job(), reader.reading)
    for parts in ({"Landlock", "seccomp"}, {"Landlock"}, {"Landlock"}):
        reader.parts = frozenset(parts)
        with_network(reader.job(image_size=32 + 8 * len(reader.questions)), reader.reading)
    assert len(reader.agreed) == 2
    assert reader.questions[-1]["parts"] == ["Landlock"]


def test_nothing_runs_where_nobody_agrees(reader: Reader) -> None:
    def refuse(file: Path, parts: frozenset[str]) -> None:
        raise BadInputError(f"nobody agreed to {file}")

    with pytest.raises(BadInputError, match="nobody agreed"):
        with_network(reader.job(), reader.reading._replace(agree=refuse))
    assert not reader.questions
    assert not (reader.folder / "home").exists()


def test_an_onnx_file_runs_nothing_and_is_not_asked_about(reader: Reader) -> None:
    file = reader.folder / "net.onnx"
    file.write_bytes(b"\x00")
    job = with_network(reader.job(python=None, onnx=str(file)), reader.reading)
    read = job.model.read
    assert (job.graph().digest, reader.agreed, read and read.source) == (a_graph().digest, [], "")


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"packed": 3}'])
def test_what_was_kept_and_is_damaged_is_read_anew(damage: bytes, reader: Reader) -> None:
    with_network(reader.job(), reader.reading)
    (kept,) = (reader.folder / "home" / FOLDER).glob("*.json")
    kept.write_bytes(damage)
    assert with_network(reader.job(), reader.reading).graph().digest == a_graph().digest
    assert len(reader.questions) == 2
    assert json.loads(kept.read_bytes())["classes"] == 10


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"error": "it ran for 60 s"}, r"^my_net.py: it ran for 60 s$"),
        ({"error": "my_net.py, line 3: ValueError: no"}, r"^my_net.py, line 3: ValueError: no$"),
        ({"graph": "{}", "own": []}, "is no network"),
        ({"graph": graph_json(a_graph(8)), "own": []}, "of other images or classes"),
        ({"graph": graph_json(a_graph()), "own": ["\x1b[2J"]}, "is no name of a layer"),
        ({"graph": graph_json(a_graph()), "own": [f"Own{number}" for number in range(65)]}, "at most 64"),
        ({"graph": graph_json(replace(a_graph(), operators=tuple(
            replace(one, function="\x1b]0;owned\x07") for one in a_graph().operators))), "own": []}, "no name"),
        ({"own": []}, "is no network"),
    ],
)  # fmt: skip
def test_an_answer_that_gives_no_network_is_told(answer: dict[str, Any], message: str, reader: Reader) -> None:
    reader.answer = answer
    with pytest.raises(BadInputError, match=message):
        with_network(reader.job(), reader.reading)
    assert not list((reader.folder / "home" / FOLDER).glob("*.json"))


def test_a_job_brings_its_network_wherever_it_goes(reader: Reader) -> None:
    job = with_network(reader.job(), reader.reading)
    there = job_from_json(job.to_json())
    assert (there, there.graph(), there.digest()) == (job, job.graph(), job.digest())
    moved = there.model_copy(update={"model": there.model.model_copy(update={"python": "/elsewhere/my_net.py:build"})})
    assert moved.digest() == job.digest(), "where the file lies trains nothing else"
    assert len(job.to_json()) < 2_000


def test_a_file_that_is_no_text_or_too_long_is_told(reader: Reader) -> None:
    for content, message in ((b"\xff\xfe\x00", "no text file in UTF-8"), (b"#" * 200_000, "more than 128 KiB")):
        reader.file.write_bytes(content)
        with pytest.raises(BadInputError, match=message.replace("no text", "not a text")):
            with_network(reader.job(), reader.reading)
    reader.file.unlink()
    with pytest.raises(BadInputError, match="cannot read"):
        with_network(reader.job(), reader.reading)


@pytest.mark.parametrize("framework", ["tensorflow", "jax", "torch"])
def test_a_file_may_import_what_is_pinned_for_its_framework(framework: str) -> None:
    modules = set(trained_modules(framework))
    assert {"keras", "numpy", "PIL", framework} <= modules
    assert not modules & ({"matplotlib", "tensorflow", "jax", "torch"} - {framework})
