"""What the double of Azure knows and how its time passes. No network, no clock."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.doubles.azure.life import Life
from tests.doubles.azure.rules import PERSON, PRINCIPAL, SUBSCRIPTION, Rules
from tests.doubles.azure.unknown import Unmet
from tests.doubles.azure.values import ArmError, Group, Operation, Right, Thing, Timer
from tests.faults.sim import ENDED_BY
from trainplan.providers.sim.calls import hit_by
from trainplan.providers.sim.values import Effect, MachineState, Why

if TYPE_CHECKING:
    from tests.faults.harness import EndedBy
    from trainplan.providers.sim.training import Trainer

VM = "Microsoft.Compute/virtualMachines"
_ACCOUNT = "Microsoft.Storage/storageAccounts"
COMPUTE_ENDS = (Why.TRAINER_ENDED, Why.MACHINE_TIMER, Why.DEVICE_LOST)
"""After these the machine itself deletes its group."""
_PART_SECONDS = timedelta(seconds=2)
_TRIES_FOR = timedelta(minutes=30)
"""How long a machine tries to delete its group before it switches itself off (trainplan.providers.agent.end)."""
_STATUSES = {
    "TooManyRequests": 429, "InternalServerError": 500, "ExpiredAuthenticationToken": 401, "AuthorizationFailed": 403,
    "ServiceUnavailable": 503, "InvalidParameter": 400, "QuotaExceeded": 400, "ResourceNotFound": 404,
}  # fmt: skip


class LostError(Exception):
    """The connection ends without an answer."""


class World:
    """One subscription. The same rules, calls and times give the same world."""

    def __init__(self, rules: Rules, trainer: Trainer | None = None) -> None:
        self.rules = rules
        self.now = rules.start
        self.life = Life(rules, trainer)
        self.groups: list[Group] = []
        self.things: dict[str, Thing] = {}
        self.past: list[Thing] = []
        self.rights: dict[str, Right] = {}
        self.past_rights: list[Right] = []
        self.roles: dict[str, dict[str, Any]] = {}
        self.budgets: dict[str, dict[str, Any]] = {}
        self.costs: list[list[Any]] = []
        self.operations: dict[str, Operation] = {}
        self.timers: list[Timer] = []
        self.calls: list[dict[str, Any]] = []
        self.denied: list[str] = []
        self.refusals: list[str] = []
        """The code of every refusal, in their order."""
        self.unmet = Unmet(rules.unknown, rules.start)
        self.registered_at: dict[str, datetime] = {}
        self._number = 0
        if rules.set_up:
            self._set_up()

    # --- time ----------------------------------------------------------------------------------------------------

    def advance(self, until: datetime) -> None:
        """Everything that is due happens at its own instant."""
        while (at := self._next_at()) is not None and at <= until:
            self._step(at)
        self._step(max(until, self.now))

    def _next_at(self) -> datetime | None:
        due = [timer.at for timer in self.timers if not timer.is_done]
        due += [thing.goes_at for thing in self.things.values() if thing.goes_at is not None]
        due += [
            thing.ready_at for thing in self.things.values() if thing.ready_at is not None and thing.ready_at > self.now
        ]
        due += [group.goes_at for group in self.groups if group.goes_at is not None and group.ended_at is None]
        due += [held for held in map(self.holds_at, self.rights.values()) if held > self.now]
        life = self.life.next_at()
        return min([max(at, self.now) for at in (*due, *([life] if life else []))], default=None)

    def _step(self, at: datetime) -> None:
        self.now = at
        self.life.physics.advance(at)
        for thing in list(self.things.values()):
            if thing.type == VM:
                self._live(thing)
        for timer in self.timers:
            if not timer.is_done and timer.at <= at:
                self._deallocate(timer)
        for group in self.groups:
            if group.ended_at is None and group.goes_at is not None and group.goes_at <= at:
                self._group_gone(group)
        for thing in list(self.things.values()):
            if thing.goes_at is not None and thing.goes_at <= at:
                self._remove(thing)

    def _live(self, vm: Thing) -> None:
        """What its life has brought a machine to by now."""
        if vm.life is None or vm.stopped_at is not None or vm.power == "stopped":
            return
        machine = self.life.of(vm.life)
        if machine.state is MachineState.RUNNING and vm.power == "":
            vm.power = "running"
            vm.ready_at = self.now
        if machine.live:
            return
        why, at = machine.why, machine.ended_at or self.now
        assert why is not None, f"{vm.name} ended, and nobody is known who did it"
        by = ENDED_BY[why]
        if why in COMPUTE_ENDS:
            self._end_itself(vm, at, by)
        elif why is Why.MAINTENANCE:
            vm.power = "deallocated"
            vm.stops(at, by, why)
        elif why is not Why.DELETED:
            vm.stops(at, by, why)
            self.remove(vm, by, why)

    def _end_itself(self, vm: Thing, ended_at: datetime, by: EndedBy) -> None:
        """By the end of its group, as soon as its right holds; else the guest goes off, and Azure bills on."""
        scope = self.group(vm.group).id.lower()
        held = [
            self.holds_at(right)
            for right in self.rights.values()
            if right.scope.lower() == scope and right.principal == PRINCIPAL and self._deletes(right.role)
        ]
        if not held or min(held) > ended_at + _TRIES_FOR:
            vm.power = "stopped"
        elif min(held) <= self.now:
            self.delete_group(self.group(vm.group), by, "its machine deleted its group")

    def holds_at(self, right: Right) -> datetime:
        """From when on a right counts."""
        return right.created_at + self.rules.role_holds_after

    def _deletes(self, role: str) -> bool:
        wanted = "microsoft.resources/subscriptions/resourcegroups/delete"
        actions = self.roles.get(role.lower(), {}).get("actions", ())
        return any(wanted == action.lower() for action in actions)

    def _deallocate(self, timer: Timer) -> None:
        timer.is_done = True
        vm = self.things.get(timer.machine)
        if vm is None or not self.rules.cloud_timer_works or vm.stopped_at is not None:
            return
        vm.power = "deallocated"
        vm.stops(self.now, timer.by, "deallocate")
        if vm.life is not None:
            self.life.end(vm.life, Why.CLOUD_TIMER)

    # --- what is made and goes -----------------------------------------------------------------------------------

    def group(self, name: str) -> Group:
        """Raises ArmError."""
        for group in self.groups:
            if group.name.lower() == name.lower() and group.ended_at is None:
                return group
        raise ArmError(404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found.")

    def open_group(self, name: str) -> Group:
        """One that takes new things. Raises ArmError."""
        group = self.group(name)
        if self.now < group.created_at + self.rules.group_lag:
            raise ArmError(404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found.")
        if group.goes_at is not None:
            said = f"The resource group '{name}' is in deprovisioning state and cannot perform this operation."
            raise ArmError(409, "ResourceGroupBeingDeleted", said)
        return group

    def put_group(self, name: str, body: dict[str, Any]) -> Group:
        known = next((group for group in self.groups if group.name == name and group.ended_at is None), None)
        if known is not None:
            if known.goes_at is not None:
                self.open_group(name)
            known.tags = dict(body.get("tags") or {})
            return known
        made = Group(
            id=f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}", name=name, location=body["location"],
            tags=dict(body.get("tags") or {}), created_at=self.now,
        )  # fmt: skip
        self.groups.append(made)
        return made

    def delete_group(self, group: Group, by: EndedBy, why: str = "delete of the resource group") -> None:
        """Accepted: machines stop to bill, and it takes its time."""
        if group.goes_at is not None:
            return
        group.goes_at = self.now + self.rules.deletion + self.rules.stuck
        group.ended_by, group.why = by, why
        if not self.rules.stuck:
            for thing in self.in_group(group.name):
                self._switch_off(thing, by, why)

    def in_group(self, name: str) -> list[Thing]:
        return [thing for thing in self.things.values() if thing.group.lower() == name.lower()]

    def add(self, thing: Thing) -> Thing:
        self._number += 1
        self.things[thing.id.lower()] = thing
        self.past.append(thing)
        return thing

    def remove(self, thing: Thing, by: EndedBy, why: str = "delete of the machine") -> None:
        """A machine takes with it what has the delete option; anything else goes alone."""
        if thing.goes_at is not None:
            return
        self._switch_off(thing, by, why)
        thing.goes_at = self.now + _PART_SECONDS
        if self.rules.forgets_delete_option:
            return
        for part in thing.parts:
            if part in self.things:
                self.things[part].goes_at = self.now + 2 * _PART_SECONDS

    def register(self, namespace: str) -> None:
        """Asked for once: another time does not begin it anew."""
        self.registered_at.setdefault(namespace.lower(), self.now + self.rules.registration)

    def registration(self, namespace: str) -> str:
        """The state of a resource provider: NotRegistered, Registering, Registered."""
        if namespace.lower() not in map(str.lower, self.rules.unregistered):
            return "Registered"
        done_at = self.registered_at.get(namespace.lower())
        if done_at is None:
            return "NotRegistered"
        return "Registered" if done_at <= self.now else "Registering"

    def operation(self, ready_at: datetime, error: dict[str, str] | None = None) -> Operation:
        made = Operation(str(uuid.uuid5(uuid.NAMESPACE_URL, f"operation {len(self.operations)}")), ready_at, error)
        self.operations[made.id] = made
        return made

    def let_into_storage(self) -> None:
        """Whether the person gets at the blobs of a world that a set-up began: raises ArmError before account,
        container and right are there, and until the right holds."""
        words = self.unmet.meets("Put Blob", "", self.now)
        if words is not None:
            raise ArmError(words.status, words.code, words.message)
        if self.rules.set_up:
            return
        kinds = {thing.type for thing in self.things.values()}
        if _ACCOUNT not in kinds:
            raise ArmError(404, "NameNotResolved", "the name of the storage account is not known")
        if f"{_ACCOUNT}/blobServices/containers" not in kinds:
            raise ArmError(404, "ContainerNotFound", "The specified container does not exist.")
        if not any(right.principal == PERSON and self.holds_at(right) <= self.now for right in self.rights.values()):
            raise ArmError(403, "AuthorizationPermissionMismatch", "This request is not authorized.")

    def reply_to(self, call: str, where: dict[str, str]) -> Effect | None:
        """What the scenario does to this call. Raises ArmError, LostError."""
        fault = hit_by(self.life.physics.state.faults, 0, call, where, self.now)
        if fault is None:
            return None
        if fault.effect is Effect.ERROR:
            status = _STATUSES.get(fault.code, 409)
            raise ArmError(status, fault.code, f"{call} is refused, as the test says")
        if fault.effect is Effect.LOST_REQUEST:
            raise LostError
        if fault.effect is Effect.SLOW:
            self.advance(self.now + timedelta(seconds=fault.seconds))
        return fault.effect

    def _switch_off(self, thing: Thing, by: EndedBy, why: str) -> None:
        if thing.type == VM:
            thing.stops(self.now, by, why)
        if thing.life is not None:
            self.life.end(thing.life, Why.DELETED)

    def _group_gone(self, group: Group) -> None:
        group.ended_at = self.now
        assert group.ended_by is not None, f"{group.name} is gone, and nobody is known who deleted it"
        for thing in self.in_group(group.name):
            self._switch_off(thing, group.ended_by, group.why)
            self._remove(thing)
        for right in list(self.rights.values()):
            if right.scope.lower() == group.id.lower() and not self.rules.leaves_rights:
                self.end_right(right)

    def end_right(self, right: Right) -> None:
        right.ended_at = self.now
        del self.rights[right.id.lower()]

    def _remove(self, thing: Thing) -> None:
        thing.ended_at = self.now
        self.things.pop(thing.id.lower(), None)

    def _set_up(self) -> None:
        """What `plan setup azure` makes."""
        from trainplan.providers.azure.names import (
            IDENTITY,
            STANDING_GROUP,
            data_role,
            group_path,
            identity_path,
            machine_role,
            role_path,
        )
        from trainplan.providers.azure.permissions import MACHINE_ACTIONS

        self.put_group(STANDING_GROUP, {"location": "eastus", "tags": {"trainplan": "set-up"}})
        path = identity_path(SUBSCRIPTION, STANDING_GROUP)
        self.add(
            Thing(
                id=path, type="Microsoft.ManagedIdentity/userAssignedIdentities", name=IDENTITY, group=STANDING_GROUP,
                location="eastus", body={"properties": {"principalId": PRINCIPAL}}, tags={}, created_at=self.now,
            )
        )  # fmt: skip
        for role, actions in ((machine_role(SUBSCRIPTION), MACHINE_ACTIONS), (data_role(SUBSCRIPTION), ())):
            self.roles[role_path(SUBSCRIPTION, role).lower()] = {"actions": list(actions), "name": role}
        scope = group_path(SUBSCRIPTION, STANDING_GROUP)
        granted = {"roleDefinitionId": role_path(SUBSCRIPTION, data_role(SUBSCRIPTION)), "principalId": PRINCIPAL}
        path = f"{scope}/providers/Microsoft.Authorization/roleAssignments/data"
        self.rights[path.lower()] = Right(
            id=path, scope=scope, role=granted["roleDefinitionId"], principal=PRINCIPAL,
            body={"properties": granted}, created_at=self.now,
        )  # fmt: skip

    # --- for tests -----------------------------------------------------------------------------------------------

    def change(self, **rules: Any) -> None:
        """Other rules from now on."""
        self.rules = replace(self.rules, **rules)
        self.life.physics.follow(self.rules.physics())

    def machines(self) -> Iterator[Thing]:
        yield from (thing for thing in self.things.values() if thing.type == VM)


def thing_of(world: World, path: str) -> Thing:
    """Raises ArmError."""
    found = world.things.get(path.lower())
    if found is None:
        world.group(path.split("/")[4])
        raise ArmError(404, "ResourceNotFound", f"The Resource '{path}' was not found.")
    return found


def matching(pattern: str, path: str) -> re.Match[str] | None:
    return re.fullmatch(pattern, path, re.IGNORECASE)
