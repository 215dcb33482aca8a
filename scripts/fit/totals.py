"""`python -m scripts.fit.totals`: published whole runs against what is estimated of them, and the width that follows.

Each run is predicted by a model that was fitted without its source, with the functions of an estimate. The interval of
its step has the half widths of the shipped model. What the errors of the totals show beyond that is the width that each
estimate of a rented machine adds (planner/throughput/data/totals.json).
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import mean

from scripts.fit.evaluate import evidence_of, fit, quantile
from scripts.fit.folds import Fold, trained_others, trained_pairs
from scripts.fit.others import OtherArrays, other_arrays, read_others
from scripts.fit.pairs import Pair, read_pairs
from scripts.fit.rows import DEVICES, Row, arithmetic, read_rows
from trainplan.planner.forecast.allowances import NOTHING, START_SECONDS
from trainplan.planner.forecast.estimate import Workload, run_time
from trainplan.planner.forecast.feeding import Feed, feed_images_per_second, pace
from trainplan.planner.forecast.spot import with_checkpoints
from trainplan.planner.forecast.whole_run import TOTALS
from trainplan.planner.throughput.compile import DATA
from trainplan.planner.throughput.evidence import evidence
from trainplan.planner.throughput.model import Model, load_model
from trainplan.planner.throughput.rates import known_rates
from trainplan.planner.throughput.setup import setup_of_row
from trainplan.planner.throughput.values import Basis, Measurement, Parallelism, Quality, Throughput
from trainplan.pricing.device_text import read_devices
from trainplan.workloads.job import TrainingJob

Cells = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A published run beside its prediction. `off` is the logarithm of predicted over published hours, `step` the half
    width of its step's interval; None where nothing is predicted, for the reason in `note`."""

    cells: Cells
    predicted_hours: float | None = None
    step: float | None = None

    @property
    def hours(self) -> float:
        """As published."""
        return float(self.cells["hours"])

    @property
    def off(self) -> float | None:
        """The logarithm of predicted over published."""
        return None if self.predicted_hours is None else math.log(self.predicted_hours / self.hours)

    @property
    def beyond(self) -> float:
        """What would have to be joined with the step's half width for the interval to reach the published figure."""
        if self.off is None or self.step is None:
            return 0.0
        return math.sqrt(max(0.0, self.off**2 - self.step**2))

    @property
    def is_counted(self) -> bool:
        """Whether the width rests on it too."""
        return self.off is not None and self.cells["quality"] != Quality.C


def read_totals() -> list[Cells]:
    """The rows of totals.csv."""
    with (DATA / "totals.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def predict_totals(rows: Sequence[Row], pairs: Sequence[Pair], others: OtherArrays) -> list[Total]:
    """Every published run, predicted by a model that its source had no part in."""
    data = arithmetic(rows)
    models: dict[str, Model] = {}

    def model_without(source: str) -> Model:
        key = source if any(row.measurement.source == source for row in rows) else ""
        if key not in models:
            positions = [position for position, row in enumerate(rows) if row.measurement.source != key]
            trained = frozenset(rows[position].measurement.id for position in positions)
            fold = Fold(test="whole_runs", name=key, tested=frozenset(), trained=trained)
            known = others.take(trained_others(fold, rows, others.others))
            models[key] = fit(data.take(positions), trained_pairs(fold, rows, pairs), known)[0]
        return models[key]

    return [_predicted(cells, rows, model_without) for cells in read_totals()]


def half_width(totals: Sequence[Total], without: str = "") -> float:
    """What four sources out of five need beyond the step's interval, each source once and `without` one of them; with
    fewer than four sources the largest."""
    by_source: dict[str, list[float]] = defaultdict(list)
    for total in totals:
        if total.is_counted and total.cells["source"] != without:
            by_source[total.cells["source"]].append(total.beyond)
    return quantile([mean(values) for values in by_source.values()]) if by_source else 0.0


def write_totals(totals: Sequence[Total]) -> None:
    """The width as the estimate reads it."""
    sources = {total.cells["source"] for total in totals if total.is_counted}
    document = {
        "about": "Fitted by `make fit` (scripts/fit/totals.py) to totals.csv; do not edit.",
        "half_width": round(half_width(totals), 3),
        "sources": len(sources),
        "totals_sha256": totals_digest(),
    }
    TOTALS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def totals_digest() -> str:
    """Of totals.csv, by which a test knows that the width is that of its rows."""
    return hashlib.sha256((DATA / "totals.csv").read_bytes()).hexdigest()


def total_lines(totals: Sequence[Total]) -> list[str]:
    """A table and what it shows, for docs/accuracy.md."""
    lines = [
        "| run | published h | predicted h | ratio | interval h | high / low | inside | beside its steps |",
        "|---|---|---|---|---|---|---|---|",
    ]
    inside = narrow = near = 0
    predicted = [total for total in totals if total.off is not None]
    for total in totals:
        width = _width(total, totals)
        beside = _beside_steps(total)
        name = _name(total.cells)
        if width is None or total.predicted_hours is None or total.off is None:
            lines.append(f"| {name} | {total.hours:.4g} | - | - | - | - | - | {beside} |")
            continue
        low, high = (total.predicted_hours * math.exp(sign * width) for sign in (-1, 1))
        covers = low <= total.hours <= high
        inside += covers
        narrow += covers and math.exp(2 * width) <= _NARROW
        near += abs(total.off) <= math.log(_NEAR)
        lines.append(
            f"| {name} | {total.hours:.4g} | {total.predicted_hours:.3g} | {math.exp(total.off):.2f} "
            f"| {low:.3g} - {high:.3g} | {math.exp(2 * width):.1f} | {'yes' if covers else 'no'} | {beside} |"
        )
    summary = (
        f"Of {len(predicted)} predicted runs {inside} are inside their interval, {narrow} of them in one whose "
        f"high / low is at most {_NARROW:.1f} (asked: four of six), and {near} are off by at most {_NEAR} times "
        "(asked: all). "
        f"The width that estimates add: a factor of {math.exp(half_width(totals)):.2f}."
    )
    return [*lines, "", summary]


_NARROW, _NEAR = 2.0, 1.6


def _width(total: Total, totals: Sequence[Total]) -> float | None:
    """The half width of a total's interval, for which its own source has no say."""
    return None if total.step is None else math.hypot(total.step, half_width(totals, without=total.cells["source"]))


def _beside_steps(total: Total) -> str:
    """What the run took beside its steps, where its source tells the rate of these too."""
    rate = float(total.cells["own_images_per_second"] or 0)
    if not rate or total.cells["quality"] == Quality.C:
        return "not stated"
    steps = _IMAGES[total.cells["data_set"]] * int(total.cells["epochs"]) / rate / 3600
    return f"{total.hours / steps - 1:+.1%}"


_IMAGES = {"imagenet": 1_281_167, "mnist": 60_000}


def _name(cells: Cells) -> str:
    what = (
        f"{cells['model']}, {cells['epochs']} epochs, {cells['device_count']} x {cells['device']}, {cells['framework']}"
    )
    return f"{cells['id']}: {what} ({cells['quality']})"


def _predicted(cells: Cells, rows: Sequence[Row], model_without: Callable[[str], Model]) -> Total:
    devices = read_devices(DEVICES)[0]
    rates = known_rates(devices.get(cells["device"]))
    if rates is None:
        return Total(cells=cells)
    job = _job(cells)
    measurement = _measurement(cells)
    setup = setup_of_row(measurement, job.net(), rates)
    if setup is None:
        return Total(cells=cells)
    known = [row for row in rows if row.measurement.source != cells["source"]]
    model, shipped = model_without(cells["source"]), load_model()
    rate = setup.batch * setup.count / model.seconds(setup)
    nearness = evidence(
        evidence_of(Row(measurement=measurement, setup=setup)),
        [evidence_of(row) for row in known if row.setup.device == setup.device],
        frozenset(row.setup.rates.architecture for row in known),
        model.measured_libraries,
    )
    return Total(
        cells=cells,
        predicted_hours=estimated_hours(job, cells, rate),
        step=nearness.half_width(shipped.half_widths, shipped.sharing_scales),
    )


def estimated_hours(job: TrainingJob, cells: Cells, rate: float) -> float:
    """As an estimate counts it: start, fed steps, validations, checkpoints, one evaluation."""
    return hours_as_fed(job, pace(rate, feed_of(job, cells)).images_per_second)


def feed_of(job: TrainingJob, cells: Cells) -> Feed | None:
    """What the host of a published run can feed; None where its processors are not stated."""
    vcpus = float(cells["vcpus"]) if cells["vcpus"] else None
    return feed_images_per_second(job, vcpus, int(cells["device_count"]))


def hours_as_fed(job: TrainingJob, fed: float) -> float:
    """The same of steps at `fed` images a second, input included."""
    work = Workload(job)
    throughput = Throughput(images_per_second=fed, low=fed, high=fed, basis=Basis.MODELLED, evidence=())
    plain = run_time(work, throughput, START_SECONDS, NOTHING)
    return with_checkpoints(plain, work.checkpoints).total / timedelta(hours=1)


def _job(cells: Cells) -> TrainingJob:
    preset, _, suffix = cells["model"].partition("_")
    model: dict[str, object] = {"preset": preset}
    if suffix == "bn":
        model["batch_norm"] = True
    if cells["data_set"] == "imagenet":
        model["image_size"] = int(cells["image_size_px"])
    every = int(cells["validated_every"])
    values: Mapping[str, object] = {
        "name": cells["id"].replace("_", "-"),
        "model": model,
        "data": {"name": cells["data_set"]},
        "epochs": int(cells["epochs"]),
        "global_batch_size": int(cells["batch_per_device"]) * int(cells["device_count"]),
        "precision": cells["precision"],
        "validation": {"every_epochs": every} if every else {},
    }
    return TrainingJob.model_validate(values)


def _measurement(cells: Cells) -> Measurement:
    return Measurement(
        id=cells["id"],
        model=cells["model"],
        image_size_px=int(cells["image_size_px"]),
        device=cells["device"],
        device_count=int(cells["device_count"]),
        interconnect=cells["interconnect"],
        precision=cells["precision"],
        batch_per_device=int(cells["batch_per_device"]),
        framework=cells["framework"],
        framework_version=cells["framework_version"],
        images_per_second=1.0,
        parallelism=Parallelism(cells["parallelism"]),
        quality=Quality(cells["quality"]),
        source=cells["source"],
    )


def main() -> int:
    """Writes the width and prints the table."""
    totals = predict_totals(read_rows(), read_pairs(), other_arrays(read_others()))
    write_totals(totals)
    print("\n".join(total_lines(totals)))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
