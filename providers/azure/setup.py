"""`plan setup azure`: what the account lacks for launches, made and waited for; and its removal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trainplan.providers.azure import listing
from trainplan.providers.azure.account import SET_UP, AzureAccount
from trainplan.providers.azure.api import Call, replayed
from trainplan.providers.azure.errors import NO_RIGHT_YET, refusal, too_new
from trainplan.providers.azure.launch import Pace
from trainplan.providers.azure.names import BLOB_DATA_CONTRIBUTOR, NAMESPACES, account_of, group_path
from trainplan.providers.azure.setup_steps import MACHINE, PERSON, StandingResources
from trainplan.providers.base import RunId, VendorRequest
from trainplan.providers.cloud.launch import Rented
from trainplan.providers.cloud.propagation import Pair, settled
from trainplan.providers.cloud.setup_steps import StepEngine
from trainplan.providers.errors import (
    BadRequestError,
    CredentialsError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    ThrottledError,
    TransientError,
)

if TYPE_CHECKING:
    from trainplan.providers.abilities import SetupStep

_PROVISIONED = "Succeeded"
_PROVISIONED_SECONDS = 300.0
_REGISTERED_WITHIN = timedelta(minutes=5)
"""How long set-up waits for resource providers. Microsoft states no time, says that each region is done by itself, and
that nobody should wait for all of them
(https://learn.microsoft.com/azure/azure-resource-manager/management/resource-providers-and-types)."""
_REGISTERED = ("registered", "registering")
_REGISTER = "/register"
_POLL_SECONDS = 15.0
_PROBE = RunId("set-up")
_THERE_ALREADY = "RoleAssignmentExists"
_CONTAINER = "trainplan"
_NO_CONTAINER = "ContainerNotFound"
_HOLDS_LATER = (
    "the right is there, and did not hold within the 30 minutes that Azure has named: plan doctor azure says when it "
    "does; nothing else is left to set up"
)
_OWNER = (
    "assigning roles needs more than Contributor: the owner of the subscription runs plan setup azure, or grants you "
    "Role Based Access Control Administrator"
)


@dataclass(frozen=True)
class AzureSetUp:
    """`storage` and `container` are names that the person gave, "" for our own."""

    account: AzureAccount
    rented: Rented
    now: Callable[[], datetime]
    pace: Pace
    storage: str = ""
    container: str = ""

    def lacking(self) -> Sequence[SetupStep]:
        return list(self._lacking())

    def _lacking(self) -> Iterator[SetupStep]:
        account = self.account
        account.forget()
        unregistered = [name for name in NAMESPACES if account.registration(name).lower() not in _REGISTERED]
        standing_resources = self._standing_resources
        if unregistered:
            yield standing_resources.register(unregistered)
        if not self._there(group_path(account.subscription, standing_resources.group), "resources"):
            yield standing_resources.make_group()
        if not self._there(standing_resources.identity_path, "identity"):
            yield standing_resources.make_identity()
        if not self._there(standing_resources.container_path, "storage"):
            theirs = self.storage and self._there(standing_resources.storage, "storage")
            yield standing_resources.make_container() if theirs else standing_resources.make_storage()
        if not self._there(standing_resources.role_path, "authorization"):
            yield standing_resources.define_role()
        if not self._there(standing_resources.data_role_path, "authorization"):
            yield standing_resources.define_data_role()
        for who in (MACHINE, PERSON):
            if not self._granted(who):
                yield standing_resources.grant_blobs(who)

    def machines_may_write(self) -> bool:
        """Whether machines have a right to the container: ours, or Azure's wider one. Raises ProviderError."""
        return not self._roles(MACHINE).isdisjoint({self._standing_resources.blob_role(MACHINE), BLOB_DATA_CONTRIBUTOR})

    def check_machines_right(self) -> None:
        """Raises PermissionDeniedError where the machines' identity has no right to the container at all: a machine
        could not read its run directory, and would bill until its boot deadline. Which rights are enough only the
        owner knows, so any will do; where the sign-in may not look, the launch goes on. Raises what may pass, too."""
        try:
            roles = self.account.once("machines' roles", lambda: self._roles(MACHINE))
        except (CredentialsError, ThrottledError, TransientError):
            raise
        except ProviderError:
            return
        if not roles:
            raise PermissionDeniedError(
                f"nobody has granted the machines' identity a right to {self._standing_resources.container_path}",
                hint=f"whoever may assign roles runs {SET_UP}",
            )

    def removable(self) -> Sequence[SetupStep]:
        """Rights, roles and identity; the storage account has the person's runs and data, and stays."""
        self.account.forget()
        if listing.list_owned(self.account, None):
            return []
        standing_resources = self._standing_resources
        rows = [
            ("machines' data", standing_resources.blob_right(MACHINE), "authorization"),
            ("your data", standing_resources.blob_right(PERSON), "authorization"),
            ("role", standing_resources.role_path, "authorization"),
            ("data role", standing_resources.data_role_path, "authorization"),
            ("identity", standing_resources.identity_path, "identity"),
        ]
        return [standing_resources.remove(*row) for row in rows if self._there(row[1], row[2])]

    def carry_out(self, step: SetupStep, report: Callable[[str], None]) -> None:
        if all(replayed(call).path.endswith(_REGISTER) for call in step.calls):
            self._register(step.calls, report)
        else:
            for call in step.calls:
                self._engine.carry_out(call, report)
        self.account.forget()
        if any(request.operation.startswith("PUT roleAssignments") for request in step.calls):
            self._until_it_holds(step, report)
        if step.name == self._standing_resources.grant_blobs(MACHINE).name:
            report(
                "people who only launch: the role of docs/permissions/azure/client.json, with a condition (by an owner)"
            )
            report(self._standing_resources.client_command(self._principal(MACHINE)))

    @property
    def _engine(self) -> StepEngine:
        return StepEngine(
            calls=_Calls(self.account, self._principal),
            sleep=self.pace.sleep,
            pause_seconds=_POLL_SECONDS,
            trouble_seconds=_PROVISIONED_SECONDS,
            effect_seconds=_PROVISIONED_SECONDS,
        )

    def _register(self, calls: Sequence[VendorRequest], report: Callable[[str], None]) -> None:
        """Request all registrations at once, then wait for them together, because each takes minutes. A registration
        that is not complete by then continues by itself.
        """
        for call in calls:
            self._engine.take(call, report)
        until = self.now() + _REGISTERED_WITHIN
        lines: list[str] = []
        while waiting := [name for name in map(_namespace, map(replayed, calls)) if not self._is_registered(name)]:
            if self.now() > until:
                report(
                    f"{', '.join(waiting)}: still Registering; Azure continues with it; plan doctor "
                    "azure shows when it is done"
                )
                return
            if waiting != lines:
                report(f"{', '.join(waiting)}: Registering, which takes Azure some minutes")
                lines = waiting
            self.pace.sleep(_POLL_SECONDS)

    def _is_registered(self, namespace: str) -> bool:
        self.account.forget()
        return self.account.registration(namespace).lower() == "registered"

    def _until_it_holds(self, step: SetupStep, report: Callable[[str], None]) -> None:
        """A probe of what was granted to the person: what was granted to machines nobody else can try.

        Raises PermissionDeniedError where it does not hold within the longest time that Microsoft has named.
        """
        if step.name != self._standing_resources.grant_blobs(PERSON).name:
            return
        began = self.now()
        try:
            settled(self._probe, _no_right_yet, self.pace.sleep, lambda _: report(_waiting_text(self.now() - began)))
        except PermissionDeniedError as error:
            raise PermissionDeniedError(error.message, hint=_HOLDS_LATER, code=error.code) from error

    def _probe(self) -> None:
        self.rented.store(_PROBE).put("probe", b"it holds\n")
        self.rented.store(_PROBE).delete("")

    def _principal(self, who: str) -> str:
        if who == MACHINE:
            return self.account.identity().principal
        person = self.account.arm.person()
        if person is None:
            raise BadRequestError(
                "the sign-in does not contain an identity",
                hint="sign in with az login, as a person or a service principal",
            )
        return person

    def _granted(self, who: str) -> bool:
        """Whether the right is there, whoever gave it, on the container or above it."""
        try:
            return self._standing_resources.blob_role(who) in self._roles(who)
        except (BadRequestError, InstanceNotFoundError):
            return False

    def _roles(self, who: str) -> set[str]:
        """The ids of the roles that somebody has on the container."""
        rows = self.account.pages(
            f"{self._standing_resources.container_path}/providers/Microsoft.Authorization/roleAssignments",
            "authorization",
            **{"$filter": f"principalId eq '{self._principal(who)}'"},
        )
        return {str(row.get("properties", {}).get("roleDefinitionId", "")).rpartition("/")[2] for row in rows}

    def _there(self, path: str, api: str) -> bool:
        try:
            self.account.get(path, api)
        except InstanceNotFoundError:
            return False
        return True

    @cached_property
    def _standing_resources(self) -> StandingResources:
        account, group = self.account, self.account.settings.group
        region = account.settings.region or self._region_of(group_path(account.subscription, group))
        if region is None:
            raise BadRequestError(
                "the settings name no region for what all launches share (its resource group, network and storage)",
                hint="set `region` in the table [azure] of the settings, to where most of your runs will be",
            )
        return StandingResources(
            subscription=account.subscription,
            group=group,
            region=region,
            storage=self._storage_path(),
            container=self.container or _CONTAINER,
            keep_days=account.settings.keep_days,
        )

    def _storage_path(self) -> str:
        """Return the path of the storage account that the person names, in whatever group it is, else of the one in our
        group.
        """
        account = self.account
        name = self.storage or account_of(account.subscription)
        own = f"{group_path(account.subscription, account.settings.group)}/providers/Microsoft.Storage/storageAccounts"
        if self.storage:
            rows = account.pages(f"{account.home}/providers/Microsoft.Storage/storageAccounts", "storage")
            item: Any = next((row["id"] for row in rows if row.get("name") == name), None)
            if item:
                return str(item)
        return f"{own}/{name}"

    def _region_of(self, path: str) -> str | None:
        try:
            return str(self.account.get(path, "resources")["location"])
        except InstanceNotFoundError:
            return None


@dataclass(frozen=True)
class _Calls:
    """`trainplan.providers.cloud.setup_steps.SetUpCalls` for calls of Azure Resource Manager. `principal` tells the id
    of the machines' identity or of the person, which is known only once the steps before have been carried out."""

    account: AzureAccount
    principal: Callable[[str], str]

    def send(self, call: VendorRequest) -> None:
        sent = self._filled(replayed(call))
        reply = self.account.arm.send(sent)
        error = refusal(reply.status, reply.body, sent.name) if reply.status >= 400 else None
        if error is None or error.code == _THERE_ALREADY:
            return
        if sent.method == "DELETE" and isinstance(error, InstanceNotFoundError):
            return
        if isinstance(error, PermissionDeniedError) and "Authorization" in sent.path:
            raise PermissionDeniedError(error.message, hint=_OWNER, code=error.code)
        raise error

    def too_new(self, call: VendorRequest, error: ProviderError) -> Pair | None:
        return too_new(replayed(call).name, error)

    def may_pass(self, call: VendorRequest, error: ProviderError) -> bool:  # noqa: ARG002
        return isinstance(error, TransientError)

    def under_way(self, call: VendorRequest, answer: object) -> str:  # noqa: ARG002
        """A look may not find what a call has made right after it."""
        replayed_call = replayed(call)
        if replayed_call.method == "DELETE":
            return ""
        try:
            reply = self.account.ask(replace(replayed_call, method="GET", body=None)).body or {}
            state = str(reply.get("properties", {}).get("provisioningState") or _PROVISIONED)
        except InstanceNotFoundError:
            state = "not found yet"
        return "" if state == _PROVISIONED else f"{replayed_call.path.rpartition('/')[2]}: {state}"

    def _filled(self, call: Call) -> Call:
        """The call with the ids that were not known before."""
        properties = (call.body or {}).get("properties", {})
        who = properties.get("principalId")
        if who not in (MACHINE, PERSON):
            return call
        return replace(call, body={"properties": {**properties, "principalId": self.principal(who)}})


def _namespace(call: Call) -> str:
    """Return the namespace of a call that registers a resource provider."""
    return call.path.removesuffix(_REGISTER).rpartition("/")[2]


def _waiting_text(lasted: timedelta) -> str:
    minutes = lasted // timedelta(minutes=1)
    if not minutes:
        return "the new right does not hold yet; Azure takes up to 30 minutes"
    return (
        f"the new right does not hold yet after {minutes} of up to 30 minutes; "
        "Ctrl-C ends the waiting: nothing else is left to do"
    )


def _no_right_yet(error: ProviderError) -> Pair | None:
    """A container that is not found was waited for already."""
    refused = isinstance(error, PermissionDeniedError) and error.code != _NO_CONTAINER
    return NO_RIGHT_YET if refused else None
