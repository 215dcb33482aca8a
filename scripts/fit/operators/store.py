"""Writes the fitted model of operators as the text file that is reviewed and shipped."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from scripts.fit.operators.process import constants_of, effects_of
from scripts.fit.store import measurements_digest
from trainplan.planner.throughput.operator_evidence import MeasuredNetworks
from trainplan.planner.throughput.operators import (
    CONSTANT_NAMES,
    OPERATORS_FILE,
    Level,
    OperatorConstants,
    OperatorModel,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from scripts.fit.operators.process import Posterior
    from trainplan.planner.throughput.features import Block

_DIGITS = 3
# An effect below this says nothing: a thousandth of the step's time.
_SILENT = 1.5e-3


def model_of(known: Posterior, half_widths: Mapping[str, float]) -> OperatorModel:
    """The model as it will be read back."""
    effects: dict[Level, dict[Block, tuple[float, ...]]] = {}
    for level, blocks in effects_of(known).items():
        rounded = {block: tuple(round(value, _DIGITS) for value in values) for block, values in blocks.items()}
        kept = {block: values for block, values in rounded.items() if max(map(abs, values)) >= _SILENT}
        if kept:
            effects[level] = kept
    rows, constants = known.fit.rows, constants_of(known.fit)
    left_out = zip(rows, known.changes_when_left_out(), strict=True)
    return OperatorModel(
        constants=OperatorConstants(**{name: float(f"{getattr(constants, name):.5g}") for name in CONSTANT_NAMES}),
        effects=effects,
        half_widths={kind: round(value, 4) for kind, value in half_widths.items()},
        left_out={id_: round(float(change), 4) for row, change in left_out for id_ in row.ids},
        measured=MeasuredNetworks(counts=Counter((row.device, row.network, row.setup.source) for row in rows)),
    )


def write_operators(model: OperatorModel, summary: Mapping[str, object], path: Path = OPERATORS_FILE) -> None:
    """One line per group, so that a new fit can be read as a difference."""
    sources = sorted({source for _, _, source in model.measured.counts})
    measured: dict[str, dict[str, dict[str, int]]] = {}
    for (device, network, source), count in sorted(model.measured.counts.items()):
        measured.setdefault(device, {}).setdefault(network, {})[str(sources.index(source))] = count
    head = {
        "about": "Fitted by `make fit` (scripts/fit/operators) to measurements.csv and networks.csv; do not edit.",
        "measurements_sha256": measurements_digest(),
        "summary": summary,
        "constants": {name: getattr(model.constants, name) for name in CONSTANT_NAMES},
        "half_widths": dict(model.half_widths),
        "sources": sources,
    }
    groups = {" / ".join(level): blocks for level, blocks in sorted(model.effects.items())}
    parts = [json.dumps(head, indent=1)[:-2]]
    parts += [_lines(name, values) for name, values in (("measured", measured), ("effects", groups))]
    parts.append(_lines("left_out", dict(sorted(model.left_out.items()))))
    path.write_text(",\n".join(parts) + "\n}\n", encoding="utf-8")


def _lines(name: str, values: Mapping[str, object]) -> str:
    rows = [f"  {json.dumps(key)}: {json.dumps(row, separators=(',', ':'))}" for key, row in values.items()]
    return f' "{name}": {{\n' + ",\n".join(rows) + "\n }"
