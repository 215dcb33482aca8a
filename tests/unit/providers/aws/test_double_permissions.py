"""The double lets nobody do what the policies of docs/permissions/aws do not say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.aws import TimedAws
from tests.contract.aws import sdk as sdk_of
from tests.contract.harness import request
from tests.doubles.aws import remote
from tests.unit.providers.aws.account_side import signed_in
from trainplan.providers.aws.api import SdkApi
from trainplan.providers.errors import IncompleteListingError, PermissionDeniedError

CLIENT = ["client"]


@pytest.fixture
def double(aws_process: remote.Double, monkeypatch: pytest.MonkeyPatch) -> remote.Double:
    signed_in(monkeypatch)
    return aws_process


@pytest.mark.parametrize("action", ["ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"])
def test_a_create_without_one_of_its_permissions_is_refused(
    provider: TimedAws, double: remote.Double, action: str
) -> None:
    double.reset(bucket=True, policies=CLIENT)
    asked = request(provider)
    double.reset(bucket=True, policies=CLIENT, withheld=[action])
    with pytest.raises(PermissionDeniedError, match=f"perform: {action}"):
        provider.launch(asked)
    assert double.ask("unpermitted") == [action]
    assert double.remaining() == []


@pytest.mark.parametrize("action", ["ec2:DescribeVolumes", "scheduler:ListSchedules"])
def test_a_list_without_its_permission_is_not_whole(provider: TimedAws, double: remote.Double, action: str) -> None:
    double.reset(bucket=True, policies=CLIENT, withheld=[action])
    with pytest.raises(IncompleteListingError, match=action):
        provider.list_owned()


def test_what_no_policy_names_is_refused(double: remote.Double) -> None:
    double.reset(bucket=True, policies=CLIENT)
    api: SdkApi = sdk_of(double.url)
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("ec2", "DescribeAddresses", {}),
        ("iam", "CreateRole", {"RoleName": "x", "AssumeRolePolicyDocument": "{}"}),
        ("s3", "CreateBucket", {"Bucket": "somebodys"}),
    ]
    for service, operation, given in calls:
        with pytest.raises(PermissionDeniedError, match="no identity-based policy allows"):
            api.call(service, "us-east-1", operation, given)
