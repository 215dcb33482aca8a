"""What IAM asks the policies of whoever calls for, action by action; resources and conditions are judged in
tests/unit/providers/aws/test_permissions.py.

The table is by the Service Authorization Reference (https://docs.aws.amazon.com/service-authorization/latest/reference/),
and not the product's own list: they check each other.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING

from tests.conftest import ROOT

if TYPE_CHECKING:
    from tests.doubles.aws.front import Call

_POLICIES = ROOT / "docs" / "permissions" / "aws"
_PREFIX = {"monitoring": "cloudwatch"}
"""Where the name that is signed for is not that of the actions."""
_S3 = {
    "PutObject": "PutObject", "CreateMultipartUpload": "PutObject", "UploadPart": "PutObject",
    "GetObject": "GetObject", "HeadObject": "GetObject", "DeleteObject": "DeleteObject",
    "DeleteObjects": "DeleteObject", "ListObjectsV2": "ListBucket", "HeadBucket": "ListBucket",
    "GetBucketSetting": "GetBucketTagging", "PutBucketTagging": "PutBucketTagging", "CreateBucket": "CreateBucket",
    "DeleteBucket": "DeleteBucket", "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
}  # fmt: skip
_PARTS = {"GET": "ListMultipartUploadParts", "POST": "PutObject", "DELETE": "AbortMultipartUpload"}
_LAMBDA = (
    (re.compile(r"GET .*/configuration"), "GetFunctionConfiguration"),
    (re.compile(r"PUT .*/code"), "UpdateFunctionCode"),
    (re.compile(r"DELETE .*/functions/[^/]+"), "DeleteFunction"),
)
# Besides the call's own action: (operation, what its body has, the other action).
_BESIDES = (
    ("RunInstances", b"TagSpecification", "ec2:CreateTags"),
    ("RunInstances", b"IamInstanceProfile", "iam:PassRole"),
    ("CreateSecurityGroup", b"TagSpecification", "ec2:CreateTags"),
    ("AddRoleToInstanceProfile", b"", "iam:PassRole"),
    ("CreateRole", b"Tags", "iam:TagRole"),
    ("CreateInstanceProfile", b"Tags", "iam:TagInstanceProfile"),
    ("CreateSchedule", b"RoleArn", "iam:PassRole"),
    ("CreateScheduleGroup", b"Tags", "scheduler:TagResource"),
    ("CreateFunction", b"", "iam:PassRole"),
    ("CreateFunction", b"Tags", "lambda:TagResource"),
)


def actions_of(call: Call) -> frozenset[str]:
    """Every action that the call needs. Raises KeyError for a call that is in no table."""
    operation = call.operation.removesuffix(" (dry run)")
    if call.service == "s3":
        name = _PARTS[call.method] if operation == "Multipart" else _S3[operation]
        return frozenset({f"s3:{name}"})
    if call.service == "lambda" and " " in operation:
        operation = next((name for pattern, name in _LAMBDA if pattern.fullmatch(operation)), operation)
    own = f"{_PREFIX.get(call.service, call.service)}:{operation}"
    return frozenset({own, *(other for name, mark, other in _BESIDES if name == operation and mark in call.body)})


@cache
def allowed(policies: tuple[str, ...]) -> frozenset[str]:
    """The actions of these policies of docs/permissions/aws together."""
    texts = [(_POLICIES / f"{name}.json").read_text(encoding="utf-8") for name in policies]
    rows = [row for text in texts for row in json.loads(text)["Statement"]]
    return frozenset(action for row in rows for action in row["Action"])


def lacking(call: Call, policies: tuple[str, ...], withheld: tuple[str, ...]) -> str:
    """The first action that whoever calls does not have, "" where they have all."""
    held = allowed(policies) - set(withheld)
    try:
        return next(iter(sorted(actions_of(call) - held)), "")
    except KeyError:
        return f"{call.service}:{call.operation}"
