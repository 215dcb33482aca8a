"""Planted defects of Azure's provider: what careless software does with resource groups."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import trainplan.providers.azure.errors as errors
import trainplan.providers.azure.launch as launching
import trainplan.providers.azure.listing as listing
import trainplan.providers.azure.provider as provider
import trainplan.providers.azure.request as bodies
import trainplan.providers.cloud.launch as rented
from tests.faults.planting import EMPTIED, PASSED_OVER, STALE_READ, of_the_engine, planting
from tests.faults.shared_defects import gone_without_a_sign_in
from trainplan.providers.azure.account import AzureAccount
from trainplan.providers.azure.launch import Launcher
from trainplan.providers.azure.provider import AzureProvider
from trainplan.providers.errors import IncompleteListingError

AZURE = of_the_engine(also=(STALE_READ, EMPTIED, PASSED_OVER))
defect = planting("azure", AZURE)


def _without(name: str) -> None:
    """Leave out one of the calls of a launch, which `name` makes."""
    real = bodies.launch_calls

    def made(*given: Any, **named: Any) -> Any:
        return tuple(call for call in real(*given, **named) if call.name != name)

    provider.launch_calls = made


def _unlisted(*kinds: str) -> None:
    real = listing._content

    def content(account: Any, group: Any) -> Any:
        found = real(account, group)
        return replace(found, resources=tuple(one for one in found.resources if one.kind not in kinds))

    listing._content = content


@defect("each create has a group of its own")
def _() -> None:
    count = itertools.count()
    real = AzureProvider.launch

    def send(self: Any, request: Any) -> Any:
        return real(self, replace(request, attempt=int(f"{request.attempt}{next(count)}7"), calls=()))

    AzureProvider.launch = send


@defect("an attempt whose machine has lived and gone gets another")
def _() -> None:
    Launcher._has_lived = lambda *_: False


@defect("a machine that failed to allocate is left, and never listed")
def _() -> None:
    Launcher._withdraw = lambda *_: None
    _unlisted("resource_group", "machine", "disk", "interface", "address", "security_group", "network")


@defect("the operation is not followed: a create is taken for a machine")
def _() -> None:
    def allocated(self: Any, group: str, operation: Any) -> Any:
        told = self._machine(group)
        assert told is not None
        return {**told, "properties": {**told["properties"], "provisioningState": "Succeeded", "instanceView": {}}}

    Launcher._allocated = allocated
    real = AzureProvider.get

    def get(self: Any, ref: Any) -> Any:
        found = real(self, ref)
        return replace(found, state=found.state.PENDING, end=None) if found.reason else found

    AzureProvider.get = get


@defect("a conflict is read as: it exists already")
def _() -> None:
    real = Launcher._sent

    def sent(self: Any, call: Any, what: str) -> Any:
        reply = self.account.arm.send(call)
        return reply if reply.status == 409 else real(self, call, what)

    Launcher._sent = sent


@defect("the machine may not delete its group")
def _() -> None:
    _without("PUT roleAssignments")


@defect("the machine's own timer is not armed")
def _() -> None:
    real = rented.Rented.machine

    def part(self: Any, request: Any, end: Any, identity: str = "", data_disk_gib: int = 0) -> Any:
        request = replace(request, deadline=request.deadline + timedelta(days=30))
        return real(self, request, end, identity, data_disk_gib)

    rented.Rented.machine = part


@defect("the group is not listed")
def _() -> None:
    _unlisted("resource_group")


@defect("only the machine is listed")
def _() -> None:
    real = listing.list_owned

    def listed(*given: Any) -> Any:
        return [one for one in real(*given) if one.instance]

    listing.list_owned = listed


@defect("only the machine is deleted")
def _() -> None:
    def delete(account: Any, ref: Any) -> None:
        group, path, kind = listing._where(account, ref)
        if group is not None and kind == "machine":
            listing._accepted(account, launching.Call(method="DELETE", path=path, api="2024-07-01"))  # type: ignore[arg-type]

    listing.delete = delete


@defect("rights are not listed")
def _() -> None:
    listing._rights = lambda *_: iter(())


@defect("only the first page of a list is read")
def _() -> None:
    real = AzureAccount.pages

    def pages(self: Any, path: str, api: str, **query: str) -> Any:
        return itertools.islice(real(self, path, api, **query), 1)

    AzureAccount.pages = pages


@defect("a list that did not come is taken as empty")
def _() -> None:
    real = listing.list_owned

    def listed(*given: Any) -> Any:
        try:
            return real(*given)
        except IncompleteListingError as error:
            return error.resources

    listing.list_owned = listed


@defect("what else is in a group is not looked for")
def _() -> None:
    real = AzureProvider.delete

    def delete(self: Any, ref: Any) -> None:
        if getattr(ref, "instance", True):
            real(self, ref)

    AzureProvider.delete = delete


@defect("a lag of lists is ignored")
def _() -> None:
    provider.LISTING_LAG = timedelta(0)


defect("an expired sign-in is taken as a machine that is gone")(gone_without_a_sign_in(AzureProvider))


@defect("a code of want of room is not known")
def _() -> None:
    errors.CODES = {code: row for code, row in errors.CODES.items() if code != "AllocationFailed"}


@defect("groups without the run's tag")
def _() -> None:
    real = bodies.tags_of
    bodies.tags_of = lambda request: {**real(request), "trainplan-run": "run"}
