"""The last switch on a kernel of its own: the machine is off soon after its deadline whatever its disk and clock do."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from providers.cloud.bootstrap import start_up
from tests.conftest import ROOT
from tests.e2e.computer.computer import ARMED, Computer
from tests.unit.providers.cloud.booted import boot

GRACE_SECONDS = 300.0
"""Of providers/agent/data/switch.py."""
LATE_SECONDS = 120.0
BOOT_MINUTES = 8.0
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        shutil.which("qemu-system-x86_64") is None and "MACHINE" not in os.environ, reason="make machine installs QEMU"
    ),
]


@pytest.fixture(scope="module")
def image() -> Path:
    made = subprocess.run([ROOT / "scripts" / "machine.sh"], capture_output=True, text=True, check=True)
    return ROOT / made.stdout.strip()


@pytest.fixture
def start(image: Path, tmp_path: Path) -> Iterator[Callable[..., Computer]]:
    """Boots a machine with a boot deadline `BOOT_MINUTES` after its request; no store answers, so it never trains."""
    running: list[Computer] = []

    def begin(clock: str = "utc") -> Computer:
        now = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251  it lives in the real time
        deadlines = {"boot_deadline": now + timedelta(minutes=BOOT_MINUTES), "deadline": now + timedelta(hours=1)}
        running.append(Computer(image, tmp_path, start_up(boot(**deadlines, requested_at=now)), clock))
        return running[-1]

    yield begin
    for computer in running:
        computer.remove()


def left(began: float) -> float:
    """Seconds to the latest instant at which it may be off."""
    return began + BOOT_MINUTES * 60 + GRACE_SECONDS + LATE_SECONDS - time.monotonic()


def test_a_machine_that_nobody_meddles_with_is_off(start: Callable[..., Computer]) -> None:
    began, computer = time.monotonic(), start()
    assert computer.says(ARMED), computer.text()[-2000:]
    assert computer.is_off_within(left(began)), computer.text()[-2000:]


def test_a_disk_that_answers_nothing(start: Callable[..., Computer]) -> None:
    began, computer = time.monotonic(), start()
    assert computer.says(ARMED), computer.text()[-2000:]
    computer.disk_answers_nothing()
    assert computer.is_off_within(left(began)), computer.text()[-2000:]


def test_a_clock_five_years_behind(start: Callable[..., Computer]) -> None:
    began, computer = time.monotonic(), start("2021-01-01T00:00:00")
    assert computer.says(ARMED), computer.text()[-2000:]
    computer.disk_answers_nothing()
    # Counted from the request: what passed before the switch was armed comes on top.
    assert computer.is_off_within(left(began) + (time.monotonic() - began)), computer.text()[-2000:]


def test_a_machine_that_stood_still_beyond_its_deadline(start: Callable[..., Computer]) -> None:
    began, computer = time.monotonic(), start()
    assert computer.says(ARMED), computer.text()[-2000:]
    computer.disk_answers_nothing()
    computer.pause(max(0.0, began + BOOT_MINUTES * 60 + GRACE_SECONDS + 60 - time.monotonic()))
    assert computer.is_off_within(LATE_SECONDS), computer.text()[-2000:]


def test_a_kernel_that_crashes_is_started_again(start: Callable[..., Computer]) -> None:
    began, computer = time.monotonic(), start()
    assert computer.says(ARMED), computer.text()[-2000:]
    time.sleep(20)  # noqa: TID251
    computer.panic()
    assert computer.says("Kernel panic", within_seconds=60), computer.text()[-2000:]
    assert computer.says("Linux version", times=2, within_seconds=60), computer.text()[-2000:]
    assert computer.is_off_within(left(began) + 600), computer.text()[-2000:]
