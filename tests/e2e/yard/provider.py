"""The office's provider: the product's own parts for all of a rented launch, and an office in place of the create."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from trainplan.providers.base import (
    LABEL_ATTEMPT,
    LABEL_CLIENT,
    LABEL_DEADLINE,
    LABEL_RUN,
    Instance,
    InstanceRef,
    InstanceState,
    LaunchRequest,
    OwnedResource,
    Preflight,
    ProviderSettings,
    RunId,
    Timers,
    VendorRequest,
)
from trainplan.providers.cloud.launch import MachineResolution, Rented, resolution_of
from trainplan.providers.cloud.machine import SPEC, MachinePart, StoredObject
from trainplan.providers.errors import InstanceNotFoundError
from trainplan.providers.stores import registry

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer, OfferQuery
    from trainplan.providers.stores.store import ObjectStore

SERVICE, CREATE = "office", "Create"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Everything that a client process has to know. `options` and `environment` are the store's.

    `endpoints` are what the machine asks in place of its cloud, `hurry` values that replace those of spec.json so that
    a test need not wait for half an hour, `boot_seconds` the time to the first step, None the product's own.
    `own_end`: the machine ends itself by its cloud's own call, where there is one.
    """

    cloud: str
    office: str
    options: Mapping[str, str]
    environment: Mapping[str, str]
    endpoints: Mapping[str, str]
    digest: str = ""
    hurry: Mapping[str, float] = field(default_factory=dict)
    boot_seconds: float | None = None
    own_end: bool = False


class OfficeProvider:
    """trainplan.providers.base.Provider and Resolver."""

    listing_lag = timedelta(0)
    token_memory = timedelta(hours=24)

    def __init__(self, terms: Terms, settings: ProviderSettings) -> None:
        self.name = terms.cloud
        self._terms = terms
        self._settings = replace(settings, options=dict(terms.options), environment=dict(terms.environment))
        self._stores = cache(partial(registry.run_directory, self.name, self._settings))  # as the providers do
        self._rented = Rented(
            cloud=terms.cloud,
            service="store",
            store=self.store,
            region=lambda: terms.options.get("region", "here"),
            now=settings.now,
            endpoints=dict(terms.endpoints),
            digest=lambda _: terms.digest,
        )

    def offers(self, query: OfferQuery) -> Sequence[Offer]:
        return ()

    def preflight(self, offer: Offer) -> Preflight:
        return Preflight(checks=())

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        resolution = self._rented.resolve(request)
        if self._terms.boot_seconds is not None:
            by = self._settings.now() + timedelta(seconds=self._terms.boot_seconds)
            resolution = replace(resolution, boot_deadline=by.replace(microsecond=0))
        return replace(request, resolution=resolution)

    def resolution_type(self, offer: Offer) -> type[MachineResolution]:
        return MachineResolution

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        part = hurried(self._rented.machine(request, self._end(request)), self._terms.hurry)
        labels = {
            LABEL_RUN: request.run_id,
            LABEL_ATTEMPT: str(request.attempt),
            LABEL_DEADLINE: request.deadline.isoformat(),
            LABEL_CLIENT: request.client,
        }
        create = {
            "id": self._id(request),
            "labels": labels,
            "user_data": part.user_data,
            "region": resolution_of(request, MachineResolution).run_region,
        }
        return [*self._rented.puts(part), VendorRequest(service=SERVICE, operation=CREATE, parameters=create)]

    def timers(self, request: LaunchRequest) -> Timers:
        return Timers(machine=request.deadline, cloud=None)

    def launch(self, request: LaunchRequest) -> Instance:
        *puts, create = request.calls or self.requests(request)
        for call in puts:
            self._rented.put(request.run_id, call)
        return self._instance(self._ask("POST", "/instances", dict(create.parameters)))

    def get(self, ref: InstanceRef) -> Instance:
        return self._instance(self._ask("GET", f"/instances/{ref.id}"))

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        rows = [row for row in self._ask("GET", "/instances") if run_id in (None, row["labels"][LABEL_RUN])]
        return [
            OwnedResource(
                provider=self.name,
                region=row["region"],
                kind="instance",
                id=row["id"],
                run_id=RunId(row["labels"][LABEL_RUN]),
                attempt=int(row["labels"][LABEL_ATTEMPT]),
                client=row["labels"][LABEL_CLIENT],
            )
            for row in rows
        ]

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        try:
            self._ask("DELETE", f"/instances/{ref.id}")
        except InstanceNotFoundError:
            return

    def stop(self, ref: InstanceRef) -> None:
        self._rented.ask_to_stop(self.get(ref).run_id)

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        return iter(())

    def store(self, run_id: RunId) -> ObjectStore:
        return self._stores(run_id)

    def _id(self, request: LaunchRequest) -> str:
        return f"i-{request.run_id}-{request.attempt}"

    def _end(self, request: LaunchRequest) -> Mapping[str, str]:
        ends = {
            "gcp": {"kind": "gcp_delete", "project": "a-project", "zone": "here-a", "name": self._id(request)},
            "azure": {
                "kind": "azure_group",
                "subscription": "a-subscription",
                "group": self._id(request),
                "machine": self._id(request),
            },
        }
        return ends[self.name] if self._terms.own_end and self.name in ends else {"kind": "power_off"}

    def _instance(self, row: dict[str, Any]) -> Instance:
        ended = row["state"] == "ended"
        state = {"pending": InstanceState.PENDING, "running": InstanceState.RUNNING, "ended": InstanceState.ENDED}
        return Instance(
            ref=InstanceRef(provider=self.name, region=row["region"], id=row["id"]),
            state=InstanceState.STOPPING if row["deleted"] and not ended else state[row["state"]],
            run_id=RunId(row["labels"][LABEL_RUN]),
            attempt=int(row["labels"][LABEL_ATTEMPT]),
            # How it ended the run directory tells: an office knows no more than that the machine is off.
        )

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self._terms.office}{path}", data=data, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=300) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise InstanceNotFoundError(f"{path}: {error.code}") from error


def hurried(part: MachinePart, values: Mapping[str, float]) -> MachinePart:
    """The same with other values in spec.json, and its hash where the start-up text has it."""
    if not values:
        return part
    *others, spec = part.objects
    assert spec.path.endswith(SPEC)
    text = json.dumps({**json.loads(spec.data), **values}, sort_keys=True, indent=1)
    spec = StoredObject(path=spec.path, data=text.encode())
    return MachinePart(boot=replace(part.boot, spec_sha256=spec.sha256), objects=(*others, spec))


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  machines of the yard live in the real time
