"""Known combinations of software and hardware, and those that are none."""

from __future__ import annotations

from datetime import date

import pytest

from planner.clock import SystemClock
from pricing.devices import Architecture
from tests.builders import a_job
from workloads.runtimes import REFUSALS, RUNTIMES, runtime_of, runtimes_for, why_not

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


@pytest.mark.parametrize(
    ("written", "architecture", "framework", "is_known"),
    [
        ({}, "volta", "tensorflow", True),
        ({}, "tpu", "jax", True),
        (NAMES_A_TPU, "tpu", "jax", True),
        ({"framework": "tensorflow"}, "volta", "tensorflow", True),
        # What is written is never changed for something else.
        ({"framework": "tensorflow"}, "tpu", None, False),
        ({"framework": "jax"}, "tpu", "jax", True),
        ({"framework": "torch"}, "volta", "torch", False),
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
    assert {(*row.architectures, *row.hosts, row.framework) for row in unproven} == {
        ("tpu", "x86_64", "tensorflow"),
        ("cpu", "arm64", "tensorflow"),
    }
    for row in unproven:
        assert row.source.startswith("unproven: ")
        assert row not in runtimes_for(*row.architectures, *row.hosts)
        assert row in runtimes_for(*row.architectures, *row.hosts, unproven=True)


def test_what_came_before_keras_3_does_not_accumulate() -> None:
    assert {row.framework_version for row in RUNTIMES if not row.keras_3} == {"<=2.14.1", "<=2.15.1"}


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
    for row in (*RUNTIMES, *REFUSALS):
        assert row.source
        assert date.fromisoformat(row.as_of) <= SystemClock().now().date()
