"""Writes the fitted model as the small text file that is reviewed and shipped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from trainplan.planner.throughput.compile import DATA, MEASUREMENTS, NETWORKS
from trainplan.planner.throughput.model import MODEL_FILE, Correction, Group, Model

# Digits that are kept: a correction's thousandth is a thousandth of the step's time.
_DIGITS = 4
# A group whose every correction is below this says nothing.
_SILENT = 5e-4


def write_model(model: Model, summary: Mapping[str, object], path: Path = MODEL_FILE) -> None:
    """One line per group, so that a new fit can be read as a difference."""
    corrections = {
        key: row
        for group, correction in sorted(model.corrections.items())
        if (row := _row(correction))
        for key in [_key(group)]
    }
    head = {
        "about": "Fitted by `make fit` (scripts/fit) to measurements.csv; do not edit.",
        "measurements_sha256": measurements_digest(MEASUREMENTS),
        "summary": summary,
        "constants": _rounded(asdict(model.constants)),
        "links": {
            "bytes_per_second": _rounded({str(link): speed for link, speed in model.links.bytes_per_second.items()}),
            "libraries": {str(library): _rounded(asdict(one)) for library, one in model.links.libraries.items()},
        },
        "version_shift": round(model.version_shift, _DIGITS),
        "half_widths": {key: round(value, _DIGITS) for key, value in model.half_widths.items()},
        "sharing_scales": {key: round(value, _DIGITS) for key, value in model.sharing_scales.items()},
        "measured_libraries": sorted(map(str, model.measured_libraries)),
        "correction_columns": [
            "constant",
            "pressure",
            "waiting",
            "doubling",
            "nodes of planner/throughput/grid.py ...",
        ],
    }
    lines = [json.dumps(head, indent=1)[:-2] + ",", ' "corrections": {']
    lines += [*_entries(corrections), " },", ' "left_out": {']
    left_out = {id_: round(change, _DIGITS) for id_, change in sorted(model.left_out.items())}
    lines += [*_entries(left_out), " }", "}"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def rounded(model: Model) -> Model:
    """The model as it will be read back."""
    corrections = {
        group: _unpacked(row) for group, correction in model.corrections.items() if (row := _row(correction))
    }
    return replace(model, corrections=corrections)


def measurements_digest(*names: str) -> str:
    """SHA-256 of the tables of measurements of these names (default: all), in hexadecimal: a model names those it was
    fitted to."""
    digest = hashlib.sha256()
    for name in names or (MEASUREMENTS, NETWORKS):
        digest.update((DATA / name).read_bytes())
    return digest.hexdigest()


def _row(correction: Correction) -> list[float]:
    values = [correction.constant, correction.pressure, correction.waiting, correction.doubling, *correction.nodes]
    return [round(value, _DIGITS) + 0.0 for value in values] if max(map(abs, values)) >= _SILENT else []


def _unpacked(row: list[float]) -> Correction:
    constant, pressure, waiting, doubling, *nodes = row
    return Correction(constant=constant, pressure=pressure, waiting=waiting, doubling=doubling, nodes=tuple(nodes))


def _key(group: Group) -> str:
    return " / ".join(group)


def _entries(values: Mapping[str, object]) -> list[str]:
    lines = [f"  {json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}," for key, value in values.items()]
    return [*lines[:-1], lines[-1][:-1]]


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {key: _significant(value) for key, value in values.items()}


def _significant(value: float) -> float:
    return float(f"{value:.5g}")
