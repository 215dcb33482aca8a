"""What pilots have measured on rented machines, as an estimate uses it: there as it is, elsewhere for the device."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from trainplan.planner.forecast.allowances import NOTHING, Allowances, allowances
from trainplan.planner.forecast.estimate import device_kind
from trainplan.planner.forecast.times import Interval, measured
from trainplan.planner.planning.own_measurements import OwnMeasurement, rented_name
from trainplan.planner.planning.this_machine import (
    OWN_SPREAD,
    RUNS_KEPT_IN_MIND,
    SPREAD_AFTER_RUNS,
    shapes_of,
)
from trainplan.planner.throughput.nets import model_key
from trainplan.planner.throughput.predict import Predictor
from trainplan.planner.throughput.values import CPU, Basis, Measurement, Throughput, Unpredicted
from trainplan.providers.registry import CLUSTER, is_simulated
from trainplan.workloads.job import job_from_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trainplan.planner.throughput.values import Question
    from trainplan.pricing.devices import Device
    from trainplan.pricing.offers import Rental
    from trainplan.workloads.job import TrainingJob

REPEAT_FACTOR = 1.07
"""How far the next run of a measured configuration is off (planner/throughput/own.py)."""
MOST_SETUP_SECONDS = 3600.0
"""A machine tells by its own clock when its trainer began. A longer boot, or none, is a clock that is wrong."""
PILOTS_KEPT_IN_MIND = 5
"""So many of the newest tell how long machines take to be there: enough that one slow boot is outvoted."""


class RentedMeasurements:
    """The newest rate of each job's shape on each rented machine; on the nodes of a cluster, which others use too, the
    rates of its newest runs."""

    def __init__(self, rows: Sequence[OwnMeasurement]) -> None:
        usable = [row for row in rows if row.device and row.images_per_second > 0]
        # Oldest first: the newest stays.
        self._rows = {(row.machine, row.shape): row for row in usable}
        self._on_clusters: dict[tuple[str, str], list[OwnMeasurement]] = {}
        for row in usable:
            if row.machine.startswith(f"{CLUSTER}/"):
                self._on_clusters.setdefault((row.machine, row.shape), []).append(row)
        self._shapes: dict[int, tuple[TrainingJob, tuple[str, ...]]] = {}

    def of_devices(self) -> list[Measurement]:
        """What they say of devices wherever they are rented. A rate that the host held down says nothing of the device,
        nor does a simulated one."""
        rows = self._rows.values()
        usable = [row for row in rows if not row.input_bound and not is_simulated(row.machine.partition("/")[0])]
        measurements = (_of_device(row) for row in usable if row.device != CPU)
        return [row for row in measurements if row is not None]

    def there(self, job: TrainingJob, rental: Rental) -> Throughput | None:
        """The rate of this very job on this very machine; None where no pilot told. Of a sweep over a script the lowest
        of the trials that were measured, with an interval over all of them."""
        machine = rented_name(rental.provider, rental.instance_type)
        if not any(key[0] == machine for key in self._rows) or (job.script is not None and not job.is_measured_script):
            return None
        found = (self._rows.get((machine, shape)) for shape in self._shapes_of(job))
        rows = [row for row in found if row is not None and row.device_count == rental.device_count]
        if rows and rental.provider == CLUSTER:
            of_shapes = (self._on_clusters[row.machine, row.shape][-RUNS_KEPT_IN_MIND:] for row in rows)
            return _over_all([_on_cluster(runs) for runs in of_shapes])
        return _over_all([_throughput(row) for row in rows]) if rows else None

    def _shapes_of(self, job: TrainingJob) -> tuple[str, ...]:
        # By the object, which is kept so that no other comes by its id: a plan asks of one job hundreds of times.
        if id(job) not in self._shapes:
            self._shapes[id(job)] = (job, shapes_of(job))
        return self._shapes[id(job)][1]


def _throughput(row: OwnMeasurement) -> Throughput:
    factor = max(REPEAT_FACTOR, 1 + (row.half_width or 0.0))
    held = "; its host handed over images no faster" if row.input_bound else ""
    return Throughput(
        images_per_second=row.images_per_second,
        low=row.images_per_second / factor,
        high=row.images_per_second * factor,
        basis=Basis.MEASURED,
        evidence=(_name(row),),
        note=f"measured on such a machine on {row.measured_at:%Y-%m-%d}{held}",
        as_fed=True,
    )


def _on_cluster(rows: Sequence[OwnMeasurement]) -> Throughput:
    """What runs on nodes of one kind say of the next: their middle, with the spread of runs on a computer that others
    use (planner/planning/this_machine.py) around it; none of them lies outside."""
    rates = [row.images_per_second for row in rows]
    factor = SPREAD_AFTER_RUNS.get(len(rows), OWN_SPREAD)
    middle = median(rates)
    return replace(
        _throughput(rows[-1]),
        images_per_second=middle,
        low=min(min(rates), middle / factor),
        high=max(max(rates), middle * factor),
        evidence=tuple(_name(row) for row in rows),
    )


def _over_all(speeds: Sequence[Throughput]) -> Throughput:
    """The slowest, with an interval and evidence over all of them."""
    slowest = min(speeds, key=lambda speed: speed.images_per_second)
    evidence = tuple(dict.fromkeys(name for speed in speeds for name in speed.evidence))
    low, high = min(speed.low for speed in speeds), max(speed.high for speed in speeds)
    return replace(slowest, low=low, high=high, evidence=evidence)


class OwnAllowances:
    """What runs take around their training: what pilots have measured at a provider on a kind of machine, by the middle
    of the newest; elsewhere what others have reported. What was simulated tells nothing."""

    def __init__(self, rows: Sequence[OwnMeasurement]) -> None:
        self._rows: dict[tuple[str, str], dict[str, OwnMeasurement]] = {}
        for row in rows:
            provider = row.machine.partition("/")[0]
            if row.device and _is_likely(row.boot_seconds) and provider != CLUSTER and not is_simulated(provider):
                # A pilot that tried several settings has a row of each, and one boot.
                self._rows.setdefault((provider, device_kind(row.device)), {})[row.run_id] = row

    def __call__(self, provider: str, kind: str) -> Allowances:
        reported = allowances(provider, kind)
        newest = list(self._rows.get((provider, kind), {}).values())[-PILOTS_KEPT_IN_MIND:]
        if not newest:
            return reported
        boot = _of_pilots(row.boot_seconds for row in newest) or reported.boot
        start = _of_pilots(row.start_seconds for row in newest) or reported.start
        measured_on = max(row.measured_at for row in newest).date()
        return Allowances(boot, NOTHING, start, reported.end, len(newest), measured_on)


def _of_pilots(values: Iterable[float | None]) -> Interval | None:
    """The middle of what pilots measured, in whole seconds, with their spread; None where nobody told."""
    likely = [seconds for seconds in values if seconds is not None and _is_likely(seconds)]
    return measured(math.ceil(median(likely)), likely) if likely else None


def _is_likely(seconds: float | None) -> bool:
    return seconds is not None and 0 < seconds <= MOST_SETUP_SECONDS


def _name(row: OwnMeasurement) -> str:
    kind = "run" if row.machine.startswith(f"{CLUSTER}/") else "pilot"
    return f"{kind} {row.run_id} of {row.measured_at:%Y-%m-%d}"


def _of_device(row: OwnMeasurement) -> Measurement | None:
    """None for a job of another version that cannot be read."""
    try:
        job = job_from_json(row.job)
    except ValueError:
        return None
    if job.script is not None:  # it tells nothing of other jobs
        return None
    net = job.net() if job.is_layer_list else job.graph()
    return Measurement(
        id=_name(row),
        model=model_key(net),
        image_size_px=net.image_size,
        parameters_million=job.graph().parameters / 1e6,
        device=row.device,
        device_count=row.device_count,
        precision=str(job.precision),
        xla=job.xla,
        batch_per_device=job.micro_batch_size // row.device_count,
        framework=str(job.framework),
        images_per_second=row.images_per_second,
        measured_on=f"{row.measured_at:%Y-%m-%d}",
    )


class TaughtPredictor:
    """The predictor of the shipped measurements with what pilots of this home have measured."""

    def __init__(self, devices: Mapping[str, Device], rows: Sequence[OwnMeasurement]) -> None:
        """Raises MissingTableError where the shipped measurements have not been compiled."""
        self.plain = Predictor.open(devices)
        self._rented = RentedMeasurements(rows)
        self.around = OwnAllowances(rows)
        self._own = {row.id: row for row in self._rented.of_devices()}
        self._taught = Predictor.open(devices, own=tuple(self._own.values())) if self._own else None

    def close(self) -> None:
        """Close the databases of measurements."""
        self.plain.close()
        if self._taught is not None:
            self._taught.close()

    def there(self, job: TrainingJob, rental: Rental) -> Throughput | None:
        """The measured rate of this very job on this very machine; None where no pilot told."""
        return self._rented.there(job, rental)

    def predict(self, question: Question) -> Throughput | Unpredicted:
        """The throughput over all devices, or why none can be told. A pilot of another configuration counts where it
        tells more than the shipped measurements do."""
        plain = self.plain.predict(question)
        if self._taught is None or isinstance(plain, Unpredicted):
            return plain
        taught = self._taught.predict(question)
        if isinstance(taught, Unpredicted) or not self._own.keys() & set(taught.evidence):
            return plain
        if taught.basis is not Basis.MEASURED and taught.high / taught.low >= plain.high / plain.low:
            return plain
        days = sorted({self._own[name].measured_on for name in taught.evidence if name in self._own})
        return replace(taught, note=f"{taught.note} of {', '.join(days)}")
