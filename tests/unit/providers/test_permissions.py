"""The roles and policies of docs/permissions: none names a wildcard where its cloud offers something narrower."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.rows import each_row
from trainplan.providers.registry import FACTORIES

DOCS = ROOT / "docs" / "permissions"
FILES = sorted(
    path
    for path in DOCS.rglob("*")
    if path.suffix in (".json", ".yaml", ".yml") and not path.stem.endswith("-condition")
)
ACTIONS = ("action", "actions", "dataactions", "includedpermissions")
NEVER = ("notaction", "notresource", "notactions", "notdataactions", "notprincipal")
# Actions for which IAM knows no resource: the Service Authorization Reference leaves that column empty.
NO_RESOURCE = {
    "cloudtrail:LookupEvents", "cloudwatch:GetMetricStatistics", "ec2:CreateDefaultVpc", "freetier:GetAccountPlanState",
    "ec2:GetSpotPlacementScores", "ecr:GetAuthorizationToken", "logs:DescribeLogGroups", "scheduler:ListSchedules",
    "servicequotas:GetAWSDefaultServiceQuota", "servicequotas:GetServiceQuota", "sts:GetCallerIdentity",
    "elasticloadbalancing:DescribeLoadBalancers", "s3:ListAllMyBuckets",
    "s3:GetBucketLocation",  # of every bucket: plan burn asks which there are
}  # fmt: skip
NO_RESOURCE_BEFORE = "ec2:Describe"


def _names_in(path: Path) -> str:
    return str(path.relative_to(DOCS))


def _read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)


def _under(tree: Any, keys: tuple[str, ...]) -> Iterator[str]:
    """Every text under one of these keys, however deep."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if str(key).lower() in keys:
                yield from [value] if isinstance(value, str) else value
            else:
                yield from _under(value, keys)
    elif isinstance(tree, list):
        for one in tree:
            yield from _under(one, keys)


def test_every_cloud_has_its_permissions_written_down() -> None:
    clouds = {path.relative_to(DOCS).parts[0] for path in FILES}
    assert clouds <= set(FACTORIES)
    assert "aws" in clouds


@each_row("path", FILES, ids=_names_in)
def test_every_action_is_named(path: Path) -> None:
    found = _read(path)
    named = list(_under(found, ACTIONS))
    assert named
    assert [name for name in named if "*" in name] == []
    assert list(_under(found, NEVER)) == []
    assert len(named) == len(set(named)) or "aws" in path.parts  # statements differ in their conditions


@pytest.mark.parametrize("path", [path for path in FILES if path.parent.name == "aws"], ids=_names_in)
def test_a_statement_on_everything_has_no_narrower_one(path: Path) -> None:
    for row in _read(path)["Statement"]:
        assert row["Effect"] == "Allow"
        assert row["Action"] == sorted(row["Action"])
        # The name of a log group ends with ":*" where its streams are meant too.
        all_of_it = [text for text in row["Resource"] if text.rpartition(":")[2] == "*" and ":log-group:/" not in text]
        everything = [text for text in row["Resource"] if text == "*" or text in all_of_it]
        if everything:
            narrower = [
                name for name in row["Action"] if name not in NO_RESOURCE and not name.startswith(NO_RESOURCE_BEFORE)
            ]
            assert (row["Resource"], narrower) == (["*"], [])


def test_no_role_is_for_every_subscription() -> None:
    scopes = {scope for path in FILES for scope in _under(_read(path), ("assignablescopes",))}
    assert all(scope.startswith("/subscriptions/") for scope in scopes)
