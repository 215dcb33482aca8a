"""`python -m scripts.fit.scaling`: published runs on several machines against what is computed of them, and the
constants that follow (planner/throughput/data/scaling.json).

Two constants of the network are fitted to measured seconds of all-reduce, two of the step to whole runs, each source
with the same weight. The width is the largest error of a row that is predicted by constants of all other sources, or
of all: three sources are too few for a quantile.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median

from trainplan.planner.throughput.compile import DATA
from trainplan.planner.throughput.machines import (
    SCALING,
    ScalingConstants,
    exchange_seconds,
    step_seconds,
    unknown_network,
)

Cells = dict[str, str]

_START = ScalingConstants(network_share=0.8, most_bytes_per_second=2.6e9, overlap=0.0, jitter=0.0, half_width=0.0)
# Where the fit looks. The backward pass, which alone can hide an exchange, is two thirds of a step.
_NETWORK_SHARES = [share / 100 for share in range(50, 101)]
_MOST_BYTES = [1e7 * tens for tens in range(150, 351)]
_OVERLAPS = [share / 100 for share in range(67)]
_JITTERS = [share / 1000 for share in range(51)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRow:
    """A published figure beside its prediction, both in seconds of a step or of one all-reduce. `published` is None
    where the source states no figure that can be computed; `is_fitted` says whether the constants rest on it."""

    cells: Cells
    kind: str
    published: float | None
    is_fitted: bool

    def predicted(self, constants: ScalingConstants) -> float:
        """The seconds that are computed of it."""
        cells = self.cells
        assumed = unknown_network(int(cells["devices_per_machine"] or 1)).gbit_per_second
        network = float(cells["network_gbit_per_second"] or assumed)
        machines, gradient_bytes = int(cells["machines"]), float(cells["gradient_bytes"])
        if self.kind == "exchange":
            return exchange_seconds(machines, gradient_bytes, network, constants)
        alone = _batch(cells) / float(cells["machine_images_per_second"])
        return step_seconds(alone, machines, gradient_bytes, network, constants)

    def off(self, constants: ScalingConstants) -> float:
        """The logarithm of predicted over published seconds."""
        return math.log(self.predicted(constants) / (self.published or math.nan))


def _batch(cells: Cells) -> int:
    return int(cells["batch_per_device"]) * int(cells["devices_per_machine"])


def read_scaling() -> list[ScalingRow]:
    """The rows of scaling.csv."""
    with (DATA / "scaling.csv").open(newline="", encoding="utf-8") as file:
        return [_row(cells) for cells in csv.DictReader(file)]


def _row(cells: Cells) -> ScalingRow:
    is_fitted = bool(cells["network_gbit_per_second"])
    if cells["exchange_seconds"]:
        return ScalingRow(cells=cells, kind="exchange", published=float(cells["exchange_seconds"]), is_fitted=is_fitted)
    if not cells["machines"]:
        return ScalingRow(cells=cells, kind="none", published=None, is_fitted=False)
    machine_rate, machines = float(cells["machine_images_per_second"]), int(cells["machines"])
    rate = float(cells["images_per_second"] or 0) or machine_rate * machines * float(cells["scaling_efficiency"])
    return ScalingRow(cells=cells, kind="step", published=_batch(cells) * machines / rate, is_fitted=is_fitted)


_fits: dict[tuple[tuple[str, float | None], ...], ScalingConstants] = {}


def fit_scaling(rows: Sequence[ScalingRow]) -> ScalingConstants:
    """The constants of `rows`, found once for each set of them."""
    fitted = tuple((row.cells["id"], row.published) for row in rows if row.is_fitted)
    if fitted not in _fits:
        _fits[fitted] = _fit(rows)
    return _fits[fitted]


def _fit(rows: Sequence[ScalingRow]) -> ScalingConstants:
    """The constants with the least squares of `off`, those of the network first; a kind without rows keeps the start
    values (several-machines review, 2026-11-23: a share of 0.8, 2.6 GB/s)."""
    fitted = [row for row in rows if row.is_fitted]
    constants = _least(
        [row for row in fitted if row.kind == "exchange"],
        (
            replace(_START, network_share=share, most_bytes_per_second=most)
            for share in _NETWORK_SHARES
            for most in _MOST_BYTES
        ),
        _START,
    )
    return _with_steps([row for row in fitted if row.kind == "step"], constants)


def _with_steps(rows: Sequence[ScalingRow], constants: ScalingConstants) -> ScalingConstants:
    """With the overlap and the jitter. A step's logarithm is the sum of what each of the two makes of it: 3,400 pairs
    take no longer than 118 single figures."""
    if not rows:
        return constants
    counts = Counter(row.cells["source"] for row in rows)
    weights = [1 / counts[row.cells["source"]] for row in rows]
    by_overlap = {one: [row.off(replace(constants, overlap=one)) for row in rows] for one in _OVERLAPS}
    doublings = [math.log2(int(row.cells["machines"])) for row in rows]
    by_jitter = {one: [math.log1p(one * doubled) for doubled in doublings] for one in _JITTERS}

    def squares(pair: tuple[float, float]) -> float:
        both = zip(by_overlap[pair[0]], by_jitter[pair[1]], weights, strict=True)
        return sum(weight * (off + more) ** 2 for off, more, weight in both)

    overlap, jitter = min(((one, other) for one in _OVERLAPS for other in _JITTERS), key=squares)
    return replace(constants, overlap=overlap, jitter=jitter)


def _least(
    rows: Sequence[ScalingRow], choices: Iterable[ScalingConstants], otherwise: ScalingConstants
) -> ScalingConstants:
    if not rows:
        return otherwise
    counts = Counter(row.cells["source"] for row in rows)
    return min(choices, key=lambda one: sum(row.off(one) ** 2 / counts[row.cells["source"]] for row in rows))


def with_width(rows: Sequence[ScalingRow]) -> ScalingConstants:
    """The fitted constants of all rows, with the half width that their largest error asks for."""
    constants = fit_scaling(rows)
    errors = [abs(row.off(constants)) for row in rows if row.published]
    errors += [abs(error) for row, error in left_out(rows) if row.is_fitted]
    return replace(constants, half_width=max(errors))


def left_out(rows: Sequence[ScalingRow]) -> list[tuple[ScalingRow, float]]:
    """Each predicted row with its error by constants of the other sources."""
    errors = []
    for source in dict.fromkeys(row.cells["source"] for row in rows):
        others = fit_scaling([row for row in rows if row.cells["source"] != source])
        errors += [(row, row.off(others)) for row in rows if row.cells["source"] == source and row.published]
    return errors


def write_scaling(constants: ScalingConstants) -> None:
    """The constants as the estimate reads them."""
    document = {
        "about": "Fitted by `make fit` (scripts/fit/scaling.py) to scaling.csv; do not edit.",
        **{name: float(f"{value:.4g}") for name, value in asdict(constants).items()},
        "scaling_sha256": scaling_digest(),
    }
    SCALING.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def scaling_digest() -> str:
    """Of scaling.csv, by which a test knows that the constants are those of its rows."""
    return hashlib.sha256((DATA / "scaling.csv").read_bytes()).hexdigest()


def scaling_lines(rows: Sequence[ScalingRow]) -> list[str]:
    """A table by source, and what the rows show, for docs/accuracy.md."""
    constants = with_width(rows)
    beyond = {row.cells["id"]: math.exp(error) for row, error in left_out(rows)}
    lines = [
        "| source | runs | networks | machines | predicted over published: median | least | most "
        "| source left out: least | most |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for source in dict.fromkeys(row.cells["source"] for row in rows):
        known = [row for row in rows if row.cells["source"] == source and row.published]
        if known:
            ratios = [math.exp(row.off(constants)) for row in known]
            apart = [beyond[row.cells["id"]] for row in known]
            models = ", ".join(sorted({row.cells["model"] for row in known}))
            machines = sorted({int(row.cells["machines"]) for row in known})
            shown = f"{machines[0]} to {machines[-1]}" if len(machines) > 1 else f"{machines[0]}"
            figures = (median(ratios), min(ratios), max(ratios), min(apart), max(apart))
            cells = " | ".join(f"{figure:.2f}" for figure in figures)
            lines.append(f"| {source} | {len(known)} | {models} | {shown} | {cells} |")
    return [*lines, "", _summary(rows, constants)]


def row_lines(rows: Sequence[ScalingRow]) -> list[str]:
    """A table of every row, for the terminal."""
    constants = with_width(rows)
    beyond = {row.cells["id"]: error for row, error in left_out(rows)}
    lines = [
        "| published | network Gbit/s | figure | published s | predicted s | ratio | ratio, source left out |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = row.cells
        what = f"{_name(cells)} | {cells['network_gbit_per_second'] or 'not told'} | {_FIGURES[row.kind]}"
        if row.published is None:
            lines.append(f"| {what} | - | - | - | - |")
            continue
        ratios = f"{math.exp(row.off(constants)):.2f} | {math.exp(beyond[cells['id']]):.2f}"
        lines.append(f"| {what} | {row.published:.4g} | {row.predicted(constants):.4g} | {ratios} |")
    return lines


_FIGURES = {"exchange": "one all-reduce", "step": "one step", "none": "a ratio alone: not predicted"}


def _name(cells: Cells) -> str:
    devices = f"{cells['machines'] or '?'} x {cells['devices_per_machine'] or '?'} {cells['device']}"
    return f"{cells['id']}: {cells['model']}, {devices} ({cells['quality']})"


def _summary(rows: Sequence[ScalingRow], constants: ScalingConstants) -> str:
    predicted = [row for row in rows if row.published]
    beyond = {row.cells["id"]: error for row, error in left_out(rows)}
    missed = [row for row in predicted if abs(row.off(constants)) > math.log(_NEAR)]
    apart = [row for row in predicted if abs(beyond[row.cells["id"]]) > math.log(_NEAR)]
    return (
        f"The fit: {constants.network_share:.0%} of the stated network, at most "
        f"{constants.most_bytes_per_second / 1e9:.2f} GB/s; gradients travel for nothing during "
        f"{constants.overlap:.0%} of a step; each doubling of the machines adds {constants.jitter:.1%}. "
        f"Of {len(rows)} rows {len(predicted)} are predicted. Farther off than {_NEAR} times: {_ids(missed)}; "
        f"by constants of the other sources: {_ids(apart)}. An estimate for several machines is widened by a factor of "
        f"{math.exp(constants.half_width):.2f}, the largest error of any row, its source fitted or not."
    )


def _ids(rows: Sequence[ScalingRow]) -> str:
    return ", ".join(row.cells["id"] for row in rows) or "none"


_NEAR = 1.15


def main() -> int:
    """Writes the constants and prints the tables."""
    rows = read_scaling()
    write_scaling(with_width(rows))
    print("\n".join([*row_lines(rows), "", *scaling_lines(rows)]))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
