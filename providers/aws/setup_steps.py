"""What may stand in an account between runs, looked up, and the calls that make or remove it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainplan.providers.abilities import SetupStep
from trainplan.providers.aws.account import NO_NETWORK, AwsAccount
from trainplan.providers.aws.api import CONNECTIONS
from trainplan.providers.aws.errors import NO_SUCH_THING
from trainplan.providers.aws.permissions import POLICY, Document, Identity, policy, trust
from trainplan.providers.aws.settings import (
    INSTANCE_PROFILE,
    REAPER,
    REAPER_LOG,
    SCHEDULE_GROUP,
    SCHEDULE_ROLE,
    SECURITY_GROUP,
)
from trainplan.providers.aws.store import lifecycle
from trainplan.providers.base import VendorRequest
from trainplan.providers.errors import CapacityError, PermissionDeniedError, ProviderError
from trainplan.providers.stores.settings import StoreSettings

ABSENT = (
    *("NoSuchEntity", NO_SUCH_THING, "InvalidGroup.NotFound", "NoSuchBucket", "404", "NoSuchTagSet"),
    "NotFoundException",
)
"""What says that there is none."""
TAGS = [{"Key": "trainplan", "Value": "1"}]
"""On whatever is made here."""
SPOT_ROLE = "AWSServiceRoleForEC2Spot"
RUNTIME, EVERY = "python3.13", "rate(10 minutes)"
_SECONDS, _MEGABYTES = 120, 512
LOG_DAYS = 14
"""How long the lines of the reaper's log are kept: one of the numbers that CloudWatch Logs takes."""


@dataclass(frozen=True)
class StandingResources:
    """`store` is what the person has set for the bucket. Every look raises ProviderError."""

    account: AwsAccount
    store: StoreSettings

    @property
    def bucket(self) -> str:
        """The name of the bucket: the setting's, else one made of the account and the home region."""
        return self.store.bucket or f"trainplan-{self.account.identity().account}-{self.home}"

    @property
    def home(self) -> str:
        return self.account.api.home

    def call(self, service: str, operation: str, **parameters: object) -> VendorRequest:
        """A call in the home region."""
        return request(service, self.home, operation, parameters)

    def find(self, service: str, operation: str, request_body: Mapping[str, Any], region: str = "") -> Any:
        """What is told of something; None where there is none."""
        try:
            return self.account.api.call(service, region or self.home, operation, request_body)
        except ProviderError as error:
            if error.code in ABSENT:
                return None
            raise

    def has_bucket(self) -> bool:
        """Raises PermissionDeniedError where the name is somebody else's."""
        try:
            return self.find("s3", "HeadBucket", {"Bucket": self.bucket}) is not None
        except ProviderError as error:
            if error.code != "403":
                raise
            hint = "name another bucket in the setting `bucket`"
            raise PermissionDeniedError(
                f"{self.bucket} is not yours, or you may not see it", hint=hint, code="403"
            ) from error

    def has_made_bucket(self) -> bool:
        """Whether it was made here, with everything about it."""
        reply = self.find("s3", "GetBucketTagging", {"Bucket": self.bucket})
        return any(tag in (reply or {}).get("TagSet", ()) for tag in TAGS)

    def machine_role_lacks(self) -> str:
        """Say why machines could not read their run directory; "" where they can, or where AWS does not tell.

        The role names one bucket: with another one set, every fetch of a machine would be refused while it bills.
        """
        if self.account.settings.instance_profile != INSTANCE_PROFILE:
            return ""
        document = policy("machine", self.account.identity(), self.bucket)
        if not self.account.role_lacks(INSTANCE_PROFILE, document):
            return ""
        return f"the role {INSTANCE_PROFILE} does not let machines use the bucket {self.bucket}"

    def log_group(self) -> Mapping[str, Any] | None:
        """The reaper's log group, None where there is none."""
        reply = self.account.api.call("logs", self.home, "DescribeLogGroups", {"logGroupNamePrefix": REAPER_LOG})
        return next((row for row in reply.get("logGroups", ()) if row["logGroupName"] == REAPER_LOG), None)

    def role(self, name: str) -> Any:
        """The role as IAM returns it, None where there is none."""
        return self.find("iam", "GetRole", {"RoleName": name})


def step(name: str, detail: str, calls: Sequence[VendorRequest]) -> SetupStep | None:
    """None where there is nothing to do."""
    return SetupStep(name=name, detail=detail, calls=tuple(calls)) if calls else None


def request(service: str, region: str, operation: str, parameters: Mapping[str, object]) -> VendorRequest:
    """A call of a set-up, as it will be sent."""
    return VendorRequest(service=f"{service}.{region}", operation=operation, parameters=parameters)


def role_arn(who: Identity, name: str) -> str:
    """The ARN of a role of this account."""
    return f"arn:{who.partition}:iam::{who.account}:role/{name}"


@dataclass(frozen=True)
class CreationSteps:
    """The steps that create what is missing, or change what differs from what it has to be."""

    at: StandingResources

    def steps(self) -> list[SetupStep]:
        """What `plan setup aws` still has to make, in its order. Raises ProviderError."""
        who = self.at.account.identity()
        candidates = [
            self._network(),
            self._bucket(),
            self._machine_role(who),
            self._spot_role(),
            self._schedule_role(who),
            self._schedule_group(),
            self._reaper(who),
        ]
        return [setup_step for setup_step in candidates if setup_step is not None]

    def _network(self) -> SetupStep | None:
        """Where launches go: the home region, and those of the setting `regions` that are open."""
        account, allowed = self.at.account, self.at.account.settings.regions
        names = [self.at.home] if not allowed else sorted(allowed & set(account.regions()))
        lacking = [region for region in names if self._lacks_network(region)]
        calls = [request("ec2", region, "CreateDefaultVpc", {}) for region in lacking]
        what = f"the default network of {', '.join(lacking)}, with a subnet in each zone: free, and not removed again"
        return step("network", what, calls)

    def _lacks_network(self, region: str) -> bool:
        try:
            self.at.account.default_vpc(region)
        except CapacityError as error:
            return error.code == NO_NETWORK
        return False

    def _bucket(self) -> SetupStep | None:
        name, home = self.at.bucket, self.at.home
        by_name = {"Bucket": name}
        there = self.at.has_bucket()
        if there and (self.at.store.bucket or self.at.has_made_bucket()):
            return None
        where = {} if home == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": home}}
        closed = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
        rules = lifecycle(self.at.store.keep_days)
        calls = [
            # No ObjectOwnership: what it would say is S3's default, and it takes one permission more.
            self.at.call("s3", "CreateBucket", **by_name, **where),
            self.at.call(
                "s3", "PutPublicAccessBlock", **by_name, PublicAccessBlockConfiguration=dict.fromkeys(closed, True)
            ),
            self.at.call("s3", "PutBucketLifecycleConfiguration", **by_name, LifecycleConfiguration={"Rules": rules}),
        ]
        if not self.at.store.bucket:  # last, so that one that was half made is known as such
            calls.append(self.at.call("s3", "PutBucketTagging", **by_name, Tagging={"TagSet": TAGS}))
        text = f"runs are kept for {self.at.store.keep_days} days" if self.at.store.keep_days else "runs are kept"
        return step(
            "bucket", f"{name} in {home}: private, {text}; what lies in it is billed", calls[1 if there else 0 :]
        )

    def _machine_role(self, who: Identity) -> SetupStep | None:
        """None too where the person has a profile of their own."""
        if self.at.account.settings.instance_profile != INSTANCE_PROFILE:
            return None
        calls = self._role(INSTANCE_PROFILE, trust("ec2", who), policy("machine", who, self.at.bucket))
        profile = self.at.find("iam", "GetInstanceProfile", {"InstanceProfileName": INSTANCE_PROFILE})
        by_name = {"InstanceProfileName": INSTANCE_PROFILE}
        if profile is None:
            calls.append(self.at.call("iam", "CreateInstanceProfile", **by_name, Tags=TAGS))
        if profile is None or not profile["InstanceProfile"]["Roles"]:
            calls.append(self.at.call("iam", "AddRoleToInstanceProfile", **by_name, RoleName=INSTANCE_PROFILE))
        what = "what a machine may do: its run directories, your data sets, your images, secrets named trainplan/…"
        return step("machine role", what, calls)

    def _spot_role(self) -> SetupStep | None:
        if self.at.role(SPOT_ROLE) is not None:
            return None
        call = self.at.call("iam", "CreateServiceLinkedRole", AWSServiceName="spot.amazonaws.com")
        return step("spot role", "AWS's own role, which an account's first spot machine needs", [call])

    def _schedule_role(self, who: Identity) -> SetupStep | None:
        calls = self._role(SCHEDULE_ROLE, trust("scheduler", who), policy("schedule", who, self.at.bucket))
        return step("schedule role", "what a schedule may do: end a machine of ours, start the reaper", calls)

    def _schedule_group(self) -> SetupStep | None:
        if self.at.find("scheduler", "GetScheduleGroup", {"Name": SCHEDULE_GROUP}) is not None:
            return None
        call = self.at.call("scheduler", "CreateScheduleGroup", Name=SCHEDULE_GROUP, Tags=TAGS)
        return step("schedule group", f"{SCHEDULE_GROUP} in {self.at.home}", [call])

    def _reaper(self, who: Identity) -> SetupStep | None:
        calls = self._role(REAPER, trust("lambda", who), policy("reaper", who, self.at.bucket))
        calls += self._log()
        result = self.at.find("lambda", "GetFunctionConfiguration", {"FunctionName": REAPER})
        if result is None:
            calls.append(self._function(who))
        elif result.get("CodeSha256") != _sha256(packed()):
            code = {"FunctionName": REAPER, "ZipFile": base64.b64encode(packed()).decode()}
            calls.append(self.at.call("lambda", "UpdateFunctionCode", **code))
        if self.at.find("scheduler", "GetSchedule", {"GroupName": SCHEDULE_GROUP, "Name": REAPER}) is None:
            calls.append(self._schedule(who))
        what = (
            "ends every 10 minutes, in every region, the machines whose time is over; well within what AWS gives free"
        )
        return step("reaper", what, calls)

    def _log(self) -> list[VendorRequest]:
        """The calls that make the reaper's log group. Made here and not by Lambda, it expires and can be removed."""
        group = self.at.log_group()
        name = {"logGroupName": REAPER_LOG}
        calls = [] if group else [self.at.call("logs", "CreateLogGroup", **name, tags={"trainplan": "1"})]
        if group is None or group.get("retentionInDays") != LOG_DAYS:
            calls.append(self.at.call("logs", "PutRetentionPolicy", **name, retentionInDays=LOG_DAYS))
        return calls

    def _function(self, who: Identity) -> VendorRequest:
        return self.at.call(
            "lambda",
            "CreateFunction",
            FunctionName=REAPER,
            Description="Ends machines of trainplan whose tag expires-at says that they are over",
            Runtime=RUNTIME,
            Handler="reaper.handler",
            Role=role_arn(who, REAPER),
            Code={"ZipFile": base64.b64encode(packed()).decode()},
            Timeout=_SECONDS,
            MemorySize=_MEGABYTES,
            Tags={"trainplan": "1"},
        )

    def _schedule(self, who: Identity) -> VendorRequest:
        function = f"arn:{who.partition}:lambda:{self.at.home}:{who.account}:function:{REAPER}"
        return self.at.call(
            "scheduler",
            "CreateSchedule",
            GroupName=SCHEDULE_GROUP,
            Name=REAPER,
            Description="Starts trainplan's standing reaper",
            ScheduleExpression=EVERY,
            FlexibleTimeWindow={"Mode": "OFF"},
            State="ENABLED",
            Target={
                "Arn": function,
                "RoleArn": role_arn(who, SCHEDULE_ROLE),
                "Input": json.dumps({"time": "<aws.scheduler.scheduled-time>"}),
                "RetryPolicy": {"MaximumEventAgeInSeconds": 300, "MaximumRetryAttempts": 2},
            },
        )

    def _role(self, name: str, trusted: Document, allowed: Document) -> list[VendorRequest]:
        """The calls that make a role what it has to be; none where it is."""
        result = self.at.role(name)
        calls = []
        if result is None:
            calls.append(
                self.at.call("iam", "CreateRole", RoleName=name, AssumeRolePolicyDocument=_text(trusted), Tags=TAGS)
            )
        elif result["Role"].get("AssumeRolePolicyDocument") != trusted:
            calls.append(self.at.call("iam", "UpdateAssumeRolePolicy", RoleName=name, PolicyDocument=_text(trusted)))
        request_body = {"RoleName": name, "PolicyName": POLICY}
        has = self.at.find("iam", "GetRolePolicy", request_body) if result is not None else None
        if has is None or has["PolicyDocument"] != allowed:
            calls.append(self.at.call("iam", "PutRolePolicy", **request_body, PolicyDocument=_text(allowed)))
        return calls


def packed() -> bytes:
    """The reaper as Lambda takes it, the same bytes for the same source."""
    source = Path(__file__).with_name("deadline.py").read_bytes()
    bytes_io = io.BytesIO()
    with zipfile.ZipFile(bytes_io, "w", zipfile.ZIP_STORED) as archive:
        entry = zipfile.ZipInfo("reaper.py", (1980, 1, 1, 0, 0, 0))
        entry.external_attr = 0o644 << 16
        archive.writestr(entry, source)
    return bytes_io.getvalue()


def _sha256(data: bytes) -> str:
    """Return the SHA-256 in the form in which Lambda reports it."""
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def _text(document: Document) -> str:
    return json.dumps(document)


@dataclass(frozen=True)
class RemovalSteps:
    """The steps that remove the set-up, for an account in which no machine of ours runs."""

    at: StandingResources

    def steps(self) -> list[SetupStep]:
        """What `plan setup aws --remove` still has to delete, in its order. Raises ProviderError."""
        candidates = [
            self._reaper(),
            *self._groups(),
            self._role("schedule role", SCHEDULE_ROLE),
            self._machine_role(),
            self._bucket(),
        ]
        return [setup_step for setup_step in candidates if setup_step is not None]

    def _reaper(self) -> SetupStep | None:
        calls = []
        if self.at.find("scheduler", "GetSchedule", {"GroupName": SCHEDULE_GROUP, "Name": REAPER}) is not None:
            calls.append(self.at.call("scheduler", "DeleteSchedule", GroupName=SCHEDULE_GROUP, Name=REAPER))
        if self.at.find("lambda", "GetFunctionConfiguration", {"FunctionName": REAPER}) is not None:
            calls.append(self.at.call("lambda", "DeleteFunction", FunctionName=REAPER))
        if self.at.log_group() is not None:  # after the function, which would write to it
            calls.append(self.at.call("logs", "DeleteLogGroup", logGroupName=REAPER_LOG))
        return step("reaper", "its schedule, its function, its log and its role", [*calls, *self._roleless(REAPER)])

    def _groups(self) -> list[SetupStep | None]:
        """What launches have made once in a region, and do not need while none is there."""
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            pairs = list(pool.map(self._groups_where_open, self.at.account.regions()))
        schedules = [call for calls, _ in pairs for call in calls]
        networks = [call for _, calls in pairs for call in calls]
        return [
            step("schedule groups", f"{SCHEDULE_GROUP} in {_regions(schedules)}", schedules),
            step("security groups", f"{SECURITY_GROUP} in {_regions(networks)}", networks),
        ]

    def _groups_where_open(self, region: str) -> tuple[list[VendorRequest], list[VendorRequest]]:
        """None in a region in which nothing of ours can have been made."""
        try:
            return self._groups_in(region)
        except ProviderError as error:
            if self.at.account.is_denial(region, error) and self.at.account.is_closed(region):
                return [], []
            raise

    def _groups_in(self, region: str) -> tuple[list[VendorRequest], list[VendorRequest]]:
        there = self.at.find("scheduler", "GetScheduleGroup", {"Name": SCHEDULE_GROUP}, region) is not None
        requests = [request("scheduler", region, "DeleteScheduleGroup", {"Name": SCHEDULE_GROUP})] if there else []
        request_body = {
            "Filters": [
                {"Name": "group-name", "Values": [SECURITY_GROUP]},
                {"Name": "tag:trainplan", "Values": ["1"]},
            ]
        }
        rows = self.at.account.pages(region, "DescribeSecurityGroups", request_body, "SecurityGroups")
        return requests, [request("ec2", region, "DeleteSecurityGroup", {"GroupId": row["GroupId"]}) for row in rows]

    def _machine_role(self) -> SetupStep | None:
        by_name = {"InstanceProfileName": INSTANCE_PROFILE}
        profile = self.at.find("iam", "GetInstanceProfile", by_name)
        calls = []
        if profile is not None:
            if profile["InstanceProfile"]["Roles"]:
                calls.append(self.at.call("iam", "RemoveRoleFromInstanceProfile", **by_name, RoleName=INSTANCE_PROFILE))
            calls.append(self.at.call("iam", "DeleteInstanceProfile", **by_name))
        return step(
            "machine role", "the role of machines, and its profile", [*calls, *self._roleless(INSTANCE_PROFILE)]
        )

    def _role(self, title: str, name: str) -> SetupStep | None:
        return step(title, f"the role {name}", self._roleless(name))

    def _roleless(self, name: str) -> list[VendorRequest]:
        if self.at.role(name) is None:
            return []
        calls = []
        if self.at.find("iam", "GetRolePolicy", {"RoleName": name, "PolicyName": POLICY}) is not None:
            calls.append(self.at.call("iam", "DeleteRolePolicy", RoleName=name, PolicyName=POLICY))
        return [*calls, self.at.call("iam", "DeleteRole", RoleName=name)]

    def _bucket(self) -> SetupStep | None:
        """Remove the bucket only where set-up created it and it is empty: its objects belong to the person."""
        by_name = {"Bucket": self.at.bucket}
        if self.at.store.bucket or not self.at.has_bucket() or not self.at.has_made_bucket():
            return None
        if self.at.find("s3", "ListObjectsV2", {**by_name, "MaxKeys": 1}).get("Contents"):
            return None
        return step("bucket", f"{self.at.bucket}, which is empty", [self.at.call("s3", "DeleteBucket", **by_name)])


def _regions(calls: Sequence[VendorRequest]) -> str:
    return ", ".join(dict.fromkeys(call.service.partition(".")[2] for call in calls))
