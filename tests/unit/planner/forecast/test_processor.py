"""What the system tells of its processor cores, beside the measured one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.forecast.processor import cores_of, read_cpuinfo

if TYPE_CHECKING:
    from pathlib import Path


def cpuinfo(vendor: str, flags: str, bogomips: str, **more: str) -> str:
    """One logical processor, as Linux writes it."""
    lines = {"processor": "0", "vendor_id": vendor, "cpu MHz": "800.0", "flags": flags, "bogomips": bogomips}
    lines |= {name.replace("_", " "): value for name, value in more.items()}
    return "".join(f"{name}\t: {value}\n" for name, value in lines.items()) + "\n"


ZEN4 = cpuinfo("AuthenticAMD", "fpu avx fma avx2 avx512f", "5192.0", siblings="2", cpu_cores="2")


@pytest.mark.parametrize(
    ("text", "speed", "share"),
    [
        (ZEN4, 1.0, 1.0),
        (ZEN4 + ZEN4, 1.0, 1.0),
        # Two threads a core; two units of 512 bits count one and a half times.
        (cpuinfo("GenuineIntel", "avx fma avx2 avx512f", "5192.0", siblings="8", cpu_cores="4"), 1.5, 0.5),
        (cpuinfo("GenuineIntel", "avx fma avx2", "10384.0"), 2.0, 1.0),
        (cpuinfo("GenuineIntel", "avx", "5192.0"), 0.5, 1.0),
        (cpuinfo("GenuineIntel", "sse2", "5192.0"), 0.25, 1.0),
        # Held within what can be believed.
        (cpuinfo("GenuineIntel", "avx fma avx2 avx512f", "20000.0"), 2.0, 1.0),
        (cpuinfo("GenuineIntel", "sse2", "100.0"), 0.25, 1.0),
        (cpuinfo("GenuineIntel", "fma avx2", "nonsense", siblings="0", cpu_cores="0"), 1.0, 1.0),
        # Arm tells features, and a bogomips that says nothing of its clock.
        ("processor: 0\nBogoMIPS: 50.00\nFeatures: fp asimd\n", 1.0, 1.0),
        ("", 1.0, 1.0),
    ],
)
def test_the_peak_of_a_core_beside_the_measured_one(text: str, speed: float, share: float) -> None:
    found = cores_of(text)
    assert (found.speed, found.share) == (pytest.approx(speed), share)


def test_a_system_without_that_file_tells_nothing(tmp_path: Path) -> None:
    assert read_cpuinfo(tmp_path / "cpuinfo") == ""
    (tmp_path / "cpuinfo").write_bytes(b"flags: avx2 \xff\n")
    assert read_cpuinfo(tmp_path / "cpuinfo").startswith("flags: avx2")
