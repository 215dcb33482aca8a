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
# Each device is a folder with what the tools tell of it.
TOOLS = {
    "lsblk": 'case "$2" in SIZE) cat "$3/size" ;; NAME) cat "$3/names" ;; *) cat "$3/mounts" 2>/dev/null; esac',
    "wipefs": '[ ! -e "$2/broken" ] || exit 1; cat "$2/signature" 2>/dev/null || :',
    "cmp": '[ ! -e "$4/raw" ]',
    "blkid": 'for disk in @/dev/*; do [ "$(cat "$disk/id" 2>/dev/null)" != "$2" ] || { echo "$disk"; exit; }; done\n'
    "exit 2",
    "mkfs.ext4": 'while [ $# -gt 1 ]; do [ "$1" != -U ] || id=$2; shift; done\necho "mkfs $1" >>@/told\n'
    'echo ext4 >"$1/signature"; echo "$id" >"$1/id"',
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
        self.disk("sda", size=f"{100 * 1024**3}", names="sda\nsda1\nsda15", signature="gpt", mounts="/\n/boot/efi")

    def disk(self, name: str, folder: str = "", **told: str) -> Path:
        """`told` are files with what the tools tell of it."""
        made = self.home / (folder or f"dev/{name}")
        made.mkdir(parents=True)
        for what, text in {"size": f"{BYTES}", "names": name, **told}.items():
            (made / what).write_text(f"{text}\n")
        return made

    def run(self, **changes: Any) -> str:
        """What it says: nothing where the disk is mounted. Under the folder, and with folders for devices."""
        script = shell_parts(boot(**changes))["disk.sh"].replace("/var/lib", f"{self.home}/var/lib")
        script = script.replace("/dev/sd?", f"{self.home}/dev/sd?").replace("/dev/nvme?n?", f"{self.home}/dev/nvme?n?")
        script = script.replace('[ -b "$device" ]', '[ -d "$device" ]')
        tools = {"PATH": f"{self.home}/tools:/usr/bin:/bin"}
        ran = subprocess.run(
            ["sh"], input=script, text=True, env=tools, timeout=300, check=False, stdout=subprocess.PIPE
        )
        assert (ran.returncode == 0) is (ran.stdout == "")
        return ran.stdout.replace(f"{self.home}/", "/")

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
    assert playground.run() == ""
    assert playground.calls == ["mkfs /dev/sdb", *MOUNTS]
    assert (playground.home / "var/lib/trainplan/data").is_dir()
    assert (playground.home / "var/lib/trainplan/spool/fetched").is_dir()


def test_a_machine_that_restarts_mounts_it_and_formats_nothing(playground: Playground) -> None:
    playground.disk("sdb")
    playground.run()
    playground.reboot()
    assert playground.run() == ""
    assert playground.calls == ["mkfs /dev/sdb", *MOUNTS, *MOUNTS]


def test_doing_it_again_changes_nothing(playground: Playground) -> None:
    playground.disk("sdb")
    playground.run()
    assert playground.run() == ""
    assert playground.calls == ["mkfs /dev/sdb", *MOUNTS]


@pytest.mark.parametrize(
    ("disk", "why"),
    [
        ({"signature": "xfs"}, "holds a file system or a table of partitions"),
        ({"names": "sdb\nsdb1"}, "has partitions"),
        ({"size": f"{BYTES - 1}"}, f"has {BYTES - 1} bytes of {BYTES}"),
        ({"raw": "somebody's"}, "does not begin with zeros"),
        ({"broken": ""}, "cannot be read"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_blank_or_not_the_disk_is_never_formatted(
    playground: Playground, disk: dict[str, str], why: str
) -> None:
    playground.disk("sdb", **disk)
    assert playground.run() == f"there is no blank disk for the data: /dev/sdb {why}\n"
    assert playground.calls == ["sleep 5"] * 5


def test_a_disk_that_never_comes_is_waited_for_longer_than_one_that_is_refused(playground: Playground) -> None:
    assert playground.run() == "there is no blank disk for the data: none is attached\n"
    assert playground.calls == ["sleep 5"] * 59


def test_a_disk_of_another_run_is_somebodys(playground: Playground) -> None:
    """Its data are none of this run's, and may be the only copy of somebody's."""
    playground.disk("sdb")
    playground.run()
    playground.reboot()
    for other in ({"attempt": 2}, {"run_uri": "gs://bucket/runs/r2"}):
        assert (
            playground.run(**other)
            == "there is no blank disk for the data: /dev/sdb holds a file system or a table of partitions\n"
        )
    playground.disk("nvme0n1")
    assert playground.run(attempt=2) == ""
    assert playground.calls[-4] == "mkfs /dev/nvme0n1"


def test_of_two_blank_ones_the_first_is_formatted_and_found_again(playground: Playground) -> None:
    playground.disk("sdc")
    playground.disk("nvme0n1")
    assert playground.run() == ""
    playground.reboot()
    playground.disk("sdb")
    assert playground.run() == ""
    assert [call for call in playground.calls if "mkfs" in call or "noatime" in call] == [
        "mkfs /dev/sdc",
        *["mount -o discard,noatime /dev/sdc /var/lib/trainplan/data-disk"] * 2,
    ]


def test_a_disk_that_comes_late_is_waited_for(playground: Playground) -> None:
    playground.disk("sdb", folder="later")
    assert playground.run() == ""
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
    assert lines[at].endswith('|| give_up NO_DATA_DISK "$why"')
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
