"""Google's TPUs v2 to v5e: queued resources of the Cloud TPU API, and the tasks that end them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from providers.base import Instance, InstanceRef, InstanceState, OwnedResource, PreflightState, Timers
from providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    IncompleteListingError,
    InstanceNotFoundError,
    MachineError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
)
from providers.gcp import counted, settling
from providers.gcp.account import Account
from providers.gcp.insert import MACHINE_ACCOUNT, PROJECT, ZONE, label_text
from providers.gcp.part import PROVIDER, TOKEN_MEMORY, word_of
from providers.gcp.tpu import checks, reaper
from providers.gcp.tpu.api import PAGE, TASKS, TPU, Calls, Refused, TasksCalls, TpuCalls, pages
from providers.gcp.tpu.create import ADDRESS, CREATE, RUNTIME, checked, create_call, place_for, takes, trainable
from providers.gcp.tpu.finding import Each, Found, asked_for, dead, made_by, threads
from providers.gcp.tpu.runtimes import runtime_for
from providers.gcp.tpu.startup import as_shell
from providers.gcp.tpu.translate import (
    NODE,
    TASK,
    WORD,
    Place,
    error_of,
    instance,
    is_off,
    operation_error,
    owned_node,
    owned_resource,
    owned_task,
    place_of,
    said_of,
)
from providers.regions import check_region
from providers.rented import Rented
from providers.settling import pause, settled

if TYPE_CHECKING:
    from pricing.offers import Offer
    from providers.base import Check, LaunchRequest, RunId, VendorRequest

LISTING_LAG = timedelta(seconds=30)
"""Nobody publishes one; the API answers after a create with an operation whose target may take seconds to be there."""
Answer = TypeVar("Answer")


def made(account: Account, rented: Rented) -> TpuMachines:
    """Nobody is asked anything."""
    return TpuMachines(account, rented, TpuCalls(account), TasksCalls(account), rented.now)


@dataclass
class TpuMachines:
    """`providers.gcp.part.Part` over the Cloud TPU API (`tpu`) and Cloud Tasks (`tasks`). `each` looks at zones."""

    account: Account
    rented: Rented
    tpu: Calls
    tasks: Calls
    now: Callable[[], datetime]
    each: Each = threads
    sleep: Callable[[float], None] = pause
    """Lets seconds go by until what was just made is known."""
    _known_zones: tuple[str, ...] | None = field(default=None, init=False)

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
        """Of the offer's zones those that have it for this project; none where it does not use the API."""
        try:
            return checks.zones_of(self.account, self._ask_tpu, offer)
        except PermissionDeniedError as error:
            if is_off(error):
                return ()
            raise

    def checks(self, offer: Offer) -> Sequence[Check]:
        return checks.of_offer(self.account, self._ask_tpu, self._ask_tasks, offer)

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        """By the quotas of the Cloud TPU API, as far as their words tell which is meant."""
        told = [counted.check(self.account, counted.of_tpu_api(offer)) for offer in offers]
        return [check.detail if check.state is PreflightState.REFUSED else "" for check in told]

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
        if request.deadline + reaper.AFTER[-1] > self.now() + reaper.LONGEST:
            raise BadRequestError(
                f"run {request.run_id}: its deadline is more than {reaper.LONGEST.days} days away, and nothing would "
                "end a TPU so late",
                hint="set an earlier deadline",
            )
        checks.queue_runs(self._ask_tasks, project)
        request = self.rented.with_data(request)
        trainable(request)  # now that the size of its data is known
        return replace(
            request,
            resolved={
                **request.resolved,
                PROJECT: project,
                ZONE: zone,
                RUNTIME: runtime_for(self._ask_tpu, project, zone, request.offer),
                ADDRESS: self.account.address(TPU),
                MACHINE_ACCOUNT: self.account.machine_account,
                **self.rented.resolved(request),
            },
        )

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        checked(request)
        place, project = place_for(request), request.resolved[PROJECT]
        end = {"kind": "tpu_delete", "project": project, "zone": place.zone, "queued_resource": place.name}
        part = self.rented.machine(request, end)
        ends = reaper.Ends(
            project=project,
            name=place.full(project, "queuedResources"),
            address=request.resolved[ADDRESS],
            account=request.resolved[MACHINE_ACCOUNT],
        )
        create = create_call(request, as_shell(part.user_data), self.account.settings)
        return (*self.rented.puts(part), *reaper.task_calls(request, ends), create)

    def timers(self, request: LaunchRequest) -> Timers:
        return Timers(machine=request.deadline, cloud=request.deadline)

    def launch(self, request: LaunchRequest) -> Instance:
        if not request.calls and not request.resolved:
            request = self.resolve(request)
        calls = request.calls or tuple(self.requests(request))
        create = next((call for call in calls if call.operation == CREATE), None)
        if create is None:
            raise BadRequestError(f"the calls of {request.run_id} make no TPU", hint="launch it anew")
        place = made_by(create)
        there = self._look(place)
        if there is not None:
            return there
        if self._has_lived(request):
            return dead(request, place, "it has ended, and is gone")
        return self._made(request, calls, place)

    def get(self, ref: InstanceRef) -> Instance:
        place = place_of(ref.id)
        found = self._look(place) if place else None
        if found is None:
            raise InstanceNotFoundError(f"there is no queued resource {ref.id}")
        return found

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        found: list[OwnedResource] = []
        unanswered: list[str] = []
        for part in (*self._in_zones(), self._in_queue(run_id)):
            found += [row for row in part.resources if run_id is None or row.run_id in (run_id, label_text(run_id))]
            unanswered += part.unanswered
        if unanswered:
            raise IncompleteListingError(
                f"{len(unanswered)} lists of TPUs did not come whole: {unanswered[0]}",
                found=tuple(found),
                unanswered=tuple(unanswered),
                hint="look again when they answer",
            )
        return found

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        """A queued resource takes its node and, once its own end has begun, its timers with it."""
        place, word = place_of(ref.id), word_of(ref.id)
        if place is not None:
            self._delete(place, word)
        if place is not None and word == WORD:
            for name in self._timers_of(place):
                self._disarm(name)
        elif word == TASK:
            self._delete_timer(ref.id.partition("/")[2])

    def stop(self, ref: InstanceRef) -> None:
        with contextlib.suppress(InstanceNotFoundError):
            self.rented.ask_to_stop(self.get(ref).run_id)

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        """How the API says that it stands: a TPU has no console that could be read."""
        place = place_of(ref.id)
        told = self._told(place) if place else None
        if told is None:
            raise InstanceNotFoundError(f"there is no queued resource {ref.id}")
        yield from said_of(*told)

    def _made(self, request: LaunchRequest, calls: Sequence[VendorRequest], place: Place) -> Instance:
        made: list[str] = []
        for call in calls:
            if self.rented.is_put(call):
                self.rented.put(request.run_id, call)
            elif call.operation == reaper.CREATE_TASK:
                if not self._armed(call):
                    return dead(request, place, "what this attempt made has ended, and its timers are gone")
                made.append(reaper.task_name(call))
            else:
                self._create(call, made)
        return self._look(place) or asked_for(request, place)

    def _create(self, call: VendorRequest, made: Sequence[str]) -> None:
        """Ask for it. Where the place has none for us, nothing is left: the timers go too."""
        try:
            too_new = partial(settling.of_machine, settling.CREATE_TPU, account=self.account)
            told = settled(partial(self._create_sent, call), too_new, self.sleep)
            refused = operation_error(told, f"{TPU} {CREATE}") if told else None
        except InstanceNotFoundError as error:
            refused = BadRequestError(error.message, hint="look at zone, type and runtime version")
        except (CapacityError, QuotaError) as error:
            refused = error
        if refused is None:
            return
        if isinstance(refused, CapacityError | QuotaError):
            with contextlib.suppress(InstanceNotFoundError):
                self._delete(made_by(call), WORD)
            for name in made:
                self._disarm(name)
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
        send = partial(self._of_tasks, reaper.CREATE_TASK, partial(reaper.armed, self.tasks, call))
        try:
            return settled(send, settling.of_task, self.sleep)
        except PermissionDeniedError as error:
            if not isinstance(error.__cause__, InstanceNotFoundError):
                raise
            raise PermissionDeniedError(
                f"nothing would end the TPU without this computer, so none is made: {error.message}",
                hint="plan setup gcp",
                code=error.code,
            ) from error

    def _has_lived(self, request: LaunchRequest) -> bool:
        """Whether the attempt's machine has ever said anything: then it was made before, and is gone."""
        path = f"attempts/{request.attempt}/status.json"
        return path in self.rented.store(request.run_id).list(f"attempts/{request.attempt}")

    def _look(self, place: Place) -> Instance | None:
        told = self._told(place)
        return instance(*told) if told else None

    def _told(self, place: Place) -> tuple[Mapping[str, Any], Mapping[str, Any] | None] | None:
        """The queued resource, and its node where there is one; None: there is none."""
        project = self.account.project
        resource = self._unless_gone("GetQueuedResource", {"name": place.full(project, "queuedResources")})
        if resource is None:
            return None
        node = None
        if (resource.get("state") or {}).get("state") == "ACTIVE":
            node = self._unless_gone("GetNode", {"name": place.full(project, "nodes")})
        return resource, node

    def _delete(self, place: Place, word: str) -> None:
        """The queued resource with its node; the node alone where nothing else is left."""
        project = self.account.project
        asked = {"name": place.full(project, "queuedResources"), "force": True}
        try:
            self.tpu.call("DeleteQueuedResource", asked)
        except Refused as error:
            if error.status == "NOT_FOUND":
                if word == NODE:
                    self._unless_gone("DeleteNode", {"name": place.full(project, "nodes")})
            elif not self._is_going(place):
                raise error_of(error, f"{TPU} DeleteQueuedResource", TPU) from error

    def _is_going(self, place: Place) -> bool:
        """Whether it is being deleted already, or gone: a second delete may be refused for the first."""
        found = self._look(place)
        return found is None or found.state is InstanceState.STOPPING

    def _delete_timer(self, name: str) -> None:
        """A timer goes last: not before the end of what it ends has begun."""
        known = reaper.read_task({"name": name})
        if known is None or self._is_going(Place(known.zone, known.ends)):
            self._disarm(name)

    def _disarm(self, name: str) -> None:
        self._of_tasks("DeleteTask", partial(reaper.disarm, self.tasks, name))

    def _timers_of(self, place: Place) -> list[str]:
        project = self.account.project
        there = self._of_tasks("ListTasks", lambda: list(reaper.tasks(self.tasks, project, None)))
        return [task.name for task in there if (task.zone, task.ends) == (place.zone, place.name)]

    def _in_zones(self) -> Iterable[Found]:
        try:
            zones = self._zones()
        except (CredentialsError, MachineError):
            raise
        except ProviderError as error:
            return [] if is_off(error) else [Found(unanswered=(f"the zones of TPUs: {error.message}",))]
        return self.each(self._in_zone, zones)

    def _in_zone(self, zone: str) -> Found:
        found: list[OwnedResource] = []
        unanswered: list[str] = []
        asked = {"parent": f"projects/{self.account.project}/locations/{zone}", "pageSize": PAGE}
        for operation, rows, owned in _LISTS:
            try:
                for page in pages(self._ask_tpu, operation, asked):
                    found += [known for known in map(owned, page.get(rows, ())) if known is not None]
                    unanswered += [f"{place}: unreachable" for place in page.get("unreachable", ())]
            except (CredentialsError, MachineError):
                raise
            except CapacityError:
                break  # a zone that is not open to the project has nothing of it
            except ProviderError as error:
                unanswered.append(f"{zone}: {error.message}")
        return Found(tuple(found), tuple(unanswered))

    def _in_queue(self, run_id: RunId | None) -> Found:
        try:
            return Found(tuple(self._of_tasks("ListTasks", lambda: self._timers_there(run_id))))
        except (CredentialsError, MachineError):
            raise
        except ProviderError as error:
            return Found() if is_off(error) else Found(unanswered=(f"the queue {reaper.QUEUE}: {error.message}",))

    def _timers_there(self, run_id: RunId | None) -> list[OwnedResource]:
        return [owned_task(task) for task in reaper.tasks(self.tasks, self.account.project, run_id)]

    def _zones(self) -> tuple[str, ...]:
        """Every zone of the API. Raises ProviderError."""
        if self._known_zones is None:
            asked = {"name": f"projects/{self.account.project}", "pageSize": PAGE}
            listed = pages(self._ask_tpu, "ListLocations", asked)
            self._known_zones = tuple(str(row["locationId"]) for page in listed for row in page.get("locations", ()))
        return self._known_zones

    def _unless_gone(self, operation: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        try:
            return self._ask_tpu(operation, asked)
        except InstanceNotFoundError:
            return None

    def _ask_tpu(self, operation: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.tpu.call(operation, asked)
        except Refused as error:
            raise error_of(error, f"{TPU} {operation}", TPU) from error

    def _ask_tasks(self, operation: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        return self._of_tasks(operation, lambda: self.tasks.call(operation, asked))

    def _of_tasks(self, operation: str, call: Callable[[], Answer]) -> Answer:
        """What Cloud Tasks answers; what is none as an error of ours."""
        try:
            return call()
        except Refused as error:
            raise error_of(error, f"{TASKS} {operation}", TASKS) from error


_LISTS: Sequence[tuple[str, str, Callable[[Mapping[str, Any]], OwnedResource | None]]] = (
    ("ListQueuedResources", "queuedResources", owned_resource),
    ("ListNodes", "nodes", owned_node),
)
