"""What a rented machine installs is pinned by hash, and is what the requirement lists ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.device_code import DeviceCode, DeviceCodeError, spelled, tenfold
from scripts.pins import (
    NOT_CALLED,
    Environment,
    Pin,
    Pins,
    WheelCode,
    as_text,
    capabilities,
    capabilities_in,
    pinned_texts,
    with_capabilities,
)
from tests.conftest import Golden
from trainplan.providers.cloud.images import Software, table
from trainplan.providers.cloud.trainer_wheel import PINNED, pinned, requirements
from trainplan.workloads.runtimes import RUNTIMES

SOFTWARE = sorted(table().software)
GPU_SOFTWARE = [name for name in SOFTWARE if table().software[name].kind == "gpu"]
_ENTRY = re.compile(r"[a-z0-9.-]+==[^ ;]+( ; [^\\]+)?( --hash=sha256:[0-9a-f]{64})+")
UNSEEN = "none of the requirement lists was changed without `make pins`"


def entries(name: str) -> Iterator[str]:
    """Each package of a pinned list in one line."""
    text = re.sub(r" \\\n +", " ", pinned(name))
    return (line for line in text.splitlines() if not line.startswith("#"))


@pytest.mark.parametrize("name", SOFTWARE)
def test_each_package_has_a_version_and_hashes(name: str) -> None:
    found = list(entries(name))
    assert len(found) > 20
    assert all(_ENTRY.fullmatch(entry) for entry in found), found
    assert "://" not in pinned(name), "where it comes from is how pip is set up, not what the list says"


@pytest.mark.parametrize("name", SOFTWARE)
def test_the_pins_are_those_of_the_requirement_lists(name: str) -> None:
    have: dict[str, set[str]] = {}
    for entry in entries(name):
        package, _, version = re.split(" ", entry)[0].partition("==")
        have.setdefault(canonicalize_name(package), set()).add(version)
    lists = requirements(table().software[name].requirements)
    wanted = [Requirement(line) for line in lists.splitlines() if line and not line.startswith("#")]
    for requirement in wanted:
        assert have.get(canonicalize_name(requirement.name)) == {str(requirement.specifier)[2:]}, UNSEEN


def test_no_list_is_left_of_a_software_that_is_gone() -> None:
    assert sorted(path.stem for path in PINNED.iterdir()) == SOFTWARE


def test_an_entry_names_the_machines_that_it_is_for() -> None:
    intel, arm = Environment("3.12", "x86_64"), Environment("3.12", "aarch64")
    old = Environment("3.11", "x86_64")
    pins = {
        ("a", "1"): Pin({intel, arm, old}, {"1" * 64}),
        ("b", "1"): Pin({arm}, {"2" * 64}),
        ("c", "1"): Pin({old}, {"3" * 64}),
        ("d", "1"): Pin({arm, old}, {"4" * 64}),
    }
    text = as_text("a test", pins, {intel, arm, old})
    wanted = [
        "a==1 \\",
        'b==1 ; platform_machine == "aarch64" \\',
        'c==1 ; python_version == "3.11" \\',
        'd==1 ; (platform_machine == "x86_64" and python_version == "3.11") or '
        '(platform_machine == "aarch64" and python_version == "3.12") \\',
    ]
    assert [line for line in text.splitlines() if "==1" in line] == wanted


@pytest.mark.parametrize("name", GPU_SOFTWARE)
def test_the_code_that_is_pinned_reaches_every_gpu_that_trains_with_it(name: str) -> None:
    """cuDNN 9.28 was pinned for V100, P100 and P4: it has no code for them."""
    found = capabilities_in(pinned(name))
    makers = ("cudnn", "cublas", "nccl", "tensorflow", "jax-cuda", "torch")
    for maker in makers[:3]:
        assert any(maker in package for package in found), f"{maker} was not read"
    assert any(maker in package for package in found for maker in makers[3:])
    rows = [row for row in RUNTIMES if row.software == name]
    assert rows
    for row in rows:
        late = {package: code for package, code in found.items() if code > tenfold(row.least_capability)}
        assert set(late) <= set(NOT_CALLED), f"{row.software} for {row.least_capability}: {late}"


def test_what_trains_on_volta_is_built_with_a_cudnn_that_is_no_newer() -> None:
    """TensorFlow and JAX refuse a cuDNN older than the one they were built with (9.3.0 and 9.8.0, read 2026-11-26)."""
    for name in ("tensorflow-volta", "jax-volta"):
        (version,) = re.findall(r"^nvidia-cudnn-cu12==9\.(\d+)\.", pinned(name), re.MULTILINE)
        assert 8 <= int(version) <= 10


def test_from_where_on_each_wheel_has_code(golden: Golden) -> None:
    """docs/what-runs-where.md leads to the table."""
    lines = ["| software | wheels with device code, by the lowest compute capability |", "|---|---|"]
    for name in table().software:
        found = capabilities_in(pinned(name))
        by_code = {code: sorted(p for p, c in found.items() if c == code) for code in sorted(set(found.values()))}
        texts = [f"{spelled(code)}: {', '.join(packages)}" for code, packages in by_code.items()]
        lines += [f"| `{name}` | {'; '.join(texts)} |"] if texts else []
    golden.check("device-code.txt", "\n".join(lines) + "\n")


HERE = Environment("3.12", "x86_64")


def pin(software: Software) -> tuple[Pins, set[Environment]]:
    return {("nvidia-cudnn-cu12", "9"): Pin({HERE}, {"1" * 64})}, {HERE}


def texts_with(*names: str, code: WheelCode) -> dict[str, str]:
    rows = [table().software[name] for name in names]
    return pinned_texts(rows, pin, lambda software, text, folder: {"nvidia-cudnn-cu12": code} if code else {})


def test_what_is_read_out_of_the_wheels_stands_in_the_list() -> None:
    texts = texts_with("tensorflow-volta", "tensorflow-cpu", code={"a.so": DeviceCode(frozenset({50, 60, 70}))})
    assert capabilities_in(texts["tensorflow-volta"]) == {"nvidia-cudnn-cu12": 50}
    assert texts["tensorflow-volta"].startswith("# Made by `make pins` from common.txt and tensorflow-nvidia.txt")
    assert capabilities_in(texts["tensorflow-cpu"]) == {}
    assert capabilities_in(with_capabilities("# Made\na==1\n", {"a": 120, "b": 35})) == {"a": 120, "b": 35}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ({"a.so": DeviceCode(frozenset({60, 70})), "b.so": DeviceCode(frozenset({75}))}, r"no code for .* in b\.so"),
        # PTX for newer GPUs is no help to an older one.
        ({"a.so": DeviceCode(frozenset(), frozenset({120}))}, "no code for"),
        # From 6.0 on, but a hole where V100 is.
        ({"a.so": DeviceCode(frozenset({60, 75}))}, r"no code for .*V100.* \(7\.0\)"),
        ({}, "none of its wheels has device code"),
    ],
)
def test_a_pin_that_does_not_reach_a_gpu_is_refused(code: WheelCode, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        texts_with("tensorflow-cpu", "tensorflow-volta", code=code)


def test_a_wheel_whose_code_cannot_be_read_ends_all_of_it() -> None:
    def unreadable(software: Software, text: str, folder: Path) -> dict[str, WheelCode]:
        raise DeviceCodeError("a.whl: b.so: section .nv_fatbin has no fat binary at byte 0")

    with pytest.raises(DeviceCodeError, match=r"a\.whl: b\.so"):
        pinned_texts([table().software["tensorflow-volta"]], pin, unreadable)


def test_the_gpus_that_a_software_is_for_are_those_of_its_rows() -> None:
    found = capabilities("tensorflow-volta")
    assert (found["V100"], found["P100"], found["P4"]) == (70, 60, 61)
    assert "T4" not in found
    assert capabilities("tensorflow-cpu") == {"a device of 0": 0}
