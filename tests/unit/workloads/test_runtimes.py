"""Known combinations of software and hardware, and those that are none."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from tests.builders import a_job
from tests.rows import each_row
from trainplan.planner.clock import SystemClock
from trainplan.pricing.devices import Architecture
from trainplan.workloads.runtimes import REFUSALS, RUNTIMES, runtime_of, runtimes_for, why_not

OWN = "registry.example/mine@sha256:" + "c" * 64
NAMES_A_TPU = {"constraints": {"devices": ["TPU v5e"]}}


@pytest.mark.parametrize(
    ("architecture", "framework", "version", "driver"),
    [
        ("kepler", "tensorflow", "<=2.14.1", "470"),
        ("maxwell", "tensorflow", "<=2.15.1", "580"),
        ("volta", "tensorflow", "<=2.21", "580"),
        ("turing", "tensorflow", "<=2.21", None),
        ("hopper", "tensorflow", "<=2.21", None),
        ("tpu", "jax", "current", None),
        ("cpu", "tensorflow", "<=2.21", None),
    ],
)
def test_what_trains_on_it(architecture: str, framework: str, version: str, driver: str | None) -> None:
    (found,) = runtimes_for(architecture, "x86_64")
    assert (found.framework, found.framework_version, found.driver) == (framework, version, driver)


@each_row(
    ("written", "architecture", "framework", "is_known"),
    [
        ({}, "volta", "tensorflow", True),
        ({}, "tpu", "jax", True),
        (NAMES_A_TPU, "tpu", "jax", True),
        ({"framework": "tensorflow"}, "volta", "tensorflow", True),
        # What is written is never changed for something else.
        ({"framework": "tensorflow"}, "tpu", None, False),
        ({"framework": "jax"}, "tpu", "jax", True),
        ({"framework": "jax"}, "volta", "jax", True),
        ({"framework": "torch"}, "turing", "torch", True),
        ({"framework": "torch"}, "cpu", "torch", True),
        # Wheels of PyTorch have no code for it; an image of one's own may.
        ({"framework": "torch"}, "volta", None, False),
        ({"framework": "torch", "container": OWN}, "volta", "torch", False),
        ({"framework": "jax"}, "maxwell", None, False),
        ({"framework": "torch"}, "tpu", None, False),
        ({"framework": "torch"}, "blackwell", None, False),
        ({}, "blackwell", None, False),
        # Who names both gets what is unproven, and reads that it is.
        ({"framework": "tensorflow"} | NAMES_A_TPU, "tpu", "tensorflow", True),
    ],
)
def test_the_framework_of_a_job(
    written: dict[str, str], architecture: str, framework: str | None, is_known: bool
) -> None:
    found = runtime_of(a_job(**written), architecture, "x86_64")
    assert (found.framework if found else None) == framework
    assert (found is not None and found.runtime is not None) is is_known


def test_what_is_unproven_says_so_and_never_comes_by_itself() -> None:
    unproven = [row for row in RUNTIMES if not row.proven]
    assert {row.framework for row in unproven} == {"tensorflow", "jax", "torch"}
    for row in unproven:
        assert row.source.startswith("unproven: ")
        for architecture in row.architectures:
            assert row not in runtimes_for(architecture, *row.hosts)
            assert row in runtimes_for(architecture, *row.hosts, unproven=True)
            chosen = runtime_of(a_job(), architecture, *row.hosts)
            assert chosen is None or chosen.runtime != row


@pytest.mark.parametrize("architecture", ["pascal", "volta"])
def test_what_trains_on_volta_is_not_what_trains_on_newer_gpus(architecture: str) -> None:
    """cuDNN 9.11 and newer have no code for it: a launch billed, passed the gate, then failed."""
    volta, turing = (runtime_of(a_job(), name, "x86_64") for name in (architecture, "turing"))
    assert volta is not None
    assert turing is not None
    assert volta.runtime is not None
    assert turing.runtime is not None
    assert (volta.runtime.software, turing.runtime.software) == ("tensorflow-volta", "tensorflow-nvidia")


@pytest.mark.parametrize(
    ("architecture", "capability", "framework", "why"),
    [
        ("volta", "7.0", "torch", "no code below compute capability 7.5"),
        ("maxwell", "5.2", "jax", "no code below compute capability 6.0"),
        ("volta", "7.0", "jax", None),
        ("volta", "7.0", "", None),
        ("tpu", None, "torch", "no software is known for torch on x86_64"),
    ],
)
def test_why_a_framework_does_not_train(
    architecture: str, capability: str | None, framework: str, why: str | None
) -> None:
    said = why_not(architecture, "x86_64", capability, framework)
    assert said is None if why is None else why in str(said)


def test_what_came_before_keras_3_does_not_accumulate() -> None:
    assert {row.framework_version for row in RUNTIMES if not row.keras_3} == {"<=2.14.1", "<=2.15.1"}


def test_an_arm_host_with_a_t4g_trains_with_jax_where_it_is_asked_for() -> None:
    (row,) = runtimes_for(Architecture.TURING, "arm64", "7.5", unproven=True)
    assert (row.framework, row.software) == ("jax", "jax-nvidia")
    assert "TensorFlow has CUDA for x86_64 hosts alone" in str(
        why_not(Architecture.TURING, "arm64", "7.5", "tensorflow")
    )
    assert runtimes_for(Architecture.AMPERE, "arm64", "8.6", unproven=True) == ()


@pytest.mark.parametrize("architecture", [*Architecture])
def test_no_arm_host_is_known_to_train(architecture: Architecture) -> None:
    assert runtimes_for(architecture, "arm64") == ()
    assert why_not(architecture, "arm64")


def test_no_stock_wheel_runs_on_blackwell() -> None:
    assert runtimes_for(Architecture.BLACKWELL, "x86_64") == ()
    assert "Blackwell" in str(why_not(Architecture.BLACKWELL, "x86_64", "10.0"))


def test_a_device_older_than_the_code_of_the_wheel_is_refused() -> None:
    assert why_not("kepler", "x86_64", "3.7") is None
    assert runtimes_for("kepler", "x86_64", "3.0") == ()
    assert "3.0" in str(why_not("kepler", "x86_64", "3.0"))
    assert runtime_of(a_job(), "kepler", "x86_64", "3.0") is None
    assert runtimes_for("blackwell", "x86_64", "10.0") == ()  # 10 is more than 9


def test_what_nobody_wrote_down_is_said_to_be_unknown() -> None:
    assert why_not("abacus", "x86_64") == "no software is known for abacus on x86_64"


def test_every_generation_is_known_once_or_refused_and_says_where_from() -> None:
    known = [name for row in RUNTIMES if row.proven for name in row.architectures]
    assert sorted(known) == sorted(set(Architecture) - {Architecture.BLACKWELL})
    rows: tuple[Any, ...] = (*RUNTIMES, *REFUSALS)
    for row in rows:
        assert row.source
        assert date.fromisoformat(row.as_of) <= SystemClock().now().date()
