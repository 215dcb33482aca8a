"""What an account lacks for launches, as the steps that make it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from providers.aws.account import NO_NETWORK
from providers.aws.policies import POLICY, Document, policy, trust
from providers.aws.settings import INSTANCE_PROFILE, REAPER, SCHEDULE_GROUP, SCHEDULE_ROLE
from providers.aws.standing import SPOT_ROLE, TAGS, Standing, request, role_arn, step
from providers.aws.store import lifecycle
from providers.errors import CapacityError

if TYPE_CHECKING:
    from providers.aws.account import Identity
    from providers.base import SetupStep, VendorRequest

RUNTIME, EVERY = "python3.13", "rate(10 minutes)"
_SECONDS, _MEGABYTES = 120, 512


@dataclass(frozen=True)
class Making:
    """Only what is not there yet, or not as it has to be, is in a step."""

    at: Standing

    def steps(self) -> list[SetupStep]:
        who = self.at.account.identity()
        found = [
            self._network(),
            self._bucket(),
            self._machine_role(who),
            self._spot_role(),
            self._schedule_role(who),
            self._schedule_group(),
            self._reaper(who),
        ]
        return [known for known in found if known is not None]

    def _network(self) -> SetupStep | None:
        """Where launches go: the home region, and those of the setting `regions` that are open."""
        account, allowed = self.at.account, self.at.account.settings.regions
        wanted = [self.at.home] if not allowed else sorted(allowed & set(account.regions()))
        lacking = [region for region in wanted if self._lacks_network(region)]
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
        named = {"Bucket": name}
        there = self.at.has_bucket()
        if there and (self.at.store.bucket or self.at.has_made_bucket()):
            return None
        where = {} if home == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": home}}
        closed = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
        rules = lifecycle(self.at.store.keep_days)
        calls = [
            self.at.call("s3", "CreateBucket", **named, ObjectOwnership="BucketOwnerEnforced", **where),
            self.at.call(
                "s3", "PutPublicAccessBlock", **named, PublicAccessBlockConfiguration=dict.fromkeys(closed, True)
            ),
            self.at.call("s3", "PutBucketLifecycleConfiguration", **named, LifecycleConfiguration={"Rules": rules}),
        ]
        if not self.at.store.bucket:  # last, so that one that was half made is known as such
            calls.append(self.at.call("s3", "PutBucketTagging", **named, Tagging={"TagSet": TAGS}))
        kept = f"runs are kept for {self.at.store.keep_days} days" if self.at.store.keep_days else "runs are kept"
        return step(
            "bucket", f"{name} in {home}: private, {kept}; what lies in it is billed", calls[1 if there else 0 :]
        )

    def _machine_role(self, who: Identity) -> SetupStep | None:
        """None too where the person has a profile of their own."""
        if self.at.account.settings.instance_profile != INSTANCE_PROFILE:
            return None
        calls = self._role(INSTANCE_PROFILE, trust("ec2", who), policy("machine", who, self.at.bucket))
        profile = self.at.found("iam", "GetInstanceProfile", {"InstanceProfileName": INSTANCE_PROFILE})
        named = {"InstanceProfileName": INSTANCE_PROFILE}
        if profile is None:
            calls.append(self.at.call("iam", "CreateInstanceProfile", **named, Tags=TAGS))
        if profile is None or not profile["InstanceProfile"]["Roles"]:
            calls.append(self.at.call("iam", "AddRoleToInstanceProfile", **named, RoleName=INSTANCE_PROFILE))
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
        if self.at.found("scheduler", "GetScheduleGroup", {"Name": SCHEDULE_GROUP}) is not None:
            return None
        call = self.at.call("scheduler", "CreateScheduleGroup", Name=SCHEDULE_GROUP, Tags=TAGS)
        return step("schedule group", f"{SCHEDULE_GROUP} in {self.at.home}", [call])

    def _reaper(self, who: Identity) -> SetupStep | None:
        calls = self._role(REAPER, trust("lambda", who), policy("reaper", who, self.at.bucket))
        made = self.at.found("lambda", "GetFunctionConfiguration", {"FunctionName": REAPER})
        if made is None:
            calls.append(self._function(who))
        elif made.get("CodeSha256") != _sha256(packed()):
            code = {"FunctionName": REAPER, "ZipFile": base64.b64encode(packed()).decode()}
            calls.append(self.at.call("lambda", "UpdateFunctionCode", **code))
        if self.at.found("scheduler", "GetSchedule", {"GroupName": SCHEDULE_GROUP, "Name": REAPER}) is None:
            calls.append(self._schedule(who))
        what = (
            "ends every 10 minutes, in every region, the machines whose time is over; well within what AWS gives free"
        )
        return step("reaper", what, calls)

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
        made = self.at.role(name)
        calls = []
        if made is None:
            calls.append(
                self.at.call("iam", "CreateRole", RoleName=name, AssumeRolePolicyDocument=_text(trusted), Tags=TAGS)
            )
        elif made["Role"].get("AssumeRolePolicyDocument") != trusted:
            calls.append(self.at.call("iam", "UpdateAssumeRolePolicy", RoleName=name, PolicyDocument=_text(trusted)))
        asked = {"RoleName": name, "PolicyName": POLICY}
        has = self.at.found("iam", "GetRolePolicy", asked) if made is not None else None
        if has is None or has["PolicyDocument"] != allowed:
            calls.append(self.at.call("iam", "PutRolePolicy", **asked, PolicyDocument=_text(allowed)))
        return calls


def packed() -> bytes:
    """The reaper as Lambda takes it, the same bytes for the same source."""
    source = Path(__file__).with_name("reaper.py").read_bytes()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        entry = zipfile.ZipInfo("reaper.py", (1980, 1, 1, 0, 0, 0))
        entry.external_attr = 0o644 << 16
        archive.writestr(entry, source)
    return made.getvalue()


def _sha256(data: bytes) -> str:
    """As Lambda tells it."""
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def _text(document: Document) -> str:
    return json.dumps(document)
