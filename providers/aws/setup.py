"""`plan setup aws`: what is lacking or can be removed, and the carrying out of it
(trainplan.providers.abilities.SetUp)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainplan.providers.aws.api import CONNECTIONS
from trainplan.providers.aws.errors import Settling
from trainplan.providers.aws.listing import Listing
from trainplan.providers.aws.setup_steps import ABSENT, CreationSteps, RemovalSteps, StandingResources
from trainplan.providers.cloud.propagation import Pair, pause
from trainplan.providers.cloud.setup_steps import StepEngine
from trainplan.providers.errors import BadRequestError, ProviderError

if TYPE_CHECKING:
    from trainplan.providers.abilities import SetupStep
    from trainplan.providers.base import VendorRequest

_THERE = (
    "DefaultVpcAlreadyExists",
    "EntityAlreadyExists",
    "ConflictException",
    "ResourceConflictException",
    "ResourceAlreadyExistsException",
    "BucketAlreadyOwnedByYou",
    "DuplicateRecordException",
)
SETTLES_SECONDS = 10.0
"""After a step that made a role: most roles are known everywhere by then, and the next step is not refused."""
_ENDS = ("Delete", "Remove")
"""Calls that are done where what they end is not there."""


@dataclass(frozen=True)
class AwsSetUp:
    """`wait` lets some seconds go by."""

    at: StandingResources
    wait: Callable[[float], None] = pause

    def lacking(self) -> Sequence[SetupStep]:
        return CreationSteps(self.at).steps()

    def removable(self) -> Sequence[SetupStep]:
        """Raises BadRequestError while machines of ours are there, which need all of it."""
        resources = Listing(self.at.account, CONNECTIONS).owned(None)
        if resources:
            first = resources[0]
            raise BadRequestError(
                f"{len(resources)} resources of runs still exist: {first.kind} {first.id} in {first.region}",
                hint="plan stop or plan cleanup ends them first",
            )
        return RemovalSteps(self.at).steps()

    def carry_out(self, step: SetupStep, report: Callable[[str], None]) -> None:
        engine = StepEngine(
            calls=_Calls(self.at), sleep=self.wait, pause_seconds=0.0, trouble_seconds=0.0, effect_seconds=0.0
        )
        for call in step.calls:
            engine.carry_out(call, report)
        self.at.account.forget()
        if any(call.operation in ("CreateRole", "AddRoleToInstanceProfile") for call in step.calls):
            report(f"waiting {SETTLES_SECONDS:.0f} s until every part of AWS knows it")
            self.wait(SETTLES_SECONDS)


@dataclass(frozen=True)
class _Calls:
    """`trainplan.providers.cloud.setup_steps.SetUpCalls`: each call of AWS's has taken effect when it is answered."""

    at: StandingResources

    def send(self, call: VendorRequest) -> None:
        """What it makes may be there already, and what it removes may be gone."""
        service, _, region = call.service.partition(".")
        try:
            self.at.account.api.call(service, region, call.operation, _with_bytes(call.parameters))
        except ProviderError as error:
            harmless_codes = ABSENT if call.operation.startswith(_ENDS) else _THERE
            if error.code not in harmless_codes and not _is_in_place(call, error):
                raise

    def too_new(self, call: VendorRequest, error: ProviderError) -> Pair | None:
        return Settling(pause, lambda: None).too_new(call.operation, error)

    def may_pass(self, call: VendorRequest, error: ProviderError) -> bool:  # noqa: ARG002
        return False

    def under_way(self, call: VendorRequest, answer: object) -> str:  # noqa: ARG002
        return ""


def _is_in_place(call: VendorRequest, error: ProviderError) -> bool:
    """What these two say where it was done before."""
    if call.operation == "AddRoleToInstanceProfile":
        return error.code == "LimitExceeded"  # a profile holds one role
    return call.operation == "CreateServiceLinkedRole" and error.code == "InvalidInput"


def _with_bytes(parameters: Mapping[str, object]) -> dict[str, Any]:
    """The code of a function is bytes, which a recorded call cannot hold."""
    request: dict[str, Any] = dict(parameters)
    if "ZipFile" in request:
        request["ZipFile"] = base64.b64decode(str(request["ZipFile"]))
    if isinstance(request.get("Code"), Mapping):
        request["Code"] = _with_bytes(request["Code"])
    return request
