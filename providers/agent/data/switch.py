"""switch.py DEADLINE BOOT_DEADLINE ASKED: the last switch of a rented machine (seconds since 1970).

It holds all that it needs in memory, so that it works where the disk answers nothing, memory or processes are used up,
or the system hangs while it goes down. What ends a machine in good order (end.sh) has GRACE seconds before.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

GRACE = 300
CURRENT_AND_FUTURE = 3


def hardware() -> int:
    """The machine's own clock, which goes on while the machine is paused; 0 where it has none."""
    try:
        return int(Path("/sys/class/rtc/rtc0/since_epoch").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


deadline, boot, asked = map(int, sys.argv[1:])
ctypes.CDLL(None).mlockall(CURRENT_AND_FUTURE)
allow = os.open("/proc/sys/kernel/sysrq", os.O_WRONLY)
trigger = os.open("/proc/sysrq-trigger", os.O_WRONLY)
trained = Path("/var/lib/trainplan/running").exists()
up, ticks = time.clock_gettime(time.CLOCK_BOOTTIME), hardware()
if abs(ticks - max(time.time(), asked)) > 120:  # it is wrong, or of another time zone, and may be set: no measure
    ticks = 0
with Path("/dev/kmsg").open("w", encoding="ascii") as console:
    console.write("trainplan: the last switch is held in memory\n")
while True:
    passed = time.clock_gettime(time.CLOCK_BOOTTIME) - up
    if ticks:
        passed = max(passed, hardware() - ticks)
    trained = trained or Path("/run/trainplan/running").exists()
    # It is at least so late, whatever the clock says, which may be behind. What it says ahead, it may take back.
    late = max(time.time(), asked + passed) - (deadline if trained else min(boot, deadline))
    if late > GRACE < passed:
        os.write(allow, b"1")
        os.write(trigger, b"o")
    time.sleep(5)  # noqa: TID251  nothing of ours is on this machine
