"""The limits of a drill: steps for which time or money is lacking are left out for that reason, and nothing is left."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.drill.worlds import LIMITS, NAMES, Table, a_cloud
from trainplan.extensions.drill.limits import MOST_USD, SIM_MOST_USD, Limits
from trainplan.extensions.drill.placements import targets
from trainplan.extensions.drill.result import DrillResult, Verdict
from trainplan.extensions.drill.steps import MACHINES, PROBES, PROVES, VENDOR_MONEY, Step

AT_THE_END = tuple(
    step for step in PROVES if not any(step in steps for steps in (*MACHINES.values(), PROBES, VENDOR_MONEY))
)


def not_tried(result: DrillResult) -> dict[Step, str]:
    """The reason of each step with a machine that was left out; every other one is proven."""
    assert result.failed == ()
    untried = [row for row in result.steps if row.verdict is Verdict.NOT_TRIED]
    return {row.step: row.detail for row in untried if row.step not in (*PROBES, *VENDOR_MONEY)}


def test_steps_that_would_go_on_after_45_minutes_are_not_tried(tmp_path: Path) -> None:
    """Machines that take 14 minutes to boot and 9 to go leave no room for the timers, which take 18."""
    table = Table(tmp_path, a_cloud("sim", boot=["14m", "14m"], deletion=["9m", "9m"]))
    result = table.drill()
    assert not_tried(result) == dict.fromkeys((*MACHINES["B"], *MACHINES["C"]), "too little time is left")
    assert result.seconds < timedelta(minutes=45).total_seconds()
    assert table.remaining() == []


@pytest.mark.parametrize("name", NAMES)
def test_with_time_for_one_machine_the_others_are_not_made(name: str, tmp_path: Path) -> None:
    limits = replace(LIMITS, first=timedelta(minutes=12), whole=timedelta(minutes=12) + LIMITS.end)
    table = Table(tmp_path, a_cloud(name), limits)
    assert not_tried(table.drill()) == dict.fromkeys((*MACHINES["B"], *MACHINES["C"]), "too little time is left")
    assert len([row for row in table.rows() if row.machine]) == 1
    assert table.remaining() == []


def test_with_too_little_time_for_any_machine_none_is_made(tmp_path: Path) -> None:
    table = Table(tmp_path, a_cloud("sim"), replace(LIMITS, whole=LIMITS.first))
    told = not_tried(table.drill())
    assert {told[step] for step in MACHINES["A"]} == {"too little time is left"}
    assert {told[step] for step in AT_THE_END} == {"no machine was created"}
    assert table.rows() == []


@pytest.mark.parametrize("name", NAMES)
def test_with_money_for_two_machines_the_third_is_not_made(name: str, tmp_path: Path) -> None:
    """As much as A and B may cost: when C is due A has left a part of it, and B will cost the other one."""
    cloud, limits = a_cloud(name), replace(LIMITS, first=timedelta(minutes=12))
    usd = limits.usd_first(cloud.targets("on_demand")[0])
    table = Table(tmp_path, cloud, replace(limits, max_usd=usd))
    result = table.drill()
    assert not_tried(result) == dict.fromkeys(MACHINES["C"], "too little of the cost limit is left")
    assert result.usd_estimate <= usd
    assert len([row for row in table.rows() if row.machine]) == 2
    assert table.remaining() == []


def test_with_too_little_money_for_any_machine_none_is_made(tmp_path: Path) -> None:
    table = Table(tmp_path, a_cloud("sim"), replace(LIMITS, max_usd=MOST_USD))
    told = not_tried(table.drill())
    assert {told[step] for step in MACHINES["A"]} == {"too little of the cost limit is left"}
    assert table.rows() == []


def test_the_simulated_cloud_has_no_machine_for_15_cents(tmp_path: Path) -> None:
    """Why it has a limit of its own; once it has a smaller machine, this one is to go."""
    table = Table(tmp_path, a_cloud("sim"))
    cheapest = targets(table.provider(), print)[0]
    assert MOST_USD < Limits(max_usd=SIM_MOST_USD).usd(cheapest) <= SIM_MOST_USD
    assert Decimal("0.15") == MOST_USD
