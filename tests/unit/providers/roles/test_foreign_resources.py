"""No role reaches somebody else's things, but where the table of docs/permissions/README.md says so."""

from __future__ import annotations

import pytest

from tests.conftest import Golden
from tests.doubles.iam_policy import Policy
from tests.doubles.iam_simulator import simulated
from tests.doubles.needs import Need
from tests.unit.providers.roles import aws, azure, google, table

README = table.DOCS / "README.md"
AWS = table.DOCS / "aws"
CLOUDS = list(table.NAMES)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_table_of_the_docs_is_what_the_roles_reach(cloud: str, golden: Golden) -> None:
    """`pytest --update-golden` writes it."""
    text = README.read_text(encoding="utf-8").splitlines()
    of_cloud = [number for number, line in enumerate(text) if line.startswith(f"| {table.NAMES[cloud]}: ")]
    first = of_cloud[0] if of_cloud else 1 + next(n for n, line in enumerate(text) if line.startswith("|---|---|"))
    golden.check(README, "\n".join([*text[:first], *table.rows(cloud), *text[first + len(of_cloud) :]]) + "\n")


def test_aws_allows_each_action_on_what_is_ours() -> None:
    """And sees the condition's key in the request: one that AWS does not send for an action would allow nothing."""
    policies = aws.policies(AWS)
    asked = aws.own_of(policies, simulated(aws.ACCOUNT, policies, []))
    verdicts = simulated(aws.ACCOUNT, policies, asked).verdicts
    assert [row.error for row in verdicts if row.error] == []
    allowed = {(role, need.action) for (role, need), row in zip(asked, verdicts, strict=True) if row.allowed}
    named = {
        (role, action) for role, found in policies.items() for row in found["Statement"] for action in row["Action"]
    }
    assert named - allowed == {("client", "ssm:GetParameter")}, "but for AWS's public parameters, see aws.OWN"


def test_this_projects_own_evaluator_agrees_with_the_simulator() -> None:
    """tests/doubles/iam_policy.py judges every call of whole launches (test_policies.py)."""
    policies = aws.policies(AWS)
    known = simulated(aws.ACCOUNT, policies, [])
    asked = [*aws.own_of(policies, known), *aws.asked_of(policies, known)]
    verdicts = simulated(aws.ACCOUNT, policies, asked).verdicts
    assert {row.allowed for row in verdicts} == {True, False}
    differ = [
        f"{role}: {need}"
        for (role, need), row in zip(asked, verdicts, strict=True)
        if Policy(policies[role]).allows(need) != row.allowed
    ]
    assert differ == []


def test_the_simulator_knows_actions_and_refuses_what_does_not_exist() -> None:
    policies = {"x": {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": ["ec2:TerminateInstances"], "Resource": ["*"]},
    ]}}  # fmt: skip
    asked = [
        ("x", Need("ec2:TerminateMachines", "*")),
        ("x", Need("ec2:TerminateInstances", "arn:aws:s3:::a-bucket")),
        ("x", Need("ec2:TerminateInstances", f"arn:aws:ec2:us-east-1:{aws.ACCOUNT}:instance/i-1")),
    ]
    unknown, misplaced, fine = simulated(aws.ACCOUNT, policies, asked).verdicts
    assert unknown.error
    assert misplaced.error
    assert (fine.allowed, fine.error) == (True, "")


def test_no_role_of_a_machine_changes_anything_of_somebody_elses_but_tpus() -> None:
    on_aws = {role: found for role, found in aws.reached(AWS).items() if role in ("machine", "schedule", "reaper")}
    assert {action for found in on_aws.values() for action, _ in found} <= set(aws.CONTENTS)
    assert google.reached(table.DOCS / "gcp", google.NOW)["machine"] == {"tpu.nodes.delete"}
    assert azure.reached(table.DOCS / "azure", azure.NOW)["machine"] <= set(azure.CONTENTS)
