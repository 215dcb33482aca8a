"""What is looked up in an account: identity, regions, networks, images, quotas, what is standing. Each only once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from trainplan.providers.aws.errors import NO_SUCH_THING, is_denied_by_organisation
from trainplan.providers.aws.permissions import POLICY, Document, Identity, policy
from trainplan.providers.aws.plan import AccountPlan, account_plan, types_let_in
from trainplan.providers.aws.settings import (
    PROVIDER,
    REAPER,
    REAPER_LOG,
    SCHEDULE_GROUP,
    SCHEDULE_ROLE,
    SECURITY_GROUP,
    STOP_POLICY,
    AwsSettings,
)
from trainplan.providers.cloud.answers import Answers
from trainplan.providers.cloud.regions import check_region
from trainplan.providers.errors import BadRequestError, CapacityError, PermissionDeniedError, ProviderError

if TYPE_CHECKING:
    from trainplan.providers.aws.api import Api

NO_NETWORK = "VPCIdNotSpecified"
"""EC2's own code where a create names no network and there is no default one."""
TURNS_WITHIN = timedelta(minutes=30)
"""Three turns of the reaper. Lambda's metrics are there within a few minutes
(https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html)."""
_NO_ENTITY = ("NoSuchEntity", NO_SUCH_THING)
_NO_IMAGE = ("ParameterNotFound", "InvalidAMIID.NotFound", "InvalidAMIID.Unavailable")
NO_IMAGE = "ami-00000000000000000"
"""The form of an image's id, and no image's."""
UBUNTU = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
_AMAZON = "898082745236"
"""Owns the Deep Learning images (documented with each of their releases)."""
_CANONICAL = "099720109477"
# Where a public parameter is not there: other spellings of it, then the newest image of a name.
_OTHER_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id": (
        "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-ubuntu-22.04/latest/ami-id",
    ),
}
_BY_NAME: Mapping[str, tuple[str, str]] = {
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id": (
        _AMAZON,
        "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *",
    ),
    "/aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id": (
        _AMAZON,
        "Deep Learning ARM64 Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *",
    ),
    UBUNTU: (
        _CANONICAL,
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*",
    ),
    "/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id": (
        _CANONICAL,
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-*",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The default network of a region. `subnets` and `zone_ids` are by zone; `security_group` is ours, "" before the
    first launch there."""

    vpc: str
    subnets: Mapping[str, str]
    zone_ids: Mapping[str, str]
    security_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """`how` tells where its id comes from; `root_gib` is the least that its root disk has to have."""

    id: str
    root_device: str
    root_gib: int
    how: str


class AwsAccount(Answers):
    """Asks AWS on behalf of one provider object. Every method raises ProviderError."""

    def __init__(self, api: Api, settings: AwsSettings, now: Callable[[], datetime]) -> None:
        super().__init__()
        self.api = api
        self.settings = settings
        self.now = now

    def identity(self) -> Identity:
        """The account and the user or role that signs requests. Looked up once. Raises ProviderError."""
        return self.once(("identity",), self._identity)

    def regions(self) -> tuple[str, ...]:
        """The regions that are open to this account, by name."""
        return self.once(("regions",), self._regions)

    def is_closed(self, region: str) -> bool:
        """Whether creates are denied in the region: nothing of ours can have been made there.

        Which denials count says `is_denial`.
        """
        return self.once(("closed", region), lambda: self._is_closed(region))

    def is_denial(self, region: str, error: object) -> bool:
        """Whether an error closes a region: in the words of the account's organisation; or in any, where the person has
        set which regions are used, and not this one. A policy that merely does not allow it may have allowed it before.
        """
        if is_denied_by_organisation(error):
            return True
        left_out = bool(self.settings.regions) and region not in self.settings.regions
        return left_out and isinstance(error, PermissionDeniedError)

    def network(self, region: str) -> Network:
        """Raises CapacityError where the region is closed or has no default network: another region may have one."""
        return self.once(("network", region), lambda: self._network(region))

    def default_vpc(self, region: str) -> str:
        """The id of the region's default network. Raises CapacityError as `network` does."""
        return self.once(("vpc", region), lambda: self._default_vpc(region))

    def zones(self, region: str, instance_type: str) -> tuple[str, ...]:
        """The zones of the region that have a machine of this type, by name; none: the region does not have it."""
        return self.once(("zones", region, instance_type), lambda: self._zones(region, instance_type))

    def image(self, region: str, parameter: str) -> Image:
        """The machine's image: the person's own where one is set, else what the public parameter says, else the
        newest of its documented name."""
        return self.once(("image", region, parameter), lambda: self._image(region, parameter))

    def plan(self) -> AccountPlan:
        """The account's plan. Raises PermissionDeniedError where the identity may not ask: nobody tells."""
        return self.once(("plan",), lambda: account_plan(self))

    def free_types(self, region: str) -> tuple[str, ...]:
        """The machine types that EC2 creates there for an account on the free plan."""
        return self.once(("free types", region), lambda: types_let_in(self, region))

    def quota(self, region: str, code: str) -> float:
        """A quota of EC2 in vCPUs, or what AWS gives every account where this one has no value of its own."""
        return self.once(("quota", region, code), lambda: self._quota(region, code))

    def has_instance_profile(self) -> bool | None:
        """Whether the instance profile exists; None where IAM does not say."""
        name = self.settings.instance_profile
        return self.once(("profile",), lambda: self._stands("GetInstanceProfile", {"InstanceProfileName": name}))

    def has_schedule_role(self) -> bool | None:
        """Whether the instance profile exists; None where IAM does not say."""
        return self.once(("role",), lambda: self._stands("GetRole", {"RoleName": SCHEDULE_ROLE}))

    def has_reaper(self) -> bool:
        """Whether the standing reaper is whole and on. Nobody tells: as if it were not."""
        return not self.reaper_lacks()

    def reaper_lacks(self) -> str:
        """What of the standing reaper is missing, in words: its schedule, its function, what their roles may do, or a
        turn of late that succeeded.

        "" where all of it stands. A schedule alone ends nothing, and a function that fails neither.
        """
        return self.once(("reaper",), self._reaper_lacks)

    def is_stopped(self) -> bool:
        """Whether the alarm has told the reaper to end what runs (stop.py). Asked anew each time; no answer is no stop
        that is known of."""
        reply = self._answer_or_none("iam", "ListAttachedRolePolicies", {"RoleName": REAPER})
        return any(row["PolicyName"] == STOP_POLICY for row in (reply or {}).get("AttachedPolicies", ()))

    def role_lacks(self, role: str, document: Document) -> bool | None:
        """Whether the policy of one of our roles says less than this one. None where nobody tells."""
        items = self.once(("policy", role), lambda: self._policy(role))
        return None if items is None else any(row not in items for row in document["Statement"])

    def has_schedule_group(self, region: str) -> bool:
        """Whether the group of the machines' timers exists in a region. Raises ProviderError."""
        return self.once(("group", region), lambda: self._schedule_group(region))

    def pages(self, region: str, operation: str, request: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        """Every page of a list of EC2's."""
        return all_pages(self.api, "ec2", region, operation, request, key)

    def _identity(self) -> Identity:
        reply = self.api.call("sts", self.api.home, "GetCallerIdentity", {})
        arn = str(reply["Arn"])
        return Identity(account=str(reply["Account"]), arn=arn, partition=arn.split(":")[1])

    def _regions(self) -> tuple[str, ...]:
        reply = self.api.call("ec2", self.api.home, "DescribeRegions", {"AllRegions": False})
        return tuple(sorted(str(row["RegionName"]) for row in reply["Regions"]))

    def _is_closed(self, region: str) -> bool:
        """With an image that exists, where it may be looked up: EC2 may look for the image before it denies. What is
        then not known to be denied does not count as closed, so that nothing that may be there is passed over."""
        try:
            image = self.image(region, UBUNTU).id
        except ProviderError:
            image = NO_IMAGE
        try:
            self.try_create(region, image)
        except ProviderError as error:
            return self.is_denial(region, error)
        return False

    def try_create(self, region: str, image: str) -> None:
        """The dry run of a create that names nothing of ours. Raises ProviderError, also where it would pass."""
        machine = {"ImageId": image, "InstanceType": "c5.large", "MinCount": 1, "MaxCount": 1}
        self.api.call("ec2", region, "RunInstances", {"DryRun": True, **machine})

    def _default_vpc(self, region: str) -> str:
        request = {"Filters": [_filter("is-default", "true")]}
        check_region(region, self.settings.regions, PROVIDER)
        try:
            vpcs = self.api.call("ec2", region, "DescribeVpcs", request)["Vpcs"]
        except ProviderError as error:
            if is_denied_by_organisation(error):
                text = f"{region} is closed to this account by its organisation"
                raise CapacityError(text, hint="choose another region", code=error.code) from error
            raise
        if not vpcs:
            raise CapacityError(
                f"{region} has no default network",
                hint=f"aws ec2 create-default-vpc --region {region} makes it (plan setup aws: the home region's)",
                code=NO_NETWORK,
            )
        return str(vpcs[0]["VpcId"])

    def _network(self, region: str) -> Network:
        vpc = self.default_vpc(region)
        inside = _filter("vpc-id", vpc)
        rows = self.pages(
            region, "DescribeSubnets", {"Filters": [inside, _filter("default-for-az", "true")]}, "Subnets"
        )
        document = {"Filters": [inside, _filter("group-name", SECURITY_GROUP)]}
        groups = self.pages(region, "DescribeSecurityGroups", document, "SecurityGroups")
        return Network(
            vpc=vpc,
            subnets={str(row["AvailabilityZone"]): str(row["SubnetId"]) for row in rows},
            zone_ids={str(row["AvailabilityZone"]): str(row.get("AvailabilityZoneId", "")) for row in rows},
            security_group=str(groups[0]["GroupId"]) if groups else "",
        )

    def _zones(self, region: str, instance_type: str) -> tuple[str, ...]:
        rowss = {"LocationType": "availability-zone", "Filters": [_filter("instance-type", instance_type)]}
        rows = self.pages(region, "DescribeInstanceTypeOfferings", rowss, "InstanceTypeOfferings")
        return tuple(sorted(str(row["Location"]) for row in rows))

    def _image(self, region: str, parameter: str) -> Image:
        own = self.settings.image
        if own.startswith("ami-"):
            return self._described(region, {"ImageIds": [own]}, "the setting `image`")
        if own:
            return self._described(
                region, {"Owners": ["self"], "Filters": [_filter("name", own)]}, "the setting `image`"
            )
        for name in (parameter, *_OTHER_PARAMETERS.get(parameter, ())):
            try:
                reply = self.api.call("ssm", region, "GetParameter", {"Name": name})
                return self._described(region, {"ImageIds": [reply["Parameter"]["Value"]]}, f"parameter {name}")
            except ProviderError as error:
                if error.code not in _NO_IMAGE:
                    raise
        if parameter not in _BY_NAME:
            raise BadRequestError(f"{region}: there is no parameter {parameter}", hint="name an image in `image`")
        owner, name = _BY_NAME[parameter]
        return self._described(region, {"Owners": [owner], "Filters": [_filter("name", name)]}, f"newest {name!r}")

    def _described(self, region: str, request: Mapping[str, Any], how: str) -> Image:
        """The newest image that fits."""
        images = self.pages(region, "DescribeImages", request, "Images")
        if not images:
            hint = "copy it there, or choose a region that has it" if self.settings.image else "name one in `image`"
            raise CapacityError(f"{region} has no image by {how}", hint=hint, code="InvalidAMIID.NotFound")
        newest = max(images, key=lambda row: str(row.get("CreationDate", "")))
        root = str(newest.get("RootDeviceName") or "/dev/sda1")
        disks = {row.get("DeviceName"): row.get("Ebs", {}) for row in newest.get("BlockDeviceMappings", ())}
        size = int(disks.get(root, {}).get("VolumeSize") or 8)
        return Image(id=str(newest["ImageId"]), root_device=root, root_gib=size, how=how)

    def _quota(self, region: str, code: str) -> float:
        request = {"ServiceCode": "ec2", "QuotaCode": code}
        try:
            reply = self.api.call("service-quotas", region, "GetServiceQuota", request)
        except ProviderError as error:
            if error.code != "NoSuchResourceException":
                raise
            reply = self.api.call("service-quotas", region, "GetAWSDefaultServiceQuota", request)
        return float(reply["Quota"]["Value"])

    def _stands(self, operation: str, request: Mapping[str, Any]) -> bool | None:
        try:
            self.api.call("iam", self.api.home, operation, request)
        except PermissionDeniedError:
            return None
        except ProviderError as error:
            if error.code in _NO_ENTITY:
                return False
            raise
        return True

    def _reaper_lacks(self) -> str:
        schedule = self._answer_or_none("scheduler", "GetSchedule", {"GroupName": SCHEDULE_GROUP, "Name": REAPER})
        if schedule is None or str(schedule.get("State", "ENABLED")) != "ENABLED":
            return "it has no schedule that is on"
        function = self._answer_or_none("lambda", "GetFunctionConfiguration", {"FunctionName": REAPER})
        if function is None or function.get("State") in ("Failed", "Inactive"):
            return f"its function {REAPER} does not exist, or the sign-in may not read it"
        for role, name in ((REAPER, "reaper"), (SCHEDULE_ROLE, "schedule")):
            if self.role_lacks(role, policy(name, self.identity(), "")) is not False:
                return f"the role {role} lacks a permission that it needs, or the sign-in may not read it"
        return self._turns_lack()

    def _turns_lack(self) -> str:
        """Say that no turn of the reaper has succeeded recently, by Lambda's own metrics; "" where one has."""
        ran, failed = (self._turns(metric) for metric in ("Invocations", "Errors"))
        minutes = TURNS_WITHIN.total_seconds() / 60
        if ran is None or failed is None:
            return "whether its turns succeed may not be looked up (cloudwatch:GetMetricStatistics)"
        if ran - failed >= 1:
            return ""
        if ran:
            log = f"its log {REAPER_LOG} in {self.api.home} says why"
            return f"each of its {ran:.0f} turns within {minutes:.0f} minutes failed; {log}"
        return f"it has had no turn within {minutes:.0f} minutes; a new one has its first within 10"

    def _turns(self, metric: str) -> float | None:
        request = {
            "Namespace": "AWS/Lambda",
            "MetricName": metric,
            "Dimensions": [{"Name": "FunctionName", "Value": REAPER}],
            "StartTime": self.now() - TURNS_WITHIN,
            "EndTime": self.now(),
            "Period": int(TURNS_WITHIN.total_seconds()),
            "Statistics": ["Sum"],
        }
        reply = self._answer_or_none("cloudwatch", "GetMetricStatistics", request)
        return None if reply is None else sum(float(row["Sum"]) for row in reply.get("Datapoints", ()))

    def _policy(self, role: str) -> list[object] | None:
        """The statements of our policy of a role, none where it has none. None where nobody tells."""
        try:
            request = {"RoleName": role, "PolicyName": POLICY}
            reply = self.api.call("iam", self.api.home, "GetRolePolicy", request)
        except PermissionDeniedError:
            return None
        except ProviderError as error:
            if error.code in _NO_ENTITY:
                return []
            raise
        return list(reply["PolicyDocument"]["Statement"])

    def _answer_or_none(self, service: str, operation: str, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """What is told of something at home; None where there is none, or it may not be looked up."""
        try:
            return self.api.call(service, self.api.home, operation, request)
        except PermissionDeniedError:
            return None
        except ProviderError as error:
            if error.code in _NO_ENTITY:
                return None
            raise

    def _schedule_group(self, region: str) -> bool:
        try:
            self.api.call("scheduler", region, "GetScheduleGroup", {"Name": SCHEDULE_GROUP})
        except ProviderError as error:
            if error.code in _NO_ENTITY or isinstance(error, PermissionDeniedError):
                return False
            raise
        return True


def all_pages(
    api: Api, service: str, region: str, operation: str, request: Mapping[str, Any], key: str
) -> list[dict[str, Any]]:
    """Every page of a list, or an error."""
    documents: list[dict[str, Any]] = []
    page: dict[str, Any] = {}
    while True:
        reply = api.call(service, region, operation, {**request, **page})
        documents += reply.get(key, ())
        if not reply.get("NextToken"):
            return documents
        page = {"NextToken": reply["NextToken"]}


def _filter(name: str, *values: str) -> dict[str, object]:
    return {"Name": name, "Values": list(values)}
