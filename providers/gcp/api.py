"""The calls of Compute Engine that are used, as JSON values: what a test can put itself in front of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from trainplan.providers.gcp.errors import translated

if TYPE_CHECKING:
    from trainplan.providers.gcp.account import GcpAccount

Json = dict[str, Any]
_SECONDS = 60.0
_WAIT_SECONDS = 150.0
"""Google answers a `wait` after two minutes at the latest."""


class Api(Protocol):
    """Each method is one call, sent once. Raises ProviderError."""

    def insert(self, project: str, zone: str, body: Mapping[str, Any], request_id: str) -> Json:
        """The operation that makes an instance."""
        ...

    def insert_disk(self, project: str, zone: str, body: Mapping[str, Any], request_id: str) -> Json:
        """The operation that makes a disk."""
        ...

    def wait(self, project: str, zone: str, operation: str, seconds: float = _WAIT_SECONDS) -> Json:
        """The operation once it is done, or as it stands after two minutes. Raises TransientError where that takes
        longer than so many seconds."""
        ...

    def operations(self, project: str, zone: str, matching: str) -> list[Json]:
        """The first page of the operations of a zone, the newest first; those that a filter matches, "" for all."""
        ...

    def instance(self, project: str, zone: str, name: str) -> Json:
        """A machine as Compute Engine describes it. Raises ProviderError."""
        ...

    def disk(self, project: str, zone: str, name: str) -> Json:
        """A disk as Compute Engine describes it. Raises ProviderError."""
        ...

    def console(self, project: str, zone: str, name: str) -> str:
        """What is left of the first serial port's output."""
        ...

    def delete(self, kind: str, project: str, location: str, name: str) -> Json:
        """The operation that ends something: `kind` is instances, disks (in a zone) or addresses (in a region)."""
        ...

    def everywhere(self, kind: str, project: str, matching: str, page: str) -> Json:
        """A page of an aggregated list: `items` by scope, `nextPageToken`, `unreachables`, `warning`.

        `kind` is instances, disks, addresses, machineTypes or acceleratorTypes.
        """
        ...

    def newest_image(self, project: str, family: str) -> Json:
        """The newest image of a family. Raises ProviderError."""
        ...


class GoogleApi:
    """google-cloud-compute, imported with the first call. Its own retries are off, and its extended operations are
    not used: they poll Google itself, whatever endpoint is set."""

    def __init__(self, account: GcpAccount) -> None:
        self._account = account
        self._clients: dict[str, Any] = {}

    def insert(self, project: str, zone: str, body: Mapping[str, Any], request_id: str) -> Json:
        with translated("compute/instances.insert"):
            request = self._types.InsertInstanceRequest(
                project=project,
                zone=zone,
                request_id=request_id,
                instance_resource=self._types.Instance.from_json(json.dumps(body)),
            )
            return _json(self._client("Instances").insert_unary(request, retry=None, timeout=_SECONDS))

    def insert_disk(self, project: str, zone: str, body: Mapping[str, Any], request_id: str) -> Json:
        with translated("compute/disks.insert"):
            request = self._types.InsertDiskRequest(
                project=project,
                zone=zone,
                request_id=request_id,
                disk_resource=self._types.Disk.from_json(json.dumps(body)),
            )
            return _json(self._client("Disks").insert_unary(request, retry=None, timeout=_SECONDS))

    def wait(self, project: str, zone: str, operation: str, seconds: float = _WAIT_SECONDS) -> Json:
        with translated("compute/zoneOperations.wait"):
            request = {"project": project, "zone": zone, "operation": operation}
            return _json(self._client("ZoneOperations").wait(request, retry=None, timeout=seconds))

    def operations(self, project: str, zone: str, matching: str) -> list[Json]:
        with translated("compute/zoneOperations.list"):
            request = {"project": project, "zone": zone, "order_by": "creationTimestamp desc"}
            request |= {"filter": matching} if matching else {}
            page = next(self._client("ZoneOperations").list(request, retry=None, timeout=_SECONDS).pages)
            return list(_json(page).get("items", ()))

    def instance(self, project: str, zone: str, name: str) -> Json:
        """See `Api.instance`."""
        with translated("compute/instances.get"):
            request = {"project": project, "zone": zone, "instance": name}
            return _json(self._client("Instances").get(request, retry=None, timeout=_SECONDS))

    def disk(self, project: str, zone: str, name: str) -> Json:
        """See `Api.disk`."""
        with translated("compute/disks.get"):
            request = {"project": project, "zone": zone, "disk": name}
            return _json(self._client("Disks").get(request, retry=None, timeout=_SECONDS))

    def console(self, project: str, zone: str, name: str) -> str:
        with translated("compute/instances.getSerialPortOutput"):
            request = {"project": project, "zone": zone, "instance": name}
            reply = self._client("Instances").get_serial_port_output(request, retry=None, timeout=_SECONDS)
            return str(reply.contents)

    def delete(self, kind: str, project: str, location: str, name: str) -> Json:
        service, field, scope = _DELETES[kind]
        with translated(f"compute/{kind}.delete"):
            request = {"project": project, scope: location, field: name}
            return _json(self._client(service).delete_unary(request, retry=None, timeout=_SECONDS))

    def everywhere(self, kind: str, project: str, matching: str, page: str) -> Json:
        with translated(f"compute/{kind}.aggregatedList"):
            request = {"project": project, "filter": matching, "page_token": page}
            listing = self._client(_LISTS[kind]).aggregated_list(request, retry=None, timeout=_SECONDS)
            return _json(next(listing.pages))

    def newest_image(self, project: str, family: str) -> Json:
        with translated("compute/images.getFromFamily"):
            request = {"project": project, "family": family}
            return _json(self._client("Images").get_from_family(request, retry=None, timeout=_SECONDS))

    @cached_property
    def _types(self) -> Any:
        from google.cloud import compute_v1

        return compute_v1

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            make = getattr(self._types, f"{service}Client")
            options = {"api_endpoint": self._account.address("compute")}
            result = make(credentials=self._account.credentials, client_options=options)
            # The library's REST transport keeps its session to itself, and gives no headers with its answers.
            self._account.heard_by(getattr(result.transport, "_session", None))
            self._clients[service] = result
        return self._clients[service]


_DELETES = {
    "instances": ("Instances", "instance", "zone"),
    "disks": ("Disks", "disk", "zone"),
    "addresses": ("Addresses", "address", "region"),
}
_LISTS = {
    "instances": "Instances",
    "disks": "Disks",
    "addresses": "Addresses",
    "machineTypes": "MachineTypes",
    "acceleratorTypes": "AcceleratorTypes",
}


def _json(message: Any) -> Json:
    """Return the JSON as Google sends it: 64-bit integers are text."""
    text = type(message).to_json(message, use_integers_for_enums=False, always_print_fields_with_no_presence=False)
    return dict(json.loads(text))
