"""A graph as text, which is kept and read without the framework that it came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from trainplan.workloads.graph import Graph, GraphError, Kind, Operator, Shape
from trainplan.workloads.graph_shapes import MAX_OPERATORS, check

_FIELDS = tuple(field.name for field in fields(Operator))
_USUAL = {field.name: field.default for field in fields(Operator)}
_TUPLES = ("inputs", "padding", "kernel", "stride", "dilation")


def graph_json(graph: Graph) -> str:
    """The graph as text, one operator a line; what has its usual value is left out."""
    lines = ",\n".join(json.dumps(_row(operator), separators=(",", ":")) for operator in graph.operators)
    return f'{{"name":{json.dumps(graph.name)},"operators":[\n{lines}\n]}}\n'


def graph_from_json(text: str) -> Graph:
    """The inverse of `graph_json`. Raises GraphError on anything else: shapes are checked, not believed."""
    try:
        values = json.loads(text)
        name, rows = values["name"], values["operators"]
        if not isinstance(name, str) or not isinstance(rows, list) or len(rows) > MAX_OPERATORS:
            raise GraphError(f"it has a name and a list of at most {MAX_OPERATORS:,} operators")
        graph = Graph(name=name, operators=tuple(map(_operator, rows)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise GraphError(f"this is no graph: {error}") from None
    check(graph)
    return graph


def _row(operator: Operator) -> dict[str, Any]:
    return {key: value for key in _FIELDS if (value := getattr(operator, key)) != _USUAL[key]}


def _operator(row: Mapping[str, Any]) -> Operator:
    values: dict[str, Any] = {key: tuple(value) if key in _TUPLES else value for key, value in row.items()}
    values.update(kind=Kind(values["kind"]), shape=Shape(*values["shape"]))
    return Operator(**values)
