"""What the roles that stand in an account may do, and who may take them: docs/permissions/aws has the same to read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

Document = dict[str, Any]
POLICY = "trainplan"
"""The name of the one policy that each role has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The signed-in identity. `partition` is `aws`, or another for separate clouds."""

    account: str
    arn: str
    partition: str


def policy(name: str, who: Identity, bucket: str) -> Document:
    """`machine`, `schedule` or `reaper`, for this account and its bucket."""
    text = (files("trainplan.providers.aws") / "data" / f"{name}.json").read_text(encoding="utf-8")
    return filled(text, who, bucket)


def filled(text: str, who: Identity, bucket: str) -> Document:
    """A document of docs/permissions/aws with the account, its partition and its bucket in their places."""
    text = text.replace("arn:aws:", f"arn:{who.partition}:").replace("ACCOUNT", who.account)
    return dict(json.loads(text.replace("BUCKET", bucket)))


def trust(service: str, who: Identity) -> Document:
    """The trust policy: only this service may assume the role, and the scheduler only on behalf of this account."""
    statement: Document = {
        "Effect": "Allow",
        "Principal": {"Service": f"{service}.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    if service == "scheduler":
        statement["Condition"] = {"StringEquals": {"aws:SourceAccount": who.account}}
    return {"Version": "2012-10-17", "Statement": [statement]}
