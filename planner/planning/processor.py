"""What the system tells of this machine's processor cores, beside the core that the model was measured on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# The measured core (AMD EPYC of the Zen 4 generation): 32 floating-point operations a cycle in fp32, and the clock
# that its time stamps count.
REFERENCE_MHZ = 2596.0
REFERENCE_WIDTH = 32
_REFERENCE_VENDOR, _REFERENCE_FAMILY = "AuthenticAMD", "25"
"""Zen 3 and Zen 4; the latter alone has AVX-512."""
_SLOWEST, _FASTEST = 0.25, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """`speed` is a core's peak beside the measured one's; `share` is how many cores a logical processor stands for
    (0.5: two threads a core). `is_measured`: they are of the generation that the model was measured on. `key` is equal
    for processors with the same name, generation, clock, caches, instruction sets and threads a core."""

    speed: float = 1.0
    share: float = 1.0
    is_measured: bool = False
    key: str = ""


def read_cpuinfo(path: Path = Path("/proc/cpuinfo")) -> str:
    """The system's own description of the processors; empty where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def cores_of(cpuinfo: str) -> Cores:
    """Read the text of /proc/cpuinfo on x86; a missing value is taken from the measured machine.

    The clock is half of `bogomips`, which is that of the time stamps; `cpu MHz` is lower while the processor rests.
    """
    pairs = (line.partition(":") for line in cpuinfo.splitlines())
    reply = {name.strip(): value.strip() for name, _, value in pairs}
    flags = frozenset(reply.get("flags", "").split())
    if not flags:
        return Cores()
    clock_mhz = _number(reply.get("bogomips")) / 2 or REFERENCE_MHZ
    speed = clock_mhz / REFERENCE_MHZ * _width(flags) / REFERENCE_WIDTH
    cores, threads = _number(reply.get("cpu cores")), _number(reply.get("siblings"))
    share = min(1.0, cores / threads) if cores and threads else 1.0
    return Cores(
        speed=min(_FASTEST, max(_SLOWEST, speed)),
        share=share,
        is_measured="avx512f" in flags
        and (reply.get("vendor_id"), reply.get("cpu family")) == (_REFERENCE_VENDOR, _REFERENCE_FAMILY),
        key=_key(reply),
    )


def _key(reply: Mapping[str, str]) -> str:
    """Names such as `AMD EPYC` stand for several generations on rented machines: what is kept by processor is kept by
    all that tells them apart. The clock is rounded, since the system measures it anew at each start."""
    parts = [reply.get(name, "") for name in _IDENTITY]
    parts.append(f"{_number(reply.get('bogomips')):.2g}")
    parts.append(" ".join(sorted(reply.get("flags", "").split())))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


_IDENTITY = ("vendor_id", "model name", "cpu family", "model", "cache size", "cpu cores", "siblings")


def _width(flags: frozenset[str]) -> int:
    """Floating-point operations in fp32 that a core does in a cycle; a multiply-add is two.

    AVX-512 counts as much as AVX2, on Intel's too: the two of Intel's that were measured reach no more
    (planner/throughput/data/processors.csv)."""
    if "avx2" in flags and "fma" in flags:
        return 32
    return 16 if "avx" in flags else 8


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
