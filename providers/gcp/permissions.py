"""Which permissions of Google's each call takes, and the roles they come to: who launches, machines, who sets up.

Sources: [R] "IAM permissions" in the reference page of the method; [P] Google's list of permissions and predefined
roles (https://cloud.google.com/iam/docs/roles-permissions/tpu); [D] the table of methods and their permissions of
github iann0036/iam-dataset, commit 2073fa52ac00 of 2026-08-22.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

ACT_AS = "iam.serviceAccounts.actAs"
"""On the machines' service account alone, not on the project."""

USES_QUOTA = "serviceusage.services.use"
"""Of whoever signs in as a person: calls count against the quotas of the project that they name
(https://cloud.google.com/docs/quotas/set-quota-project)."""
ADVICE = ("compute.advice.capacity", "compute.advice.capacityHistory")
"""What launches can do without: where Google refuses custom roles that name them, the role is made without them."""

# Method (its id in Google's description) -> permissions. The letter is the source.
CALLS: Mapping[str, tuple[str, ...]] = {
    # Compute Engine [R]; of the advice the name is in [D]
    "compute.advice.capacity": ("compute.advice.capacity",),
    "compute.advice.capacityHistory": ("compute.advice.capacityHistory",),
    "compute.instances.insert": (
        "compute.instances.create",
        "compute.instances.setMetadata",
        "compute.instances.setLabels",
        "compute.instances.setServiceAccount",
        "compute.disks.create",
        "compute.disks.setLabels",
        "compute.subnetworks.use",
        "compute.subnetworks.useExternalIp",
        ACT_AS,
    ),
    "compute.instances.get": ("compute.instances.get",),
    "compute.instances.delete": ("compute.instances.delete",),
    "compute.instances.getSerialPortOutput": ("compute.instances.getSerialPortOutput",),
    "compute.instances.aggregatedList": ("compute.instances.list",),
    "compute.disks.insert": ("compute.disks.create", "compute.disks.setLabels"),
    "compute.disks.get": ("compute.disks.get",),
    "compute.disks.aggregatedList": ("compute.disks.list",),
    "compute.disks.delete": ("compute.disks.delete",),
    "compute.addresses.aggregatedList": ("compute.addresses.list",),
    "compute.addresses.delete": ("compute.addresses.delete",),
    "compute.machineTypes.aggregatedList": ("compute.machineTypes.list",),
    "compute.acceleratorTypes.aggregatedList": ("compute.acceleratorTypes.list",),
    "compute.zoneOperations.wait": ("compute.zoneOperations.get",),
    "compute.zoneOperations.list": ("compute.zoneOperations.list",),
    "compute.images.getFromFamily": (),  # of Google's own projects, which let everybody in
    "compute.projects.get": ("compute.projects.get",),
    "compute.regions.get": ("compute.regions.get",),
    "compute.regions.list": ("compute.regions.list",),
    "compute.networks.get": ("compute.networks.get",),
    # Cloud TPU API [P]; queued resources have no permissions of their own, those of nodes govern them [D]. That whoever
    # attaches a data disk needs the permission to use it is assumed: Compute Engine asks so of its own machines
    "tpu.projects.locations.list": ("tpu.locations.list",),
    "tpu.projects.locations.acceleratorTypes.list": ("tpu.acceleratortypes.list",),
    "tpu.projects.locations.runtimeVersions.list": ("tpu.runtimeversions.list",),
    "tpu.projects.locations.queuedResources.create": (
        "tpu.nodes.create",
        "compute.disks.use",
        ACT_AS,
    ),
    "tpu.projects.locations.queuedResources.get": ("tpu.nodes.get",),
    "tpu.projects.locations.queuedResources.list": ("tpu.nodes.list",),
    "tpu.projects.locations.queuedResources.delete": ("tpu.nodes.delete",),
    "tpu.projects.locations.nodes.get": ("tpu.nodes.get",),
    "tpu.projects.locations.nodes.list": ("tpu.nodes.list",),
    "tpu.projects.locations.nodes.delete": ("tpu.nodes.delete",),
    "tpu.projects.locations.operations.list": ("tpu.operations.list",),
    # Cloud Tasks [R]
    "cloudtasks.projects.locations.queues.get": ("cloudtasks.queues.get",),
    "cloudtasks.projects.locations.queues.tasks.create": ("cloudtasks.tasks.create", ACT_AS),
    "cloudtasks.projects.locations.queues.tasks.get": ("cloudtasks.tasks.get",),
    "cloudtasks.projects.locations.queues.tasks.list": ("cloudtasks.tasks.list",),
    "cloudtasks.projects.locations.queues.tasks.delete": ("cloudtasks.tasks.delete",),
    # Cloud Storage [R]
    "storage.buckets.list": ("storage.buckets.list",),
    "storage.buckets.get": ("storage.buckets.get",),
    "storage.buckets.insert": ("storage.buckets.create",),
    "storage.objects.insert": ("storage.objects.create", "storage.objects.delete"),  # delete: to write over one
    "storage.objects.get": ("storage.objects.get",),
    "storage.objects.list": ("storage.objects.list",),
    "storage.objects.delete": ("storage.objects.delete",),
    # The account itself [R]
    "cloudbilling.projects.getBillingInfo": ("resourcemanager.projects.get",),
    "cloudresourcemanager.projects.testIamPermissions": (),
    "cloudresourcemanager.projects.getIamPolicy": ("resourcemanager.projects.getIamPolicy",),
    "iam.projects.serviceAccounts.get": ("iam.serviceAccounts.get",),
    "iam.projects.serviceAccounts.testIamPermissions": (),
    "serviceusage.services.list": ("serviceusage.services.list",),
    "serviceusage.services.consumerQuotaMetrics.list": ("serviceusage.quotas.get",),
}
SETUP_CALLS: Mapping[str, tuple[str, ...]] = {
    # What `plan setup gcp` sends, and nothing else does [R]; of Service Usage [P]
    "serviceusage.services.batchEnable": ("serviceusage.services.enable",),
    "serviceusage.operations.get": ("serviceusage.operations.get",),
    "compute.networks.insert": ("compute.networks.create",),
    "compute.networks.delete": ("compute.networks.delete",),
    "compute.globalOperations.get": ("compute.globalOperations.get",),
    "iam.projects.serviceAccounts.create": ("iam.serviceAccounts.create",),
    "iam.projects.serviceAccounts.delete": ("iam.serviceAccounts.delete",),
    "iam.projects.roles.get": ("iam.roles.get",),
    "iam.projects.roles.create": ("iam.roles.create",),
    "iam.projects.roles.patch": ("iam.roles.update",),
    "iam.projects.roles.undelete": ("iam.roles.undelete",),
    "iam.projects.roles.delete": ("iam.roles.delete",),
    "cloudresourcemanager.projects.setIamPolicy": ("resourcemanager.projects.setIamPolicy",),
    "cloudtasks.projects.locations.queues.create": ("cloudtasks.queues.create",),
}
PREFIX = "plan-"
"""What the name of each machine of ours begins with, and the names of its disks
(trainplan.providers.gcp.request.name_of)."""
_INSTANCE = "compute.googleapis.com/Instance"
_DISK = "compute.googleapis.com/Disk"
_BUCKET = "storage.googleapis.com/Bucket"
_OBJECT = "storage.googleapis.com/Object"
_KINDS = {_INSTANCE: "instances", _DISK: "disks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role of the project, as `gcloud iam roles create` takes it."""

    id: str
    title: str
    description: str
    permissions: tuple[str, ...]

    @property
    def body(self) -> dict[str, Any]:
        """The role as IAM's API takes it."""
        return {
            "title": self.title,
            "description": self.description,
            "stage": "GA",
            "includedPermissions": list(self.permissions),
        }

    def is_whole(self, permissions: Iterable[str]) -> bool:
        """Whether a role with these permissions is this one, also as Google may have taken it (`without_advice`)."""
        return tuple(sorted(permissions)) in (self.permissions, self.without_advice.permissions)

    @property
    def without_advice(self) -> Role:
        """The role for a Google that takes no custom role with these permissions."""
        return replace(self, permissions=tuple(name for name in self.permissions if name not in ADVICE))

    @property
    def text(self) -> str:
        """The file in docs/permissions/gcp."""
        return f"{json.dumps(self.body, indent=2)}\n"


def permissions_for(methods: Iterable[str]) -> tuple[str, ...]:
    """The permissions of these calls on the project, sorted. Raises KeyError for a method that is in no row."""
    rows = {**CALLS, **SETUP_CALLS}
    names = {permission for method in methods for permission in rows[method]}
    return tuple(sorted(names - {ACT_AS}))


_LOOKED_AT = (
    "serviceusage.services.list",
    "compute.networks.get",
    "iam.projects.serviceAccounts.get",
    "cloudresourcemanager.projects.getIamPolicy",
    "cloudtasks.projects.locations.queues.get",
    "storage.buckets.get",
    "storage.buckets.insert",
    # Before anything is removed: whether anything of a run is left.
    "compute.instances.aggregatedList",
    "compute.disks.aggregatedList",
    "compute.addresses.aggregatedList",
    "tpu.projects.locations.list",
    "tpu.projects.locations.queuedResources.list",
    "tpu.projects.locations.nodes.list",
    "cloudtasks.projects.locations.queues.tasks.list",
)
OWN = (
    "compute.disks.create",
    "compute.disks.delete",
    "compute.disks.get",
    "compute.disks.setLabels",
    "compute.disks.use",
    "compute.instances.create",
    "compute.instances.delete",
    "compute.instances.getSerialPortOutput",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setServiceAccount",
    "storage.objects.create",
    "storage.objects.delete",
    "storage.objects.get",
    "storage.objects.list",
)
"""Of whoever launches: what changes or reads machines, disks and objects, granted with a condition (conditions.py)."""
NOT_GRANTED = ("cloudresourcemanager.projects.getIamPolicy", "compute.addresses.delete")
"""The policy is the owner's to read, and the doctor does without. No launch reserves an address, and Google has no
condition for addresses: one with our label is shown by plan cleanup, and deleted by somebody who may."""
_LAUNCHES = permissions_for(method for method in CALLS if method not in NOT_GRANTED)
CLIENT = Role(
    id="trainplanClient",
    title="trainplan: launches",
    description="What plan launch, status, stop, cleanup and doctor need of a project that plan setup has set up.",
    permissions=tuple(sorted([*(name for name in _LAUNCHES if name not in OWN), USES_QUOTA])),
)
CLIENT_OWN = Role(
    id="trainplanClientOwn",
    title="trainplan: machines and objects of launches",
    description="What plan launch, status, stop and cleanup change and read; to be granted with its condition.",
    permissions=tuple(name for name in _LAUNCHES if name in OWN),
)
MACHINE = Role(
    id="trainplanMachine",
    title="trainplan: a machine that ends itself",
    description="What deletes a rented machine and the data disk of a TPU; granted for those with our names alone.",
    permissions=("compute.disks.delete", "compute.instances.delete"),
)
TPU_END = Role(
    id="trainplanTpuEnd",
    title="trainplan: a TPU that is ended",
    description="What a TPU needs to delete itself, and Cloud Tasks in its place; Cloud TPU knows no conditions.",
    permissions=("tpu.nodes.delete",),
)
READS = Role(
    id="trainplanRuns",
    title="trainplan: run directories and data sets",
    description="What a rented machine reads in the bucket of run directories; granted for that bucket alone.",
    permissions=("storage.objects.get", "storage.objects.list"),
)
WRITES = Role(
    id="trainplanRunsWrite",
    title="trainplan: run directories are written",
    description="What a rented machine writes in the bucket; granted for its run directories alone.",
    permissions=("storage.objects.create", "storage.objects.delete"),
)
ROLES = (CLIENT, CLIENT_OWN, MACHINE, TPU_END, READS, WRITES)
"""Those that set-up makes."""
CLIENT_ROLES = (CLIENT, CLIENT_OWN)
"""Those that an owner grants to whoever launches."""
SETUP = Role(
    id="trainplanSetup",
    title="trainplan: set-up",
    description="What plan setup gcp needs to make what launches need of a project, and to remove it again.",
    permissions=tuple(sorted([*permissions_for((*SETUP_CALLS, *_LOOKED_AT)), USES_QUOTA])),
)
FILES = {
    "client.json": CLIENT,
    "client-own.json": CLIENT_OWN,
    "machine.json": MACHINE,
    "tpu-end.json": TPU_END,
    "runs.json": READS,
    "runs-write.json": WRITES,
    "setup.json": SETUP,
}
"""Names below docs/permissions/gcp."""


def machines_alone() -> str:
    """Machines and disks whose names are ours, and nothing else."""
    return " || ".join(f"(resource.type == '{kind}' && {_is_named(kind)})" for kind in _KINDS)


def read_runs_and_data(bucket: str) -> str:
    """The bucket itself, which is what listing it asks for, and what lies below runs/ and data/."""
    return f"resource.name == '{_name(bucket)}' || {_below(bucket, 'runs/', 'data/')}"


def write_runs(bucket: str) -> str:
    """What lies below runs/: data sets are not changed."""
    return _below(bucket, "runs/")


def ours_alone(bucket: str) -> str:
    """For whoever launches: machines and disks with our names, the bucket, and what lies below runs/ and data/.

    Each part lets other kinds through: a create may be judged by the project that it happens in, and so is a question
    what somebody may do in the project. The role has permissions of these four kinds alone.
    """
    parts = [f"(resource.type != '{kind}' || {_is_named(kind)})" for kind in _KINDS]
    parts.append(f"(resource.type != '{_BUCKET}' || resource.name == '{_name(bucket)}')")
    parts.append(f"(resource.type != '{_OBJECT}' || {_below(bucket, 'runs/', 'data/')})")
    return " && ".join(parts)


def grants_alone(roles: Sequence[str]) -> str:
    """For whoever sets up: no role is granted or taken away but these (full names).

    https://cloud.google.com/iam/docs/setting-limits-on-granting-roles: what changes no grant has an empty list.
    """
    names = ", ".join(f"'{role}'" for role in roles)
    return f"api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly([{names}])"


def _is_named(kind: str) -> str:
    return f"resource.name.extract('/{_KINDS[kind]}/{{name}}').startsWith('{PREFIX}')"


def _name(bucket: str) -> str:
    return f"projects/_/buckets/{bucket}"


def _below(bucket: str, *folders: str) -> str:
    return " || ".join(f"resource.name.startsWith('{_name(bucket)}/objects/{folder}')" for folder in folders)
