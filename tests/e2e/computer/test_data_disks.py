"""The disk for a TPU's data, on the buses that Google has (NVMe, SCSI): what is blank is used, nothing else is touched.

TPUs alone have one. Google's guest agent runs their script at every boot; a unit of the same name plays it here.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.computer.computer import ARMED, Computer, Hardware, power_on
from tests.unit.providers.cloud.booted import CLOUDS, boot
from trainplan.providers.cloud.bootstrap import start_up
from trainplan.providers.gcp.tpu.request import as_shell

pytestmark = pytest.mark.e2e
LATE_SECONDS = 120.0
MOUNT_SECONDS = 300.0
GIB = 1
MIB = 1024**2
BUSES = {
    "nvme": ((), "nvme,drive={0},serial={0}", "/dev/nvme"),
    "scsi": (
        ("-device", "virtio-scsi-pci,id=scsi"),
        "scsi-hd,drive={0},bus=scsi.0,vendor=Google,product=PersistentDisk",
        "/dev/sd",
    ),
}
"""More of the machine, each disk, and what its name begins with there."""
_PLACE = "/usr/local/lib"
_GUEST = "google-startup-scripts.service"
_AGENT = "import sys, time; sys.argv[1] == 'run' and time.sleep(99999)"
_FILES = {
    "/etc/cloud/cloud-init.disabled": "",
    f"/etc/systemd/system/{_GUEST}": f"[Service]\nType=oneshot\nExecStart=/bin/sh {_PLACE}/startup-script\n",
    "/etc/systemd/system/multi-user.target.d/guest.conf": f"[Unit]\nWants={_GUEST}\n",
    f"{_PLACE}/agent.py": _AGENT,
    "/etc/systemd/system/trainplan.service.d/fetched.conf": (
        f"[Service]\nExecStartPre=/bin/sh -c 'cd {_PLACE}/trainplan && cp ../agent.py agent.pyz && echo >fetch.py'\n"
    ),
}
"""The last two are the run directory: start.sh fetches an agent that waits."""


@pytest.fixture
def start(image: Path, tmp_path: Path) -> Iterator[Callable[[str, Sequence[Path]], Computer]]:
    """Boots a machine whose data are to lie on a blank disk of 1 GiB, with these disks on a bus."""
    running: list[Computer] = []

    def begin(bus: str, disks: Sequence[Path]) -> Computer:
        now = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251  it lives in the real time
        ends = {"boot_deadline": now + timedelta(hours=1), "deadline": now + timedelta(hours=2), "requested_at": now}
        text = as_shell(start_up(boot(cloud="gcp", run_uri=CLOUDS["gcp"], data_disk_gib=GIB, **ends)))
        options = [*("-nic", "none"), *BUSES[bus][0]]
        for number, disk in enumerate(disks):
            options += ["-drive", f"file={disk},format=raw,if=none,id=data{number}"]
            options += ["-device", BUSES[bus][1].format(f"data{number}")]
        files = {**_FILES, f"{_PLACE}/startup-script": text}
        running.append(power_on(Hardware(image=image, options=options), tmp_path / "machine", files))
        return running[-1]

    yield begin
    for computer in running:
        computer.remove()


def blank(path: Path, mib: int = GIB * 1024) -> Path:
    with path.open("wb") as file:
        file.truncate(mib * MIB)
    return path


def with_a_file_system(path: Path, label: str) -> Path:
    subprocess.run(["mkfs.ext4", "-q", "-F", "-L", label, blank(path)], check=True)
    return path


def with_a_partition(path: Path) -> Path:
    """One of Linux, in a table as PCs have had it: type 0x83 at byte 450, its first sector and its length at 454."""
    with blank(path).open("r+b") as file:
        file.seek(450)
        file.write(b"\x83\0\0\0" + (2048).to_bytes(4, "little") + (65536).to_bytes(4, "little"))
        file.seek(510)
        file.write(b"\x55\xaa")
    return path


def with_raw_data(path: Path) -> Path:
    with blank(path).open("r+b") as file:
        file.seek(4096)
        file.write(b"somebody's")
    return path


def hashed(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def mounted(computer: Computer, boots: int) -> None:
    """Waits until the data's disk is there."""
    assert computer.says(ARMED, times=boots), computer.text()[-3000:]
    computer.run("until mountpoint -q /var/lib/trainplan/spool/fetched; do sleep 1; done", MOUNT_SECONDS)


@pytest.mark.parametrize("bus", BUSES)
def test_one_blank_disk_is_formatted_and_its_data_outlast_a_restart(
    bus: str, start: Callable[[str, Sequence[Path]], Computer], tmp_path: Path
) -> None:
    """Beside a disk that somebody has used; of two blank ones the other stays blank. By what name the kernel knows each
    may change with the restart."""
    used = with_a_file_system(tmp_path / "used", "somebodys")
    empty = [blank(tmp_path / "first"), blank(tmp_path / "second")]
    before, nothing = hashed(used), hashed(empty[0])
    computer = start(bus, [used, *empty])
    mounted(computer, boots=1)
    assert computer.run("findmnt -no SOURCE /var/lib/trainplan/data").startswith(BUSES[bus][2])
    computer.run("echo pixels >/var/lib/trainplan/data/image.png")
    computer.tell("systemctl reboot")
    mounted(computer, boots=2)
    assert computer.run("cat /var/lib/trainplan/data/image.png") == "pixels\n"
    computer.power_off()
    assert hashed(used) == before
    assert [hashed(disk) == nothing for disk in empty] in ([False, True], [True, False])


@pytest.mark.parametrize("bus", BUSES)
def test_a_disk_that_is_not_blank_or_too_small_is_left_alone_and_the_machine_says_so_and_ends(
    bus: str,
    start: Callable[[str, Sequence[Path]], Computer],
    late: Callable[[str, float], None],
    tmp_path: Path,
) -> None:
    """`run` is a disk that another run of trainplan has used."""
    disks = {
        with_a_file_system(tmp_path / "used", "somebodys"): "holds a file system or a table of partitions",
        with_a_file_system(tmp_path / "run", "trainplan-data"): "holds a file system or a table of partitions",
        with_a_partition(tmp_path / "parts"): "has partitions",
        with_raw_data(tmp_path / "raw"): "does not begin with zeros",
        blank(tmp_path / "small", 512): f"has {512 * MIB} bytes of {GIB * 1024 * MIB}",
    }
    before = [hashed(disk) for disk in disks]
    computer = start(bus, list(disks))
    assert computer.says("NO_DATA_DISK: "), computer.text()[-3000:]
    said_at = computer.clock()
    said = next(line for line in computer.text().splitlines() if "NO_DATA_DISK: " in line)
    assert sorted(why.split(" ", 1)[1] for why in said.partition("for the data: ")[2].split(", ")) == sorted(
        disks.values()
    )
    off = computer.off_at(said_at + LATE_SECONDS)
    assert off is not None, computer.text()[-3000:]
    late(f"data disks on {bus} refused, seconds after it said so", off - said_at)
    assert [hashed(disk) for disk in disks] == before
