"""Known combinations of software and hardware, and those that are none."""

from __future__ import annotations

import pytest

from pricing.devices import Architecture
from tests.builders import a_job
from workloads.runtimes import RUNTIMES, runtime_of, runtimes_for


@pytest.mark.parametrize(
    ("architecture", "framework", "version", "driver"),
    [
        ("kepler", "tensorflow", "<=2.14.1", "470"),
        ("volta", "tensorflow", "<=2.21", "580"),
        ("hopper", "tensorflow", "<=2.21", None),
        ("tpu", "jax", "current", None),
        ("cpu", "tensorflow", "<=2.21", None),
    ],
)
def test_what_trains_on_it(architecture: str, framework: str, version: str, driver: str | None) -> None:
    (found,) = runtimes_for(architecture, "x86_64")
    assert (found.framework, found.framework_version, found.driver) == (framework, version, driver)


@pytest.mark.parametrize(
    ("written", "architecture", "framework", "known"),
    [
        ({}, "volta", "tensorflow", True),
        ({}, "tpu", "jax", True),
        ({"framework": "tensorflow"}, "volta", "tensorflow", True),
        # What is written is never changed for something else.
        ({"framework": "tensorflow"}, "tpu", None, False),
        ({"framework": "jax"}, "tpu", "jax", True),
        ({"framework": "torch"}, "volta", "torch", False),
        ({"framework": "torch"}, "blackwell", None, False),
        ({}, "blackwell", None, False),
    ],
)
def test_the_framework_of_a_job(written: dict[str, str], architecture: str, framework: str | None, known: bool) -> None:
    found = runtime_of(a_job(**written), architecture, "x86_64")
    assert (found.framework if found else None) == framework
    assert (found is not None and found.runtime is not None) is known


def test_what_came_before_keras_3_does_not_accumulate() -> None:
    assert {row.framework_version for row in RUNTIMES if not row.accumulates} == {"<=2.14.1"}


@pytest.mark.parametrize("architecture", [*Architecture])
def test_no_arm_host_is_known_to_train(architecture: Architecture) -> None:
    assert runtimes_for(architecture, "arm64") == ()


def test_no_stock_wheel_runs_on_blackwell() -> None:
    assert runtimes_for(Architecture.BLACKWELL, "x86_64") == ()


def test_every_generation_but_blackwell_is_known_once_and_says_where_from() -> None:
    known = [name for row in RUNTIMES for name in row.architectures]
    assert sorted(known) == sorted(set(Architecture) - {Architecture.BLACKWELL})
    assert all(row.source for row in RUNTIMES)
