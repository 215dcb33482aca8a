"""Known combinations of software and hardware, and those that are none."""

from __future__ import annotations

import pytest

from pricing.devices import Architecture
from workloads.runtimes import RUNTIMES, runtimes_for


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


@pytest.mark.parametrize("architecture", [*Architecture])
def test_no_arm_host_is_known_to_train(architecture: Architecture) -> None:
    assert runtimes_for(architecture, "arm64") == ()


def test_no_stock_wheel_runs_on_blackwell() -> None:
    assert runtimes_for(Architecture.BLACKWELL, "x86_64") == ()


def test_every_generation_but_blackwell_is_known_once_and_says_where_from() -> None:
    known = [name for row in RUNTIMES for name in row.architectures]
    assert sorted(known) == sorted(set(Architecture) - {Architecture.BLACKWELL})
    assert all(row.source for row in RUNTIMES)
