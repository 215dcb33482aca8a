"""This computer as hardware: its processor, memory, NVIDIA GPUs, and a fingerprint that measurements are kept under."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

GIB = 2**30
_TOOL_PATIENCE_SECONDS = 10
_UNLIMITED = 2**60  # cgroup v1 writes "no limit" as a number just below 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One NVIDIA GPU as `nvidia-smi` numbers and names it; `capability` is "" where its driver does not tell it."""

    index: int
    name: str
    memory_gib: float
    capability: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHardware:
    """`vcpus` and `memory_gib` are what this process may use: affinity and cgroup limits are counted in."""

    system: str
    architecture: str
    cpu_name: str
    vcpus: int
    memory_gib: float
    gpus: tuple[Gpu, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits, equal as long as a measurement taken here still counts."""
        parts = [self.system, self.architecture, self.cpu_name, str(self.vcpus)]
        parts += [f"{gpu.name} {gpu.memory_gib:.0f}" for gpu in self.gpus]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSpeed:
    """How fast a job's steps went here for some seconds. `others` is the share of this machine's processors, 0 to 1,
    that other programs had meanwhile; `framework` with its version."""

    images_per_second: float
    others: float
    framework: str


def this_machine() -> HostHardware:
    """Look at the hardware. What cannot be read is left out, never guessed: a machine without a name is `cpu`."""
    return HostHardware(
        system=platform.system().lower(),
        architecture=_ARCHITECTURES.get(platform.machine().lower(), platform.machine().lower()),
        cpu_name=_cpu_name(),
        vcpus=vcpus(),
        memory_gib=round(memory_bytes() / GIB, 1),
        gpus=find_gpus(_output),
    )


def vcpus(root: Path = Path("/")) -> int:
    """Logical processors this process may use, at least 1; `root` is where proc and sys are read."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = _cpu_quota(root)
    return max(1, min(count, round(quota)) if quota else count)


def memory_bytes(root: Path = Path("/")) -> int:
    """Memory this process may use, in bytes; 0 where it cannot be told."""
    total = _total_memory(root)
    limits = [limit for limit in _cgroup_limits(root, "memory", "memory.max", "memory.limit_in_bytes") if limit > 0]
    limits = [limit for limit in limits if limit < _UNLIMITED]
    return min([total, *limits]) if total else min(limits, default=0)


def available_memory_bytes(root: Path = Path("/")) -> int | None:
    """Memory that is free for a new program now, in bytes; None where it cannot be told."""
    return _meminfo(root, "MemAvailable")


def running_threads(root: Path = Path("/")) -> int:
    """How many threads have or want a processor at this instant (proc_loadavg(5)); 0 where the system does not tell."""
    words = _words(root / "proc/loadavg")
    try:
        return int(words[3].partition("/")[0])
    except (IndexError, ValueError):
        return 0


def find_gpus(output: Callable[[Sequence[str]], str]) -> tuple[Gpu, ...]:
    """The GPUs that `nvidia-smi` lists; none where it is missing or fails. `output` runs a command."""
    lines = output(["nvidia-smi", "--query-gpu=index,name,memory.total", "--format=csv,noheader,nounits"]).splitlines()
    rows = [[cell.strip() for cell in line.split(",")] for line in lines]
    # Asked apart: a driver that does not know this field (before 510) refuses the whole question.
    asked = output(["nvidia-smi", "--query-gpu=index,compute_cap", "--format=csv,noheader"]) if rows else ""
    capabilities = dict(re.findall(r"(?m)^(\d+), *(\d+\.\d+) *$", asked))
    return tuple(
        Gpu(
            index=int(row[0]),
            name=row[1],
            memory_gib=round(float(row[2]) / 1024, 1),
            capability=capabilities.get(row[0], ""),
        )
        for row in rows
        if len(row) == 3 and row[0].isdigit() and row[2].replace(".", "", 1).isdigit()
    )


def driver_version(output: Callable[[Sequence[str]], str] | None = None) -> str:
    """The version of the NVIDIA driver; "" where there is none. `output` runs a command (None: on this computer)."""
    lines = (output or _output)(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]).splitlines()
    version = lines[0].strip() if lines else ""
    return version if re.fullmatch(r"[0-9.]{1,20}", version) else ""


def canonical_device(name: str, device_name: Callable[[str], str | None]) -> str:
    """The device that `nvidia-smi` means by a name, or that name without its maker."""
    short = name
    for maker in _MAKERS:
        short = short.removeprefix(maker)
    for spelling in (name, _SPELLINGS.get(short.lower(), short)):
        if device := device_name(spelling):
            return device
    return short


_MAKERS = ("NVIDIA ", "Tesla ", "Quadro ", "GeForce ")
# Names of nvidia-smi that no spelling of a price list leads to.
_SPELLINGS = {"h100 80gb hbm3": "H100", "a100 sxm": "A100-40GB", "gh200 480gb": "GH200"}
_ARCHITECTURES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}


def _cpu_name() -> str:
    return " ".join((_cpuinfo_name() or _asked_name() or platform.processor() or "cpu").split())


def _cpuinfo_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1] if match else ""


def _asked_name() -> str:
    return _output(["sysctl", "-n", "machdep.cpu.brand_string"]) if sys.platform == "darwin" else ""


def _total_memory(root: Path) -> int:
    if sys.platform == "linux":
        return _meminfo(root, "MemTotal") or 0
    return installed_memory_bytes()


def installed_memory_bytes() -> int:
    """Return the machine's memory where there is no /proc to read; 0 where the system does not tell."""
    import psutil

    try:
        return int(psutil.virtual_memory().total)
    except (OSError, psutil.Error):
        return 0


def _meminfo(root: Path, key: str) -> int | None:
    try:
        text = (root / "proc/meminfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    match = re.search(rf"^{key}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _cpu_quota(root: Path) -> float | None:
    """Processors by cgroup quota: the tightest of this process's group and those above it."""
    quotas = []
    for folder in _cgroup_folders(root, "cpu"):
        words = _words(folder / "cpu.max") or [
            *_words(folder / "cpu.cfs_quota_us"),
            *_words(folder / "cpu.cfs_period_us"),
        ]
        if len(words) == 2 and words[0].isdigit() and int(words[1]):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def _cgroup_limits(root: Path, controller: str, *files: str) -> list[int]:
    namess = [_words(folder / file) for folder in _cgroup_folders(root, controller) for file in files]
    return [int(words[0]) for words in namess if words and words[0].isdigit()]


def _cgroup_folders(root: Path, controller: str) -> list[Path]:
    """The folders of this process's group and all above it, of cgroup v2 and of the v1 controller."""
    folders = []
    for line in _lines(root / "proc/self/cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            top = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            top = root / "sys/fs/cgroup" / controller
        else:
            continue
        here = top / path.lstrip("/")
        folders += [folder for folder in (here, *here.parents) if folder.is_relative_to(top)]
    return folders


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []


def _output(command: Sequence[str]) -> str:
    """What a command prints; nothing where it is missing, fails or hangs."""
    try:
        process = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TOOL_PATIENCE_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout if process.returncode == 0 else ""
