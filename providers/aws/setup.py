"""`plan setup aws`: what is lacking or can be removed, and the carrying out of it (providers.base.SetUp)."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from providers.aws.api import CONNECTIONS
from providers.aws.listing import Listing
from providers.aws.making import Making
from providers.aws.removing import Removing
from providers.aws.settling import Settling
from providers.aws.standing import GONE, Standing
from providers.errors import BadRequestError, ProviderError

if TYPE_CHECKING:
    from providers.base import SetupStep, VendorRequest

_THERE = (
    "DefaultVpcAlreadyExists",
    "EntityAlreadyExists",
    "ConflictException",
    "ResourceConflictException",
    "BucketAlreadyOwnedByYou",
)
SETTLES_SECONDS = 10.0
"""After a step that made a role: most roles are known everywhere by then, and the next step is not refused."""
_ENDS = ("Delete", "Remove")
"""Calls that are done where what they end is not there."""


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


@dataclass(frozen=True)
class AwsSetUp:
    """`wait` lets some seconds go by."""

    at: Standing
    wait: Callable[[float], None] = _wait

    def lacking(self) -> Sequence[SetupStep]:
        return Making(self.at).steps()

    def removable(self) -> Sequence[SetupStep]:
        """Raises BadRequestError while machines of ours are there, which need all of it."""
        left = Listing(self.at.account, CONNECTIONS).owned(None)
        if left:
            raise BadRequestError(
                f"{len(left)} things of runs are still there: {left[0].kind} {left[0].id} in {left[0].region}",
                hint="plan stop or plan sweep ends them first",
            )
        return Removing(self.at).steps()

    def carry_out(self, step: SetupStep, report: Callable[[str], None]) -> None:
        settle = Settling(self.wait, lambda: None, report)
        for call in step.calls:
            settle(call.operation, partial(self._send, call))
        self.at.account.forget()
        if any(call.operation in ("CreateRole", "AddRoleToInstanceProfile") for call in step.calls):
            report(f"waiting {SETTLES_SECONDS:.0f} s until every part of AWS knows it")
            self.wait(SETTLES_SECONDS)

    def _send(self, call: VendorRequest) -> None:
        """One call; what it makes may be there already, and what it removes may be gone."""
        service, _, region = call.service.partition(".")
        try:
            self.at.account.api.call(service, region, call.operation, _with_bytes(call.parameters))
        except ProviderError as error:
            done = GONE if call.operation.startswith(_ENDS) else _THERE
            if error.code not in done and not _is_in_place(call, error):
                raise


def _is_in_place(call: VendorRequest, error: ProviderError) -> bool:
    """What these two say where it was done before."""
    if call.operation == "AddRoleToInstanceProfile":
        return error.code == "LimitExceeded"  # a profile holds one role
    return call.operation == "CreateServiceLinkedRole" and error.code == "InvalidInput"


def _with_bytes(parameters: Mapping[str, object]) -> dict[str, Any]:
    """The code of a function is bytes, which a recorded call cannot hold."""
    sent: dict[str, Any] = dict(parameters)
    if "ZipFile" in sent:
        sent["ZipFile"] = base64.b64decode(str(sent["ZipFile"]))
    if isinstance(sent.get("Code"), Mapping):
        sent["Code"] = _with_bytes(sent["Code"])
    return sent
