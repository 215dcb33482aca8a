"""Holds the predictor against measurements: what `plan throughput check` prints."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.throughput.network_steps import measured_network
from trainplan.planner.throughput.rows import BadRowError, NumberedRow, measurement_from_row
from trainplan.planner.throughput.setup import Family, family_of, setup_of_row
from trainplan.planner.throughput.table import source_addresses
from trainplan.planner.throughput.values import CPU, Measurement, Quality, Throughput

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trainplan.planner.throughput.predict import Predictor

# Why a row is not predicted.
EXCLUDED = "excluded"
"""Inference, or quality C: no measurement of training that anything should be held against."""
UNREADABLE = "unreadable"
UNKNOWN_MODEL = "unknown_model"
"""No network of this name is kept here."""
NO_BATCH = "no_batch"
NO_DEVICE_DATA = "no_device_data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A row, which begins in `line` of its file, and what is said of it: a prediction, or the reason why there is none.

    `fault` is what cannot be read in it, where that is the reason.
    """

    line: int
    id: str
    images_per_second: float | None
    device: str
    framework: str
    answer: Throughput | str
    has_twin: bool = False
    fault: BadRowError | None = None

    @property
    def error(self) -> float | None:
        """(predicted - measured) / measured."""
        if isinstance(self.answer, str) or not self.images_per_second:
            return None
        return self.answer.images_per_second / self.images_per_second - 1

    @property
    def covered(self) -> bool:
        """Whether the measured rate lies within the predicted interval."""
        measured = self.images_per_second
        return (
            not isinstance(self.answer, str)
            and measured is not None
            and (self.answer.low <= measured <= self.answer.high)
        )


class Cause(NamedTuple):
    """Why rows cannot be read, the same for all of them: `why` their `column` cannot. `lines` are where they begin,
    `values` what stands in the column, each once."""

    column: str
    why: str
    lines: tuple[int, ...]
    values: tuple[str, ...]


def causes(checked: Iterable[Checked]) -> list[Cause]:
    """Why rows could not be read, the most frequent cause first."""
    faults: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for row in checked:
        if row.fault is not None:
            faults[row.fault.column, row.fault.why].append((row.line, row.fault.value))
    found = [
        Cause(column, why, tuple(line for line, _ in rows), tuple(dict.fromkeys(value for _, value in rows if value)))
        for (column, why), rows in faults.items()
    ]
    return sorted(found, key=lambda cause: -len(cause.lines))


def check(
    rows: Iterable[NumberedRow],
    predictor: Predictor,
    table: sqlite3.Connection,
    find: Callable[[str], str | None],
) -> list[Checked]:
    """Every row's prediction. A row that is in the shipped table is predicted without itself.

    `find` gives the canonical name of a device's spelling, None where it is not known.
    """
    sources = source_addresses(table)
    return [_check(row, predictor, table, lambda row: measurement_from_row(row, find, sources)) for row in rows]


def worst(checked: Iterable[Checked]) -> list[Checked]:
    """The rows whose predictions are off by the largest factors, either way; the farthest first."""
    return sorted((row for row in checked if row.error is not None), key=_factor_off, reverse=True)[:MOST_WORST]


MOST_WORST = 10


def _factor_off(row: Checked) -> float:
    return max(1 + (row.error or 0.0), 1 / (1 + (row.error or 0.0)))


def framework_name(stated: str) -> str:
    """The framework of a row as people call it, and the program where it is one that the model has apart."""
    name = stated.lower()
    if "jax" in name:
        return "JAX"
    family = family_of(stated)
    if family is Family.OTHER:
        return next((known for known in _OTHER_FRAMEWORKS if known.lower() in name), "other")
    return _FRAMEWORKS[family]


_FRAMEWORKS = {
    Family.KERAS: "TensorFlow",
    Family.TF_BENCHMARKS: "TensorFlow tf_cnn_benchmarks",
    Family.SLIM: "TensorFlow slim",
    Family.TORCH: "PyTorch",
    Family.TORCH7: "Torch7",
}
_OTHER_FRAMEWORKS = ("MXNet", "TensorFlow", "PaddlePaddle", "MindSpore", "OneFlow", "Caffe")


def as_json(checked: Sequence[Checked]) -> dict[str, object]:
    """The stable JSON of the command: rows, a summary, and why rows cannot be read."""
    return {
        "rows": [_row(row) for row in checked],
        "summary": _summary(checked),
        "unreadable": [{**cause._asdict(), "count": len(cause.lines)} for cause in causes(checked)],
    }


def _check(
    row: NumberedRow,
    predictor: Predictor,
    table: sqlite3.Connection,
    read: Callable[[Mapping[str, str]], Measurement],
) -> Checked:
    try:
        if row.wrong:
            raise BadRowError("", row.wrong)
        measured = read(row.cells)
    except BadRowError as fault:
        id_ = row.cells.get("id") or ""
        return Checked(
            line=row.line, id=id_, images_per_second=None, device="", framework="", answer=UNREADABLE, fault=fault
        )
    twin = _twin(measured, table)
    return Checked(
        line=row.line,
        id=measured.id,
        images_per_second=measured.images_per_second,
        device=measured.device,
        framework=framework_name(measured.framework),
        answer=_answer(measured, twin, predictor),
        has_twin=twin is not None,
    )


def _answer(measured: Measurement, twin: str | None, predictor: Predictor) -> Throughput | str:
    if measured.mode != "train" or measured.quality is Quality.C:
        return EXCLUDED
    net = measured_network(measured)
    if net is None:
        return UNKNOWN_MODEL
    rates = None if measured.device == CPU else predictor.rates(measured.device)
    if rates is None:
        return NO_DEVICE_DATA
    setup = setup_of_row(measured, net, rates)
    if setup is None:
        return NO_BATCH
    return predictor.predict_setup(setup, measured.model, frozenset() if twin is None else frozenset({twin}))


def _twin(measured: Measurement, table: sqlite3.Connection) -> str | None:
    """The shipped row that this one is: by its id, else by saying the same of the same configuration."""
    item = table.execute("SELECT id FROM measurements WHERE id = ?", (measured.id,)).fetchone()
    item = item or table.execute(_SAME, _identity(measured)).fetchone()
    return None if item is None else str(item[0])


_SAME = """SELECT id FROM measurements WHERE device = ? AND model = ? AND image_size_px = ? AND device_count = ?
 AND precision = ? AND batch_per_device IS ? AND images_per_second = ? ORDER BY id LIMIT 1"""


def _identity(measured: Measurement) -> tuple[object, ...]:
    return (
        measured.device,
        measured.model,
        measured.image_size_px,
        measured.device_count,
        measured.precision,
        measured.batch_per_device,
        measured.images_per_second,
    )


def _row(row: Checked) -> dict[str, object]:
    head: dict[str, object] = {"line": row.line, "id": row.id, "images_per_second": row.images_per_second}
    if isinstance(row.answer, str):
        nothing = dict.fromkeys(("predicted", "low", "high", "basis", "error"))
        return {**head, **nothing, "reason": row.answer}
    throughput = row.answer
    return {
        **head,
        "predicted": throughput.images_per_second,
        "low": throughput.low,
        "high": throughput.high,
        "basis": str(throughput.basis),
        "error": row.error,
    }


def _summary(checked: Sequence[Checked]) -> dict[str, object]:
    predicted = [row for row in checked if not isinstance(row.answer, str)]
    reasons: dict[str, int] = defaultdict(int)
    for row in checked:
        if isinstance(row.answer, str):
            reasons[row.answer] += 1
    return {
        "n": len(predicted),
        **_figures(predicted),
        "seen": sum(row.has_twin for row in predicted),
        "unpredicted": sum(reasons.values()),
        "unpredicted_by_reason": dict(sorted(reasons.items())),
        "by_device": _by(predicted, lambda row: row.device),
        "by_basis": _by(predicted, lambda row: str(row.answer.basis) if isinstance(row.answer, Throughput) else ""),
        "by_framework": _by(predicted, lambda row: row.framework),
    }


def _by(rows: Sequence[Checked], key: Callable[[Checked], str]) -> dict[str, dict[str, object]]:
    groups: dict[str, list[Checked]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return {name: {"n": len(group), **_figures(group)} for name, group in sorted(groups.items())}


def _figures(rows: Sequence[Checked]) -> dict[str, object]:
    errors = [abs(row.error) for row in rows if row.error is not None]
    if not errors:
        return {"mape": None, "median_ape": None, "coverage": None}
    return {
        "mape": sum(errors) / len(errors),
        "median_ape": median(errors),
        "coverage": sum(row.covered for row in rows) / len(rows),
    }
