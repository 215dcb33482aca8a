"""What a job takes on this machine: what was measured here first, else what the model says, else why not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders import DEVICES, a_job, a_script, a_throughput
from tests.doubles.clock import NOON
from trainplan.planner.forecast.allowances import START_SECONDS
from trainplan.planner.forecast.plan import MachineEstimate
from trainplan.planner.planning.calibration import Calibration, processor_key
from trainplan.planner.planning.load import Load
from trainplan.planner.planning.own_measurements import OwnMeasurement
from trainplan.planner.planning.own_rows import add_row
from trainplan.planner.planning.processor import cores_of
from trainplan.planner.planning.this_machine import (
    CPU_START_SECONDS,
    LOCAL_END_SECONDS,
    Processor,
    own_measurement,
    quote_this_machine,
    shape_of,
    trained_job,
)
from trainplan.planner.settings import Settings
from trainplan.planner.throughput.values import THIS_MACHINE, Basis, Throughput, Unpredicted
from trainplan.pricing.devices import DeviceTable
from trainplan.providers.hardware import Gpu, HostHardware
from trainplan.providers.local.offers import OwnPrice, offers
from trainplan.workloads.job import TrainingJob, job_from_json

ZEN4 = "vendor_id: AuthenticAMD\ncpu family: 25\nflags: avx avx2 fma avx512f\n"
MACHINE = HostHardware(system="linux", architecture="x86_64", cpu_name="AMD EPYC", vcpus=2, memory_gib=24.0)


def with_gpus(*names: str, memory_gib: float = 16.0) -> HostHardware:
    gpus = tuple(Gpu(index=index, name=name, memory_gib=memory_gib) for index, name in enumerate(names))
    return replace(MACHINE, gpus=gpus)


def a_row(**changes: Any) -> OwnMeasurement:
    base = OwnMeasurement(
        machine=MACHINE.fingerprint, shape=shape_of(a_job()), images_per_second=500.0, setup_seconds=6.0,
        per_epoch_seconds=0.5, after_seconds=4.0, measured_at=NOON, run_id="run-1", framework="tensorflow 2.20.0",
    )  # fmt: skip
    return replace(base, **changes)


class Says:
    """A predictor of few words."""

    def __init__(self, answer: Throughput | Unpredicted) -> None:
        self.answer = answer
        self.requests: list[Any] = []

    def predict(self, question: Any) -> Throughput | Unpredicted:
        self.requests.append(question)
        return self.answer


def quote(
    tmp_path: Path,
    *rows: OwnMeasurement,
    job: TrainingJob | None = None,
    predictor: Says | None = None,
    usd_per_hour: str = "0",
    machine: HostHardware | None = None,
    cpuinfo: str = ZEN4,
) -> MachineEstimate:
    settings = Settings(home=tmp_path, usd_per_hour=Decimal(usd_per_hour))
    for row in rows:
        add_row(settings.measurements, row)
    says: Any = predictor or Says(a_throughput(100.0, Basis.MODELLED))
    return quote_this_machine(
        job or a_job(), machine or MACHINE, settings, says, DeviceTable(DEVICES.values()), Processor(cpuinfo)
    )


def test_a_measurement_of_this_machine_comes_before_any_model(tmp_path: Path) -> None:
    predictor = Says(a_throughput(1.0))
    found = quote(tmp_path, a_row(), predictor=predictor)
    assert found.throughput is not None
    assert (found.throughput.basis, found.throughput.images_per_second) == (Basis.MEASURED, 500.0)
    assert predictor.requests == []


def test_the_time_is_that_of_the_run_before_by_hand(tmp_path: Path) -> None:
    """2 epochs of 390 steps of 128 at 500 a second, half a second beside each epoch."""
    time = quote(tmp_path, a_row()).time
    assert time is not None
    train = 2 * 390 * 128 / 500
    assert (time.setup, time.after) == (timedelta(seconds=6), timedelta(seconds=4))
    assert time.train == timedelta(seconds=train + 2 * 0.5)
    assert time.total == timedelta(seconds=6 + train + 1 + 4)
    # One run does not tell how far the next is off; three alike do.
    assert time.train_low.total_seconds() == pytest.approx(train / 1.3 + 1)
    assert time.train_high.total_seconds() == pytest.approx(train * 1.3 + 1)


@pytest.mark.parametrize("beside", [None, 3.0])
def test_a_sweep_of_a_script_takes_its_rungs_at_the_rate_of_a_trial_by_hand(
    tmp_path: Path, beside: float | None
) -> None:
    """Three trials to a third and one to the end, each in a process of its own."""
    job = a_script(checkpoints=True, sweep={"args.lr": [0.3, 0.1, 0.03], "maximize": "score"}).with_work(9_000)
    row = a_row(shape=shape_of(job.trials[0].job), setup_seconds=2.0, per_epoch_seconds=beside)
    time = quote(tmp_path, row, job=job).time
    assert time is not None
    trainings, restarts = 3 * 1 / 3 + 2 / 3, 4  # the last writes the output
    train = trainings * 9_000 / 500 + restarts * 2.0 + trainings * (beside or 0.0)
    assert time.train.total_seconds() == pytest.approx(train)
    assert time.total.total_seconds() == pytest.approx(2 + train + 4)


@pytest.mark.parametrize(
    ("rates", "spread"),
    [([500], 1.3), ([500, 500], 1.15), ([500, 500, 500], 1.08), ([500, 400, 625], 1.25), ([500, 1000], 2**0.5)],
)
def test_the_interval_of_own_runs_hangs_on_how_many_there_are_and_on_what_they_show(
    tmp_path: Path, rates: list[float], spread: float
) -> None:
    found = quote(tmp_path, *(a_row(images_per_second=float(rate)) for rate in rates)).throughput
    assert found is not None
    assert found.high / found.images_per_second == pytest.approx(spread)
    assert found.images_per_second / found.low == pytest.approx(spread)


def test_a_measurement_beside_other_programs_is_of_a_machine_at_rest_and_wide(tmp_path: Path) -> None:
    """26 images/s were kept as measured where others had four fifths; the next run did 134."""
    found = quote(tmp_path, a_row(images_per_second=26.1, others=0.8)).throughput
    assert found is not None
    assert found.images_per_second == pytest.approx(130.5)
    assert (found.low, found.basis) == (26.1, Basis.SCALED)
    assert found.high > 134
    assert "while other programs had 80% of the processors" in found.note


@pytest.mark.parametrize("setup_seconds", [6.0, None])
def test_a_measurement_beside_other_programs_does_not_replace_a_better_one(
    tmp_path: Path, setup_seconds: float | None
) -> None:
    """Neither a later one, nor a whole run where the better one was a short run that only measured."""
    rested = a_row(run_id="rested", setup_seconds=setup_seconds)
    found = quote(tmp_path, rested, a_row(images_per_second=90.0, others=0.8, run_id="loaded")).throughput
    assert found is not None
    assert (found.images_per_second, found.note) == (500.0, "")
    assert found.evidence == ("run rested of 2026-11-21",)


@pytest.mark.parametrize("now", [1.0, 0.5, 0.03])
@pytest.mark.parametrize(("others", "basis"), [(0.0, Basis.MEASURED), (0.3, Basis.MEASURED), (0.5, Basis.SCALED)])
def test_what_was_measured_under_load_is_corrected_once_whatever_runs_now(
    tmp_path: Path, now: float, others: float, basis: Basis
) -> None:
    """200 images/s at rest, of which a run had what others left."""
    settings = Settings(home=tmp_path)
    add_row(settings.measurements, a_row(images_per_second=200.0 * (1 - others), others=others))
    says: Any = Says(a_throughput(1.0))
    busy = Processor(ZEN4, Load(free_share=now))
    found = quote_this_machine(a_job(), MACHINE, settings, says, DeviceTable(DEVICES.values()), busy)
    assert found.throughput is not None
    assert found.throughput.images_per_second == pytest.approx(200.0)
    assert found.throughput.basis is basis
    assert found.load == ("" if now == 1 else f"slower while other programs run (now: {now:.0%} free)")
    assert found.time == quote(tmp_path, cpuinfo=ZEN4).time, "the row is of the machine at rest"


def test_nothing_is_called_measured_that_is_known_within_more_than_a_half(tmp_path: Path) -> None:
    rows = [
        a_row(images_per_second=rate, others=others) for rate in (30.0, 300.0, 1_200.0) for others in (0.0, 0.2, 0.97)
    ]
    for number in range(1, len(rows) + 1):
        found = quote(tmp_path / str(number), *rows[:number]).throughput
        assert found is not None
        width = max(found.high / found.images_per_second, found.images_per_second / found.low)
        assert (found.basis is Basis.MEASURED) == (width <= 1.5)


def test_another_shape_is_scaled_by_what_was_measured_at_rest(tmp_path: Path) -> None:
    other = a_job(global_batch_size=64)
    base = a_row(shape=shape_of(other), job=trained_job(other))
    rows = (replace(base, images_per_second=50.0), replace(base, images_per_second=9.0, others=0.8))
    found = quote(tmp_path, *rows).throughput
    assert found is not None
    assert found.images_per_second == 50.0
    loaded = quote(tmp_path / "loaded", rows[1]).throughput  # alone it tells of its own job only
    assert loaded is not None
    assert (loaded.basis, loaded.images_per_second) == (Basis.MODELLED, 100.0)


def test_the_number_of_images_is_no_part_of_a_measured_shape() -> None:
    """After a measurement with 2,000 images, 1,500 of them were estimated ten times too fast."""
    data = {"path": "images", "channels": 1}
    model = {"layers": [8, "M"], "image_size": 16, "classes": 3}
    shapes = {shape_of(a_job(data=data | more, model=model)) for more in ({"images": 2000}, {"images": 1500}, {})}
    assert len(shapes) == 1
    assert shape_of(a_job(data={"path": "others", "channels": 1}, model=model)) not in shapes


def test_another_shape_is_scaled_by_what_was_measured_here(tmp_path: Path) -> None:
    """The model says 100 for every net, and 50 were measured."""
    other = a_job(global_batch_size=64)
    row = a_row(shape=shape_of(other), images_per_second=50.0, job=trained_job(other))
    found = quote(tmp_path, row).throughput
    assert found is not None
    assert (found.basis, found.images_per_second) == (Basis.SCALED, 50.0)
    assert (found.low, found.high) == (50 / 1.25, pytest.approx(5000**0.5))
    assert "0.50 times what the model predicts, by own runs of 1 other shapes" in found.note


def test_shapes_of_another_machine_or_framework_say_nothing(tmp_path: Path) -> None:
    other = a_job(global_batch_size=64)
    kept = a_row(shape=shape_of(other), images_per_second=50.0, job=trained_job(other))
    jax = a_job(global_batch_size=64, framework="jax")
    rows = [
        replace(kept, machine="another"),
        replace(kept, job=""),
        replace(kept, job="{}"),
        replace(kept, shape=shape_of(jax), job=trained_job(jax)),
    ]
    for number, row in enumerate(rows):
        found = quote(tmp_path / str(number), row).throughput
        assert found == a_throughput(100.0, Basis.MODELLED)


def test_a_kept_job_has_no_secrets_and_no_limits_of_a_person() -> None:
    job = a_job(secrets={"TOKEN": "aws-sm:arn:aws:secretsmanager:us-east-1:1:secret:x"}, constraints={"budget_usd": 5})
    assert "aws-sm" not in trained_job(job)
    assert shape_of(job_from_json(trained_job(job))) == shape_of(job)


def test_what_a_measuring_run_does_not_tell_is_allowed_for(tmp_path: Path) -> None:
    row = a_row(setup_seconds=None, per_epoch_seconds=None, after_seconds=None)
    time = quote(tmp_path, row).time
    assert time is not None
    # CIFAR-10 has 170,498,071 bytes to fetch, and 10,000 images to test at three times the rate.
    assert time.setup.total_seconds() == pytest.approx(CPU_START_SECONDS.expected + 1.705, abs=0.001)
    assert time.after.total_seconds() == pytest.approx(LOCAL_END_SECONDS.expected + 10_000 / 1500, abs=0.001)
    # The hold-out is tested behind every second epoch: a fifth of the images at a third of the cost is 7 %, over 5 %.
    assert time.train.total_seconds() == pytest.approx((2 * 390 * 128 + 10_000 / 3) / 500)


def test_without_a_measurement_the_model_is_asked_for_this_machine(tmp_path: Path) -> None:
    predictor = Says(a_throughput(100.0, Basis.MODELLED))
    found = quote(tmp_path, predictor=predictor)
    assert found.throughput == predictor.answer
    (asked,) = predictor.requests
    assert (asked.device, asked.device_count, asked.batch_per_device) == (THIS_MACHINE, 1, 128)
    assert (asked.vcpus, asked.interconnect) == (2, None)
    assert (found.name, found.device, found.device_count) == ("AMD EPYC", "cpu", 1)


def test_a_core_of_half_the_clock_does_half_and_two_threads_are_one_core(tmp_path: Path) -> None:
    predictor = Says(a_throughput(100.0, Basis.MODELLED))
    slow = f"{ZEN4}bogomips: 2596\nsiblings: 4\ncpu cores: 2\n"
    found = quote(tmp_path, predictor=predictor, machine=replace(MACHINE, vcpus=4), cpuinfo=slow)
    assert found.throughput is not None
    assert (found.throughput.images_per_second, found.throughput.low, found.throughput.high) == (50.0, 25.0, 100.0)
    assert "0.50 times" in found.throughput.note
    (asked,) = predictor.requests
    assert asked.vcpus == 2


def test_a_processor_nobody_measured_is_as_wide_as_the_errors_of_others(tmp_path: Path) -> None:
    found = quote(tmp_path, cpuinfo="vendor_id: GenuineIntel\nflags: avx avx2 fma avx512f\nbogomips: 5192\n").throughput
    assert found is not None
    assert found.images_per_second == 100.0
    assert (found.low, found.high) == (pytest.approx(100 / 5.8), pytest.approx(580.0))
    assert "as wide as the errors of 3 others" in found.note


def test_the_row_of_a_job_that_was_never_run_here_is_of_the_machine_at_rest(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    says: Any = Says(a_throughput(100.0, Basis.MODELLED))
    processor = Processor(ZEN4, Load(free_share=0.5))
    found = quote_this_machine(a_job(), MACHINE, settings, says, DeviceTable(DEVICES.values()), processor)
    assert found.throughput is not None
    assert (found.throughput.low, found.throughput.images_per_second, found.throughput.high) == (50.0, 100.0, 200.0)
    assert found.load == "slower while other programs run (now: 50% free)"


def test_a_calibration_scales_what_the_model_says_until_an_own_run_does(tmp_path: Path) -> None:
    other = a_job(global_batch_size=64)
    key = processor_key(cores_of(ZEN4), MACHINE)
    kept = Calibration(
        processor=key, images_per_second=40.0, others=0.25, framework="tensorflow 2.21.0", measured_at=NOON,
        job=trained_job(other),
    )  # fmt: skip
    add_row(Settings(home=tmp_path).calibrations, kept)
    found = quote(tmp_path).throughput
    assert found is not None
    # 40 with four fifths of the machine are 50 on all of it; another batch than the calibration's.
    assert (found.basis, found.images_per_second) == (Basis.SCALED, 50.0)
    # No less than what was seen, no more than if the others had gone first.
    assert (found.low, found.high) == (40 / 1.25, pytest.approx(40 / 0.75 * 1.25))
    row = a_row(shape=shape_of(other), images_per_second=70.0, job=trained_job(other))
    own = quote(tmp_path, row).throughput
    assert own is not None
    assert own.images_per_second == 70.0


def test_a_gpu_does_not_hang_on_the_processor(tmp_path: Path) -> None:
    slow = "flags: avx2 fma\nbogomips: 2596\n"
    found = quote(tmp_path, machine=with_gpus("Tesla T4"), cpuinfo=slow)
    assert found.throughput is not None
    assert found.throughput.images_per_second == 100.0
    assert found.time is not None
    assert found.time.setup.total_seconds() == pytest.approx(START_SECONDS.expected + 1.705, abs=0.001)


def test_an_hour_here_costs_what_the_owner_says(tmp_path: Path) -> None:
    found = quote(tmp_path, a_row(), usd_per_hour="3600")
    assert found.time is not None
    # 210.68 s: the second that was begun is paid.
    assert found.cost_usd == 211
    assert quote(tmp_path, a_row()).cost_usd == 0


def test_what_cannot_be_predicted_has_no_time_and_says_why(tmp_path: Path) -> None:
    found = quote(tmp_path, predictor=Says(Unpredicted(reason="no_cpu_data")))
    assert (found.time, found.cost_usd, found.throughput, found.fits) == (None, None, None, True)
    assert found.reason == "no throughput can be predicted for it"


def test_a_batch_that_does_not_fit_has_no_time_and_says_what_it_needs(tmp_path: Path) -> None:
    huge = a_job(model={"preset": "vgg19", "image_size": 4096}, global_batch_size=1_048_576)
    found = quote(tmp_path, job=huge)
    assert (found.time, found.cost_usd, found.fits) == (None, None, False)
    assert found.reason.startswith("needs ")
    assert found.reason.endswith("GiB of memory, 23.5 are usable")


def test_of_several_measurements_the_newest_of_this_shape_and_machine_counts() -> None:
    job = a_job()
    rows = [
        a_row(run_id="old"),
        a_row(run_id="new"),
        a_row(run_id="elsewhere", machine="another"),
        a_row(run_id="other", shape="another"),
        a_row(run_id="short", setup_seconds=None),
    ]

    def chosen(*measurements: OwnMeasurement) -> str | None:
        row = own_measurement(job, MACHINE.fingerprint, measurements)
        return row.run_id if row else None

    assert chosen(*rows) == "new"
    assert chosen(rows[4]) == "short"
    assert chosen(rows[2], rows[3]) is None


def test_the_middle_of_the_newest_five_runs_counts() -> None:
    """One run that something disturbed is outvoted, and what is older than the newest five is forgotten."""
    rates = [1.0, 500.0, 510.0, 100.0, 520.0, 490.0]
    rows = [a_row(images_per_second=rate, setup_seconds=rate / 100, run_id=f"run-{rate:.0f}") for rate in rates]
    found = own_measurement(a_job(), MACHINE.fingerprint, rows)
    assert found is not None
    assert (found.images_per_second, found.setup_seconds, found.run_id) == (500.0, 5.0, "run-490")
    pair = own_measurement(a_job(), MACHINE.fingerprint, rows[1:3])
    assert pair is not None
    assert pair.images_per_second == 505.0


def test_the_shape_of_two_nets_with_the_same_layers_is_the_same() -> None:
    by_name = a_job(model={"preset": "vgg11"})
    by_list = a_job(model={"layers": [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"]})
    assert shape_of(by_name) == shape_of(by_list)
    assert by_name.digest() != by_list.digest()


# --- GPUs --------------------------------------------------------------------------------------------------------

V100 = "Tesla V100"


@pytest.mark.parametrize(
    ("names", "batch", "device", "count"),
    [
        (["Tesla T4"], 128, "T4", 1),
        (["NVIDIA T4"], 128, "T4", 1),
        ([V100] * 4, 128, "V100", 4),
        # Sets as the local provider offers them: all, or a power of two, over which the batch splits.
        ([V100] * 3, 128, "V100", 2),
        ([V100] * 3, 129, "V100", 3),
        ([V100] * 4, 130, "V100", 2),
        ([V100] * 8, 132, "V100", 4),
        ([V100] * 4, 127, "V100", 1),
        ([V100, V100, "Tesla T4"], 128, "V100", 2),
        (["Voodoo 2"], 128, "cpu", 1),
        ([], 128, "cpu", 1),
    ],
)
def test_the_gpus_of_one_kind_over_which_the_batch_splits(
    tmp_path: Path, names: list[str], batch: int, device: str, count: int
) -> None:
    predictor = Says(a_throughput(100.0))
    machine = with_gpus(*names)
    found = quote(tmp_path, machine=machine, job=a_job(global_batch_size=batch), predictor=predictor)
    assert (found.device, found.device_count, found.fits) == (device, count, True)
    (asked,) = predictor.requests
    assert (asked.device, asked.device_count) == (THIS_MACHINE if device == "cpu" else device, count)
    assert asked.batch_per_device == batch // count
    assert asked.vcpus == (2 if device == "cpu" else None)


def test_what_is_quoted_can_be_launched(tmp_path: Path) -> None:
    """The offer of that device and count is among those that the local provider makes."""
    names = {"Tesla V100": "V100", "V100": "V100"}
    for count in (1, 2, 3, 4, 6, 8):
        machine = with_gpus(*[V100] * count)
        price = OwnPrice(usd_per_hour=Decimal(0), as_of=NOON.date())
        offered = {(offer.device, offer.device_count) for offer in offers(machine, price, names.get)}
        for batch in (1, 2, 3, 127, 128, 129, 130, 132):
            found = quote(tmp_path, machine=machine, job=a_job(global_batch_size=batch))
            assert (found.device, found.device_count) in offered


def test_the_batch_has_to_fit_the_gpu_and_not_the_host(tmp_path: Path) -> None:
    job = a_job(model={"preset": "vgg16", "image_size": 224}, global_batch_size=256)
    small = quote(tmp_path, machine=with_gpus("Tesla T4", memory_gib=8.0), job=job)
    assert (small.fits, small.time) == (False, None)
    assert small.reason.endswith("GiB of memory, 7.4 are usable; accumulate: 4 would fit")
    assert quote(tmp_path, machine=with_gpus(*["Tesla T4"] * 4, memory_gib=8.0), job=job).fits
