"""Machines of Compute Engine: GPUs, processors, and TPUs from v5p on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from providers.base import LABEL_ATTEMPT, LABEL_RUN, Instance, InstanceRef, InstanceState, RunId, Timers
from providers.errors import BadRequestError, CapacityError, InstanceNotFoundError
from providers.gcp import found, insert, settling
from providers.gcp.account import Account
from providers.gcp.api import Api
from providers.gcp.kinds import TPU_API, kind_of
from providers.gcp.lists import Lists
from providers.gcp.part import PROVIDER, TOKEN_MEMORY
from providers.gcp.quotas import Quotas
from providers.gcp.translate import EXISTS, IN_USE, error_of_operation
from providers.launchable import host_image
from providers.regions import check_region
from providers.rented import Rented, hardware
from providers.settling import pause, settled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pricing.offers import Offer
    from providers.base import Check, LaunchRequest, OwnedResource, VendorRequest
    from providers.gcp.api import Json

WAITS = 3
"""How often an insert is waited for, two minutes each; then the instance is as good as made."""
LISTING_LAG = timedelta(minutes=1)
"""Google states none; a machine has been seen in lists within seconds."""
_LOG_LINES = 1000


@dataclass(frozen=True)
class Machines:
    """`providers.gcp.part.Part` on Compute Engine."""

    api: Api
    account: Account
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
        return found.parts_of(identity) is not None

    def zones(self, offer: Offer) -> tuple[str, ...]:
        """The zones of the offer's region that have its machine type, and its accelerator."""
        return self._lists.zones(offer)

    def checks(self, offer: Offer) -> Sequence[Check]:
        return Quotas(self.account, self._lists).checks(offer)

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        return Quotas(self.account, self._lists).shortfalls(offers)

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        check_region(request.offer.region, self.account.settings.regions, PROVIDER)
        request = self.rented.with_data(request)
        known = dict(self.rented.resolved(request))
        host = host_image(hardware(request.offer))
        if host.kind != "gce_family":
            raise BadRequestError(f"{request.offer.instance_type}: {host.reason or host.source}", hint="choose another")
        known.setdefault(insert.PROJECT, self.account.project)
        known.setdefault(insert.MACHINE_ACCOUNT, self.account.machine_account)
        known.setdefault(insert.LEAST_GIB, str(host.least_disk_gib))
        if insert.ZONE not in known:
            known[insert.ZONE] = request.zone or self._a_zone(request)
        if insert.IMAGE not in known:
            image = self.account.once(host.image, lambda: self._newest(host.image))
            link = str(image["selfLink"])
            known[insert.IMAGE] = link[link.index("projects/") :]
            known[insert.IMAGE_GIB] = str(image.get("diskSizeGb", 0))
        return replace(request, resolved=known)

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        known = request.resolved
        end = {
            "kind": "gcp_delete",
            "project": known.get(insert.PROJECT, ""),
            "zone": known.get(insert.ZONE, ""),
            "name": insert.name_of(request),
        }
        part = self.rented.machine(request, end)
        create = insert.insert_call(request, part.user_data, self.account.settings)
        return (*self.rented.puts(part), create)

    def timers(self, request: LaunchRequest) -> Timers:
        cloud = request.deadline + insert.CLOUD_GRACE
        return Timers(machine=request.deadline, cloud=cloud)

    def launch(self, request: LaunchRequest) -> Instance:
        calls = request.calls or self.requests(self.resolve(request))
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
        return self._made(request, found.id_of("instances", zone, name))

    def get(self, ref: InstanceRef) -> Instance:
        place = found.parts_of(ref.id)
        if place is None or place[0] != "instances":
            raise InstanceNotFoundError(f"{ref.id!r} is no machine of Compute Engine")
        project, (_, zone, name) = self.account.project, place
        try:
            told = self.api.instance(project, zone, name)
        except InstanceNotFoundError:
            return self._gone(ref, zone, name)
        seen = found.instance_of(told)
        if seen.state is InstanceState.ENDED:
            return found.instance_of(told, self._operations_on(project, zone, name))
        return seen

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        return self._lists.owned(run_id)

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        place = found.parts_of(ref.id)
        if place is None:
            return
        kind, where, name = place
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
        place = found.parts_of(ref.id)
        if place is None or place[0] != "instances":
            raise InstanceNotFoundError(f"{ref.id!r} is no machine of Compute Engine")
        _, zone, name = place
        yield from self.api.console(self.account.project, zone, name).splitlines()[-_LOG_LINES:]

    @property
    def _lists(self) -> Lists:
        return Lists(self.api, self.account)

    def _newest(self, path: str) -> Json:
        """The newest image of a family that is named as projects/PROJECT/global/images/family/FAMILY."""
        _, project, *_, family = path.split("/")
        return self.api.newest_image(project, family)

    def _a_zone(self, request: LaunchRequest) -> str:
        """Another one for each attempt, where the plan names none."""
        zones = self.zones(request.offer)
        if not zones:
            kind, region = kind_of(request.offer), request.offer.region
            raise CapacityError(
                f"no zone of {region} has {kind.machine_type}{f' with {kind.accelerator}' if kind.accelerator else ''}",
                hint="choose another region",
            )
        return zones[(request.attempt - 1) % len(zones)]

    def _insert_before(self, create: Mapping[str, Any]) -> Json | None:
        """The operation of this very insert, if it was ever sent."""
        sent = self._operations_on(str(create["project"]), str(create["zone"]), str(create["body"]["name"]))
        return next((row for row in sent if row.get("clientOperationId") == create["requestId"]), None)

    def _inserted(self, create: Mapping[str, Any]) -> Json | None:
        """The operation; None where a machine of this name is there and is this attempt's."""
        body: Mapping[str, Any] = create["body"]
        project, zone = str(create["project"]), str(create["zone"])

        def send() -> Json:
            return self.api.insert(project, zone, body, str(create["requestId"]))

        try:
            return settled(send, lambda error: settling.of_machine(settling.INSERT, error, self.account), self.sleep)
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
        """Until the operation is done, or for so long that it will be. Raises what it failed with."""
        for _ in range(WAITS):
            if found.is_done(operation):
                break
            operation = self.api.wait(project, zone, str(operation["name"]))
        error = error_of_operation(operation, f"compute/instances.insert in {zone}")
        if error is not None:
            raise error

    def _made(self, request: LaunchRequest, identity: str) -> Instance:
        ref = InstanceRef(provider=PROVIDER, region=request.offer.region, id=identity)
        try:
            return self.get(ref)
        except InstanceNotFoundError:
            # It was made, and is not there any more.
            return Instance(ref=ref, state=InstanceState.ENDED, run_id=request.run_id, attempt=request.attempt)

    def _gone(self, ref: InstanceRef, zone: str, name: str) -> Instance:
        """What operations say of a machine that is not there: not yet, or not any more."""
        operations = self._operations_on(self.account.project, zone, name)
        under_way = any(found.is_insert(row) and not found.is_done(row) for row in operations)
        why = found.why_ended(operations)
        if why is None and not under_way:
            raise InstanceNotFoundError(f"{name} is not in {zone}")
        run, attempt = insert.attempt_of(name)
        state = InstanceState.PENDING if why is None else InstanceState.ENDED
        over = why or found.Over()
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
        return [row for row in rows if found.last_of(str(row.get("targetLink", ""))) == name]
