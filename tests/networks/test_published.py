"""Networks of papers that are no presets, read as a person's file: parameters and multiply-accumulates as published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainplan.workloads.graph import Graph, Kind
from trainplan.workloads.graph_file import graph_from_json
from trainplan.workloads.network_reader.keras_graph import read_keras

pytestmark = [
    *(pytest.mark.train, pytest.mark.keras_3, pytest.mark.filterwarnings("default")),
    pytest.mark.usefixtures("tensorflow"),
]

FILE = Path(__file__).parent / "published.py"
SAMPLE = ("deit_ti", "r2plus1d_18", "pvt_tiny")
"""Read in `make test` too."""


def table() -> dict[str, tuple[int, int, float, float | None, str]]:
    text = FILE.read_text(encoding="utf-8").partition("PUBLISHED = ")[2]
    found: dict[str, tuple[int, int, float, float | None, str]] = eval(text.partition('"""')[0])
    return found


def read(name: str, size: int, classes: int) -> Graph:
    question: dict[str, Any] = {
        "source": FILE.read_text(encoding="utf-8"), "file": FILE.name, "builder": name, "size": size, "channels": 3,
        "classes": classes, "framework": "tensorflow",
    }  # fmt: skip
    return graph_from_json(read_keras(question, lambda: None, lambda: lambda: "")["graph"])


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.sample] * (one in SAMPLE)) for one in table()])
def test_a_published_network_has_its_published_size(name: str) -> None:
    size, classes, parameters, macs, _ = table()[name]
    graph = read(name, size, classes)
    assert graph.unknown == ()
    assert graph.parameters == pytest.approx(parameters, rel=0.0002 if isinstance(parameters, int) else 0.005)
    assert macs is None or graph.macs == pytest.approx(macs, rel=0.03)


def test_a_recurrent_network_is_counted_by_hand() -> None:
    """CRNN has no published count: each direction of a layer multiplies its input and its state with four gates."""
    graph = read("crnn", 128, 37)
    (first, *_), width = [one for one in graph.figures if one.operator.steps > 1], 128 * 128 // 32 // 4 - 1
    assert first.operator.steps == width
    assert first.macs == width * 256 * 4 * 256
    recurrent = [one for one in graph.figures if one.kind is Kind.DENSE and one.operator.shape.channels == 4 * 256]
    assert [one.macs for one in recurrent] == [width * 512 * 4 * 256] * 4
    assert graph.unknown == ()
