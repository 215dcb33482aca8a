"""What bills in an AWS account, whoever made it: machines, disks, addresses, snapshots, gateways, buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.providers.aws.account import AwsAccount
from trainplan.providers.aws.api import CONNECTIONS, SdkApi
from trainplan.providers.aws.prices import usd_per_hour_of
from trainplan.providers.aws.reply import tags_in
from trainplan.providers.aws.settings import PROVIDER, AwsSettings
from trainplan.providers.aws.setup_steps import StandingResources
from trainplan.providers.cloud.bill import (
    ADDRESS,
    BUCKET,
    DISK,
    GATEWAY,
    LOAD_BALANCER,
    MACHINE,
    RUN_DIRECTORIES,
    SNAPSHOT,
    Bill,
    BilledThing,
    MonthlyPrice,
    Tariff,
    hourly,
    whose,
)
from trainplan.providers.cloud.server_time import ServerClock
from trainplan.providers.errors import CredentialsError, ProviderError
from trainplan.providers.stores.settings import StoreSettings

if TYPE_CHECKING:
    from trainplan.providers.base import ProviderSettings

_PAGE = 500
_LIVE = ("pending", "running", "stopping", "stopped")
_METRIC_DAYS = 3
"""S3 reports the size of a bucket once a day."""
_GB = 1_000_000_000

Look = Callable[[str], Iterator[BilledThing]]


def make(settings: ProviderSettings) -> Billed:
    """AWS with these settings; nobody is asked anything. Raises BadRequestError for an option that is wrong."""
    aws_settings = AwsSettings.of(settings)
    clock = ServerClock(settings.now)
    account = AwsAccount(SdkApi(aws_settings.region, aws_settings.endpoint, clock), aws_settings, clock.now)
    return Billed(account, StandingResources(account, StoreSettings.of(settings, PROVIDER)), CONNECTIONS, clock.now)


@dataclass(frozen=True)
class Billed:
    """`threads` lists are asked at once."""

    account: AwsAccount
    standing_resources: StandingResources
    threads: int
    now: Callable[[], datetime]

    @property
    def _tariff(self) -> Tariff:
        return Tariff(PROVIDER, self.account.settings.home)

    def list_billed(self) -> Bill:
        """See trainplan.providers.cloud.bill.BillTeller."""
        looks: list[tuple[str, Look]] = [
            ("machines", self._machines), ("disks", self._disks), ("public addresses", self._addresses),
            ("snapshots", self._snapshots), ("NAT gateways", self._gateways), ("load balancers", self._balancers),
            ("classic load balancers", self._classic_balancers),
        ]  # fmt: skip
        try:
            regions: Sequence[str] = self.account.regions()
            unread = []
        except CredentialsError:
            raise
        except ProviderError as error:
            regions, unread = [self.account.api.home], [f"the list of regions: {error.message}; home region alone"]
        questions = [(region, name, look) for region in regions for name, look in looks]
        questions.append((self.account.api.home, "buckets", self._buckets))
        with ThreadPoolExecutor(self.threads) as pool:
            answers = list(pool.map(lambda one: _try_look(one[2], one[0]), questions))
        things: list[BilledThing] = []
        for (region, name, _), answer in zip(questions, answers, strict=True):
            if isinstance(answer, CredentialsError):
                raise answer
            if isinstance(answer, ProviderError):
                unread.append(f"{region} {name}: {answer.message}")
            else:
                things += answer
        return Bill(things, unread)

    def _machines(self, region: str) -> Iterator[BilledThing]:
        states = {"Name": "instance-state-name", "Values": list(_LIVE)}
        request = {"Filters": [states], "MaxResults": _PAGE}
        for reservation in self.account.pages(region, "DescribeInstances", request, "Reservations"):
            for row in reservation["Instances"]:
                market = "spot" if row.get("InstanceLifecycle") == "spot" else "on demand"
                price = hourly(
                    usd_per_hour_of("instance", region, row, self.account.settings.home), f"catalog, {market}"
                )
                what = f"{row.get('InstanceType')} {market}, {row['State']['Name']}"
                yield _thing(_Billable(MACHINE, row["InstanceId"], region), row, what, price, row.get("LaunchTime"))

    def _disks(self, region: str) -> Iterator[BilledThing]:
        for row in self.account.pages(region, "DescribeVolumes", {"MaxResults": _PAGE}, "Volumes"):
            kind, size = str(row.get("VolumeType", "standard")), int(row.get("Size", 0))
            state = "in use" if row.get("Attachments") else "attached to nothing"
            price = self._tariff.price(kind, region, size)
            yield _thing(
                _Billable(DISK, row["VolumeId"], region), row, f"{kind} {size} GiB, {state}", price, row["CreateTime"]
            )

    def _addresses(self, region: str) -> Iterator[BilledThing]:
        """Reserved ones, and those that interfaces were given."""
        reserved = self.account.api.call("ec2", region, "DescribeAddresses", {})["Addresses"]
        price = self._tariff.price(ADDRESS, region)
        for row in reserved:
            state = "in use" if row.get("AssociationId") else "reserved and unused"
            yield _thing(
                _Billable(ADDRESS, str(row.get("AllocationId") or row["PublicIp"]), region), row, state, price, None
            )
        items = {row["PublicIp"] for row in reserved}
        request = {"MaxResults": _PAGE}
        for row in self.account.pages(region, "DescribeNetworkInterfaces", request, "NetworkInterfaces"):
            address = (row.get("Association") or {}).get("PublicIp")
            if address and address not in items:
                attached = row.get("Attachment") or {}
                id_, what = str(row["NetworkInterfaceId"]), f"of {attached.get('InstanceId') or 'an interface'}"
                yield _thing(_Billable(ADDRESS, id_, region), row, what, price, attached.get("AttachTime"))

    def _snapshots(self, region: str) -> Iterator[BilledThing]:
        request = {"OwnerIds": ["self"], "MaxResults": _PAGE}
        for row in self.account.pages(region, "DescribeSnapshots", request, "Snapshots"):
            archived = row.get("StorageTier") == "archive"
            size = int(row.get("VolumeSize", 0))
            price = self._tariff.price("snapshot archive" if archived else SNAPSHOT, region, size)
            what = f"of {size} GiB" + (", archived" if archived else "")
            yield _thing(_Billable(SNAPSHOT, row["SnapshotId"], region), row, what, price, row.get("StartTime"))

    def _gateways(self, region: str) -> Iterator[BilledThing]:
        request = {"Filter": [{"Name": "state", "Values": ["pending", "available"]}], "MaxResults": _PAGE}
        price = self._tariff.price(GATEWAY, region)
        for row in self.account.pages(region, "DescribeNatGateways", request, "NatGateways"):
            yield _thing(
                _Billable(GATEWAY, row["NatGatewayId"], region), row, str(row["State"]), price, row.get("CreateTime")
            )

    def _balancers(self, region: str) -> Iterator[BilledThing]:
        price = self._tariff.price(LOAD_BALANCER, region)
        for row in self._marked("elbv2", region, "LoadBalancers"):
            name, what = str(row["LoadBalancerName"]), str(row.get("Type", ""))
            yield _thing(_Billable(LOAD_BALANCER, name, region), row, what, price, row.get("CreatedTime"))

    def _classic_balancers(self, region: str) -> Iterator[BilledThing]:
        price = self._tariff.price("classic load balancer", region)
        for row in self._marked("elb", region, "LoadBalancerDescriptions"):
            name = str(row["LoadBalancerName"])
            yield _thing(_Billable(LOAD_BALANCER, name, region), row, "classic", price, row.get("CreatedTime"))

    def _marked(self, service: str, region: str, key: str) -> Iterator[Mapping[str, Any]]:
        page: dict[str, object] = {}
        while True:
            reply = self.account.api.call(service, region, "DescribeLoadBalancers", page)
            yield from reply.get(key, ())
            if not reply.get("NextMarker"):
                return
            page = {"Marker": reply["NextMarker"]}

    def _buckets(self, home: str) -> Iterator[BilledThing]:
        for row in self.account.api.call("s3", home, "ListBuckets", {})["Buckets"]:
            name = str(row["Name"])
            region, price, what = self._bucket(name, home)
            thing = _thing(_Billable(BUCKET, name, region), row, what, price, row.get("CreationDate"))
            yield replace(thing, whose=RUN_DIRECTORIES) if name == self.standing_resources.bucket else thing

    def _bucket(self, name: str, home: str) -> tuple[str, MonthlyPrice, str]:
        """Return the bucket's region, the price of its standard storage, and its size in words, which say what AWS does
        not report.
        """
        try:
            reply = self.account.api.call("s3", home, "GetBucketLocation", {"Bucket": name})
            region = str(reply.get("LocationConstraint") or "us-east-1")
            size = self._bucket_bytes(name, region)
        except CredentialsError:
            raise
        except ProviderError as error:
            return home, MonthlyPrice(None, f"its size may not be read: {error.message}"), "size not read"
        if size is None:
            return region, MonthlyPrice(None, "CloudWatch has no size of it yet"), "size not told"
        return region, self._tariff.price(BUCKET, region, size / _GB), f"{size / _GB:.1f} GB standard"

    def _bucket_bytes(self, name: str, region: str) -> float | None:
        now = self.now()
        request = {
            "Namespace": "AWS/S3",
            "MetricName": "BucketSizeBytes",
            "Dimensions": [{"Name": "BucketName", "Value": name}, {"Name": "StorageType", "Value": "StandardStorage"}],
            "StartTime": now - timedelta(days=_METRIC_DAYS),
            "EndTime": now,
            "Period": 86_400,
            "Statistics": ["Average"],
        }
        reply = self.account.api.call("cloudwatch", region, "GetMetricStatistics", request).get("Datapoints") or ()
        newest = max(reply, key=lambda point: point["Timestamp"], default=None)
        return float(newest["Average"]) if newest else None


class _Billable(NamedTuple):
    kind: str
    id: str
    region: str


def _thing(
    description: _Billable, row: Mapping[str, Any], what: str, price: MonthlyPrice, since: datetime | None
) -> BilledThing:
    return BilledThing(
        provider=PROVIDER,
        region=description.region,
        kind=description.kind,
        id=description.id,
        what=what,
        whose=whose(tags_in(row)),
        since=since.astimezone(UTC) if since else None,
        usd_per_month=price.usd_per_month,
        ground=price.ground,
    )


def _try_look(look: Look, region: str) -> list[BilledThing] | ProviderError:
    try:
        return list(look(region))
    except ProviderError as error:
        return error
