"""Whether a batch fits: what was seen to run fits, and the parts add up."""

from __future__ import annotations

import csv
import statistics
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT
from tests.rows import each_row
from trainplan.pricing.compile import TEXT_DIR
from trainplan.pricing.device_text import read_devices
from trainplan.pricing.devices import USABLE_SHARE, Architecture, UnknownDeviceError
from trainplan.workloads import memory
from trainplan.workloads.layers import Conv, Dense, Flatten, Net
from trainplan.workloads.memory import FRAMEWORK_BYTES, GIB, WORKSPACE_BYTES, is_tight
from trainplan.workloads.terms import Framework
from trainplan.workloads.vgg import VGG_DENSE, VGG_FEATURES, Head, mnist_cnn, vgg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainplan.pricing.devices import DeviceTable

# What PyTorch takes beside: test_memory_peaks.py.
footprint = partial(memory.footprint, framework=Framework.TENSORFLOW)
largest_batch = partial(memory.largest_batch, framework=Framework.TENSORFLOW)
accumulation = partial(memory.accumulation, framework=Framework.TENSORFLOW)


def a_vgg(name: str, size: int = 224) -> Net:
    plain = name.removesuffix("_bn")
    head = Head(dense=VGG_DENSE, dropout=0.5, classes=1000)
    return vgg(name, VGG_FEATURES[plain], head, (size, 3), batch_norm=name != plain)


# 4x4x1 -> conv 2 filters -> 4x4x2 -> flatten -> dense 3: 20 and 99 parameters.
TINY = Net(name="tiny", image_size=4, channels=1, layers=(Conv(filters=2), Flatten(), Dense(units=3, softmax=True)))


def test_a_tiny_net_by_hand() -> None:
    """Fullest at the dense layer: image 16, conv 32, dense 3, gradients of 3 and 32. (At the conv: 16 + 32 + 32.)"""
    found = footprint(TINY, 10, "fp32", "sgd")
    assert found.weights == found.gradients == found.optimizer == 4 * 119
    assert found.activations == 4 * 10 * (16 + 32 + 3 + 3 + 32)
    assert (found.workspace, found.framework) == (WORKSPACE_BYTES, FRAMEWORK_BYTES)
    assert found.total == 3 * 4 * 119 + found.activations + WORKSPACE_BYTES + FRAMEWORK_BYTES


def test_what_the_backward_pass_has_passed_is_free() -> None:
    """One wide layer first, many narrow ones after: the wide one's gradient comes when those are gone."""
    wide = Net(name="n", image_size=8, channels=1, layers=(Conv(filters=100), *(Conv(filters=1),) * 50))
    image, first, later = 64, 6400, 64
    at_the_first = image + first + first
    at_the_second = image + first + later + later + first
    assert footprint(wide, 1, "fp32", "sgd").activations == 4 * max(at_the_first, at_the_second)


def test_mixed_precision_halves_activations_and_keeps_both_copies_of_the_weights() -> None:
    full, mixed = footprint(TINY, 10, "fp32", "sgd"), footprint(TINY, 10, "amp_fp16", "sgd")
    assert 2 * mixed.activations == full.activations
    assert 2 * mixed.gradients == full.gradients
    assert mixed.weights == full.weights + 2 * 119
    assert footprint(TINY, 10, "amp_bf16", "sgd") == mixed
    assert footprint(TINY, 10, "tf32", "sgd") == full


def test_adam_keeps_two_slots() -> None:
    assert footprint(TINY, 1, "fp32", "adam").optimizer == 2 * footprint(TINY, 1, "fp32", "sgd").optimizer
    assert footprint(TINY, 1, "fp32", "rmsprop") == footprint(TINY, 1, "fp32", "adam")


def test_moving_statistics_count_as_weights() -> None:
    net = mnist_cnn(10, (28, 1))
    assert footprint(net, 1, "fp32", "sgd").weights == 4 * 695_882


@pytest.mark.parametrize("precision", ["fp32", "amp_fp16"])
@pytest.mark.parametrize("name", ["vgg11", "vgg16_bn", "vgg19"])
def test_a_larger_batch_takes_more(name: str, precision: str) -> None:
    net = a_vgg(name, 64)
    totals = [footprint(net, batch, precision, "sgd").total for batch in (1, 2, 3, 64, 65, 1024)]
    assert totals == sorted(set(totals))


@pytest.mark.parametrize("memory_gib", [0.0, 0.5, 2.8, 8.0, 11.9, 16.0, 141.0])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_largest_batch_fits_and_one_more_does_not(memory_gib: float, optimizer: str) -> None:
    net = a_vgg("vgg16")
    batch = largest_batch(net, memory_gib, "fp32", optimizer)
    assert batch == 0 or footprint(net, batch, "fp32", optimizer).least <= memory_gib * GIB
    assert footprint(net, batch + 1, "fp32", optimizer).least > memory_gib * GIB


def test_a_step_is_tight_within_eight_per_cent_of_what_is_usable() -> None:
    assert is_tight(9.3 * GIB, 10.0)
    assert not is_tight(9.1 * GIB, 10.0)


def test_vgg16_on_a_16_gib_device_takes_between_one_and_three_hundred_images() -> None:
    assert 100 <= largest_batch(a_vgg("vgg16"), 16.0, "fp32", "sgd") <= 300


def _measured_vgg_rows() -> Iterator[dict[str, str]]:
    with (ROOT / "planner/throughput/data/measurements.csv").open(encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            name = row["model"].lower().split()[0].replace("-", "")
            known = name.removesuffix("_bn") in VGG_FEATURES
            if known and row["mode"] == "train" and row["batch_per_device"]:
                yield row | {"model": name}


def _usable_gib(row: dict[str, str], devices: DeviceTable) -> float | None:
    try:
        device = devices.find(row["device"])
    except UnknownDeviceError:
        return None
    memory_gib = float(row["device_memory_gb"]) if row["device_memory_gb"] else device.memory_gib
    return None if memory_gib is None else device.usable_memory(memory_gib).high_gib


def test_everything_that_was_seen_to_run_fits() -> None:
    """Without the momentum of the optimizer: the sources say "SGD" and not whether it keeps one."""
    devices, _ = read_devices(TEXT_DIR / "devices.toml")
    checked, refused = 0, []
    for row in _measured_vgg_rows():
        usable_gib = _usable_gib(row, devices)
        if usable_gib is None:
            continue
        precision = {"fp16": "amp_fp16", "bf16": "amp_bf16"}.get(row["precision"], row["precision"])
        net = a_vgg(row["model"], int(row["image_size_px"]))
        xla = row["xla"] == "yes"
        step = footprint(net, int(row["batch_per_device"]), precision, "sgd", xla=xla)
        needed = (step.least - step.optimizer) / GIB
        checked += 1
        if needed > usable_gib:
            refused.append(f"{row['id']}: {needed:.2f} of {usable_gib} GiB")
    assert not refused
    assert checked > 700


@pytest.mark.parametrize(("precision", "ran", "ran_out"), [("fp32", 64, 128), ("amp_fp16", 128, 256)])
def test_what_ran_out_of_memory_on_an_rtx_3080_is_refused(precision: str, ran: int, ran_out: int) -> None:
    """VGG16 at 224 px on 10 GB (a measurement that was kept from every fit): the smaller batch ran, the larger not."""
    usable_gib = _devices()["RTX 3080"].usable_memory(10).high_gib
    assert ran <= largest_batch(a_vgg("vgg16"), usable_gib, precision, "sgd") < ran_out


def test_what_tensorflow_has_no_memory_for_on_a_t4_is_refused() -> None:
    """TensorFlow reports 13,627 to 13,942 MiB on a T4; a batch of 256 ran without momentum, 288 needs 15,000."""
    step = footprint(a_vgg("vgg11", 256), 288, "fp32", "sgd")
    usable = _devices()["T4"].usable_memory(16)
    assert usable.high_gib * 1024 == pytest.approx(13_942)
    assert step.least - step.optimizer > usable.high_gib * GIB


def test_an_unknown_device_is_taken_to_be_like_the_others() -> None:
    known = [
        device.usable_memory_mib[1] / 1024 / device.memory_gib
        for device in _devices().values()
        if device.usable_memory_mib and device.memory_gib and device.architecture is not Architecture.TPU
    ]
    assert statistics.median(known) == pytest.approx(USABLE_SHARE, abs=0.02)
    assert _devices()["A40"].usable_memory(48).high_gib == pytest.approx(USABLE_SHARE * 48)


def test_a_part_of_a_device_has_its_part_of_what_is_usable() -> None:
    device = _devices()["L4"]
    assert device.usable_memory(22.4) == device.usable_memory(24)
    assert device.usable_memory(12).high_gib == pytest.approx(device.usable_memory(24).high_gib / 2)


def test_jax_takes_three_quarters_of_a_gpu_and_all_of_a_tpu() -> None:
    devices = _devices()
    assert devices["A100-80GB"].usable_memory(80, jax=True).high_gib == pytest.approx(60)
    assert devices["TPU v5e"].usable_memory(16, jax=True) == devices["TPU v5e"].usable_memory(16)


def _devices() -> DeviceTable:
    return read_devices(TEXT_DIR / "devices.toml")[0]


XLA_TABLE = Path(__file__).parents[2] / "data" / "xla_memory.csv"


def _xla_rows() -> list[dict[str, str]]:
    with XLA_TABLE.open(encoding="utf-8", newline="") as text:
        return [row for row in csv.DictReader(text) if row["net"].removesuffix("_bn") in VGG_FEATURES]


def _xla_bytes(row: dict[str, str]) -> int:
    parts = (int(row[f"{part}_bytes"]) for part in ("argument", "output", "temp"))
    return sum(parts) - int(row["alias_bytes"])


FP32_ROWS = [row for row in _xla_rows() if row["precision"] == "fp32"]


def test_enough_steps_were_compiled() -> None:
    assert len(FP32_ROWS) >= 20
    assert {row["net"].removesuffix("_bn") for row in FP32_ROWS} == set(VGG_FEATURES)


@each_row("row", FP32_ROWS, ids=lambda row: "-".join(row[key] for key in ("net", "image_size", "batch", "optimizer")))
def test_the_peak_is_what_xla_reports(row: dict[str, str]) -> None:
    """Without the context and the libraries' scratch space, which the analysis of a compiled step does not see.

    The table's bf16 rows are left out: the compiler for CPUs has no bf16 convolution and widens what they work on.
    """
    net = a_vgg(row["net"], int(row["image_size"]))
    found = footprint(net, int(row["batch"]), row["precision"], row["optimizer"], xla=True)
    assert -0.10 <= (found.total - found.framework - found.workspace) / _xla_bytes(row) - 1 <= 0.35


@pytest.mark.parametrize(
    ("name", "size", "batch", "memory_gib"),
    [
        ("vgg16", 224, 256, 24.0),
        ("vgg19", 224, 256, 24.0),
        ("vgg11", 224, 256, 16.0),
        ("vgg16", 224, 128, 12.0),
        ("vgg16_bn", 224, 128, 12.0),
        ("vgg19", 256, 64, 8.0),
    ],
)
def test_what_xla_says_is_more_than_the_device_has_is_refused(
    name: str, size: int, batch: int, memory_gib: float
) -> None:
    wanted = (name, str(size), str(batch))
    (row,) = (row for row in FP32_ROWS if (row["net"], row["image_size"], row["batch"]) == wanted)
    assert _xla_bytes(row) > memory_gib * GIB
    assert footprint(a_vgg(name, size), batch, "fp32", row["optimizer"], xla=True).total > memory_gib * GIB


@pytest.mark.parametrize("name", ["vgg11", "vgg19_bn"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
def test_a_planned_step_never_takes_less(name: str, optimizer: str) -> None:
    net = a_vgg(name)
    planned, least = (footprint(net, 32, "fp32", optimizer, xla=xla).least for xla in (True, False))
    assert planned >= least
    if (name, optimizer) == ("vgg11", "sgd"):
        assert planned > least


def test_a_batch_that_fits_is_not_split() -> None:
    assert accumulation(a_vgg("vgg16"), 128, 16.0, "fp32", "sgd") == 1


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("memory_gib", [4.0, 8.0, 12.0, 16.0])
def test_a_batch_that_does_not_fit_is_split_into_parts_that_do(memory_gib: float, xla: bool) -> None:
    net = a_vgg("vgg16")
    parts = accumulation(net, 512, memory_gib, "fp32", "sgd", xla=xla)
    assert parts is not None
    assert 512 % parts == 0
    part = 512 // parts
    gradients = 4 * 138_357_544
    one = footprint(net, part, "fp32", "sgd", xla=xla).least + gradients
    assert one == footprint(net, part, "fp32", "sgd", xla=xla, accumulate=True).least
    twice = footprint(net, 2 * part, "fp32", "sgd", xla=xla).least + gradients
    assert one <= memory_gib * GIB < twice


def test_nothing_helps_where_the_weights_do_not_fit() -> None:
    assert accumulation(a_vgg("vgg16"), 512, 2.0, "fp32", "adam") is None


def test_a_prime_batch_is_split_into_single_images() -> None:
    assert accumulation(a_vgg("vgg16"), 257, 12.0, "fp32", "sgd") == 257
