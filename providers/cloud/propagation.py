"""What was made a moment ago is not known everywhere yet: which call meets that, and for how long it is sent again.

Each row of `PAIRS` has two contract tests (tests/contract/test_not_there_yet.py): the double does not know the thing
for as long as the source allows, and the command succeeds; the double never knows it, and the command ends as refused
within `MOST_SECONDS`, without a create in another placement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from trainplan.providers import interrupts
from trainplan.providers.errors import PermissionDeniedError, ProviderError

Answer = TypeVar("Answer")
MOST_SECONDS = 300.0
"""A refusal that lasts is reported as one within this time: a person who made a mistake waits for it."""
LONGEST_SECONDS = 1800.0
"""The same where a person is told each minute how long it has lasted, and loses nothing by going."""
ASKED_EVERY_SECONDS = 5.0
_TOLD_EVERY_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """`resource` is what was created, `needed_by` the vendor's name of the call that needs it.

    `source` is where `patience_seconds` is from; "assumed: ..." where nobody states a time. `told_each_minute`: the
    last thing that a set-up does, of which a person hears each minute. Raises ValueError for a patience that is not
    positive, or longer than `most_seconds`.
    """

    provider: str
    resource: str
    needed_by: str
    patience_seconds: float
    source: str
    told_each_minute: bool = False

    @property
    def most_seconds(self) -> float:
        """A refusal that lasts is reported as one within this time."""
        return LONGEST_SECONDS if self.told_each_minute else MOST_SECONDS

    def __post_init__(self) -> None:
        if not 0 < self.patience_seconds <= self.most_seconds:
            raise ValueError(f"{self.resource} and {self.needed_by}: {self.patience_seconds} s of patience cannot be")


_EC2 = "https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html"
"""Names a security group that was just created as its example, and "a few minutes" as the longest wait."""
_PROFILE = "https://github.com/hashicorp/terraform/issues/1885"
"""Users' reports: EC2 refused a new instance profile for up to 2 minutes."""
_IAM = "https://github.com/hashicorp/terraform-provider-aws, internal/service/lambda: iamPropagationTimeout, 2 minutes"
"""IAM's own page on eventual consistency states no time
(https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency)."""
_S3 = "https://github.com/hashicorp/terraform-provider-aws, internal/service/s3: bucketPropagationTimeout, 2 minutes"
"""S3's page on its consistency says that settings of buckets are eventually consistent, and states no time
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/Welcome.html#ConsistencyModel)."""
_SCHEDULER = "assumed: EventBridge Scheduler states no time"

MACHINE_READS = "the machine's GetObject"
"""Not a call of ours: a rented machine that may not read its run directory yet asks again for so long."""
_WRITES = ("PutObject", "objects.insert", "Put Blob")
_BUCKETS = ("bucket", "container")

_ARM = "https://github.com/hashicorp/terraform-provider-azurerm/issues/18268"
"""A Microsoft engineer on a new group that is not found: what Resource Manager was told is replicated between regions.
Nobody states a time; two minutes are this project's."""
_ASO = "https://github.com/Azure/azure-service-operator, v2/internal/reconcilers/arm/error_classifier.go"
"""Microsoft's own operator sends again what is refused with these codes; two minutes are this project's."""
_PRINCIPAL = "https://learn.microsoft.com/azure/role-based-access-control/troubleshooting"
"""PrincipalNotFound is "likely a replication delay", and a new group is to be given "a few minutes"."""
_ROLE = "https://github.com/hashicorp/terraform-provider-azurerm/issues/5038"
"""Role definitions are eventually consistent, which "should take around 5m"."""
_RIGHT = "https://learn.microsoft.com/azure/role-based-access-control/troubleshooting"
"""A new role assignment may take 10 minutes to hold, 30 in older editions of the page."""
_STORAGE = "https://github.com/hashicorp/terraform-provider-azurerm/issues/15609"
"""A container that is refused right after its new account, and created by a second run; two minutes are this
project's."""
_REGISTRATION = "https://learn.microsoft.com/azure/azure-resource-manager/management/resource-providers-and-types"
"""A resource provider is registered region by region; no time is stated."""
_SCHEDULE = "assumed: Azure states no time after which ComputeSchedule knows a machine"


_GOOGLE_API = "https://cloud.google.com/service-usage/docs/enable-disable"
"""An API that was just switched on refuses as if it were off, and its refusal says to wait "a few minutes"."""
_GOOGLE_ACCOUNT = "https://github.com/GoogleCloudPlatform/magic-modules/pull/1408"
"""A new service account is known to others after a while (IAM's reads are eventually consistent, by the reference of
its client). 60 seconds or more are believed, and stood in no copy of a page that was read; three minutes are ours."""
_GOOGLE_ACCESS = "https://cloud.google.com/iam/docs/access-change-propagation"
"""A change of a policy holds after 2 minutes as a rule, after 7 or more at times: longer than a person waits here."""
_GOOGLE_STORE = (
    "assumed: Cloud Storage promises a new bucket at once (https://cloud.google.com/storage/docs/consistency)"
)
_GOOGLE_QUEUE = "assumed: Cloud Tasks states no time after which tasks find a new queue"
_GOOGLE_NETWORK = "assumed: Compute Engine states no time after the network's operation is done"
_GOOGLE_DISK = "assumed: Cloud TPU states no time after which it finds a disk whose operation is done"


def _gcp(text: str, needed_by: str, source: str, patience_seconds: float = 180.0) -> Pair:
    return Pair(provider="gcp", resource=text, needed_by=needed_by, patience_seconds=patience_seconds, source=source)


def _azure(text: str, needed_by: str, source: str, patience_seconds: float = 120.0) -> Pair:
    return Pair(provider="azure", resource=text, needed_by=needed_by, patience_seconds=patience_seconds, source=source)


def _aws(text: str, needed_by: str, source: str) -> Pair:
    return Pair(provider="aws", resource=text, needed_by=needed_by, patience_seconds=120.0, source=source)


PAIRS: tuple[Pair, ...] = (
    _aws("default network", "CreateSecurityGroup", _EC2),
    _aws("default network", "RunInstances", _EC2),
    _aws("security group", "RunInstances", _EC2),
    _aws("security group", "DescribeSecurityGroups", _EC2),
    _aws("instance profile", "RunInstances", _PROFILE),
    _aws("instance profile", "AddRoleToInstanceProfile", _IAM),
    _aws("role", "AddRoleToInstanceProfile", _IAM),
    _aws("role", "PutRolePolicy", _IAM),
    _aws("role", "CreateFunction", _IAM),
    _aws("role", "CreateSchedule", _IAM),
    _aws("role", "CreateBudgetAction", _IAM),
    _aws("schedule group", "CreateSchedule", _SCHEDULER),
    _aws("bucket", "PutPublicAccessBlock", _S3),
    _aws("bucket", "PutBucketLifecycleConfiguration", _S3),
    _aws("bucket", "PutBucketTagging", _S3),
    _aws("bucket", "PutObject", _S3),
    _aws("role policy", MACHINE_READS, _IAM),
    *(
        _azure("resource group", f"PUT {kind}", _ARM)
        for kind in ("networkSecurityGroups", "virtualNetworks", "roleAssignments", "virtualMachines")
    ),
    _azure("security group", "GET networkSecurityGroups", _ARM),
    _azure("security group", "PUT virtualNetworks", _ASO),
    _azure("network", "GET virtualNetworks", _ARM),
    _azure("network", "PUT virtualMachines", _ASO),
    _azure("identity", "PUT virtualMachines", _ASO),
    _azure("machine", "POST virtualMachinesSubmitDeallocate", _SCHEDULE),
    _azure("resource provider", "PUT userAssignedIdentities", _REGISTRATION, 300.0),
    _azure("resource provider", "PUT storageAccounts", _REGISTRATION, 300.0),
    _azure("resource group", "PUT userAssignedIdentities", _ARM),
    _azure("resource group", "PUT storageAccounts", _ARM),
    _azure("storage account", "PUT blobServices", _STORAGE),
    _azure("storage account", "PUT containers", _STORAGE),
    _azure("storage account", "PUT managementPolicies", _STORAGE),
    _azure("identity", "PUT roleAssignments", _PRINCIPAL, 240.0),
    _azure("role", "PUT roleAssignments", _ROLE, 300.0),
    _azure("container", "PUT roleAssignments", _ARM),
    _azure("container", "Put Blob", _STORAGE),
    Pair(
        provider="azure",
        resource="role assignment",
        needed_by="Put Blob",
        patience_seconds=LONGEST_SECONDS,
        source=_RIGHT,
        told_each_minute=True,
    ),
    *(
        _gcp("API", operation, _GOOGLE_API)
        for operation in (
            "networks.insert",
            "serviceAccounts.create",
            "roles.create",
            "projects.setIamPolicy",
            "queues.create",
            "buckets.insert",
        )
    ),
    _gcp("service account", "projects.setIamPolicy", _GOOGLE_ACCOUNT),
    _gcp("role", "projects.setIamPolicy", _GOOGLE_ACCESS),
    _gcp("service account", "instances.insert", _GOOGLE_ACCOUNT),
    _gcp("network", "instances.insert", _GOOGLE_NETWORK, 120.0),
    _gcp("service account", "queuedResources.create", _GOOGLE_ACCOUNT),
    _gcp("network", "queuedResources.create", _GOOGLE_NETWORK, 120.0),
    _gcp("data disk", "queuedResources.create", _GOOGLE_DISK, 120.0),
    _gcp("queue", "tasks.create", _GOOGLE_QUEUE, 120.0),
    _gcp("bucket", "objects.insert", _GOOGLE_STORE, 60.0),
    _gcp("grant", MACHINE_READS, _GOOGLE_ACCESS, 240.0),
)


def pair_of(provider: str, text: str, needed_by: str) -> Pair | None:
    """The row of the table, None where there is none."""
    key = (provider, text, needed_by)
    return next((row for row in PAIRS if (row.provider, row.resource, row.needed_by) == key), None)


def pair_of_bucket(provider: str) -> Pair | None:
    """The row of a new bucket and of the write of an object into it."""
    rows = (row for row in PAIRS if row.provider == provider and row.resource in _BUCKETS)
    return next((row for row in rows if row.needed_by in _WRITES), None)


def machine_patience_seconds(provider: str) -> float:
    """How long a rented machine whose right to its run directory is new repeats a refused request; 0 without a row in
    the table: it then asks until its boot deadline.
    """
    rows = (row for row in PAIRS if (row.provider, row.needed_by) == (provider, MACHINE_READS))
    return next((row.patience_seconds for row in rows), 0.0)


def settled(
    send: Callable[[], Answer],
    too_new: Callable[[ProviderError], Pair | None],
    sleep: Callable[[float], None],
    report: Callable[[str], None] = lambda _: None,
) -> Answer:
    """What `send` returns, sent again for as long as `too_new` tells which pair a refusal is about.

    None of these refusals has made anything, so the same call can be sent again. `sleep` lets seconds go by, `report`
    gets one line for each pair that is waited for, and one each minute where the pair says so. Raises
    PermissionDeniedError where the refusal lasts, and ProviderError for any other one.
    """
    waited: dict[Pair, float] = {}
    while True:
        try:
            return send()
        except ProviderError as error:
            pair = too_new(error)
            if pair is None:
                raise
            if waited.get(pair, 0.0) >= pair.patience_seconds:
                raise _refused(error, pair) from error
        lasted = waited.get(pair, 0.0)
        if not lasted or (pair.told_each_minute and not lasted % _TOLD_EVERY_SECONDS):
            report(
                f"{pair.needed_by} does not find the new {pair.resource} yet; asking for {pair.patience_seconds:.0f} s"
            )
        sleep(ASKED_EVERY_SECONDS)
        waited[pair] = lasted + ASKED_EVERY_SECONDS


def pause(seconds: float) -> None:
    """Real seconds go by."""
    interrupts.wait(seconds)


def _refused(error: ProviderError, pair: Pair) -> PermissionDeniedError:
    message = f"{error.message} (asked again for {pair.patience_seconds:.0f} s)"
    hint = f"look whether the {pair.resource} is there (plan doctor {pair.provider}), then try again"
    return PermissionDeniedError(message, hint=hint, code=error.code)
