"""`plan` at an account of AWS that has limits: how the doctor ends, which rows are marked, what is asked again."""

from __future__ import annotations

import pytest

from tests.contract.aws_command import machines
from tests.doubles.aws import remote
from tests.unit.planner.cli.command import plan

HOME, ELSEWHERE = "us-east-1", "eu-west-1"
pytestmark = pytest.mark.slow
WORDS = ("--provider", "aws", "--device", "T4", "--region", HOME)


def test_the_doctor_ends_with_the_cheapest_that_can_be_launched(double: remote.Double) -> None:
    double.reset(quotas=[{"region": "us-east-1", "code": "L-1216C47A", "vcpus": 0}])
    said = plan("doctor", "aws", "job.yaml")
    assert said.code == 0, said.err
    assert "processors 0 (L-1216C47A)" in said.out
    last = said.out.splitlines()[-1]
    assert last.startswith("aws: the cheapest that this account can launch now for tiny is ")
    assert " (on demand) in us-east-1 " not in last
    assert machines(double) == []


def test_without_any_quota_it_ends_with_the_one_to_ask_for(double: remote.Double) -> None:
    double.reset(vcpus=0)
    said = plan("doctor", "aws", "job.yaml")
    assert said.code == 4
    last = said.out.splitlines()[-1]
    assert last.startswith("aws: nothing can be launched yet; the one quota to ask for is that of ")
    assert "0 vCPUs, " in last
    assert "(ask for " in last
    assert "https://console.aws.amazon.com/servicequotas/home/services/ec2/quotas/L-" in last


def test_a_bare_account_is_sent_to_its_set_up(double: remote.Double) -> None:
    double.reset(setup="none")
    said = plan("doctor", "aws", "job.yaml")
    assert said.code == 4
    assert said.out.splitlines()[-1].endswith("for the machines (plan setup aws)")


def test_rows_that_the_account_cannot_launch_are_marked(double: remote.Double) -> None:
    double.reset(quotas=[{"region": HOME, "code": "L-DB2E81BA", "vcpus": 0}])
    words = ("--provider", "aws", "--device", "T4", "--market", "on_demand", "--check", "--json")
    for region, state in ((HOME, "refused"), (ELSEWHERE, "ok")):
        first = plan("estimate", "job.yaml", *words, "--region", region).json["candidates"][0]
        assert (first["instance_type"], first["launchable"]["state"]) == ("g4dn.xlarge", state)
        assert ("L-DB2E81BA" in (first["launchable"]["reason"] or "")) is (state == "refused")
    assert machines(double) == []


@pytest.mark.parametrize(("factor", "code", "lived"), [(1.05, 0, 1), (1.2, 4, 0)])
def test_yes_does_not_cover_a_live_price_that_is_a_tenth_above(
    double: remote.Double, factor: float, code: int, lived: int
) -> None:
    words = (*WORDS, "--market", "spot")
    shown = plan("estimate", "job.yaml", *words, "--json").json["candidates"][0]
    price = f"{shown['planning_usd_per_hour'] * factor:.4f}"
    double.reset(placements=[{"market": "spot", "spot_price": price}])
    said = plan("launch", "job.yaml", *words, "--yes")
    assert (said.code, len(machines(double))) == (code, lived), said.err
    if code:
        assert "19% above" in said.error
        assert "--yes does not cover that" in said.hint


@pytest.mark.parametrize("withheld", [[], ["freetier:GetAccountPlanState"], ["ec2:DescribeInstanceTypes"]])
def test_a_free_plan_is_told_before_anything_is_created(double: remote.Double, withheld: list[str]) -> None:
    """Where it may not be looked up, the create is refused, in words."""
    double.reset(plan="FREE", bucket=True, policies=["client"], withheld=withheld)
    said = plan("launch", "job.yaml", *WORDS, "--market", "on_demand", "--yes")
    assert said.code == 4, said.err
    assert "free plan" in said.err
    assert "plan doctor aws" in said.hint
    tried = [call for call in double.ask("calls") if call["operation"] == "RunInstances"]
    assert bool(tried) == bool(withheld)
    assert (machines(double), double.remaining()) == ([], [])


def test_the_free_plan_launches_what_it_lets_in(double: remote.Double) -> None:
    double.reset(plan="FREE", bucket=True, policies=["client"])
    said = plan("launch", "job.yaml", "--provider", "aws", "--region", "us-east-1", "--device", "cpu", "--yes")
    assert said.code == 0, said.err
    assert "quotas or its plan do not allow: on the free plan EC2 creates" in said.err
    assert {row["type"] for row in machines(double)} <= {"c7i-flex.large", "m7i-flex.large"} != set()
