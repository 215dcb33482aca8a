"""One launch at Azure: its calls in order, until the machine is allocated; what was refused is taken back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from providers.azure.account import Account
from providers.azure.api import Call, replayed
from providers.azure.errors import TIMER, not_scheduled, refusal, too_new, unscheduled
from providers.azure.names import API, group_path, machine_path
from providers.azure.reply import failure_of, instance, power_of, provisioning_of, ref_of
from providers.base import Instance, InstanceState
from providers.cloud.launch import Rented
from providers.cloud.propagation import pause, settled
from providers.errors import (
    BadRequestError,
    CapacityError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.azure.api import Reply
    from providers.base import LaunchRequest, VendorRequest

ReplyT = TypeVar("ReplyT")
VIEW = {"$expand": "instanceView"}
FORCED = {"forceDeletionTypes": "Microsoft.Compute/virtualMachines"}
_MACHINE = "PUT virtualMachines"
_THERE_ALREADY = "RoleAssignmentExists"
_DEAD = "its machine was here, and is gone"
_PAUSES_SECONDS = (2.0, 4.0, 8.0)
"""Before a call that makes no machine is sent again. A launch has seven calls: were each lost reply a try of the
engine's, of which a create has five, an unsteady line would cost machines that are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often Azure is asked how far it is, and for how long. `allocation`: for a machine (a refused quota took it
    up to five minutes to say); `part`: for a network; `timer`: for a scheduled deallocate to be taken (ours to choose:
    Microsoft states no time); `withdrawal`: for what a refused launch had made."""

    poll: timedelta = timedelta(seconds=3)
    allocation: timedelta = timedelta(minutes=10)
    part: timedelta = timedelta(minutes=2)
    timer: timedelta = timedelta(minutes=2)
    withdrawal: timedelta = timedelta(minutes=3)
    sleep: Callable[[float], None] = pause


@dataclass(frozen=True)
class Launcher:
    """Sends what was recorded; looks first whether the attempt has its machine, or had it."""

    account: Account
    rented: Rented
    now: Callable[[], datetime]
    pace: Pace

    def launch(self, request: LaunchRequest, group: str, calls: Sequence[VendorRequest]) -> Instance:
        """The attempt's machine, dead or alive; made where there never was one. Raises ProviderError.

        After a CapacityError or a QuotaError nothing of it is left, or what is left bills nothing and is going.
        """
        reply = self._repeated(lambda: self._machine(group))
        if reply is None and self._has_lived(request):
            return self._dead(request, group)
        try:
            return self._make(request, group, calls) if reply is None else self._again(request, group, calls, reply)
        except (CapacityError, QuotaError):
            self._withdraw(group)
            raise

    def _make(self, request: LaunchRequest, group: str, calls: Sequence[VendorRequest]) -> Instance:
        operation = None
        for call in calls:
            if self.rented.is_put(call):
                self.rented.put(request.run_id, call)
            elif call.operation != TIMER:
                reply = self._sent(replayed(call), call.operation)
                if call.operation == _MACHINE:
                    operation = reply.operation
                elif call.service == "Microsoft.Network":
                    self._until_there(replayed(call))
        return self._timed(request, group, calls, self._allocated(group, operation))

    def _again(
        self, request: LaunchRequest, group: str, calls: Sequence[VendorRequest], reply: Mapping[str, Any]
    ) -> Instance:
        """A second try found its machine: what comes after the create is made sure of, a create that failed is told."""
        machine = instance(reply, self.now())
        failed = provisioning_of(reply) == "failed" and not power_of(reply)
        if not failed and machine.state not in (InstanceState.PENDING, InstanceState.RUNNING):
            return machine
        return self._timed(request, group, calls, self._allocated(group, None), again=True)

    def _timed(
        self,
        request: LaunchRequest,
        group: str,
        calls: Sequence[VendorRequest],
        reply: Mapping[str, Any],
        *,
        again: bool = False,
    ) -> Instance:
        """The machine with Azure's timer set. Where the timer is refused the machine is withdrawn; one that a try
        before has made, and that has written to its run directory, is kept: its own timer was armed by its create."""
        try:
            self._set_timer(calls)
        except (BadRequestError, PermissionDeniedError, UnrecognizedError):
            if self._machine(group) is None:
                return self._dead(request, group)
            if not (again and self._has_lived(request)):
                self._withdraw(group)
                raise
        return instance(reply, self.now())

    def _set_timer(self, calls: Sequence[VendorRequest]) -> None:
        """Azure's deallocate, scheduled: asked for after the allocation, since ComputeSchedule does not know a machine
        before it. Raises ProviderError where it was not taken within `Pace.timer`."""
        for call in calls:
            if call.operation == TIMER:
                settled(partial(self._scheduled, replayed(call)), partial(too_new, TIMER), self.pace.sleep)

    def _scheduled(self, call: Call) -> None:
        until = self.now() + self.pace.timer
        while (error := not_scheduled(self._sent(call, TIMER).body)) is not None:
            if self.now() >= until or isinstance(error, PermissionDeniedError) or too_new(TIMER, error):
                raise error
            self.pace.sleep(self.pace.poll.total_seconds())

    def _dead(self, request: LaunchRequest, group: str) -> Instance:
        """Azure remembers nothing of a machine that was deleted; the run directory does."""
        return Instance(
            ref=ref_of(group, request.offer.region),
            state=InstanceState.ENDED,
            run_id=request.run_id,
            attempt=request.attempt,
            reason=_DEAD,
        )

    def _has_lived(self, request: LaunchRequest) -> bool:
        """Whether the attempt's folder has anything that only its machine writes."""
        ours = f"attempts/{request.attempt}/machine/"
        return any(
            not path.startswith(ours) for path in self.rented.store(request.run_id).list(f"attempts/{request.attempt}")
        )

    def _sent(self, call: Call, what: str) -> Reply:
        """Send one of the calls until Azure has accepted it. The create of the machine is sent once where no clear
        answer comes: before it is sent again somebody has to look whether its machine lived. All others come to the
        same however often they are sent. What is refused because something is too new made nothing, and is sent again
        whatever it is.
        """
        send, new = partial(self._sent_once, call, what), partial(too_new, call.name)
        send_call = send if call.name == _MACHINE else partial(self._repeated, send, new)
        return settled(send_call, new, self.pace.sleep)

    def _sent_once(self, call: Call, what: str) -> Reply:
        reply = self.account.arm.send(call)
        if reply.status < 400:
            return reply
        error = refusal(reply.status, reply.body, what)
        if error.code == _THERE_ALREADY:
            return reply
        if isinstance(error, InstanceNotFoundError) and not too_new(call.name, error):
            # A group is replicated after its create; one that stays away was deleted by somebody else.
            raise TransientError(error.message, hint="the group is not known yet, or it went", code=error.code)
        raise unscheduled(error) if call.name == TIMER and isinstance(error, BadRequestError) else error

    def _repeated(self, ask: Callable[[], ReplyT], new: Callable[[ProviderError], object] = lambda _: None) -> ReplyT:
        """What is no harm to ask again, asked again where no clear answer came, and not where something is too `new`. A
        throttled call is the engine's."""
        for seconds in _PAUSES_SECONDS:
            try:
                return ask()
            except TransientError as error:
                if new(error):
                    raise
                self.pace.sleep(seconds)
        return ask()

    def _until_there(self, call: Call) -> None:
        """Wait until a network is provisioned; Azure refuses a machine in one that is not."""
        until: datetime | None = None
        while True:
            reply = self._network_of(call)
            until = until or self.now() + self.pace.part
            state = str(reply.get("properties", {}).get("provisioningState", "")).lower()
            if state == "succeeded":
                return
            if state == "failed" or self.now() > until:
                raise TransientError(f"{call.name}: it is {state}", hint="try again")
            self.pace.sleep(self.pace.poll.total_seconds())

    def _network_of(self, call: Call) -> Mapping[str, Any]:
        """What a PUT has made of a network, which may not be found right after its create."""
        look = partial(self.account.get, call.path, "network")
        look_up = partial(self._answered, look, self.now() + self.pace.part)
        return settled(look_up, partial(too_new, replace(call, method="GET").name), self.pace.sleep)

    def _allocated(self, group: str, operation: str | None) -> Mapping[str, Any]:
        """The machine once Azure has found a place for it. Raises CapacityError and whatever else a create ends in."""
        until = self.now() + self.pace.allocation
        while True:
            reply = self._answered(lambda: self._machine(group), until)
            if reply is None or (provisioning_of(reply) == "failed" and not power_of(reply)):
                raise self._why(group, operation, reply)
            if provisioning_of(reply) == "succeeded" or power_of(reply) or self.now() > until:
                return reply
            self.pace.sleep(self.pace.poll.total_seconds())

    def _answered(self, look: Callable[[], ReplyT], until: datetime) -> ReplyT:
        """A look between others: one that has no answer is repeated, as long as there is time."""
        while True:
            try:
                return look()
            except (ThrottledError, TransientError):
                if self.now() > until:
                    raise
                self.pace.sleep(self.pace.poll.total_seconds())

    def _why(self, group: str, operation: str | None, reply_body: Mapping[str, Any] | None) -> ProviderError:
        """What a failed create says of itself: the operation first, then the machine's own status."""
        if operation is not None:
            reply = self.account.arm.send(Call(method="GET", path=operation))
            body = reply.body if isinstance(reply.body, dict) else {}
            if body.get("error"):
                return refusal(reply.status, body, group)
        if reply_body is None:
            return TransientError(f"{group}: Azure took the create and has no machine", hint="try again")
        return refusal(200, failure_of(reply_body), group)

    def _machine(self, group: str) -> Mapping[str, Any] | None:
        try:
            return self.account.get(machine_path(self.account.subscription, group), "compute", **VIEW)
        except InstanceNotFoundError:
            return None

    def _withdraw(self, group: str) -> None:
        """The failed machine gone, then its group: the next attempt begins with nothing of this one.

        Raises ProviderError: then the launch is tried again, finds what it has left, and ends it.
        """
        subscription = self.account.subscription
        forced = {"forceDeletion": "true"}
        machine = Call(method="DELETE", path=machine_path(subscription, group), api=API["compute"], query=forced)
        self._wait_until_gone(machine, "compute")
        home = Call(method="DELETE", path=group_path(subscription, group), api=API["resources"], query=FORCED)
        self._wait_until_gone(home, "resources")

    def _wait_until_gone(self, call: Call, api: str) -> None:
        """Delete a resource and wait until it no longer exists; the teardown takes over a deletion that takes longer
        than expected.
        """
        until = self.now() + self.pace.withdrawal
        try:
            self._answered(lambda: self.account.ask(call), until)
            while self.now() <= until:
                self._answered(lambda: self.account.get(call.path, api), until)
                self.pace.sleep(self.pace.poll.total_seconds())
        except InstanceNotFoundError:
            return
