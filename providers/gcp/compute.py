"""Machines of Compute Engine: GPUs, processors, and TPUs from v5p on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from trainplan.providers.base import (
    LABEL_ATTEMPT,
    LABEL_RUN,
    Instance,
    InstanceRef,
    InstanceState,
    LaunchRequest,
    OwnedResource,
    RunId,
    Timers,
    VendorRequest,
)
from trainplan.providers.cloud.launch import Rented, resolution_of
from trainplan.providers.cloud.propagation import pause, settled
from trainplan.providers.cloud.regions import check_region
from trainplan.providers.errors import BadRequestError, InstanceNotFoundError
from trainplan.providers.gcp import reply
from trainplan.providers.gcp import request as insert
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.api import Api, Json
from trainplan.providers.gcp.errors import EXISTS, IN_USE, error_of_operation
from trainplan.providers.gcp.kinds import TPU_API
from trainplan.providers.gcp.listing import Lists
from trainplan.providers.gcp.preflight import Quotas
from trainplan.providers.gcp.request import ComputeResolution
from trainplan.providers.gcp.resolution import resolve
from trainplan.providers.gcp.settings import PROVIDER, TOKEN_MEMORY
from trainplan.providers.gcp.too_new import INSERT, too_new_for_machine

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer
    from trainplan.providers.cloud.checks import Look

WAITS = 3
"""How often an insert is waited for, two minutes each; then the instance is as good as made."""
LISTING_LAG = timedelta(minutes=1)
"""Google states none; a machine has been seen in lists within seconds."""
_LOG_LINES = 1000


@dataclass(frozen=True)
class Machines:
    """`trainplan.providers.gcp.part.GcpPart` on Compute Engine."""

    api: Api
    account: GcpAccount
    rented: Rented
    sleep: Callable[[float], None] = pause
    """Lets seconds go by until what was just made is known."""

    @property
    def listing_lag(self) -> timedelta:
        return LISTING_LAG

    @property
    def token_memory(self) -> timedelta:
        return TOKEN_MEMORY

    def takes(self, offer: Offer) -> bool:
        return not offer.instance_type.startswith(TPU_API)

    def owns(self, identity: str) -> bool:
        return reply.parts_of(identity) is not None

    def zones(self, offer: Offer) -> tuple[str, ...]:
        """The zones of the offer's region that have its machine type, and its accelerator."""
        return self._lists.zones(offer)

    def looks(self, offer: Offer) -> Mapping[str, Look]:
        return Quotas(self.account, self._lists).looks(offer)

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        return Quotas(self.account, self._lists).shortfalls(offers)

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        check_region(request.offer.region, self.account.settings.regions, PROVIDER)
        request = self.rented.with_data(request)
        return replace(request, resolution=resolve(request, self.rented, self._lists))

    def resolution_type(self) -> type[ComputeResolution]:
        return ComputeResolution

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        resolution = resolution_of(request, ComputeResolution)
        end = {
            "kind": "gcp_delete",
            "project": resolution.project,
            "zone": resolution.zone,
            "name": insert.name_of(request),
        }
        part = self.rented.machine(request, end)
        create = insert.insert_call(request, part.user_data, self.account.settings)
        return (*self.rented.puts(part), create)

    def timers(self, request: LaunchRequest) -> Timers:
        cloud = request.deadline + insert.CLOUD_GRACE
        return Timers(machine=request.deadline, cloud=cloud)

    def launch(self, request: LaunchRequest) -> Instance:
        calls = request.calls or self.requests(request if request.resolution else self.resolve(request))
        create: Mapping[str, Any] = calls[-1].parameters
        project, zone = str(create["project"]), str(create["zone"])
        # A requestId is remembered for a while only, and a machine that has ended leaves no name: the operation stays.
        operation = self._insert_before(create)
        if operation is None:
            for call in calls[:-1]:
                self.rented.put(request.run_id, call)
            operation = self._inserted(create)
        name = str(create["body"]["name"])
        if operation is not None:
            self._wait(project, zone, operation)
        return self._make(request, reply.id_of("instances", zone, name))

    def get(self, ref: InstanceRef) -> Instance:
        parts = reply.parts_of(ref.id)
        if parts is None or parts[0] != "instances":
            raise InstanceNotFoundError(f"{ref.id!r} is no machine of Compute Engine")
        project, (_, zone, name) = self.account.project, parts
        try:
            reply_body = self.api.instance(project, zone, name)
        except InstanceNotFoundError:
            return self._absent_instance(ref, zone, name)
        instance = reply.instance_of(reply_body)
        if instance.state is InstanceState.ENDED:
            return reply.instance_of(reply_body, self._operations_on(project, zone, name))
        return instance

    def ended_at(self, ref: InstanceRef) -> datetime | None:
        """By the operations on it, which Google keeps for two weeks at least (docs/maintainers/fidelity.md)."""
        parts = reply.parts_of(ref.id)
        if parts is None or parts[0] != "instances":
            return None
        return reply.ended_at(self._operations_on(self.account.project, parts[1], parts[2]))

    def deleted_at(self, ref: InstanceRef) -> None:
        """Its operations tell its end itself."""
        del ref

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        return self._lists.owned(run_id)

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        parts = reply.parts_of(ref.id)
        if parts is None:
            return
        kind, where, name = parts
        try:
            self.api.delete(kind, self.account.project, where, name)
        except InstanceNotFoundError:
            return
        except BadRequestError as error:
            # It goes with the machine that still has it; the next look tells.
            if error.code not in IN_USE:
                raise

    def stop(self, ref: InstanceRef) -> None:
        with contextlib.suppress(InstanceNotFoundError):
            self.rented.ask_to_stop(self.get(ref).run_id)

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        parts = reply.parts_of(ref.id)
        if parts is None or parts[0] != "instances":
            raise InstanceNotFoundError(f"{ref.id!r} is no machine of Compute Engine")
        _, zone, name = parts
        yield from self.api.console(self.account.project, zone, name).splitlines()[-_LOG_LINES:]

    @property
    def _lists(self) -> Lists:
        return Lists(self.api, self.account)

    def _insert_before(self, create: Mapping[str, Any]) -> Json | None:
        """The operation of this very insert, if it was ever sent."""
        operations = self._operations_on(str(create["project"]), str(create["zone"]), str(create["body"]["name"]))
        return next((row for row in operations if row.get("clientOperationId") == create["requestId"]), None)

    def _inserted(self, create: Mapping[str, Any]) -> Json | None:
        """The operation; None where a machine of this name is there and is this attempt's."""
        body: Mapping[str, Any] = create["body"]
        project, zone = str(create["project"]), str(create["zone"])

        def send() -> Json:
            return self.api.insert(project, zone, body, str(create["requestId"]))

        try:
            return settled(send, lambda error: too_new_for_machine(INSERT, error, self.account), self.sleep)
        except InstanceNotFoundError as error:
            hint = "look at the zone, the network and the service account that are named; plan doctor gcp looks too"
            raise BadRequestError(error.message, hint=hint, code=error.code) from error
        except BadRequestError as error:
            if error.code != EXISTS or not self._is_this(project, zone, body):
                raise
            return None

    def _is_this(self, project: str, zone: str, body: Mapping[str, Any]) -> bool:
        labels = self.api.instance(project, zone, str(body["name"])).get("labels") or {}
        return all(labels.get(name) == body["labels"][name] for name in (LABEL_RUN, LABEL_ATTEMPT))

    def _wait(self, project: str, zone: str, operation: Json) -> None:
        """Wait until the operation is done, or surely will be. Raises the error of a failed operation."""
        for _ in range(WAITS):
            if reply.is_done(operation):
                break
            operation = self.api.wait(project, zone, str(operation["name"]))
        error = error_of_operation(operation, f"compute/instances.insert in {zone}")
        if error is not None:
            raise error

    def _make(self, request: LaunchRequest, identity: str) -> Instance:
        ref = InstanceRef(provider=PROVIDER, region=request.offer.region, id=identity)
        try:
            return self.get(ref)
        except InstanceNotFoundError:
            # It was made, and is not there any more.
            return Instance(ref=ref, state=InstanceState.ENDED, run_id=request.run_id, attempt=request.attempt)

    def _absent_instance(self, ref: InstanceRef, zone: str, name: str) -> Instance:
        """What operations say of a machine that is not there: not yet, or not any more."""
        operations = self._operations_on(self.account.project, zone, name)
        under_way = any(reply.is_insert(row) and not reply.is_done(row) for row in operations)
        why = reply.why_ended(operations)
        if why is None and not under_way:
            raise InstanceNotFoundError(f"{name} is not in {zone}")
        run, attempt = insert.attempt_of(name)
        state = InstanceState.PENDING if why is None else InstanceState.ENDED
        over = why or reply.Over()
        return Instance(
            ref=ref,
            state=state,
            run_id=RunId(run),
            attempt=attempt,
            end=over.end,
            reason=over.reason,
            ended_at=over.at,
        )

    def _operations_on(self, project: str, zone: str, name: str) -> list[Json]:
        try:
            rows = self.api.operations(project, zone, f'targetLink eq ".*/instances/{name}"')
        except BadRequestError:  # should Google not filter by it, the newest of all will do
            rows = self.api.operations(project, zone, "")
        return [row for row in rows if reply.last_of(str(row.get("targetLink", ""))) == name]
