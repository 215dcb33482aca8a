"""The script that mounts a data disk: run with tools that play a machine's disks."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainplan.providers.cloud.bootstrap import MOST_BYTES, Boot, shell_parts, start_up

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
GIB = 157
BYTES = GIB * 1024**3
LABEL = "trainplan-data"
# Each device is a folder with what the tools tell of it.
TOOLS = {
    "lsblk": 'case "$1" in -bdno) cat "$3/size" ;; *) cat "$3/names" ;; esac',
    "wipefs": 'cat "$2/signature" 2>/dev/null || :',
    "blkid": 'for disk in @/dev/*; do [ "$(cat "$disk/label" 2>/dev/null)" != "$2" ] || { echo "$disk"; exit; }; done\n'
    "exit 2",
    "mkfs.ext4": 'for disk; do :; done; echo "mkfs $disk" >>@/told; echo ext4 >"$disk/signature"\n'
    f'echo {LABEL} >"$disk/label"',
    "mountpoint": 'grep -qx "$2" @/mounted 2>/dev/null',
    "mount": 'for at; do :; done; echo "mount $*" >>@/told; echo "$at" >>@/mounted',
    "sleep": 'echo "sleep $1" >>@/told; [ ! -d @/later ] || mv @/later @/dev/sdb',
}


def boot(**changes: Any) -> Boot:
    usual: dict[str, Any] = {
        "cloud": "gcp",
        "run_uri": "gs://bucket/runs/r1",
        "attempt": 1,
        "deadline": NOON + timedelta(hours=8),
        "boot_deadline": NOON + timedelta(minutes=45),
        "requested_at": NOON,
        "agent_sha256": "a" * 64,
        "spec_sha256": "b" * 64,
        "data_disk_gib": GIB,
    }
    return Boot(**{**usual, **changes})


@dataclass
class Playground:
    """A machine's disks and its tools, below a folder."""

    home: Path

    def __post_init__(self) -> None:
        for name, text in TOOLS.items():
            tool = self.home / "tools" / name
            tool.parent.mkdir(exist_ok=True)
            tool.write_text(f"#!/bin/sh\n{text.replace('@', str(self.home))}\n")
            tool.chmod(0o755)
        self.disk("sda", size=100 * 1024**3, names="sda\nsda1\nsda15\n", signature="gpt")

    def disk(self, name: str, size: int = BYTES, names: str = "", signature: str = "", folder: str = "dev") -> Path:
        made = self.home / folder / name if folder == "dev" else self.home / folder
        made.mkdir(parents=True)
        (made / "size").write_text(f"{size}\n")
        (made / "names").write_text(names or f"{name}\n")
        if signature:
            (made / "signature").write_text(f"{signature}\n")
        return made

    def run(self) -> int:
        """Under the folder, and with folders for devices."""
        script = shell_parts(boot())["disk.sh"].replace("/var/lib", f"{self.home}/var/lib")
        script = script.replace("/dev/sd?", f"{self.home}/dev/sd?").replace("/dev/nvme?n?", f"{self.home}/dev/nvme?n?")
        script = script.replace('[ -b "$device" ]', '[ -d "$device" ]')
        tools = {"PATH": f"{self.home}/tools:/usr/bin:/bin"}
        return subprocess.run(["sh"], input=script, text=True, env=tools, timeout=300, check=False).returncode

    def reboot(self) -> None:
        (self.home / "mounted").unlink(missing_ok=True)

    @property
    def calls(self) -> list[str]:
        path = self.home / "told"
        return path.read_text().replace(f"{self.home}/", "/").splitlines() if path.exists() else []

    @property
    def mounts(self) -> list[str]:
        return [line for line in self.calls if line.startswith("mount")]


MOUNTS = [
    "mount -o discard,noatime /dev/sdb /var/lib/trainplan/data-disk",
    "mount --bind /var/lib/trainplan/data-disk/data /var/lib/trainplan/data",
    "mount --bind /var/lib/trainplan/data-disk/spool/fetched /var/lib/trainplan/spool/fetched",
]


@pytest.fixture
def playground(tmp_path: Path) -> Playground:
    return Playground(tmp_path)


def test_a_blank_disk_is_formatted_once_and_mounted_where_the_data_go(playground: Playground) -> None:
    playground.disk("sdb")
    assert playground.run() == 0
    assert playground.calls == ["mkfs /dev/sdb", *MOUNTS]
    assert (playground.home / "var/lib/trainplan/data").is_dir()
    assert (playground.home / "var/lib/trainplan/spool/fetched").is_dir()


def test_a_machine_that_restarts_mounts_it_and_formats_nothing(playground: Playground) -> None:
    playground.disk("sdb")
    playground.run()
    playground.reboot()
    assert playground.run() == 0
    assert playground.calls == ["mkfs /dev/sdb", *MOUNTS, *MOUNTS]


def test_doing_it_again_changes_nothing(playground: Playground) -> None:
    playground.disk("sdb")
    playground.run()
    assert playground.run() == 0
    assert playground.calls == ["mkfs /dev/sdb", *MOUNTS]


@pytest.mark.parametrize(
    "disk",
    [{"signature": "xfs"}, {"names": "sdb\nsdb1\n"}, {"size": BYTES - 1}],
    ids=["a file system", "partitions", "too small"],
)
def test_what_is_not_blank_or_not_the_disk_is_never_formatted(playground: Playground, disk: dict[str, Any]) -> None:
    playground.disk("sdb", **disk)
    assert playground.run() == 1
    assert set(playground.calls) == {"sleep 5"}
    assert len(playground.calls) == 59


def test_a_disk_that_comes_late_is_waited_for(playground: Playground) -> None:
    playground.disk("sdb", folder="later")
    assert playground.run() == 0
    assert playground.calls == ["sleep 5", "mkfs /dev/sdb", *MOUNTS]


def test_a_machine_without_one_is_sent_nothing_of_it() -> None:
    text, plain = start_up(boot()), start_up(boot(data_disk_gib=0))
    assert "disk.sh" not in plain
    assert len(plain) <= MOST_BYTES
    paths = [row["path"] for row in yaml.safe_load(text)["write_files"]]
    assert [path for path in paths if path.endswith("disk.sh")] == ["/usr/local/lib/trainplan/disk.sh"]


def test_it_is_mounted_before_anything_is_fetched_and_a_machine_that_cannot_ends() -> None:
    """The agent, which fetches, comes last in the script; giving up says why and ends the machine."""
    lines = shell_parts(boot())["start.sh"].splitlines()
    (at,) = [number for number, line in enumerate(lines) if "disk.sh" in line]
    assert "|| give_up NO_DATA_DISK" in lines[at]
    assert lines.index('exec python3 -u "$agent" run') > at > lines.index("refused_at=0")


@pytest.mark.parametrize("name", ["start.sh", "disk.sh"])
def test_shell_is_clean(name: str) -> None:
    script = shell_parts(boot())[name]
    checker = Path(sys.executable).parent / "shellcheck"
    checked = subprocess.run(
        [checker, "--shell=sh", "-"], input=script, capture_output=True, text=True, timeout=300, check=False
    )
    assert checked.returncode == 0, checked.stdout
    assert "@" not in script.replace("$@", "")
