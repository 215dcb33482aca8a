"""One machine in QEMU, booted by cloud-init from user data on its disk; disk, clock and power can be meddled with."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

BOOT_SECONDS = 420.0
"""From power on to armed timers, on two cores that others use too."""
_STEP_SECONDS = 1.0
_KERNEL_LINE = "root=/dev/vda rw console=ttyS0 ds=nocloud unknown_nmi_panic panic_print=0"
_METADATA = "instance-id: i-1\nlocal-hostname: machine\n"
_SEED = "/var/lib/cloud/seed/nocloud"
ARMED = "the last switch is held in memory"
"""What the console says once the machine ends by itself, whatever happens to it."""


class Computer:
    """`image` is the folder that scripts/machine.sh made, `folder` where the disk and the console of this one lie.

    `clock` is the hardware clock at power on as QEMU takes it ("utc", or 2021-01-01T00:00:00).
    """

    def __init__(self, image: Path, folder: Path, user_data: str, clock: str = "utc") -> None:
        self._folder = folder
        self.console = folder / "console"
        disk = folder / "disk.ext4"
        subprocess.run(["cp", "--sparse=always", image / "disk.ext4", disk], check=True)
        self._seed(disk, user_data)
        self._process = subprocess.Popen(self._command(image, disk, clock), stdin=subprocess.DEVNULL)

    def _seed(self, disk: Path, user_data: str) -> None:
        (self._folder / "user-data").write_text(user_data)
        (self._folder / "meta-data").write_text(_METADATA)
        parts = Path(_SEED).parts[1:]
        made = [f"mkdir {'/'.join(parts[: number + 1])}" for number in range(len(parts))]
        written = [f"write {self._folder / name} {_SEED[1:]}/{name}" for name in ("user-data", "meta-data")]
        subprocess.run(["debugfs", "-w", "-f", "-", disk], input="\n".join([*made, *written]), text=True, check=True)

    def _command(self, image: Path, disk: Path, clock: str) -> Sequence[str]:
        return (
            *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024"),
            *("-display", "none", "-nic", "none", "-rtc", f"base={clock}"),
            *("-kernel", str(image / "vmlinuz"), "-initrd", str(image / "initrd"), "-append", _KERNEL_LINE),
            *("-drive", f"file={disk},format=raw,if=virtio,id=disk"),
            *("-serial", f"file:{self.console}", "-monitor", f"unix:{self._monitor},server,nowait"),
        )

    @property
    def _monitor(self) -> Path:
        return self._folder / "monitor"

    def says(self, words: str, times: int = 1, within_seconds: float = BOOT_SECONDS) -> bool:
        """Whether its console says so, so many times, before it is off or the time is over."""
        limit = time.monotonic() + within_seconds
        while time.monotonic() < limit:
            if self.text().count(words) >= times:
                return True
            if self._process.poll() is not None:
                return False
            time.sleep(_STEP_SECONDS)  # noqa: TID251  it lives in the real time
        return False

    def text(self) -> str:
        """What its console has said, without colours."""
        data = self.console.read_bytes() if self.console.exists() else b""
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", data.decode("utf-8", "replace"))

    def is_off_within(self, seconds: float) -> bool:
        """Whether it has powered itself off by then."""
        try:
            return self._process.wait(max(0.0, seconds)) == 0
        except subprocess.TimeoutExpired:
            return False

    def disk_answers_nothing(self) -> None:
        """From here on one byte a second."""
        self.command("block_set_io_throttle disk 1 0 0 0 0 0")

    def panic(self) -> None:
        """Its kernel crashes: an interrupt that nobody handles."""
        self.command("nmi")

    def pause(self, seconds: float) -> None:
        """It stands still, as a host may make it; its hardware clock goes on."""
        self.command("stop")
        time.sleep(seconds)  # noqa: TID251
        self.command("cont")

    def command(self, words: str) -> None:
        """Tell QEMU's monitor."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(30.0)
            monitor.connect(str(self._monitor))
            self._until_ready(monitor)
            monitor.sendall(f"{words}\n".encode())
            self._until_ready(monitor)

    @staticmethod
    def _until_ready(monitor: socket.socket) -> None:
        said = b""
        while not said.endswith(b"(qemu) "):
            said += monitor.recv(4096)

    def remove(self) -> None:
        """It and its disk, in whatever state."""
        self._process.kill()
        self._process.wait()
        (self._folder / "disk.ext4").unlink()
