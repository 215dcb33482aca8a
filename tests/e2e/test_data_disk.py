"""The script that mounts a data disk with the system's own tools: a loop device plays the disk. Needs root on Linux."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.providers.cloud.test_disk_script import boot
from trainplan.providers.cloud.bootstrap import shell_parts

TOOLS = ("losetup", "lsblk", "blkid", "wipefs", "mkfs.ext4", "mountpoint", "mount", "umount")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or os.geteuid() != 0 or not all(map(shutil.which, TOOLS)),
        reason="needs root, loop devices and the tools of a machine",
    ),
]
GIB = 10


class Disk:
    """A loop device over a file with holes in it, and a machine's folders below `home`."""

    def __init__(self, home: Path) -> None:
        self.root = home / "machine"
        image = home / "disk.img"
        with image.open("wb") as file:
            file.truncate(GIB * 1024**3)
        self.device = _output("losetup", "--find", "--show", str(image))

    def script(self) -> int:
        text = shell_parts(boot(data_disk_gib=GIB))["disk.sh"].replace("/var/lib/trainplan", str(self.root))
        text = text.replace("/dev/sd? /dev/nvme?n?", self.device).replace("tries=0", "tries=60")
        # A disk of this computer with the same id is none of the test's.
        text = text.replace("blkid -U $id", f"blkid -t UUID=$id -o device {self.device}")
        return subprocess.run(["sh"], input=text, text=True, timeout=300, check=False, capture_output=True).returncode

    def unmount(self) -> None:
        """As a restart does it."""
        for folder in ("data", "spool/fetched", "data-disk"):
            subprocess.run(["umount", str(self.root / folder)], capture_output=True, timeout=300, check=False)

    def remove(self) -> None:
        self.unmount()
        subprocess.run(["losetup", "--detach", self.device], capture_output=True, timeout=300, check=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        made = Disk(tmp_path)
    except subprocess.CalledProcessError:
        pytest.skip("this computer has no loop device")
    yield made
    made.remove()


def test_a_blank_disk_is_formatted_and_its_data_is_there_after_a_restart(disk: Disk) -> None:
    assert disk.script() == 0
    (disk.root / "data" / "image.png").write_bytes(b"pixels")
    free = shutil.disk_usage(disk.root / "data").free
    assert 0.95 * GIB * 1024**3 < free < GIB * 1024**3
    assert shutil.disk_usage(disk.root / "spool" / "fetched").free == free
    assert sorted(path.name for path in (disk.root / "data").iterdir()) == ["image.png"]
    disk.unmount()
    assert not (disk.root / "data" / "image.png").exists()
    assert disk.script() == 0
    assert (disk.root / "data" / "image.png").read_bytes() == b"pixels"


def test_a_disk_with_a_file_system_is_left_as_it_is(disk: Disk) -> None:
    _output("mkfs.ext4", "-q", "-F", "-L", "somebodys", disk.device)
    assert disk.script() == 1
    assert _output("blkid", "-s", "LABEL", "-o", "value", disk.device) == "somebodys"


def _output(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=True).stdout.strip()
