"""What Google's roles are asked about: a permission on somebody else's things, under the condition of its grant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.doubles.google.conditions import Evaluator, Resource
from trainplan.providers.gcp.permissions import (
    FILES,
    READS,
    WRITES,
    grants_alone,
    machines_alone,
    ours_alone,
    read_runs_and_data,
    write_runs,
)

BUCKET = "trainplan-p-us-central1"
_MACHINES = tuple(f"projects/p/roles/{role}" for role in ("trainplanMachine", "trainplanTpuEnd", READS.id, WRITES.id))
# Role of the table -> files of docs/permissions/gcp, and the condition of each one's grant ("" for none).
NOW: Mapping[str, Mapping[str, str]] = {
    "client": {"client.json": "", "client-own.json": ours_alone(BUCKET)},
    "machine": {
        "machine.json": machines_alone(),
        "tpu-end.json": "",
        "runs.json": read_runs_and_data(BUCKET),
        "runs-write.json": write_runs(BUCKET),
    },
    "setup": {"setup.json": grants_alone(_MACHINES)},
}
assert {name for files in NOW.values() for name in files} == set(FILES)

_READS = ("get", "list", "getIamPolicy", "getSerialPortOutput")
_USES = ("use", "useExternalIp")
CONTENTS = ("compute.instances.getSerialPortOutput", "storage.objects.get")
NEW = frozenset({
    "cloudtasks.queues.create", "compute.disks.create", "compute.instances.create", "compute.networks.create",
    "iam.roles.create", "iam.serviceAccounts.create", "storage.buckets.create", "tpu.nodes.create",
})  # fmt: skip
"""What makes something that was not there: nothing of somebody else's changes."""
COMPUTES_ONLY = frozenset({"compute.advice.capacity", "compute.advice.capacityHistory"})
"""They are about no resource: a score and a history of a machine type in a region."""
_PROJECT = Resource("cloudresourcemanager.googleapis.com/Project", "projects/p")
_ZONE = "projects/p/zones/us-central1-a"
# Beginning of a permission -> somebody else's things of its kind; one without an entry is judged by the project.
_FOREIGN: Mapping[str, tuple[Resource, ...]] = {
    "compute.instances": (Resource("compute.googleapis.com/Instance", f"{_ZONE}/instances/database"),),
    "compute.disks": (Resource("compute.googleapis.com/Disk", f"{_ZONE}/disks/database"),),
    "storage.objects": (
        Resource("storage.googleapis.com/Object", "projects/_/buckets/somebodys/objects/runs/x"),
        Resource("storage.googleapis.com/Object", f"projects/_/buckets/{BUCKET}/objects/invoices/2026.pdf"),
        Resource("storage.googleapis.com/Bucket", "projects/_/buckets/somebodys"),
    ),
}


def reached(folder: Path, roles: Mapping[str, Mapping[str, str]]) -> dict[str, set[str]]:
    """By role: permissions that it has on somebody else's things, without those that only show names and settings."""
    found: dict[str, set[str]] = {}
    for role, files in roles.items():
        found[role] = set()
        for name, condition in files.items():
            permissions = json.loads((folder / name).read_text(encoding="utf-8"))["includedPermissions"]
            found[role] |= {one for one in permissions if _is_told(one) and _reaches(one, condition)}
    return found


def _is_told(permission: str) -> bool:
    verb = permission.rpartition(".")[2]
    shown = verb in _READS or verb in _USES or permission in NEW or permission in COMPUTES_ONLY
    return permission in CONTENTS or not shown


def _reaches(permission: str, condition: str) -> bool:
    if not condition:
        return True
    if permission == "resourcemanager.projects.setIamPolicy":
        return Evaluator(condition).holds(_PROJECT, ("roles/owner",))
    kind = permission.rpartition(".")[0]
    return any(Evaluator(condition).holds(one) for one in _FOREIGN.get(kind, (_PROJECT,)))
