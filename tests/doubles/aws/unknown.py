"""What was made a moment ago and is not known to another call yet: how AWS refuses that call."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tests.doubles.aws.scenario import Unknown

if TYPE_CHECKING:
    from tests.doubles.aws.front import Call

EMPTY = ""
"""Instead of a code: the list has no row of it."""


@dataclass(frozen=True, slots=True)
class Words:
    """`made_by` is the call that makes the thing, `about` what its body has."""

    made_by: str
    code: str
    message: str
    about: bytes = b""
    status: int = 400


_NO_TRUST = "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."
_NO_ROLE = "The role with name trainplan-machine cannot be found."
_NO_BUCKET = "The specified bucket does not exist"
_ROLE, _REAPER, _SCHEDULE, _ALARM = (
    b"RoleName=trainplan-%b" % name for name in (b"machine", b"reaper", b"schedule", b"alarm")
)
WORDS: dict[tuple[str, str], Words] = {
    ("default network", "CreateSecurityGroup"): Words(
        "CreateDefaultVpc", "InvalidVpcID.NotFound", "The vpc ID 'vpc-0123' does not exist"
    ),
    ("default network", "RunInstances"): Words(
        "CreateDefaultVpc", "InvalidSubnetID.NotFound", "The subnet ID 'subnet-0123' does not exist"
    ),
    ("security group", "RunInstances"): Words(
        "CreateSecurityGroup", "InvalidGroup.NotFound", "The security group 'sg-0123' does not exist"
    ),
    ("security group", "DescribeSecurityGroups"): Words("CreateSecurityGroup", EMPTY, ""),
    ("instance profile", "RunInstances"): Words(
        "AddRoleToInstanceProfile",
        "InvalidParameterValue",
        "Value (trainplan-machine) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
    ),
    ("instance profile", "AddRoleToInstanceProfile"): Words(
        "CreateInstanceProfile", "NoSuchEntity", "Instance Profile trainplan-machine cannot be found.", status=404
    ),
    ("role", "AddRoleToInstanceProfile"): Words("CreateRole", "NoSuchEntity", _NO_ROLE, _ROLE, 404),
    ("role", "PutRolePolicy"): Words("CreateRole", "NoSuchEntity", _NO_ROLE, _ROLE, 404),
    ("role", "CreateFunction"): Words(
        "CreateRole",
        "InvalidParameterValueException",
        "The role defined for the function cannot be assumed by Lambda.",
        _REAPER,
    ),
    ("role", "CreateSchedule"): Words("CreateRole", "ValidationException", _NO_TRUST, _SCHEDULE),
    ("role", "CreateBudgetAction"): Words(
        "CreateRole", "AccessDeniedException", "Budgets permission required to assume [ExecutionRole: x].", _ALARM
    ),
    ("schedule group", "CreateSchedule"): Words(
        "CreateScheduleGroup", "ResourceNotFoundException", "Schedule group trainplan does not exist.", status=404
    ),
    ("bucket", "PutPublicAccessBlock"): Words("CreateBucket", "NoSuchBucket", _NO_BUCKET, status=404),
    ("bucket", "PutBucketLifecycleConfiguration"): Words("CreateBucket", "NoSuchBucket", _NO_BUCKET, status=404),
    ("bucket", "PutBucketTagging"): Words("CreateBucket", "NoSuchBucket", _NO_BUCKET, status=404),
    ("bucket", "PutObject"): Words("CreateBucket", "NoSuchBucket", _NO_BUCKET, status=404),
    # The machine's own call: the world plays it (tests/doubles/aws/machines.py).
    ("role policy", "the machine's GetObject"): Words("PutRolePolicy", "AccessDenied", "Access Denied", _ROLE, 403),
}
"""By the thing and the call that needs it. A list of its own, and not the product's: they check each other."""


@dataclass
class Unmet:
    """What is not known yet in one world. `refused_at` are the instants at which a call did not find it."""

    rules: tuple[Unknown, ...]
    began: datetime
    made_at: dict[tuple[str, str], datetime] = field(default_factory=dict)
    refused_at: list[datetime] = field(default_factory=list)

    def note_creation(self, call: Call, now: datetime) -> None:
        """This call was carried out."""
        for rule in self.rules:
            words = WORDS[rule.resource, rule.needed_by]
            if words.made_by == call.operation and words.about in call.body:
                self.made_at[rule.resource, rule.needed_by] = now

    def meets(self, call: Call, now: datetime) -> Words | None:
        """How the call is refused, None where it finds all it needs."""
        for rule in self.rules:
            if rule.needed_by == call.operation and self._holds(rule, now):
                return WORDS[rule.resource, rule.needed_by]
        return None

    def is_hidden(self, note_creation: str, now: datetime) -> bool:
        """Whether a machine does not find this thing yet."""
        return any(rule.resource == note_creation and self._holds(rule, now) for rule in self.rules)

    def _holds(self, rule: Unknown, now: datetime) -> bool:
        key = rule.resource, rule.needed_by
        since = self.began if rule.from_start else self.made_at.get(key)
        if since is None or (rule.seconds is not None and now >= since + timedelta(seconds=rule.seconds)):
            return False
        self.refused_at.append(now)
        return True
