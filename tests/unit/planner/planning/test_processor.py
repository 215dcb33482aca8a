"""What the system tells of its processor cores, beside the measured one."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainplan.planner.planning.processor import cores_of, read_cpuinfo


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
        # Two threads a core; units of 512 bits bring nothing that was measured.
        (cpuinfo("GenuineIntel", "avx fma avx2 avx512f", "5192.0", siblings="8", cpu_cores="4"), 1.0, 0.5),
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


def test_only_the_generation_that_the_model_was_fitted_to_is_measured() -> None:
    family = {"cpu_family": "25"}
    zen4 = cpuinfo("AuthenticAMD", "avx fma avx2 avx512f", "5192.0", **family)
    others = [
        cpuinfo("AuthenticAMD", "avx fma avx2", "5192.0", **family),  # Zen 3
        cpuinfo("AuthenticAMD", "avx fma avx2 avx512f", "5192.0", cpu_family="26"),
        cpuinfo("GenuineIntel", "avx fma avx2 avx512f", "5192.0", **family),
        "",
    ]
    assert cores_of(zen4).is_measured
    assert [cores_of(other).is_measured for other in others] == [False] * 4


def test_processors_of_one_name_are_told_apart_by_generation_caches_clock_and_instructions() -> None:
    name = {"model_name": "AMD EPYC", "cpu_family": "25", "cache_size": "1024 KB"}
    key = cores_of(cpuinfo("AuthenticAMD", "avx avx2", "5192.0", **name)).key
    others = [
        cpuinfo("AuthenticAMD", "avx", "5192.0", **name),
        cpuinfo("AuthenticAMD", "avx avx2", "5192.0", **name | {"cache_size": "512 KB"}),
        cpuinfo("AuthenticAMD", "avx avx2", "5192.0", **name | {"cpu_family": "23"}),
        cpuinfo("AuthenticAMD", "avx avx2", "6000.0", **name),
    ]
    assert len({key, *(cores_of(other).key for other in others)}) == 5
    # The order of flags and the clock's last digits differ from one start of the system to the next.
    assert cores_of(cpuinfo("AuthenticAMD", "avx2 avx", "5192.3", **name)).key == key


def test_a_system_without_that_file_tells_nothing(tmp_path: Path) -> None:
    assert read_cpuinfo(tmp_path / "cpuinfo") == ""
    (tmp_path / "cpuinfo").write_bytes(b"flags: avx2 \xff\n")
    assert read_cpuinfo(tmp_path / "cpuinfo").startswith("flags: avx2")
