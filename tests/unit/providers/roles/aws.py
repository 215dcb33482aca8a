"""What AWS's roles are asked about: things of ours and of somebody else's, of every kind that a policy names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.doubles.iam_simulator import Decision, simulated
from tests.doubles.needs import Need

ACCOUNT, BUCKET = "123456789012", "trainplan-123456789012-us-east-1"
ROLES = ("client", "setup", "machine", "schedule", "reaper")
CONTENTS = (
    "ec2:GetConsoleOutput", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "s3:GetObject",
    "secretsmanager:GetSecretValue", "ssm:GetParameter",
)  # fmt: skip
"""Actions that read what somebody has stored; the other reading ones show names and settings."""
USES = ("ec2:CreateSecurityGroup", "ec2:RunInstances")
"""Actions that change nothing of what they name, but make something new with it; the table says "uses"."""
_WEB = {"aws:ResourceTag/team": "web"}


def _arn(service: str, rest: str, region: str = "us-east-1") -> str:
    return f"arn:aws:{service}:{region}:{ACCOUNT}:{rest}"


# Resource type of an action -> something of that type that is somebody else's, and what is known of it.
FOREIGN: Mapping[str, tuple[tuple[str, Mapping[str, str]], ...]] = {
    "instance": ((_arn("ec2", "instance/i-0123456789abcdef0"), _WEB),),
    "volume": ((_arn("ec2", "volume/vol-0123456789abcdef0"), _WEB),),
    "network-interface": ((_arn("ec2", "network-interface/eni-0123456789abcdef0"), _WEB),),
    "spot-instances-request": ((_arn("ec2", "spot-instances-request/sir-01234567"), _WEB),),
    "security-group": ((_arn("ec2", "security-group/sg-0123456789abcdef0"), _WEB),),
    "subnet": ((_arn("ec2", "subnet/subnet-0123456789abcdef0"), _WEB),),
    "vpc": ((_arn("ec2", "vpc/vpc-0123456789abcdef0"), _WEB),),
    "image": (("arn:aws:ec2:us-east-1::image/ami-0123456789abcdef0", {}),),
    "object": (
        ("arn:aws:s3:::somebodys-bucket/runs/x", {}),
        (f"arn:aws:s3:::{BUCKET}/invoices/2026.pdf", {}),
    ),
    "bucket": (("arn:aws:s3:::somebodys-bucket", {"s3:prefix": "runs/x"}),),
    "role": (
        (f"arn:aws:iam::{ACCOUNT}:role/admin", {"iam:PassedToService": "ec2.amazonaws.com"}),
        (f"arn:aws:iam::{ACCOUNT}:role/trainplan-machine-2", {"iam:PassedToService": "ec2.amazonaws.com"}),
    ),
    "instance-profile": ((f"arn:aws:iam::{ACCOUNT}:instance-profile/admin", {}),),
    "function": ((_arn("lambda", "function:invoices"), {}),),
    "schedule": ((_arn("scheduler", "schedule/default/invoices"), {}),),
    "schedule-group": ((_arn("scheduler", "schedule-group/default"), {}),),
    "log-group": ((_arn("logs", "log-group:/aws/lambda/invoices"), {}),),
    "log-stream": ((_arn("logs", "log-group:/aws/lambda/invoices:log-stream:1"), {}),),
    "repository": ((_arn("ecr", "repository/web"), _WEB),),
    "Secret": ((_arn("secretsmanager", "secret:payroll-a1b2c3"), {}),),
    "budget": ((f"arn:aws:budgets::{ACCOUNT}:budget/rent", {}),),
    "parameter": ((_arn("ssm", "parameter/prod/password"), {}),),
}


def policies(folder: Path) -> dict[str, dict[str, Any]]:
    """The policies of docs/permissions/aws, for an account and its bucket."""
    found = {}
    for role in ROLES:
        text = (folder / f"{role}.json").read_text(encoding="utf-8")
        found[role] = json.loads(text.replace("ACCOUNT", ACCOUNT).replace("BUCKET", BUCKET))
    return found


def asked_of(policies: Mapping[str, Mapping[str, Any]], decision: Decision) -> list[tuple[str, Need]]:
    """Every action of every role on somebody else's things, of each type that the action is about."""
    rows = []
    for role, policy in policies.items():
        for action in sorted({name for row in policy["Statement"] for name in row["Action"]}):
            for kind in decision.actions[action].types:
                rows += [(role, Need(action, arn, context)) for arn, context in FOREIGN.get(kind, ())]
    return rows


def reached(folder: Path) -> dict[str, set[tuple[str, str]]]:
    """By role: actions and the things of somebody else that they are allowed on."""
    found = policies(folder)
    known = simulated(ACCOUNT, found, [])
    asked = asked_of(found, known)
    told = simulated(ACCOUNT, found, asked)
    assert [row.error for row in told.verdicts if row.error] == []
    allowed: dict[str, set[tuple[str, str]]] = {role: set() for role in found}
    for (role, need), verdict in zip(asked, told.verdicts, strict=True):
        if verdict.allowed:
            allowed[role].add((need.action, need.resource))
    return allowed


_OURS = {
    "aws:ResourceTag/trainplan": "1",
    "aws:ResourceTag/expires-at": "2026-11-22T12:00:00+00:00",
    "aws:RequestTag/trainplan": "1",
    "ec2:CreateAction": "RunInstances",
}
_SERVICES = ("ec2", "lambda", "scheduler")
# Resource type of an action -> things of that type that are ours, or nobody's in particular. Parameters that AWS makes
# public have no account in their names, which the Service Authorization Reference, and so the simulator, does not know.
OWN: Mapping[str, tuple[str, ...]] = {
    "instance": (_arn("ec2", "instance/i-1123456789abcdef0"),),
    "volume": (_arn("ec2", "volume/vol-1123456789abcdef0"),),
    "network-interface": (_arn("ec2", "network-interface/eni-1123456789abcdef0"),),
    "spot-instances-request": (_arn("ec2", "spot-instances-request/sir-11234567"),),
    "security-group": (_arn("ec2", "security-group/sg-1123456789abcdef0"),),
    "subnet": (_arn("ec2", "subnet/subnet-1123456789abcdef0"),),
    "vpc": (_arn("ec2", "vpc/vpc-1123456789abcdef0"),),
    "image": ("arn:aws:ec2:us-east-1::image/ami-1123456789abcdef0",),
    "object": tuple(
        f"arn:aws:s3:::{BUCKET}/{key}" for key in ("runs/r1/status.json", "data/0/a", "runs/r1/checkpoints/step-1/m")
    ),
    "bucket": (f"arn:aws:s3:::{BUCKET}",),
    "role": tuple(
        f"arn:aws:iam::{ACCOUNT}:role/{name}"
        for name in (
            "trainplan-machine",
            "trainplan-reaper",
            "trainplan-schedule",
            "aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot",
        )
    ),
    "instance-profile": (f"arn:aws:iam::{ACCOUNT}:instance-profile/trainplan-machine",),
    "function": (_arn("lambda", "function:trainplan-reaper"),),
    "schedule": (_arn("scheduler", "schedule/trainplan/trainplan-reaper"),),
    "schedule-group": (_arn("scheduler", "schedule-group/trainplan"),),
    "log-group": (_arn("logs", "log-group:/aws/lambda/trainplan-reaper"),),
    "log-stream": (_arn("logs", "log-group:/aws/lambda/trainplan-reaper:log-stream:1"),),
    "repository": (_arn("ecr", "repository/mine"),),
    "Secret": (_arn("secretsmanager", "secret:trainplan/token-a1b2c3"),),
    "budget": (f"arn:aws:budgets::{ACCOUNT}:budget/trainplan-alarm",),
}


def own_of(policies: Mapping[str, Mapping[str, Any]], decision: Decision) -> list[tuple[str, Need]]:
    """Every action of every role on what is ours; "*" for an action that is about no resource."""
    rows = []
    for role, policy in policies.items():
        for action in sorted({name for row in policy["Statement"] for name in row["Action"]}):
            things = [arn for kind in decision.actions[action].types for arn in OWN.get(kind, ())]
            for service in _SERVICES if action == "iam:PassRole" else ("",):
                passed = {"iam:PassedToService": f"{service}.amazonaws.com"} if service else {}
                prefix = {"s3:prefix": "runs/r1/"} if action == "s3:ListBucket" else {}
                rows += [(role, Need(action, arn, {**_OURS, **passed, **prefix})) for arn in things or ["*"]]
    return rows
