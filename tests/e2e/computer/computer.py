"""One machine in QEMU, booted by cloud-init; its power, disk, network and clock can be meddled with."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MOST_BOOT_SECONDS = 420.0
"""From power on to the last switch, on two cores that others use too."""
ARMED = "the last switch is held in memory"
"""What the console says once the machine ends by itself, whatever happens to it."""
_STEP_SECONDS = 0.5
_KERNEL_LINE = "root=/dev/vda rw console=ttyS0 unknown_nmi_panic no_timer_check"
"""`no_timer_check`: on a busy computer QEMU may be late with the interrupts by which the kernel tests its timer."""
_METADATA = "instance-id: i-1\nlocal-hostname: machine\n"
NOCLOUD = "/var/lib/cloud/seed/nocloud"
_SHELL = """[Unit]
Description=a shell for trials
DefaultDependencies=no
[Service]
ExecStart=/bin/sh -c 'stty -F /dev/ttyS1 raw -echo; cat /dev/ttyS1 | /bin/sh >/dev/ttyS1 2>&1'
OOMScoreAdjust=-1000
Restart=always
"""
_UNITS = "/etc/systemd/system"


def disc(user_data: str) -> Mapping[str, str]:
    """Files that cloud-init's NoCloud source reads, by path."""
    return {f"{NOCLOUD}/user-data": user_data, f"{NOCLOUD}/meta-data": _METADATA}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """`image` is the folder that scripts/machine.sh made.

    `disk_mib` is the size of its disk, None as the image is. `clock` is the hardware clock at power on as QEMU takes it
    ("utc", or 2021-01-01T00:00:00). `host_clock`: it goes on while the machine is paused; a machine with it cannot be
    saved. `options` are more words for QEMU, `within` the words before it (a network namespace).
    """

    image: Path
    memory_mib: int = 1024
    disk_mib: int | None = None
    clock: str = "utc"
    host_clock: bool = False
    options: Sequence[str] = ("-nic", "none")
    within: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A machine as it was at an instant of its own clock (seconds since 1970): memory, disk."""

    hardware: Hardware
    memory: Path
    disk: Path
    clock: float


@dataclass(slots=True)
class Computer:
    """A machine that runs. Made by `power_on` and `resume`. `_ahead`: its clock less this process's monotonic one."""

    hardware: Hardware
    folder: Path
    disk: Path
    _process: subprocess.Popen[bytes]
    _ahead: float
    _off_at: float | None = field(default=None, init=False)

    def says(self, words: str, times: int = 1, within_seconds: float = MOST_BOOT_SECONDS) -> bool:
        """Whether its console says so, so many times, before it is off or the time is over."""
        return self._until(lambda: self.text().count(words) >= times, within_seconds)

    def text(self) -> str:
        """What its console has said, without colours."""
        console = self.folder / "console"
        data = console.read_bytes() if console.exists() else b""
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", data.decode("utf-8", "replace"))

    def clock(self) -> float:
        """What its clock says if nobody has set it or paused the machine (seconds since 1970)."""
        return time.monotonic() + self._ahead

    def off_at(self, by: float) -> float | None:
        """When it powered itself off, by its own clock; None if it is on at `by`."""
        try:
            if self._process.wait(max(0.0, by - self.clock())) == 0:
                self._off_at = self._off_at or self.clock()
        except subprocess.TimeoutExpired:
            return None
        return self._off_at

    def disk_operations_a_second(self, number: int) -> None:
        """From here on."""
        self.command(f"block_set_io_throttle disk 0 0 0 {number} 0 0")

    def disk_answers_nothing(self) -> None:
        """From here on one byte a second."""
        self.command("block_set_io_throttle disk 1 0 0 0 0 0")

    def network(self, connected: bool) -> None:
        """The plug of its only network card."""
        self.command(f"set_link net0 {'on' if connected else 'off'}")

    def panic(self) -> None:
        """Its kernel crashes: an interrupt that nobody handles."""
        self.command("nmi")

    def power_cut(self) -> None:
        """Power off and on again at once; what was not on the disk is gone."""
        self.command("system_reset")

    def power_off(self) -> None:
        """The power goes."""
        with suppress(OSError):  # it may be off
            self.command("quit")

    def pause(self, seconds: float) -> None:
        """It stands still, as a host may make it; its hardware clock goes on if it has `host_clock`."""
        self.command("stop")
        time.sleep(seconds)  # noqa: TID251  it lives in the real time
        self.command("cont")

    def save(self, folder: Path) -> Saved:
        """It as it is now; it goes on afterwards."""
        folder.mkdir(parents=True)
        clock = float(self.run("date +%s.%N"))
        self.command("stop")
        memory, disk = folder / "memory", folder / "disk"
        self.command("migrate_set_parameter max-bandwidth 10G")
        self.command(f'migrate "exec:cat >{memory}"', within_seconds=300)
        _copied(self.disk, disk)
        self.command("cont")
        return Saved(hardware=self.hardware, memory=memory, disk=disk, clock=clock)

    def run(self, script: str, within_seconds: float = 60.0) -> str:
        """What a root shell on it prints. Raises TimeoutError where it does not come to the end."""
        with self._socket("shell", within_seconds) as shell:
            shell.sendall(f"{script}\nprintf 'the %s\\n' end\n".encode())
            return _until_said(shell, b"the end\n").decode("utf-8", "replace").removesuffix("the end\n")

    def tell(self, script: str) -> None:
        """Its root shell, which has read it then; what the script does and says is not waited for."""
        self.run(f"({script}) >/dev/null 2>&1 &")

    def command(self, words: str, within_seconds: float = 30.0) -> str:
        """QEMU's monitor; what it answers."""
        with self._socket("monitor", within_seconds) as monitor:
            _until_said(monitor, b"(qemu) ")
            monitor.sendall(f"{words}\n".encode())
            return _until_said(monitor, b"(qemu) ").decode()

    def remove(self) -> None:
        """It and its disk, in whatever state."""
        self._process.kill()
        self._process.wait()
        if self.disk.parent == self.folder:
            self.disk.unlink(missing_ok=True)

    def _socket(self, name: str, within_seconds: float = 30.0) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(within_seconds)
        try:
            made.connect(str(self.folder / name))
        except OSError:
            made.close()
            raise
        return made

    def _until(self, holds: Callable[[], bool], within_seconds: float) -> bool:
        limit = time.monotonic() + within_seconds
        while time.monotonic() < limit:
            if holds():
                return True
            if self._process.poll() is not None:
                return False
            time.sleep(_STEP_SECONDS)  # noqa: TID251
        return False


def power_on(hardware: Hardware, folder: Path, files: Mapping[str, str]) -> Computer:
    """A new machine with these files (by path) on its disk; everything of it is in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    disk = folder / "disk"
    _copied(hardware.image / "disk.ext4", disk)
    if hardware.disk_mib is not None:
        subprocess.run(["resize2fs", disk, f"{hardware.disk_mib}M"], check=True, capture_output=True)
    links = {f"{_UNITS}/sysinit.target.wants/trial-shell.service": "../trial-shell.service"}
    _put(disk, folder, {**files, f"{_UNITS}/trial-shell.service": _SHELL}, links)
    process = _qemu(hardware, folder, disk)
    return Computer(hardware, folder, disk, process, time.time() - time.monotonic())


def resume(saved: Saved, folder: Path) -> Computer:
    """The machine goes on where it was saved; what it writes is lost with it."""
    folder.mkdir(parents=True, exist_ok=True)
    how = ("-snapshot", "-S", "-incoming", f"exec:cat {saved.memory}")
    computer = Computer(saved.hardware, folder, saved.disk, _qemu(saved.hardware, folder, saved.disk, *how), 0.0)
    loaded = computer._until(lambda: _loaded(computer), 120.0)
    assert loaded, "QEMU has not read the saved machine"
    computer._ahead = saved.clock - time.monotonic()
    computer.command("cont")
    return computer


def _loaded(computer: Computer) -> bool:
    try:
        return "inmigrate" not in computer.command("info status")
    except (FileNotFoundError, ConnectionError):
        return False  # QEMU has not opened its monitor yet


def _qemu(hardware: Hardware, folder: Path, disk: Path, *more: str) -> subprocess.Popen[bytes]:
    words = (
        *hardware.within,
        *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"),
        *("-m", str(hardware.memory_mib)),
        *("-display", "none"),
        *("-rtc", f"base={hardware.clock},clock={'host' if hardware.host_clock else 'vm'}"),
        *("-kernel", str(hardware.image / "vmlinuz"), "-initrd", str(hardware.image / "initrd")),
        *("-append", _KERNEL_LINE, "-drive", f"file={disk},format=raw,if=virtio,id=disk", *hardware.options),
        *("-serial", f"file:{folder / 'console'}", "-serial", f"unix:{folder / 'shell'},server=on,wait=off"),
        *("-monitor", f"unix:{folder / 'monitor'},server=on,wait=off", *more),
    )
    return subprocess.Popen(words, stdin=subprocess.DEVNULL)


def _put(disk: Path, folder: Path, files: Mapping[str, str], links: Mapping[str, str]) -> None:
    """Files and links onto a file system of ext4 that is not mounted."""
    lines = []
    for number, (path, text) in enumerate(files.items()):
        source = folder / f"put-{number}"
        source.write_text(text)
        lines += [*_folders(path), f"rm {path}", f"write {source} {path}"]
    for path, target in links.items():
        lines += [*_folders(path), f"symlink {path} {target}"]
    # It says of each folder and file which is there, or not, that it is; and ends with 0 whatever happened.
    words = ["debugfs", "-w", "-f", "-", str(disk)]
    subprocess.run(words, input="\n".join(lines), text=True, check=True, capture_output=True)


def _folders(path: str) -> list[str]:
    return [f"mkdir {folder}" for folder in reversed(Path(path).parents) if folder != Path("/")]


def _copied(source: Path, target: Path) -> None:
    subprocess.run(["cp", "--sparse=always", source, target], check=True)


def _until_said(stream: socket.socket, words: bytes) -> bytes:
    said = b""
    while not said.endswith(words):
        piece = stream.recv(65536)
        if not piece:
            raise ConnectionError(f"ended after {said[-500:]!r}")
        said += piece
    return said
