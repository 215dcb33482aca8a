"""Google's TPUs v2 to v5e: queued resources of the Cloud TPU API, their data disks, and the tasks that end both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from trainplan.providers.base import (
    Instance,
    InstanceRef,
    InstanceState,
    LaunchRequest,
    OwnedResource,
    PreflightState,
    RunId,
    Timers,
    VendorRequest,
)
from trainplan.providers.cloud.launch import Rented, resolution_of
from trainplan.providers.cloud.listing import ListedResources, whole
from trainplan.providers.cloud.propagation import pause, settled
from trainplan.providers.cloud.regions import check_region
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    InstanceNotFoundError,
    PermissionDeniedError,
    QuotaError,
)
from trainplan.providers.gcp import quotas
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.part import word_of
from trainplan.providers.gcp.request import label_text
from trainplan.providers.gcp.settings import PROVIDER, TOKEN_MEMORY
from trainplan.providers.gcp.too_new import CREATE_TPU, too_new_for_machine, too_new_for_task
from trainplan.providers.gcp.tpu import data_disk, deadline
from trainplan.providers.gcp.tpu import preflight as checks
from trainplan.providers.gcp.tpu.api import PAGE, TASKS, TPU, Calls, Refused, TasksCalls, TpuCalls, pages
from trainplan.providers.gcp.tpu.data_disk import DataDisks
from trainplan.providers.gcp.tpu.errors import error_of, is_off, operation_error
from trainplan.providers.gcp.tpu.listing import Each, TpuLists, threads
from trainplan.providers.gcp.tpu.reply import (
    NODE,
    TASK,
    WORD,
    TpuLocation,
    asked_for,
    dead,
    deleted_at,
    instance,
    location_of,
    said_of,
)
from trainplan.providers.gcp.tpu.request import CREATE, as_shell, create_call, location_for, made_by, takes, trainable
from trainplan.providers.gcp.tpu.resolution import TpuResolution, resolve

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer
    from trainplan.providers.cloud.checks import Look
    from trainplan.providers.gcp.api import Api

LIST_OPERATIONS = "ListOperations"
LISTING_LAG = timedelta(seconds=30)
"""Nobody publishes one; the API answers after a create with an operation whose target may take seconds to be there."""
Answer = TypeVar("Answer")


def make_tpu_machines(account: GcpAccount, rented: Rented, api: Api) -> TpuMachines:
    """Create the part without a call."""
    return TpuMachines(account, rented, TpuCalls(account), TasksCalls(account), DataDisks(api), rented.now)


@dataclass
class TpuMachines:
    """`trainplan.providers.gcp.part.GcpPart` over the Cloud TPU API (`tpu`) and Cloud Tasks (`tasks`). `each` looks at
    zones.

    Its data disks (`disks`) are listed and deleted by the part for Compute Engine, as all disks with our labels are.
    """

    account: GcpAccount
    rented: Rented
    tpu: Calls
    tasks: Calls
    disks: DataDisks
    now: Callable[[], datetime]
    each: Each = threads
    sleep: Callable[[float], None] = pause
    """Lets seconds go by until what was just made is known."""

    @cached_property
    def _lists(self) -> TpuLists:
        return TpuLists(self.account, self._ask_tpu, self.tasks, self.each)

    @property
    def listing_lag(self) -> timedelta:
        return LISTING_LAG

    @property
    def token_memory(self) -> timedelta:
        return TOKEN_MEMORY

    def takes(self, offer: Offer) -> bool:
        return takes(offer)

    def owns(self, identity: str) -> bool:
        return word_of(identity) in (WORD, NODE, TASK)

    def zones(self, offer: Offer) -> Sequence[str]:
        """The offer's zones that have it for this project; none where the project does not use the API."""
        try:
            return checks.zones_of(self.account, self._ask_tpu, offer)
        except PermissionDeniedError as error:
            if is_off(error):
                return ()
            raise

    def looks(self, offer: Offer) -> Mapping[str, Look]:
        return checks.looks(self.account, self._ask_tpu, self._ask_tasks, offer)

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        """Return shortfalls by the quotas of the Cloud TPU API, as far as their names say which is meant."""
        checks = [quotas.check(self.account, quotas.of_tpu_api(offer)) for offer in offers]
        return [check.detail if check.state is PreflightState.REFUSED else "" for check in checks]

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        """Looks up the runtime version, and whether there is a queue that would end the machine."""
        check_region(request.offer.region, self.account.settings.regions, PROVIDER)
        trainable(request)
        project = self.account.project
        zone = request.zone or next(iter(request.offer.zones), "")
        if not zone:
            raise BadRequestError(
                f"{request.offer.instance_type} in {request.offer.region}: no zone of it is known",
                hint="choose another region; plan estimate shows some",
            )
        if request.deadline + deadline.DISK_AFTER[-1] > self.now() + deadline.LONGEST:
            raise BadRequestError(
                f"run {request.run_id}: its deadline is more than {deadline.LONGEST.days} days away, and nothing would "
                "end a TPU so late",
                hint="set an earlier deadline",
            )
        checks.queue_runs(self._ask_tasks, project)
        request = self.rented.with_data(request)
        trainable(request)  # now that the size of its data is known
        if data_disk.size_gib(request):
            data_disk.refuse_without_quota(self.account, request)
        return replace(request, resolution=resolve(request, zone, self.rented, self.account, self._ask_tpu))

    def resolution_type(self) -> type[TpuResolution]:
        return TpuResolution

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        trainable(request)
        resolution, location = resolution_of(request, TpuResolution), location_for(request)
        project = resolution.project
        end = {"kind": "tpu_delete", "project": project, "zone": location.zone, "queued_resource": location.name}
        gib = data_disk.size_gib(request)
        part = self.rented.machine(request, end, data_disk_gib=gib)
        ends = deadline.Ends(
            project=project,
            name=location.full(project, "queuedResources"),
            address=resolution.tpu_address,
            account=resolution.machine_account,
            disk_url=data_disk.delete_url(request, location) if gib else "",
        )
        disk = (data_disk.insert_call(request, location),) if gib else ()
        create = create_call(request, as_shell(part.user_data), self.account.settings)
        return (*self.rented.puts(part), *deadline.task_calls(request, ends), *disk, create)

    def timers(self, request: LaunchRequest) -> Timers:
        return Timers(machine=request.deadline, cloud=request.deadline)

    def launch(self, request: LaunchRequest) -> Instance:
        if not request.calls and not request.resolution:
            request = self.resolve(request)
        calls = request.calls or tuple(self.requests(request))
        create = next((call for call in calls if call.operation == CREATE), None)
        if create is None:
            raise BadRequestError(f"the recorded calls of {request.run_id} create no TPU", hint="launch the job again")
        location = made_by(create)
        there = self._look(location)
        if there is not None:
            return there
        if self._has_lived(request):
            return dead(request, location, "it has ended, and is gone")
        return self._make(request, calls, location)

    def get(self, ref: InstanceRef) -> Instance:
        location = location_of(ref.id)
        machine = self._look(location) if location else None
        if machine is None:
            raise InstanceNotFoundError(f"there is no queued resource {ref.id}")
        return machine

    def ended_at(self, ref: InstanceRef) -> None:
        """What Google takes back by itself is no operation, and may come before a delete."""
        del ref

    def deleted_at(self, ref: InstanceRef) -> datetime | None:
        """By the operations on its queued resource."""
        location = location_of(ref.id)
        if location is None:
            return None
        name = location.full(self.account.project, "queuedResources")
        home = {"name": name.rpartition("/queuedResources/")[0], "pageSize": PAGE}
        listed = (page.get("operations") or () for page in pages(self._ask_tpu, LIST_OPERATIONS, home))
        return deleted_at((row for rows in listed for row in rows), name)

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        return whole((_of_run(listing, run_id) for listing in self._lists.look(run_id)), "lists of TPUs")

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        """A queued resource takes its node and, once its own end has begun, its timers with it."""
        location, word = location_of(ref.id), word_of(ref.id)
        if location is not None:
            self._delete(location, word)
        if location is not None and word == WORD:
            for name in self._timers_of(location):
                self._disarm(name)
        elif word == TASK:
            self._delete_timer(ref.id.partition("/")[2])

    def stop(self, ref: InstanceRef) -> None:
        with contextlib.suppress(InstanceNotFoundError):
            self.rented.ask_to_stop(self.get(ref).run_id)

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        """How the API says that it stands: a TPU has no console that could be read."""
        location = location_of(ref.id)
        pair = self._resource_and_node(location) if location else None
        if pair is None:
            raise InstanceNotFoundError(f"there is no queued resource {ref.id}")
        yield from said_of(*pair)

    def _make(self, request: LaunchRequest, calls: Sequence[VendorRequest], location: TpuLocation) -> Instance:
        timers: list[str] = []
        disk = ""
        try:
            for call in calls:
                if self.rented.is_put(call):
                    self.rented.put(request.run_id, call)
                elif call.operation == deadline.CREATE_TASK:
                    if not self._armed(call):
                        return dead(request, location, "what this attempt made has ended, and its timers are gone")
                    timers.append(deadline.task_name(call))
                elif call.operation == data_disk.INSERT:
                    disk = data_disk.name_made(call)
                    self.disks.make(call)
                else:
                    self._create(call, disk)
        except (CapacityError, QuotaError):
            self._take_back(location, disk, timers)
            raise
        return self._look(location) or asked_for(request, location)

    def _take_back(self, location: TpuLocation, disk: str, timers: Sequence[str]) -> None:
        """What a refused placement was asked for: nothing of it is left when the refusal is told, its timers last."""
        with contextlib.suppress(InstanceNotFoundError):
            self._delete(location, WORD)
        if disk:
            self.disks.remove(disk)
        for name in timers:
            self._disarm(name)

    def _create(self, call: VendorRequest, disk: str) -> None:
        """Ask for it; `disk` is the full name of its data disk, "" for none."""
        try:
            too_new = partial(too_new_for_machine, CREATE_TPU, account=self.account, disk=disk)
            reply = settled(partial(self._create_sent, call), too_new, self.sleep)
        except InstanceNotFoundError as error:
            raise BadRequestError(error.message, hint="look at zone, type and runtime version") from error
        refused = operation_error(reply, f"{TPU} {CREATE}") if reply else None
        if isinstance(refused, InstanceNotFoundError):
            raise BadRequestError(refused.message, hint="look at zone, type and runtime version") from refused
        if refused is not None:
            raise refused

    def _create_sent(self, call: VendorRequest) -> dict[str, Any]:
        """The answer to the create; an empty one where there is such a queued resource already."""
        try:
            return self.tpu.call(CREATE, call.parameters)
        except Refused as error:
            if error.status == "ALREADY_EXISTS":
                return {}
            raise error_of(error, f"{TPU} {CREATE}", TPU) from error

    def _armed(self, call: VendorRequest) -> bool:
        send = partial(self._of_tasks, deadline.CREATE_TASK, partial(deadline.armed, self.tasks, call))
        try:
            return settled(send, too_new_for_task, self.sleep)
        except PermissionDeniedError as error:
            if not isinstance(error.__cause__, InstanceNotFoundError):
                raise
            raise PermissionDeniedError(
                f"no timer in the cloud would end the TPU without this computer, so none is created: {error.message}",
                hint="plan setup gcp",
                code=error.code,
            ) from error

    def _has_lived(self, request: LaunchRequest) -> bool:
        """Whether the attempt's machine has ever said anything: then it was made before, and is gone."""
        path = f"attempts/{request.attempt}/status.json"
        return path in self.rented.store(request.run_id).list(f"attempts/{request.attempt}")

    def _look(self, location: TpuLocation) -> Instance | None:
        pair = self._resource_and_node(location)
        return instance(*pair) if pair else None

    def _resource_and_node(self, location: TpuLocation) -> tuple[Mapping[str, Any], Mapping[str, Any] | None] | None:
        """The queued resource, and its node where there is one; None: there is none."""
        project = self.account.project
        resource = self._unless_gone("GetQueuedResource", {"name": location.full(project, "queuedResources")})
        if resource is None:
            return None
        node = None
        if (resource.get("state") or {}).get("state") == "ACTIVE":
            node = self._unless_gone("GetNode", {"name": location.full(project, "nodes")})
        return resource, node

    def _delete(self, location: TpuLocation, word: str) -> None:
        """The queued resource with its node; the node alone where nothing else is left."""
        project = self.account.project
        request = {"name": location.full(project, "queuedResources"), "force": True}
        try:
            self.tpu.call("DeleteQueuedResource", request)
        except Refused as error:
            if error.status == "NOT_FOUND":
                if word == NODE:
                    self._unless_gone("DeleteNode", {"name": location.full(project, "nodes")})
            elif not self._is_going(location):
                raise error_of(error, f"{TPU} DeleteQueuedResource", TPU) from error

    def _is_going(self, location: TpuLocation) -> bool:
        """Whether it is being deleted already, or gone: a second delete may be refused for the first."""
        machine = self._look(location)
        return machine is None or machine.state is InstanceState.STOPPING

    def _delete_timer(self, name: str) -> None:
        """A timer goes last: not before the end of what it ends has begun."""
        task = deadline.read_task({"name": name})
        if task is None or self._has_done(task):
            self._disarm(name)

    def _has_done(self, task: deadline.Task) -> bool:
        """Whether the end of what the task ends has begun."""
        location = TpuLocation(task.zone, task.ends)
        if task.is_of_disk:
            return self.disks.is_going(data_disk.full_name(self.account.project, location))
        return self._is_going(location)

    def _disarm(self, name: str) -> None:
        self._of_tasks("DeleteTask", partial(deadline.disarm, self.tasks, name))

    def _timers_of(self, location: TpuLocation) -> list[str]:
        """The timers of the queued resource and its node; those of a data disk stay until the disk is deleted."""
        there = [task for task in self._lists.tasks_of(None) if not task.is_of_disk]
        return [task.name for task in there if (task.zone, task.ends) == (location.zone, location.name)]

    def _unless_gone(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any] | None:
        try:
            return self._ask_tpu(operation, request)
        except InstanceNotFoundError:
            return None

    def _ask_tpu(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.tpu.call(operation, request)
        except Refused as error:
            raise error_of(error, f"{TPU} {operation}", TPU) from error

    def _ask_tasks(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        return self._of_tasks(operation, lambda: self.tasks.call(operation, request))

    def _of_tasks(self, operation: str, call: Callable[[], Answer]) -> Answer:
        """What Cloud Tasks answers; what is none as an error of ours."""
        try:
            return call()
        except Refused as error:
            raise error_of(error, f"{TASKS} {operation}", TASKS) from error


def _of_run(listing: ListedResources, run_id: RunId | None) -> ListedResources:
    """What of a list belongs to a run, or to any."""
    mine = tuple(row for row in listing.resources if run_id is None or row.run_id in (run_id, label_text(run_id)))
    return ListedResources(mine, listing.unanswered)
