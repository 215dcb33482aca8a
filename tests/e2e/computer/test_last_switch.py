"""The last switch from power on: with a dead disk, a wrong clock, and a machine that stood still.

CI runs the first two in `make check`, one after the other; `make machine` runs all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.computer.computer import ARMED, MOST_BOOT_SECONDS, Computer, Hardware, disc, power_on
from tests.e2e.computer.conftest import GRACE_SECONDS, SHORT_GRACE
from tests.e2e.computer.hanging import hang
from tests.e2e.computer.trials import FETCHED
from tests.unit.providers.cloud.booted import boot
from trainplan.providers.cloud.bootstrap import start_up

SHIPPED_GRACE_SECONDS = 300.0
"""Of providers/agent/data/switch.py."""
LATE_SECONDS = 120.0
BOOT_SECONDS = 120.0
"""From request to boot deadline: the switch is armed by then, on two busy cores too."""
BEHIND, AHEAD = "2021-01-01T00:00:00", "2031-01-01T00:00:00"
PAUSE_SECONDS = 1200.0
RESTART_SECONDS = 60.0
"""From the hang of a processor: 40 s and up to 8 more until the kernel notices, and 5 s until it restarts."""


@pytest.fixture
def start(image: Path, tmp_path: Path) -> Iterator[Callable[..., Computer]]:
    """Boots a machine that never trains: no store answers."""
    running: list[Computer] = []

    def begin(boot_seconds: float = BOOT_SECONDS, **hardware: object) -> Computer:
        now = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251  it lives in the real time
        deadlines = {"boot_deadline": now + timedelta(seconds=boot_seconds), "deadline": now + timedelta(hours=2)}
        files = disc(start_up(boot(**deadlines, requested_at=now)))
        running.append(power_on(replace(Hardware(image=image), **hardware), tmp_path, files))  # type: ignore[arg-type]
        return running[-1]

    yield begin
    for computer in running:
        computer.remove()


def seconds_late(computer: Computer, began: float, grace: float = 0.0) -> float:
    """Seconds from its boot deadline until it is off. Fails where it is still on then."""
    deadline = began + BOOT_SECONDS
    off = computer.off_at(deadline + grace + LATE_SECONDS)
    assert off is not None, computer.text()[-3000:]
    return off - deadline


def armed(computer: Computer) -> float:
    """Waits for the last switch; when the machine was powered on."""
    began = computer.clock()
    assert computer.says(ARMED), computer.text()[-3000:]
    return began


@pytest.mark.container
def test_a_machine_that_nobody_meddles_with(start: Callable[..., Computer], late: Callable[[str, float], None]) -> None:
    computer = start()
    late("booted, nothing", seconds_late(computer, armed(computer)))


@pytest.mark.container
def test_a_dead_disk_and_a_short_grace(start: Callable[..., Computer], late: Callable[[str, float], None]) -> None:
    computer = start()
    began = armed(computer)
    computer.run(SHORT_GRACE)
    assert computer.says(ARMED, times=2), computer.text()[-3000:]
    computer.disk_answers_nothing()
    late("booted, a dead disk, a grace of 60 s", seconds_late(computer, began, GRACE_SECONDS))


@pytest.mark.e2e
@pytest.mark.minutes(7)
def test_a_disk_that_answers_nothing(start: Callable[..., Computer], late: Callable[[str, float], None]) -> None:
    computer = start()
    began = armed(computer)
    computer.disk_answers_nothing()
    late("booted, a disk that answers nothing", seconds_late(computer, began, SHIPPED_GRACE_SECONDS))


@pytest.mark.e2e
@pytest.mark.minutes(8)
def test_a_clock_five_years_behind(start: Callable[..., Computer], late: Callable[[str, float], None]) -> None:
    computer = start(clock=BEHIND)
    began = armed(computer)
    computer.disk_answers_nothing()
    # Counted from the request: what passed before the switch was armed comes on top.
    armed_after = computer.clock() - began
    late("booted five years behind, a dead disk", seconds_late(computer, began, SHIPPED_GRACE_SECONDS + armed_after))


@pytest.mark.e2e
def test_a_clock_five_years_ahead(start: Callable[..., Computer], late: Callable[[str, float], None]) -> None:
    """It believes its clock, and ends as soon as its timers are armed, before its switch is: a boot is lost."""
    computer = start(boot_seconds=3600.0, clock=AHEAD)
    began = computer.clock()
    off = computer.off_at(began + MOST_BOOT_SECONDS)
    assert off is not None, computer.text()[-3000:]
    late("booted five years ahead, seconds after power on", off - began)


@pytest.mark.e2e
@pytest.mark.minutes(23)
def test_a_machine_that_stood_still_for_20_minutes(
    start: Callable[..., Computer], late: Callable[[str, float], None]
) -> None:
    computer = start(host_clock=True)
    began = armed(computer)
    computer.disk_answers_nothing()
    computer.pause(PAUSE_SECONDS)
    went_on = computer.clock()
    off = computer.off_at(went_on + LATE_SECONDS)
    assert off is not None, computer.text()[-3000:]
    late("paused for 20 minutes with a dead disk, seconds after it went on", off - went_on)
    assert went_on > began + BOOT_SECONDS + SHIPPED_GRACE_SECONDS


@pytest.mark.e2e
def test_a_machine_that_crashes_again_and_again(
    start: Callable[..., Computer], late: Callable[[str, float], None]
) -> None:
    """Four power cuts in a row end it at its fifth boot, an hour before its deadline. A boot is counted by cloud-init's
    first commands: one that is cut off before them is not."""
    computer = start(boot_seconds=3600.0)
    for boots in range(1, 5):
        assert computer.says("running 'modules:config'", times=boots), computer.text()[-3000:]
        time.sleep(8)  # noqa: TID251  what was written is on the disk
        computer.power_cut()
    cut_at = computer.clock()
    off = computer.off_at(cut_at + MOST_BOOT_SECONDS)
    assert off is not None, computer.text()[-3000:]
    late("power cut four times, seconds after the fourth", off - cut_at)


@pytest.mark.e2e
def test_a_kernel_that_hangs_is_started_again(
    start: Callable[..., Computer], late: Callable[[str, float], None]
) -> None:
    """A processor that hangs in the kernel is noticed after 40 s, and the machine restarts 5 s later: counted."""
    computer = start(boot_seconds=3600.0)
    armed(computer)
    hang(computer)
    hung_at = computer.clock()
    assert computer.says("Rebooting in 5 seconds", within_seconds=RESTART_SECONDS - 5), computer.text()[-3000:]
    late("a processor that hangs in the kernel, seconds until the restart", computer.clock() - hung_at + 5)
    assert "Kernel panic - not syncing: softlockup: hung tasks" in computer.text()
    assert computer.says(ARMED, times=2), computer.text()[-3000:]
    crashes = "/var/lib/trainplan/crashes"
    assert computer.run(f"until [ -e {crashes} ]; do sleep 1; done; cat {crashes}", MOST_BOOT_SECONDS) == "crashed\n"


@pytest.mark.e2e
def test_a_machine_without_iptables_says_so_and_ends(
    start: Callable[..., Computer], late: Callable[[str, float], None]
) -> None:
    """No container could be kept from the metadata: Docker does not even start."""
    computer = start(boot_seconds=3600.0)
    assert computer.says("attempts/1/machine/agent.pyz"), computer.text()[-3000:]
    computer.run(f"rm -f /usr/sbin/*tables*; {FETCHED}")
    assert computer.says("DOCKER_NOT_READY"), computer.text()[-3000:]
    said_at = computer.clock()
    off = computer.off_at(said_at + LATE_SECONDS)
    assert off is not None, computer.text()[-3000:]
    late("iptables missing, seconds after it said so", off - said_at)
