"""What a set-up and launches have left standing in an account, as the steps that remove it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from providers.aws.api import CONNECTIONS
from providers.aws.policies import POLICY
from providers.aws.settings import INSTANCE_PROFILE, REAPER, SCHEDULE_GROUP, SCHEDULE_ROLE, SECURITY_GROUP
from providers.aws.standing import Standing, request, step
from providers.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.base import SetupStep, VendorRequest


@dataclass(frozen=True)
class Removing:
    """For an account in which nothing of ours runs."""

    at: Standing

    def steps(self) -> list[SetupStep]:
        found = [
            self._reaper(),
            *self._groups(),
            self._role("schedule role", SCHEDULE_ROLE),
            self._machine_role(),
            self._bucket(),
        ]
        return [known for known in found if known is not None]

    def _reaper(self) -> SetupStep | None:
        calls = []
        if self.at.found("scheduler", "GetSchedule", {"GroupName": SCHEDULE_GROUP, "Name": REAPER}) is not None:
            calls.append(self.at.call("scheduler", "DeleteSchedule", GroupName=SCHEDULE_GROUP, Name=REAPER))
        if self.at.found("lambda", "GetFunctionConfiguration", {"FunctionName": REAPER}) is not None:
            calls.append(self.at.call("lambda", "DeleteFunction", FunctionName=REAPER))
        return step("reaper", "its schedule, its function and its role", [*calls, *self._roleless(REAPER)])

    def _groups(self) -> list[SetupStep | None]:
        """What launches have made once in a region, and do not need while none is there."""
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            told = list(pool.map(self._groups_where_open, self.at.account.regions()))
        schedules = [call for calls, _ in told for call in calls]
        networks = [call for _, calls in told for call in calls]
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
        there = self.at.found("scheduler", "GetScheduleGroup", {"Name": SCHEDULE_GROUP}, region) is not None
        gone = [request("scheduler", region, "DeleteScheduleGroup", {"Name": SCHEDULE_GROUP})] if there else []
        asked = {
            "Filters": [
                {"Name": "group-name", "Values": [SECURITY_GROUP]},
                {"Name": "tag:trainplan", "Values": ["1"]},
            ]
        }
        rows = self.at.account.pages(region, "DescribeSecurityGroups", asked, "SecurityGroups")
        return gone, [request("ec2", region, "DeleteSecurityGroup", {"GroupId": row["GroupId"]}) for row in rows]

    def _machine_role(self) -> SetupStep | None:
        named = {"InstanceProfileName": INSTANCE_PROFILE}
        profile = self.at.found("iam", "GetInstanceProfile", named)
        calls = []
        if profile is not None:
            if profile["InstanceProfile"]["Roles"]:
                calls.append(self.at.call("iam", "RemoveRoleFromInstanceProfile", **named, RoleName=INSTANCE_PROFILE))
            calls.append(self.at.call("iam", "DeleteInstanceProfile", **named))
        return step(
            "machine role", "the role of machines, and its profile", [*calls, *self._roleless(INSTANCE_PROFILE)]
        )

    def _role(self, title: str, name: str) -> SetupStep | None:
        return step(title, f"the role {name}", self._roleless(name))

    def _roleless(self, name: str) -> list[VendorRequest]:
        if self.at.role(name) is None:
            return []
        calls = []
        if self.at.found("iam", "GetRolePolicy", {"RoleName": name, "PolicyName": POLICY}) is not None:
            calls.append(self.at.call("iam", "DeleteRolePolicy", RoleName=name, PolicyName=POLICY))
        return [*calls, self.at.call("iam", "DeleteRole", RoleName=name)]

    def _bucket(self) -> SetupStep | None:
        """Only one that was made here, and holds nothing: what lies in it is the person's."""
        named = {"Bucket": self.at.bucket}
        if self.at.store.bucket or not self.at.has_bucket() or not self.at.has_made_bucket():
            return None
        if self.at.found("s3", "ListObjectsV2", {**named, "MaxKeys": 1}).get("Contents"):
            return None
        return step("bucket", f"{self.at.bucket}, which is empty", [self.at.call("s3", "DeleteBucket", **named)])


def _regions(calls: Sequence[VendorRequest]) -> str:
    return ", ".join(dict.fromkeys(call.service.partition(".")[2] for call in calls))
