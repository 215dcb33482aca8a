"""Every spelling of a device leads to one row."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.conftest import ROOT
from trainplan.pricing.catalog import Catalog, find_device
from trainplan.pricing.devices import Architecture, UnknownDeviceError


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("K80", "K80"),
        ("K80 (per GPU = half board)", "K80"),
        ("K80 (1 GK210 = half board)", "K80"),
        ("t4g", "T4G"),
        ("A100 SXM4", "A100-40GB"),
        ("H100-MEGA", "H100"),
        ("tpu-v5litepod", "TPU v5e"),
        ("rtx pro server 6000", "RTX-PRO-6000"),
    ],
)
def test_find(shipped: Catalog, spelling: str, name: str) -> None:
    assert shipped.devices.find(spelling).name == name


def test_an_unknown_name_comes_back_with_the_nearest(shipped: Catalog) -> None:
    with pytest.raises(UnknownDeviceError) as caught:
        shipped.devices.find("A100-80")
    assert "A100-80GB" in caught.value.nearest
    assert "A100-80GB" in caught.value.hint
    assert isinstance(caught.value, ValueError)


def test_a_slice_is_no_device_and_says_so(shipped: Catalog) -> None:
    with pytest.raises(UnknownDeviceError, match="slice of 4 chips"):
        shipped.devices.find("TPU v3-8")


def test_a_group_means_all_its_variants(shipped: Catalog) -> None:
    names = {device.name for device in shipped.devices.find_all("a100")}
    assert names == {"A100-40GB", "A100-80GB", "A100-PCIe-40GB", "A100-PCIe-80GB"}
    assert [device.name for device in shipped.devices.find_all("A100-80GB")] == ["A100-80GB"]
    tpus = [device.name for device in shipped.devices.find_all("TPU")]
    assert len(tpus) > 4
    assert all(name.startswith("TPU ") for name in tpus)
    assert {"V100", "V100-32GB"} <= {device.name for device in shipped.devices.find_all("volta")}


def test_half_boards_and_chips(shipped: Catalog) -> None:
    k80, tpu = shipped.devices["K80"], shipped.devices["TPU v3"]
    assert (k80.memory_gib, k80.memory_bandwidth_gb_s, k80.peak_tflops.fp32) == (12, 240, 4.37)
    assert (tpu.memory_gib, tpu.peak_tflops.amp_bf16, tpu.tpu_generation) == (32, 123, "v3")
    assert tpu.compute_capability is None


def test_find_device_needs_no_catalog_of_ones_own() -> None:
    assert find_device("V100 SXM2").name == "V100"


def test_each_spelling_means_one_device(shipped: Catalog) -> None:
    for device in shipped.devices.values():
        for spelling in (device.name, *device.aliases):
            assert shipped.devices.find(spelling) is device


def test_every_gpu_has_a_compute_capability_and_every_tpu_a_generation(shipped: Catalog) -> None:
    for device in shipped.devices.values():
        tpu, cpu = device.architecture is Architecture.TPU, device.architecture is Architecture.CPU
        assert (device.compute_capability is None) == (tpu or cpu), device.name
        assert (device.tpu_generation is not None) == tpu, device.name
        assert device.source, device.name


@pytest.mark.parametrize(
    ("file", "column"),
    [
        (ROOT / "tests/data/device_figures.csv", "name"),
        (ROOT / "tests/data/offer_figures.csv", "accelerator"),
        (ROOT / "planner/throughput/data/measurements.csv", "device_as_stated"),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_every_spelling_of_a_source_is_known_or_knowingly_not(shipped: Catalog, file: Path, column: str) -> None:
    """Data sheets, price lists (at least one row of each accelerator) and measurements, as they spell a device."""
    with file.open(encoding="utf-8", newline="") as text:
        spellings = {row[column] for row in csv.DictReader(text)} - {""}
    assert len(spellings) > 25
    for spelling in spellings:
        if shipped.devices.why_not(spelling) is None:
            shipped.devices.find(spelling)


def test_the_figures_of_data_sheets_are_in_the_table(shipped: Catalog) -> None:
    """tests/data/device_figures.csv was collected apart from the table; each row names its source."""
    columns = {"fp32_tflops": "fp32", "tf32_tensor_tflops_dense": "tf32", "fp16_tensor_tflops_dense": "amp_fp16"}
    checked = 0
    with (ROOT / "tests/data/device_figures.csv").open(encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            if shipped.devices.why_not(row["name"]) is not None:
                continue
            device = shipped.devices.find(row["name"])
            for column, precision in columns.items():
                if row[column]:
                    assert device.peak_tflops.of(precision) == float(row[column]), (row["name"], column)
                    checked += 1
            if row["memory_bandwidth_gb_s"]:
                assert device.memory_bandwidth_gb_s == float(row["memory_bandwidth_gb_s"]), row["name"]
    assert checked > 60


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("NVIDIA T4", "T4"),
        ("nvidia-tesla-t4", "T4"),
        ("Tesla V100", "V100"),
        ("GeForce RTX 4090", "RTX 4090"),
        ("rtx4090", "RTX 4090"),
        ("Google Cloud TPU v3", "TPU v3"),
    ],
)
def test_a_person_may_name_the_maker_and_leave_out_blanks(shipped: Catalog, typed: str, name: str) -> None:
    assert name in {device.name for device in shipped.devices.find_all(typed)}


@pytest.mark.parametrize("typed", ["gpu", "GPUs", "nvidia", "cuda"])
def test_no_device_in_particular_is_told_apart_from_a_misspelt_one(shipped: Catalog, typed: str) -> None:
    with pytest.raises(UnknownDeviceError, match="name one, for example T4"):
        shipped.devices.find_all(typed)


@pytest.mark.parametrize("name", ["MI300X", "AMD Instinct MI355X", "gaudi2", "Habana Gaudi 3", "trainium-2"])
def test_an_accelerator_without_a_rate_has_the_reason_and_no_other_name(shipped: Catalog, name: str) -> None:
    with pytest.raises(UnknownDeviceError, match="accelerators is known here") as caught:
        shipped.devices.find_all(name)
    assert caught.value.nearest == ()
