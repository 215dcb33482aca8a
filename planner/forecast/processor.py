"""What the system tells of this machine's processor cores, beside the core that the model was measured on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# The measured core (AMD EPYC of the Zen 4 generation): 32 floating-point operations a cycle in fp32, and the clock
# that its time stamps count.
_REFERENCE_MHZ = 2596.0
_REFERENCE_WIDTH = 32
# Two 512-bit units do 64; the clock falls under them and some processors have one: an allowance, not measured.
_WIDTH_AVX512_INTEL = 48
_SLOWEST, _FASTEST = 0.25, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """`speed` is a core's peak beside the measured one's; `share` is how many cores a logical processor stands for
    (0.5: two threads a core)."""

    speed: float = 1.0
    share: float = 1.0


def read_cpuinfo(path: Path = Path("/proc/cpuinfo")) -> str:
    """The system's own description of the processors; empty where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def cores_of(cpuinfo: str) -> Cores:
    """From the text of /proc/cpuinfo on x86; what it does not tell is taken to be as on the measured machine.

    The clock is half of `bogomips`, which is that of the time stamps; `cpu MHz` is lower while the processor rests.
    """
    pairs = (line.partition(":") for line in cpuinfo.splitlines())
    reply = {name.strip(): value.strip() for name, _, value in pairs}
    flags = frozenset(reply.get("flags", "").split())
    if not flags:
        return Cores()
    clock_mhz = _number(reply.get("bogomips")) / 2 or _REFERENCE_MHZ
    speed = clock_mhz / _REFERENCE_MHZ * _width(flags, reply.get("vendor_id", "")) / _REFERENCE_WIDTH
    cores, threads = _number(reply.get("cpu cores")), _number(reply.get("siblings"))
    share = min(1.0, cores / threads) if cores and threads else 1.0
    return Cores(speed=min(_FASTEST, max(_SLOWEST, speed)), share=share)


def _width(flags: frozenset[str], vendor: str) -> int:
    """Floating-point operations in fp32 that a core does in a cycle; a multiply-add is two."""
    if "avx512f" in flags and vendor == "GenuineIntel":
        return _WIDTH_AVX512_INTEL
    if "avx2" in flags and "fma" in flags:
        return 32
    return 16 if "avx" in flags else 8


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
