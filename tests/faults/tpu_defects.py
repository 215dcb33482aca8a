"""Planted defects of the part for TPUs: what careless software does with queued resources and with their timers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import trainplan.providers.gcp.tpu.data_disk as data_disk
import trainplan.providers.gcp.tpu.deadline as reaper
import trainplan.providers.gcp.tpu.listing as lists
import trainplan.providers.gcp.tpu.provider as provider
import trainplan.providers.gcp.tpu.request as create
from tests.faults.planting import of_the_engine, planting
from tests.faults.shared_defects import only_powers_off, refused_without_an_answer
from trainplan.providers.cloud.listing import ListedResources
from trainplan.providers.gcp.listing import Lists
from trainplan.providers.gcp.tpu.data_disk import DataDisks
from trainplan.providers.gcp.tpu.listing import TpuLists
from trainplan.providers.gcp.tpu.provider import TpuMachines

if TYPE_CHECKING:
    from trainplan.providers.base import Instance

# The store is that of Google's machines, whose cases have one that is silent at the end.
TPU = of_the_engine("an end without an answer of the store", "a store that does not answer is taken for an empty one")
defect = planting("tpu", TPU)


@defect("each create has a name and a token of its own")
def _() -> None:
    real, count = TpuMachines.launch, itertools.count()

    def send(self: Any, request: Any) -> Any:
        *others, made = request.calls
        name = f"{made.parameters['queuedResourceId']}-x{next(count)}"
        given = {**made.parameters, "queuedResourceId": name, "requestId": name}
        return real(self, replace(request, calls=(*others, replace(made, parameters=given))))

    TpuMachines.launch = send


@defect("no timers in the cloud")
def _() -> None:
    real = TpuMachines.requests

    def without(self: Any, request: Any) -> Any:
        return [call for call in real(self, request) if call.operation != reaper.CREATE_TASK]

    TpuMachines.requests = without


@defect("the timers name something else")
def _() -> None:
    real = reaper.task_calls

    def made(request: Any, ends: Any) -> Any:
        return real(request, replace(ends, name=f"{ends.name}-x"))

    reaper.task_calls = made


defect("the machine only powers off")(only_powers_off)


@defect("a placement that refuses keeps its timers")
def _() -> None:
    TpuMachines._disarm = lambda *_: None


defect("a create without an answer is taken as refused")(refused_without_an_answer(TpuMachines))


@defect("a request waits for ever")
def _() -> None:
    real = create._wait_until
    create._wait_until = lambda request: real(request) + timedelta(days=1)


@defect("a request that waited in vain is left where it is")
def _() -> None:
    real = lists.owned_resource

    def listed(told: Any) -> Any:
        return None if told["state"]["state"] == "FAILED" else real(told)

    _lists(("queuedResources", listed))


@defect("nodes are not listed")
def _() -> None:
    lists._LISTS = lists._LISTS[:1]


@defect("tasks are not listed")
def _() -> None:
    TpuLists._in_queue = lambda *_: ListedResources()


@defect("only the first page of a list is read")
def _() -> None:
    real = lists.pages
    lists.pages = lambda *given: itertools.islice(real(*given), 1)


@defect("a zone that did not answer is taken as empty")
def _() -> None:
    real = TpuLists._in_zone

    def found(self: Any, zone: str) -> ListedResources:
        return ListedResources(real(self, zone).resources)

    TpuLists._in_zone = found


@defect("the lag of lists is ignored")
def _() -> None:
    provider.LISTING_LAG = timedelta(0)


@defect("a delete without force")
def _() -> None:
    real = TpuMachines._delete

    def deleted(self: Any, location: Any, word: str) -> None:
        calls = self.tpu
        self.tpu = _WithoutForce(calls)
        try:
            real(self, location, word)
        finally:
            self.tpu = calls

    TpuMachines._delete = deleted


@defect("a node in repair is taken as running")
def _() -> None:
    real = provider.instance

    def shown(resource: Any, node: Any) -> Instance:
        return real(resource, {**node, "state": "READY"} if node else node)

    provider.instance = shown


@defect("a label without the run")
def _() -> None:
    real = create.labels_of
    create.labels_of = lambda request: {**real(request), "trainplan-run": "run"}


@defect("each data disk has a name of its own")
def _() -> None:
    real, count = DataDisks.make, itertools.count()

    def made(self: Any, call: Any) -> None:
        asked = call.parameters
        token = f"6ba7b810-9dad-11d1-80b4-{next(count):012d}"
        body = {**asked["body"], "name": f"{asked['body']['name']}-{token[-4:]}"}
        real(self, replace(call, parameters={**asked, "requestId": token, "body": body}))
        real(self, call)

    DataDisks.make = made


@defect("a data disk without labels")
def _() -> None:
    data_disk.labels_of = lambda request: {}
    data_disk._is_of = lambda *_: True


@defect("no timers for the data disk")
def _() -> None:
    real = reaper.task_calls
    reaper.task_calls = lambda request, ends: real(request, replace(ends, disk_url=""))


@defect("disks are not listed")
def _() -> None:
    Lists.owned = lambda *_: ()


class _WithoutForce:
    def __init__(self, calls: Any) -> None:
        self._calls = calls

    def call(self, operation: str, parameters: Any) -> Any:
        given = {key: value for key, value in parameters.items() if key != "force"}
        return self._calls.call(operation, given)


def _lists(changed: tuple[str, Callable[[Any], Any]]) -> None:
    rows, owned = changed
    lists._LISTS = tuple((operation, name, owned if name == rows else kept) for operation, name, kept in lists._LISTS)
