"""What a job would take on this machine: from its own runs where there are some, else from the model."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.forecast.accumulation import parts_needed
from trainplan.planner.forecast.allowances import START_SECONDS
from trainplan.planner.forecast.estimate import Workload, run_time, with_restarts
from trainplan.planner.forecast.plan import MachineEstimate
from trainplan.planner.forecast.script_work import capped_time, unmeasured
from trainplan.planner.forecast.times import Interval, RunTime, assumed, joined, measured
from trainplan.planner.planning.calibration import (
    SHAPE_SPREAD,
    calibrated,
    load_calibrations,
    newest,
    processor_key,
    teaches,
)
from trainplan.planner.planning.load import Load
from trainplan.planner.planning.own_measurements import MOST_OTHERS, OwnMeasurement, at_rest, load_measurements
from trainplan.planner.planning.processor import Cores, cores_of
from trainplan.planner.throughput.host import UNSEEN_PROCESSOR_FACTOR, UNSEEN_PROCESSORS
from trainplan.planner.throughput.values import THIS_MACHINE, Basis, Question, Throughput
from trainplan.pricing.devices import CPU_DEVICE, UnknownDeviceError
from trainplan.pricing.money import PER_SECOND, UsdPerHour, amount
from trainplan.providers.hardware import canonical_device
from trainplan.workloads.job import Constraints, job_from_json
from trainplan.workloads.memory import FRAMEWORK_BYTES, GIB
from trainplan.workloads.recipe import AugmentSpec
from trainplan.workloads.terms import Framework

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trainplan.planner.planning.calibration import Calibration
    from trainplan.planner.settings import Settings
    from trainplan.planner.throughput.predict import Predictor
    from trainplan.pricing.devices import Device, DeviceTable
    from trainplan.providers.hardware import HostHardware
    from trainplan.workloads.job import TrainingJob

# An own run repeats within this factor at four times out of five; the spread over repeats of one configuration
# in the shipped measurements is 3.7 % in the median (profet EC2 data, medians of nine).
OWN_SPREAD = 1.08
# An allowance for fewer runs: whatever else the machine was busy with, one run cannot tell.
SPREAD_AFTER_RUNS = {1: 1.3, 2: 1.15}
MOST_MEASURED = 1.5
"""The widest interval, as a factor to either end, of a rate that is called measured."""
SHAPES_KEPT_IN_MIND = 8
# How many of the newest runs count: enough that one disturbed run is outvoted.
RUNS_KEPT_IN_MIND = 5
# From the request to the end of the first step on this machine's processor, and from the last step to nothing being
# left, in a container whose image is there or in a process (alike within a second): 5 to 8 and 3 to 5.5 seen with
# tensorflow 2.21 on 2 cores of an AMD EPYC (Zen 4), 2026-11-21; up to 12 where nothing is in the disk cache yet, and 18
# to import it beside other programs.
CPU_START_SECONDS = Interval(7, 5, 18)
LOCAL_END_SECONDS = Interval(4, 3, 5.5)


class Processor(NamedTuple):
    """This machine's processor: what the system tells of it (`read_cpuinfo`), and what other programs leave of it."""

    cpuinfo: str = ""
    load: Load = Load()


def shape_of(job: TrainingJob) -> str:
    """Names what makes two jobs run at the same speed: net, batch, precision, XLA, framework, data.

    Seed, epochs, learning rate and names are left out. Of a script nobody knows what changes its speed: it is named
    whole.
    """
    if job.script is not None:
        return job.digest()
    parts = {
        "net": _network(job),
        "image": [job.image_size, job.channels],
        "batch": [job.global_batch_size, job.accumulate],
        "precision": job.precision,
        "xla": job.xla,
        "framework": job.framework,
        "optimizer": job.optimizer.state,
        # How many images there are, and their bytes, change nothing of the speed.
        "data": job.model_dump(mode="json", include={"data"})["data"] | {"images": None, "size_bytes": None},
    }
    if job.is_layer_list and job.net().frozen:
        parts["frozen"] = job.net().frozen
    if job.augment != AugmentSpec():
        parts["augment"] = job.augment.model_dump(mode="json")
    if job.validation.every_epochs is not None:
        parts["validated_every"] = job.validation.every_epochs
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def shapes_of(job: TrainingJob) -> tuple[str, ...]:
    """The shapes of which a measurement tells of the job: its own. Of a sweep over a script those of its trials, and of
    the script without the arguments that are swept: what is known of one is taken to hold for all of them."""
    if job.script is None or job.sweep is None:
        return (shape_of(job),)
    plain = job.model_copy(update={"sweep": None})
    return tuple(map(shape_of, (plain, *(trial.job for trial in job.trials))))


def _network(job: TrainingJob) -> object:
    if not job.is_layer_list:
        return job.graph().digest
    return [asdict(layer) | {"kind": type(layer).__name__} for layer in job.net().layers]


def trained_job(job: TrainingJob) -> str:
    """The job as JSON, without a person's limits, container and secrets: what is kept with its measurement."""
    plain = {"name": "measured", "constraints": Constraints(), "secrets": {}, "container": None}
    return job.model_copy(update=plain).to_json()


def quote_this_machine(
    job: TrainingJob,
    machine: HostHardware,
    settings: Settings,
    predictor: Predictor,
    devices: DeviceTable,
    processor: Processor | None = None,
) -> MachineEstimate:
    """Time and cost here. Where nothing can be predicted, the reason stands in place of the time."""
    processor = processor or Processor()
    load = processor.load
    work = Workload(job)
    device, count = _gpus(machine, devices, job)
    name = device.name if device else CPU_DEVICE
    fits, reason = fits_on(work, machine, device, count)
    rows = load_measurements(settings.measurements)
    has_kinds = work.sweep is not None and job.script is None
    own = None if has_kinds else own_measurement(job, machine.fingerprint, rows)
    if job.script is not None and (own is None or not job.is_measured_script):
        return _unmeasured_here(job, machine, (name, count), settings)
    if work.sweep is not None and has_kinds:
        quotes = [quote_this_machine(one, machine, settings, predictor, devices, processor) for one in work.sweep.kinds]
        answer = work.sweep.of_each([quote.throughput for quote in quotes])
        fits, reason = next(((quote.fits, quote.reason) for quote in quotes if not quote.fits), (fits, reason))
    elif own is not None:
        answer = _own_throughput(own, _relevant_rows(job, machine.fingerprint, rows))
    else:
        cores = cores_of(processor.cpuinfo)
        predict = partial(predicted_on, machine=machine, on=(device, count), predictor=predictor, cores=cores)
        answer = predict(work)
        if answer is not None and device is None:
            calibrations = load_calibrations(settings.calibrations)
            row = newest(calibrations, processor_key(cores, machine), job.framework)
            answer = _for_this_processor(work, answer, _rows_of(machine, rows), row, predict)
    time = None
    if answer is not None and fits:
        start = START_SECONDS if device else CPU_START_SECONDS
        time = first_time(work, answer, start)
        if own is not None:
            time = _own_time(work, own, _relevant_rows(job, machine.fingerprint, rows), start, answer)
    cost = amount(UsdPerHour(settings.usd_per_hour), time.total, PER_SECOND) if time else None
    return MachineEstimate(
        name=machine.cpu_name,
        device=name,
        device_count=count,
        throughput=answer,
        time=time,
        usd_per_hour=settings.usd_per_hour,
        cost_usd=cost,
        fits=fits,
        reason=reason if not fits else "" if answer else "no throughput can be predicted for it",
        load="" if device else load.text,
    )


def _unmeasured_here(
    job: TrainingJob, machine: HostHardware, on: tuple[str, int], settings: Settings
) -> MachineEstimate:
    """A script of which no run has told anything here."""
    setup, after = (timedelta(seconds=part.expected) for part in (START_SECONDS, LOCAL_END_SECONDS))
    time = capped_time(job, setup, after)
    return MachineEstimate(
        name=machine.cpu_name,
        device=on[0],
        device_count=on[1],
        throughput=unmeasured(job),
        time=time,
        usd_per_hour=settings.usd_per_hour,
        cost_usd=amount(UsdPerHour(settings.usd_per_hour), time.total, PER_SECOND),
        fits=True,
    )


def _for_this_processor(
    work: Workload,
    answer: Throughput,
    rows: Sequence[OwnMeasurement],
    calibration: Calibration | None,
    predict: Callable[[Workload], Throughput | None],
) -> Throughput:
    """The model's answer scaled by own runs of other shapes, else by a calibration, else as it is."""
    scaled = _scaled_by_own(work, answer, rows, predict)
    if calibration is None or scaled.basis is not Basis.MODELLED:
        return scaled
    return calibrated(work, answer, calibration, predict)


def _rows_of(machine: HostHardware, rows: Sequence[OwnMeasurement]) -> list[OwnMeasurement]:
    return [row for row in rows if row.machine == machine.fingerprint]


def own_measurement(job: TrainingJob, fingerprint: str, rows: Sequence[OwnMeasurement]) -> OwnMeasurement | None:
    """What the newest measurements of this shape on this machine say together, as of a machine at rest; `others` is the
    most that other programs had during one of them.

    Those at rest tell more than those beside other programs, whole runs more than short measuring runs, and the middle
    of several more than one. It bears the id of the newest.
    """
    relevant = _relevant_rows(job, fingerprint, rows)
    if not relevant:
        return None
    return replace(
        relevant[-1],
        images_per_second=_median([row.idle_images_per_second for row in relevant]),
        others=max(row.others for row in relevant),
        setup_seconds=_middle(row.setup_seconds for row in relevant),
        per_epoch_seconds=_middle(row.per_epoch_seconds for row in relevant),
        after_seconds=_middle(row.after_seconds for row in relevant),
    )


def _relevant_rows(job: TrainingJob, fingerprint: str, rows: Sequence[OwnMeasurement]) -> list[OwnMeasurement]:
    shapes = shapes_of(job)
    fitting = [row for row in rows if row.shape in shapes and row.machine == fingerprint]
    rested = at_rest(fitting)
    whole = [row for row in rested if row.setup_seconds is not None]
    return (whole or rested)[-RUNS_KEPT_IN_MIND:]


def _middle(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return _median(numbers) if numbers else None


def _median(values: list[float]) -> float:
    # Not statistics.median: importing that takes a tenth of the time that an estimate has.
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _gpus(machine: HostHardware, devices: DeviceTable, job: TrainingJob) -> tuple[Device | None, int]:
    """The GPUs to train on, and how many the batch splits over; (None, 1): the processor.

    Sets as the local provider offers them: all GPUs of a kind, or a power of two of them.
    """
    if not machine.gpus:
        return None, 1
    name = machine.gpus[0].name
    device = devices.get(canonical_device(name, lambda spelling: _name_of(spelling, devices)))
    if device is None:
        return None, 1
    alike = sum(gpu.name == name for gpu in machine.gpus)
    counts = [alike, *(1 << power for power in reversed(range(alike.bit_length())))]
    if job.framework is Framework.TORCH:
        # The trainer uses one device with PyTorch.
        counts = [1]
    return device, next(count for count in counts if job.micro_batch_size % count == 0)


def _name_of(spelling: str, devices: DeviceTable) -> str | None:
    try:
        return devices.find(spelling).name
    except UnknownDeviceError:
        return None


def fits_on(work: Workload, machine: HostHardware, device: Device | None, count: int) -> tuple[bool, str]:
    """Whether a machine's memory is enough for the job on so many of its GPUs (None: its processor), else why not."""
    if device:
        usable_gib = device.usable_memory(machine.gpus[0].memory_gib, jax=work.job.framework is Framework.JAX).high_gib
    else:
        # On a host the framework lies in the same memory; what a GPU reports as usable is without it (ADR 9).
        usable_gib = machine.memory_gib - FRAMEWORK_BYTES / GIB
    needed_gib = work.device_bytes(work.job.micro_batch_size // count, "gpu" if device else "cpu").least / GIB
    if needed_gib > usable_gib:
        parts = parts_needed(work, usable_gib)
        instead = f"; accumulate: {parts} would fit" if parts else ""
        return False, f"needs {needed_gib:.1f} GiB of memory, {usable_gib:.1f} are usable{instead}"
    return True, ""


def _own_throughput(own: OwnMeasurement, rows: Sequence[OwnMeasurement]) -> Throughput:
    """The rate of own runs on a machine at rest. Where others had much of it, the interval reaches from what was seen
    to what an idle machine may do: what others had is known, what that cost the training is less so. What is known no
    better than within MOST_MEASURED is not called measured."""
    rate = own.images_per_second
    spread = _own_spread([row.idle_images_per_second for row in rows])
    is_loaded = own.others > MOST_OTHERS
    beside = f"measured while other programs had {own.others:.0%} of the processors: a run at rest is surer"
    low = min(rate / spread, min(row.images_per_second for row in rows) if is_loaded else rate)
    return Throughput(
        images_per_second=rate,
        low=low,
        high=rate * spread,
        basis=Basis.MEASURED if max(rate / low, spread) <= MOST_MEASURED else Basis.SCALED,
        evidence=(f"run {own.run_id} of {own.measured_at:%Y-%m-%d}",),
        note=beside if is_loaded else "",
    )


def _own_spread(rates: Sequence[float]) -> float:
    """The factor within which the next run of the same shape is: never less than what these runs have shown."""
    spread = math.sqrt(max(rates) / min(rates))
    return max(SPREAD_AFTER_RUNS.get(len(rates), OWN_SPREAD), spread)


def _scaled_by_own(
    work: Workload,
    answer: Throughput,
    rows: Sequence[OwnMeasurement],
    predict: Callable[[Workload], Throughput | None],
) -> Throughput:
    """The model's answer times what this machine did at rest of what the model says, in the middle of the shapes that
    were measured here and tell of this network.

    The interval is what is left between shapes once a machine is known; it reaches half-way to the model's own
    answer (as a factor), because what held the measured shape up need not hold up another.
    """
    # Rows come oldest first: of each shape the newest stays.
    rested = [row for row in rows if row.job and row.images_per_second > 0 and row.others <= MOST_OTHERS]
    newest = {row.shape: row for row in rested}
    ratios = []
    for row in list(newest.values())[-SHAPES_KEPT_IN_MIND:]:
        measured = _measured_work(row)
        if measured is None or measured.job.framework is not work.job.framework or not teaches(measured.job, work.job):
            continue
        prediction = predict(measured)
        if prediction is not None:
            ratios.append(row.idle_images_per_second / prediction.images_per_second)
    if not ratios:
        return answer
    factor = _median(ratios)
    rate = answer.images_per_second * factor
    half_way = math.sqrt(rate * answer.images_per_second)
    spread = max(SHAPE_SPREAD, math.sqrt(max(ratios) / min(ratios)))
    return replace(
        answer,
        images_per_second=rate,
        low=min(rate / spread, half_way),
        high=max(rate * spread, half_way),
        basis=Basis.SCALED,
        note=f"this machine did {factor:.2f} times what the model predicts, by own runs of {len(ratios)} other shapes",
    )


def _measured_work(row: OwnMeasurement) -> Workload | None:
    """None for a job of another version that cannot be read."""
    try:
        job = job_from_json(row.job)
        return None if job.script is not None else Workload(job)
    except ValueError:
        return None


def predicted_on(
    work: Workload, machine: HostHardware, on: tuple[Device | None, int], predictor: Predictor, cores: Cores
) -> Throughput | None:
    """What the model says of the job on so many GPUs of a machine (None: on its processor with such cores); None where
    it says nothing."""
    if work.sweep is not None:
        return work.sweep.of_each([predicted_on(one, machine, on, predictor, cores) for one in work.kinds])
    job, (device, count) = work.job, on
    answer = predictor.predict(
        Question(
            net=job.net() if job.is_layer_list else job.graph(),
            device=device.name if device else THIS_MACHINE,
            device_count=count,
            interconnect=device.interconnect if device else None,
            vcpus=None if device else max(1, round(machine.vcpus * cores.share)),
            batch_per_device=max(1, job.micro_batch_size // count),
            precision=job.precision,
            xla=job.xla,
            framework=job.framework,
        )
    )
    if not isinstance(answer, Throughput) or device:
        return answer if isinstance(answer, Throughput) else None
    answer = answer if cores.speed == 1 else _faster(answer, cores.speed)
    return answer if cores.is_measured else _unseen(answer)


def _unseen(answer: Throughput) -> Throughput:
    """Return an interval as wide as the model's errors on processors that it was not fitted to."""
    rate, factor = answer.images_per_second, UNSEEN_PROCESSOR_FACTOR
    note = f"{answer.note}; nobody measured this processor: as wide as the errors of {UNSEEN_PROCESSORS} others"
    return replace(answer, low=rate / factor, high=rate * factor, note=note)


def _faster(answer: Throughput, times: float) -> Throughput:
    return replace(
        answer,
        images_per_second=answer.images_per_second * times,
        low=answer.low * times,
        high=answer.high * times,
        note=f"{answer.note}; by clock and vector width, a core here does {times:.2f} times what the measured one does",
    )


def first_time(work: Workload, throughput: Throughput, start: Interval) -> RunTime:
    """The run of which nothing is known but its throughput, and what its start takes in seconds."""
    return with_restarts(run_time(work, throughput, _setup(work, start), LOCAL_END_SECONDS), work, start)


def _setup(work: Workload, start: Interval) -> Interval:
    # A folder of the person's own is here already.
    return joined(start, assumed(work.download_seconds)) if work.job.known_data else start


def _own_time(
    work: Workload, own: OwnMeasurement, rows: Sequence[OwnMeasurement], start: Interval, throughput: Throughput
) -> RunTime:
    """The whole run, with what earlier ones (`rows`, `own` in their middle) took beside their steps; of what they do
    not tell as much as of a first run."""
    setup = _of_runs(own.setup_seconds, [row.setup_seconds for row in rows])
    after = _of_runs(own.after_seconds, [row.after_seconds for row in rows])
    each = own.per_epoch_seconds
    time = run_time(work, throughput, setup or _setup(work, start), after or LOCAL_END_SECONDS, validates=each is None)
    time = with_restarts(time, work, setup or start)
    if after is not None:  # the last test is in it
        time = replace(time, after=timedelta(seconds=after.expected))
    if each is None:
        return time
    beside = timedelta(seconds=each * (work.job.epochs if work.sweep is None else work.sweep.trainings))
    return time.with_train(time.train + beside, time.train_low + beside * work.earliest_share, time.train_high + beside)


def _of_runs(middle: float | None, values: Sequence[float | None]) -> Interval | None:
    return None if middle is None else measured(middle, [value for value in values if value is not None])
