"""A measurement as a row that can be handed in: what it says, that it names nobody, and that it is read again."""

from __future__ import annotations

import csv
import getpass
import os
import platform
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job
from tests.desk import TINY
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import done_at_once
from tests.doubles.fake_provider import FakeProvider
from tests.unit.planner.cli.command import plan
from trainplan.planner.runs.receipt.measured_row import Measured, measured_row, row_text
from trainplan.planner.throughput.columns import COLUMNS, wrong_with
from trainplan.planner.throughput.compile import DEVICES
from trainplan.planner.throughput.names import finder
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.device_text import read_devices
from trainplan.providers.hardware import Gpu, HostHardware, driver_version

T4 = Gpu(index=0, name="Tesla T4", memory_gib=15.0)
HOST = HostHardware(system="linux", architecture="x86_64", cpu_name="AMD EPYC", vcpus=8, memory_gib=32.0, gpus=(T4,))
START = {
    "event": "start", "device_kind": "gpu", "device_name": "Tesla T4", "device_count": 1, "framework": "tensorflow",
    "framework_version": "2.21.0", "keras_version": "3.12.0", "python_version": "3.11.9",
}  # fmt: skip
LAPS = [100.0, 110.0, 90.0, 105.0, 95.0]


def a_row(start: dict[str, Any] | None = None, **changes: Any) -> dict[str, str]:
    values: dict[str, Any] = {"images_per_second": 101.5, "laps": LAPS, "day": date(2026, 11, 24), "driver": "580.1"}
    with Catalog.open() as catalog:
        measured = Measured(START | (start or {}), **(values | changes))
        return measured_row(a_job(), measured, HOST, finder(catalog.devices))


def test_a_row_has_device_driver_versions_spread_and_day() -> None:
    row = a_row()
    assert tuple(row) == tuple(COLUMNS)
    assert (row["device"], row["device_as_stated"], row["device_memory_gb"]) == ("T4", "Tesla T4", "15")
    assert row["framework_version"] == "2.21.0, Keras 3.12.0, Python 3.11.9, driver 580.1"
    assert (row["images_per_second"], row["spread_fraction"], row["quality"]) == ("101.5", "0.2000", "A")
    assert row["note"] == "linux x86_64; images/s along the run: P10 92, P50 100, P90 108 (5 rates)"
    assert (row["measured_on"], row["framework"], row["data"]) == ("2026-11-24", "Keras on TensorFlow", "real")
    assert row["id"] == a_row()["id"] != a_row(images_per_second=102.0)["id"]
    assert wrong_with(row, read_devices(DEVICES)[0]) == "", "make tables takes it"


def test_a_processor_and_a_short_run() -> None:
    row = a_row({"device_kind": "cpu"}, laps=[100.0, 110.0])
    assert (row["device"], row["device_as_stated"], row["device_memory_gb"]) == ("cpu", "AMD EPYC, 8 vCPU", "")
    assert "driver" not in row["framework_version"]
    assert (row["spread_fraction"], row["quality"], row["note"]) == ("", "B", "linux x86_64")


def test_several_devices_share_the_batch() -> None:
    one, two = a_row(), a_row({"device_count": 2})
    assert int(two["batch_per_device"]) * 2 == int(one["batch_per_device"])
    assert (one["parallelism"], two["parallelism"]) == ("", "mirrored")


@pytest.mark.parametrize(
    ("output", "version"), [("580.65.06\n580.65.06\n", "580.65.06"), ("", ""), ("NVIDIA-SMI has failed\n", "")]
)
def test_the_version_of_the_driver(output: str, version: str) -> None:
    assert driver_version(lambda _: output) == version


# --- from the command line ---------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(TINY)
    with fake_provider.as_this_machine(FakeProvider(FakeClock(), [done_at_once], tidy=True), monkeypatch):
        yield tmp_path


def test_measure_writes_a_row_that_check_reads_and_that_names_nobody(here: Path) -> None:
    said = plan("measure", "job.yaml", "--export", "row.csv", "--json")
    assert said.code == 0, said.err
    text = (here / "row.csv").read_text(encoding="utf-8")
    (row,) = csv.DictReader(text.splitlines())
    assert (float(row["images_per_second"]), row["framework_version"]) == (4000.0, "2.20.0")
    assert "wrote row.csv" in said.err
    words = (getpass.getuser(), platform.node(), str(here), os.path.expanduser("~"), said.json["run_id"], "tiny")  # noqa: PTH111
    assert [word for word in words if word in text] == []
    checked = plan("throughput", "check", "row.csv", "--json")
    assert (checked.code, checked.json["unreadable"], len(checked.json["rows"])) == (0, [], 1)


def test_what_cannot_be_exported_is_said_before_anything_is_trained(here: Path) -> None:
    (here / "row.csv").write_text("mine", encoding="utf-8")
    (here / "image.yaml").write_text(
        TINY
        + "container: example.org/me/mine@sha256:0000000000000000000000000000000000000000000000000000000000000000\n"
    )
    for words, error in (
        (("job.yaml", "--export", "row.csv"), "row.csv is already there"),
        (("job.yaml", "--export", "no/row.csv"), "no/row.csv: there is no such folder"),
        (("image.yaml", "--export", "new.csv"), "--export takes no job with a container"),
    ):
        said = plan("measure", *words, "--yes")
        assert (said.code, error in said.error, bool(said.hint)) == (2, True, True), said.err
    assert (here / "row.csv").read_text(encoding="utf-8") == "mine"
    assert plan("history", "--json").json == []


def test_the_text_is_one_header_and_one_row() -> None:
    assert row_text(a_row()).splitlines()[0] == ",".join(COLUMNS)
    assert len(row_text(a_row()).splitlines()) == 2
