"""What this machine is, read from made-up proc and sys trees and made-up tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from trainplan.providers.hardware import (
    Gpu,
    HostHardware,
    available_memory_bytes,
    find_gpus,
    memory_bytes,
    running_threads,
    this_machine,
    vcpus,
)

MEMINFO = "MemTotal:       16000000 kB\nMemAvailable:    9000000 kB\n"
LINUX = pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="reads proc")


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@LINUX
@pytest.mark.parametrize(
    ("files", "gib_in_bytes"),
    [
        ({}, 16_000_000 * 1024),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.max": "max\n"}, 16_000_000 * 1024),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.max": "4000000\n"}, 4_000_000),
        (
            {
                "proc/self/cgroup": "0::/outer/job\n",
                "sys/fs/cgroup/outer/memory.max": "3000000\n",
                "sys/fs/cgroup/outer/job/memory.max": "4000000\n",
            },
            3_000_000,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/job\n",
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712\n",
            },
            16_000_000 * 1024,
        ),
        (
            {"proc/self/cgroup": "4:memory:/job\n", "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "5000000\n"},
            5_000_000,
        ),
    ],
)
def test_memory_counts_the_tightest_limit(tmp_path: Path, files: dict[str, str], gib_in_bytes: int) -> None:
    assert memory_bytes(tree(tmp_path, {"proc/meminfo": MEMINFO, **files})) == gib_in_bytes


@LINUX
def test_memory_that_is_not_told_is_not_guessed(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path) == 0
    assert available_memory_bytes(tmp_path) is None
    assert available_memory_bytes(tree(tmp_path, {"proc/meminfo": MEMINFO})) == 9_000_000 * 1024


@LINUX
@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 100000\n"},
        {
            "proc/self/cgroup": "1:cpu,cpuacct:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    ],
)
def test_a_quota_of_one_processor_or_less_is_one(tmp_path: Path, files: dict[str, str]) -> None:
    assert vcpus(tree(tmp_path, files)) == 1


@LINUX
def test_no_quota_is_no_limit(tmp_path: Path) -> None:
    free = tree(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"})
    assert vcpus(free) == vcpus(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("output", "gpus"),
    [
        ("", ()),
        ("0, NVIDIA H200, 143771\n", (Gpu(index=0, name="NVIDIA H200", memory_gib=140.4),)),
        (
            "0, Tesla T4, 15360\n1, Tesla T4, 15360\n",
            (Gpu(index=0, name="Tesla T4", memory_gib=15.0), Gpu(index=1, name="Tesla T4", memory_gib=15.0)),
        ),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", ()),
        ("0, NVIDIA GB10, [N/A]\n", ()),
    ],
)
def test_gpus_are_what_nvidia_smi_lists(output: str, gpus: tuple[Gpu, ...]) -> None:
    assert find_gpus(lambda _: output) == gpus


def test_compute_capabilities_are_asked_for_apart() -> None:
    """A driver before 510 refuses a question that names the field."""

    def output(words: Sequence[str]) -> str:
        return "0, 7.0\n" if "index,compute_cap" in words[1] else "0, Tesla V100-SXM2-16GB, 16384\n1, K80, 11441\n"

    assert [gpu.capability for gpu in find_gpus(output)] == ["7.0", ""]


def test_the_fingerprint_follows_what_a_measurement_depends_on() -> None:
    machine = HostHardware(system="linux", architecture="x86_64", cpu_name="A", vcpus=2, memory_gib=8.0)
    same = replace(machine, memory_gib=16.0)
    others = [
        replace(machine, cpu_name="B"),
        replace(machine, vcpus=4),
        replace(machine, gpus=(Gpu(index=0, name="Tesla T4", memory_gib=15.0),)),
    ]
    assert same.fingerprint == machine.fingerprint
    assert len({machine.fingerprint, *(other.fingerprint for other in others)}) == 4


def test_this_machine_has_processors() -> None:
    machine = this_machine()
    assert machine.vcpus >= 1
    assert machine.cpu_name
    assert machine.fingerprint == this_machine().fingerprint


@pytest.mark.parametrize(("text", "threads"), [("1.86 2.44 2.11 4/548 2211\n", 4), ("", 0), ("a b c many\n", 0)])
def test_threads_that_want_a_processor_now(tmp_path: Path, text: str, threads: int) -> None:
    assert running_threads(tree(tmp_path, {"proc/loadavg": text})) == threads
