"""Conditions on grants (IAM Conditions, a part of CEL): which resources of a project a role holds for.

Attributes and the forms of names: https://cloud.google.com/iam/docs/conditions-resource-attributes (read 2026-11-22);
`extract` and `hasOnly`: https://cloud.google.com/iam/docs/conditions-attribute-reference. Compute Engine and Cloud
Storage have these attributes; Cloud TPU, Cloud Tasks and addresses of Compute Engine have none, so what is granted
there stands in roles of its own, without a condition. No account has confirmed any of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "plan-"
"""What the name of each machine of ours begins with, and the name of its disk (providers.gcp.insert.name_of)."""
_INSTANCE = "compute.googleapis.com/Instance"
_DISK = "compute.googleapis.com/Disk"
_BUCKET = "storage.googleapis.com/Bucket"
_OBJECT = "storage.googleapis.com/Object"
_KINDS = {_INSTANCE: "instances", _DISK: "disks"}


def machines_alone() -> str:
    """Machines whose names are ours, and nothing else."""
    return f"resource.type == '{_INSTANCE}' && {_is_named(_INSTANCE)}"


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
