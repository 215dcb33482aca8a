"""One launch at Azure: sends its calls in order, waits until the machine is allocated, and deletes a failed machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from trainplan.providers.azure.account import AzureAccount
from trainplan.providers.azure.api import Call, Reply, replayed
from trainplan.providers.azure.errors import TIMER, not_scheduled, refusal, too_new, unscheduled
from trainplan.providers.azure.names import API, group_path, machine_path
from trainplan.providers.azure.reply import failure_of, instance, power_of, provisioning_of, ref_of
from trainplan.providers.base import Instance, InstanceState, LaunchRequest, VendorRequest
from trainplan.providers.cloud.launch import Rented
from trainplan.providers.cloud.propagation import pause, settled
from trainplan.providers.errors import (
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

ReplyT = TypeVar("ReplyT")
VIEW = {"$expand": "instanceView"}
FORCED = {"forceDeletionTypes": "Microsoft.Compute/virtualMachines"}
_MACHINE = "PUT virtualMachines"
_THERE_ALREADY = "RoleAssignmentExists"
_DEAD = "its machine existed and was deleted"
_PAUSES_SECONDS = (2.0, 4.0, 8.0)
"""Waits between repeats of a call that creates no machine. A launch has seven calls and the executor allows five tries
of a create: if each lost reply cost one of them, an unsteady network would end launches whose machine exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often and how long a launch asks Azure for the state of something.

    `poll` is the wait between two questions. The other durations are limits: `allocation` for the machine (Azure took
    up to five minutes to report a refused quota), `part` for a network, `timer` until a scheduled deallocate is
    accepted (chosen here: Microsoft states no time), `withdrawal` for the deletion of what a refused launch had
    created.
    """

    poll: timedelta = timedelta(seconds=3)
    allocation: timedelta = timedelta(minutes=10)
    part: timedelta = timedelta(minutes=2)
    timer: timedelta = timedelta(minutes=2)
    withdrawal: timedelta = timedelta(minutes=3)
    sleep: Callable[[float], None] = pause


@dataclass(frozen=True)
class Launcher:
    """Sends the recorded calls of an attempt, after it has checked whether the attempt has or had its machine."""

    account: AzureAccount
    rented: Rented
    now: Callable[[], datetime]
    pace: Pace

    def launch(self, request: LaunchRequest, group: str, calls: Sequence[VendorRequest]) -> Instance:
        """Return the attempt's machine, dead or alive, and create it if it never existed. Raises ProviderError.

        When this raises CapacityError or QuotaError, the machine and its group are deleted, or their deletion was
        accepted and has not ended yet.
        """
        # Azure has no idempotency tokens: a PUT with the name of a deleted machine creates it again
        # (docs/maintainers/fidelity.md).
        # Only the run directory can then tell that the machine of this attempt has already lived.
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
            elif call.operation != TIMER:  # the timer is set after the allocation: see _set_timer
                reply = self._sent(replayed(call), call.operation)
                if call.operation == _MACHINE:
                    operation = reply.operation
                elif call.service == "Microsoft.Network":
                    self._until_there(replayed(call))
        return self._timed(request, group, calls, self._allocated(group, operation))

    def _again(
        self, request: LaunchRequest, group: str, calls: Sequence[VendorRequest], reply: Mapping[str, Any]
    ) -> Instance:
        """Finish a launch whose machine already exists: set its timer, or raise the error of a create that failed."""
        machine = instance(reply, self.now())
        # A failed create has no power state. It is ENDED like a machine that ran, but it has to raise its own error.
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
        """Set Azure's timer and return the machine.

        If Azure refuses the timer, the machine is deleted. A machine of an earlier try that has written to its run
        directory is kept: its create armed its own timer.
        """
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
        """Schedule the deallocation, after the allocation: ComputeSchedule does not know a machine before it (assumed,
        docs/maintainers/fidelity.md). Raises ProviderError if Azure does not accept it within `Pace.timer`."""
        for call in calls:
            if call.operation == TIMER:
                settled(partial(self._scheduled, replayed(call)), partial(too_new, TIMER), self.pace.sleep)

    def _scheduled(self, call: Call) -> None:
        until = self.now() + self.pace.timer
        # Azure answers 200 even when it did not schedule: the body has a result for each machine
        # (docs/maintainers/fidelity.md).
        while (error := not_scheduled(self._sent(call, TIMER).body)) is not None:
            if self.now() >= until or isinstance(error, PermissionDeniedError) or too_new(TIMER, error):
                raise error
            self.pace.sleep(self.pace.poll.total_seconds())

    def _dead(self, request: LaunchRequest, group: str) -> Instance:
        """An ended instance for a machine that was deleted: Azure keeps no record of it, the run directory does."""
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
        """Send one call of the launch until Azure accepts it.

        If the create of the machine gets no clear answer, it is not repeated here: the caller first has to check
        whether the machine existed. The other calls are idempotent and are repeated. A call that is refused because
        Azure does not know a new resource yet has created nothing, and is always repeated.
        """
        send, new = partial(self._sent_once, call, what), partial(too_new, call.name)
        send_call = send if call.name == _MACHINE else partial(self._repeated, send, new)
        return settled(send_call, new, self.pace.sleep)

    def _sent_once(self, call: Call, what: str) -> Reply:
        reply = self.account.arm.send(call)
        if reply.status < 400:
            return reply
        error = refusal(reply.status, reply.body, what)
        if error.code == _THERE_ALREADY:  # an earlier send of the same call made the role assignment
            return reply
        if isinstance(error, InstanceNotFoundError) and not too_new(call.name, error):
            # A group is replicated after its create; one that stays away was deleted by somebody else.
            raise TransientError(
                error.message, hint="Azure does not show the group yet, or somebody deleted it", code=error.code
            )
        raise unscheduled(error) if call.name == TIMER and isinstance(error, BadRequestError) else error

    def _repeated(self, ask: Callable[[], ReplyT], new: Callable[[ProviderError], object] = lambda _: None) -> ReplyT:
        """Call `ask`, and repeat it after a TransientError, unless `new` says that a new resource is not known yet.

        `ask` has to be safe to repeat. A ThrottledError is left to the caller.
        """
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
            # The limit starts with the first answer: _network_of has its own limit for a network not shown yet.
            until = until or self.now() + self.pace.part
            state = str(reply.get("properties", {}).get("provisioningState", "")).lower()
            if state == "succeeded":
                return
            if state == "failed" or self.now() > until:
                raise TransientError(f"{call.name}: it is {state}", hint="try again")
            self.pace.sleep(self.pace.poll.total_seconds())

    def _network_of(self, call: Call) -> Mapping[str, Any]:
        """The network as Azure shows it. Right after its create, Azure may not find it yet."""
        look = partial(self.account.get, call.path, "network")
        look_up = partial(self._answered, look, self.now() + self.pace.part)
        return settled(look_up, partial(too_new, replace(call, method="GET").name), self.pace.sleep)

    def _allocated(self, group: str, operation: str | None) -> Mapping[str, Any]:
        """Wait until Azure has allocated the machine, and return it. Raises the error that a failed create reports."""
        until = self.now() + self.pace.allocation
        while True:
            reply = self._answered(lambda: self._machine(group), until)
            if reply is None or (provisioning_of(reply) == "failed" and not power_of(reply)):
                raise self._why(group, operation, reply)
            if provisioning_of(reply) == "succeeded" or power_of(reply) or self.now() > until:
                return reply
            self.pace.sleep(self.pace.poll.total_seconds())

    def _answered(self, look: Callable[[], ReplyT], until: datetime) -> ReplyT:
        """Call `look`, and repeat it until the instant `until` while Azure throttles it or does not answer."""
        while True:
            try:
                return look()
            except (ThrottledError, TransientError):
                if self.now() > until:
                    raise
                self.pace.sleep(self.pace.poll.total_seconds())

    def _why(self, group: str, operation: str | None, reply_body: Mapping[str, Any] | None) -> ProviderError:
        """The error of a failed create: from its operation, else from the machine's own status."""
        if operation is not None:
            reply = self.account.arm.send(Call(method="GET", path=operation))
            body = reply.body if isinstance(reply.body, dict) else {}
            if body.get("error"):
                return refusal(reply.status, body, group)
        if reply_body is None:
            return TransientError(f"{group}: Azure accepted the create request and shows no machine", hint="try again")
        return refusal(200, failure_of(reply_body), group)

    def _machine(self, group: str) -> Mapping[str, Any] | None:
        try:
            return self.account.get(machine_path(self.account.subscription, group), "compute", **VIEW)
        except InstanceNotFoundError:
            return None

    def _withdraw(self, group: str) -> None:
        """Delete the failed machine, then its group, so that the next attempt starts without them.

        If this raises ProviderError, the launch is tried again, finds what is left and deletes it.
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
