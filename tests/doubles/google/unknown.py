"""What was made a moment ago and is not known to another call yet: how Google refuses that call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.doubles.google.rpc import NO_SUBNETWORK, StatusError, info
from tests.doubles.google.scenario import Unknown
from tests.doubles.google.world import RefusedError, World

AT_THE_MACHINE = "the machine's GetObject"
_ACCOUNT = "trainplan-machine@a-project.iam.gserviceaccount.com"


@dataclass(frozen=True, slots=True)
class Words:
    """`made_by` is the method that makes the thing ("": it stood when the world began), `methods` those that do not
    find it, `refused` what they answer."""

    made_by: str
    methods: tuple[str, ...]
    refused: Callable[[], RefusedError]


def _off(service: str) -> Callable[[], RefusedError]:
    words = f"{service} API has not been used in project 1 before or it is disabled. If you enabled this API recently, "
    words += "wait a few minutes for the action to propagate to our systems and retry."
    if service in ("compute", "storage"):
        return lambda: RefusedError(403, "accessNotConfigured", words)
    told = info("SERVICE_DISABLED", service=f"{service}.googleapis.com")
    return lambda: StatusError("PERMISSION_DENIED", words, (told,))


def _status(status: str, message: str) -> Callable[[], RefusedError]:
    return lambda: StatusError(status, message)


def _not_found(what: str) -> Callable[[], RefusedError]:
    return lambda: RefusedError(404, "notFound", f"The resource '{what}' was not found")


_ENABLED = "serviceusage.services.batchEnable"
_ACCOUNTS, _ROLES, _QUEUES = (
    "iam.projects.serviceAccounts",
    "iam.projects.roles",
    "cloudtasks.projects.locations.queues",
)
_PROJECTS = "cloudresourcemanager.projects"
_POLICY = (f"{_PROJECTS}.setIamPolicy",)
_CREATE_TPU = "tpu.projects.locations.queuedResources.create"
WORDS: dict[tuple[str, str], Words] = {
    ("API", "networks.insert"): Words(_ENABLED, ("compute.networks.get", "compute.networks.insert"), _off("compute")),
    ("API", "serviceAccounts.create"): Words(_ENABLED, (f"{_ACCOUNTS}.get", f"{_ACCOUNTS}.create"), _off("iam")),
    ("API", "roles.create"): Words(_ENABLED, (f"{_ROLES}.get", f"{_ROLES}.create"), _off("iam")),
    ("API", "projects.setIamPolicy"): Words(
        _ENABLED, (f"{_PROJECTS}.getIamPolicy", *_POLICY), _off("cloudresourcemanager")
    ),
    ("API", "queues.create"): Words(_ENABLED, (f"{_QUEUES}.get", f"{_QUEUES}.create"), _off("cloudtasks")),
    ("API", "buckets.insert"): Words(_ENABLED, ("storage.buckets.get", "storage.buckets.insert"), _off("storage")),
    # That it happens: GoogleCloudPlatform/magic-modules pull request 1408. The words are assumed.
    ("service account", "projects.setIamPolicy"): Words(
        f"{_ACCOUNTS}.create", _POLICY, _status("INVALID_ARGUMENT", f"Service account {_ACCOUNT} does not exist.")
    ),
    ("role", "projects.setIamPolicy"): Words(
        f"{_ROLES}.create",
        _POLICY,
        _status(
            "INVALID_ARGUMENT",
            "Role (projects/a-project/roles/trainplanMachine) does not exist in the resource's hierarchy.",
        ),
    ),
    ("service account", "instances.insert"): Words(
        "", ("compute.instances.insert",), _not_found(f"projects/a-project/serviceAccounts/{_ACCOUNT}")
    ),
    ("network", "instances.insert"): Words(
        "", ("compute.instances.insert",), _not_found("projects/a-project/global/networks/trainplan")
    ),
    ("service account", "queuedResources.create"): Words(
        "", (_CREATE_TPU,), _status("INVALID_ARGUMENT", f"Service account {_ACCOUNT} does not exist.")
    ),
    # That it happens is assumed; the words: tests.doubles.google.tpu.
    ("network", "queuedResources.create"): Words(
        "", (_CREATE_TPU,), _status("INVALID_ARGUMENT", NO_SUBNETWORK.format(name="trainplan"))
    ),
    # That it happens, and the words, are assumed.
    ("data disk", "queuedResources.create"): Words(
        "compute.disks.insert",
        (_CREATE_TPU,),
        _status("NOT_FOUND", "The resource 'projects/a-project/zones/a-zone/disks/a-disk' was not found"),
    ),
    ("queue", "tasks.create"): Words("", (f"{_QUEUES}.tasks.create",), _status("NOT_FOUND", "Queue does not exist.")),
    ("bucket", "objects.insert"): Words(
        "storage.buckets.insert",
        ("storage.objects.insert",),
        lambda: RefusedError(404, "notFound", "The specified bucket does not exist."),
    ),
    ("grant", AT_THE_MACHINE): Words("", (), lambda: RefusedError(403, "forbidden", "")),
}
"""By the thing and the call that needs it. A list of its own, and not the product's: they check each other."""


@dataclass
class Unmet:
    """What is not known yet in one world. `refused_at` are the instants at which a call did not find it."""

    rules: tuple[Unknown, ...] = ()
    made_at: dict[tuple[str, str], datetime] = field(default_factory=dict)
    refused_at: list[datetime] = field(default_factory=list)


def unmet(world: World) -> Unmet:
    table: Unmet = world.table(Unmet)
    table.rules = world.scenario.unknown
    return table


def was_made(world: World, method: str) -> None:
    """This call was carried out."""
    table = unmet(world)
    for rule in table.rules:
        if WORDS[rule.resource, rule.needed_by].made_by == method:
            table.made_at[rule.resource, rule.needed_by] = world.now


def refuse_unknown(world: World, method: str) -> None:
    """Raises the refusal of a call that does not find what it needs."""
    for rule in unmet(world).rules:
        words = WORDS[rule.resource, rule.needed_by]
        if method in words.methods and _holds(world, rule):
            raise words.refused()


def is_hidden(world: World, resource: str) -> bool:
    """Whether a machine does not find this thing yet."""
    rules = unmet(world).rules
    return any((rule.resource, rule.needed_by) == (resource, AT_THE_MACHINE) and _holds(world, rule) for rule in rules)


def _holds(world: World, rule: Unknown) -> bool:
    key, table = (rule.resource, rule.needed_by), unmet(world)
    since = table.made_at.get(key) if WORDS[key].made_by else world.began
    if since is None or (rule.seconds is not None and world.now >= since + timedelta(seconds=rule.seconds)):
        return False
    table.refused_at.append(world.now)
    return True
