"""The compiled measurements and the device table, made once for these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainplan.planner.throughput.compile import DATA, compile_measurements
from trainplan.planner.throughput.predict import Predictor
from trainplan.pricing.device_text import read_devices
from trainplan.pricing.devices import DeviceTable, UnknownDeviceError

DEVICES_TEXT = Path(__file__).parents[4] / "pricing" / "data" / "devices.toml"


@pytest.fixture(scope="session")
def devices() -> DeviceTable:
    return read_devices(DEVICES_TEXT)[0]


@pytest.fixture(scope="session")
def find(devices: DeviceTable) -> Callable[[str], str | None]:
    def found(name: str) -> str | None:
        try:
            return devices.find(name).name
        except UnknownDeviceError:
            return None

    return found


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("throughput") / "measurements.sqlite"
    compile_measurements(DATA, target)
    return target


@pytest.fixture
def predictor(table: Path, devices: DeviceTable) -> Iterator[Predictor]:
    predictor = Predictor.open(devices, table)
    yield predictor
    predictor.close()
