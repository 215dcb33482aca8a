"""What is done to a machine that runs, and whether its last switch alone can end it then."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.computer.computer import ARMED, Computer


@dataclass(frozen=True, slots=True)
class Trial:
    """`early`: it is done minutes before the deadline, since it restarts the machine; else some seconds before.

    `by_switch`: nothing else can end it, so that it may be late by the switch's grace.
    """

    name: str
    do: Callable[[Computer], object]
    early: bool = False
    by_switch: bool = False


def _script(words: str, within_seconds: float = 60.0) -> Callable[[Computer], object]:
    return lambda computer: computer.run(words, within_seconds)


def _service(words: str, options: str = "") -> str:
    return f"systemd-run --quiet {options} sh -c '{words}'"


def _restarted(*before: str) -> Callable[[Computer], object]:
    def do(computer: Computer) -> None:
        for words in before:
            computer.run(words)
        computer.tell("systemctl reboot")
        _armed_again(computer)

    return do


def _armed_again(computer: Computer, times: int = 1) -> None:
    assert computer.says(ARMED, times), computer.text()[-3000:]


def _cut(words: str, seconds: float) -> Callable[[Computer], object]:
    def do(computer: Computer) -> None:
        computer.run(words)
        time.sleep(seconds)  # noqa: TID251  it lives in the real time
        computer.power_cut()
        _armed_again(computer)

    return do


def _crashed(computer: Computer) -> None:
    computer.panic()
    assert computer.says("Kernel panic", within_seconds=30), computer.text()[-3000:]
    _armed_again(computer)


def _disk_after(words: str) -> Callable[[Computer], object]:
    def do(computer: Computer) -> None:
        computer.run(words)
        time.sleep(3)  # noqa: TID251
        computer.disk_answers_nothing()

    return do


_FULL = "fallocate -l $(($(stat -f -c %f /) * 4096 - 20000000)) /var/filler; cat /dev/zero >/var/rest; sync; df /"
_KEPT = "/var/lib/trainplan/checkpoint"
_WRITES = f"while :; do head -c 100M /dev/zero >{_KEPT}.new; sync; mv {_KEPT}.new {_KEPT}; done"
_HOGS = 'while :; do python3 -c "x = []\nwhile True: x.append(b\\"x\\" * 10**7)"; done'
_FORKS = """python3 -c "import os, time
while True:
    try:
        os.fork() or time.sleep(9999)
    except OSError:
        time.sleep(0.01)"
"""
_DEAF = _service('trap "" TERM; while :; do sleep 1; done', "-p TimeoutStopSec=infinity")
_FEW_PROCESSES = "echo 2000 >/proc/sys/kernel/pid_max"
_SWITCH = "/usr/local/lib/trainplan/switch.py"


FETCHED = "echo >/usr/local/lib/trainplan/fetch.py"
"""start.sh goes on as if it had its agent."""
_LOCK = (
    "import fcntl, time; f = open('/var/lib/dpkg/lock-frontend', 'a'); fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(9999)"
)
_LOCKED = f'python3 -c "{_LOCK}" & mv /usr/bin/docker /usr/bin/docker.away; sleep 2; {FETCHED}'


def _cut_and_dead(computer: Computer) -> None:
    computer.power_cut()
    _armed_again(computer)
    computer.disk_answers_nothing()


DEAD_DISK = Trial("disk that answers nothing", Computer.disk_answers_nothing, by_switch=True)
_DEAF_SERVICE = Trial("service that ignores TERM", _script(_DEAF))
TRIALS = (
    Trial("nothing", _script("true")),
    Trial("disk full", _script(_FULL)),
    Trial("disk full, then restarted", _restarted(_FULL), early=True),
    Trial("root file system read-only", _script("echo u >/proc/sysrq-trigger")),
    Trial("memory used up again and again", _script(_service(_HOGS))),
    Trial("processes used up", _script(f"{_FEW_PROCESSES}; {_service(_FORKS, '-p TasksMax=infinity')}")),
    Trial("disk of one operation a second", lambda computer: computer.disk_operations_a_second(1), by_switch=True),
    DEAD_DISK,
    Trial("kernel panic", _crashed, early=True),
    Trial("restarted in good order", _restarted(), early=True),
    Trial("restarted so that the deadline passes meanwhile", lambda computer: computer.tell("systemctl reboot")),
    Trial("power cut while 100 MB are written", _cut(_service(_WRITES), 10), early=True),
    Trial("power cut, then a disk that answers nothing", _cut_and_dead, early=True, by_switch=True),
    _DEAF_SERVICE,
    Trial("/var a full file system", _script("mount -t tmpfs -o size=1M none /var; cat /dev/zero >/var/filler")),
    Trial("/run full", _script("cat /dev/zero >/run/filler; df /run")),
    Trial("apt locked by another installation", _script(_LOCKED)),
    Trial("systemd has crashed", _script("kill -SEGV 1"), by_switch=True),
    Trial("clock set five years back", _script("date -s 2021-11-26"), by_switch=True),
    Trial("clock set five years ahead", _script("date -s 2031-11-26")),
    Trial("switch killed, then a dead disk", _disk_after("systemctl kill -s KILL trainplan-switch"), by_switch=True),
    Trial("timers stopped", _script("systemctl stop trainplan-boot.timer trainplan-deadline.timer"), by_switch=True),
    Trial("memory used up and a dead disk", _disk_after(_service(_HOGS)), by_switch=True),
)


@dataclass(frozen=True, slots=True)
class Defect:
    """What is broken on the machine, and the trial that has to notice."""

    name: str
    plant: str
    trial: Trial


DEFECTS = (
    Defect("no switch", "systemctl stop trainplan-switch", DEAD_DISK),
    Defect(
        "the switch syncs first",
        f"sed -i 's/^        os.write(allow/        os.sync()\\n&/' {_SWITCH}; "
        "systemctl restart trainplan-switch; sleep 5; echo x >/var/dirty",
        DEAD_DISK,
    ),
    Defect(
        "end.sh waits for services without a limit",
        "sed -i 's/^sleep 55$/sleep 9999/' /usr/local/lib/trainplan/end.sh; "
        f"sed -i 's/^GRACE = .*/GRACE = 300/' {_SWITCH}; systemctl restart trainplan-switch",
        _DEAF_SERVICE,
    ),
)
"""`sync` waits for a disk that does not answer; the last is ended by the switch alone, later than what end.sh has."""
