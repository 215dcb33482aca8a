"""What IAM says to a call: whether the policies of docs/permissions/aws let whoever calls do all that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.conftest import ROOT
from tests.doubles.aws import backends
from tests.doubles.aws.objects import ACCOUNT
from tests.doubles.aws.requests import parameters_of
from tests.doubles.iam_policy import Policy
from tests.doubles.needs import Need, UnknownCallError, needs

if TYPE_CHECKING:
    from tests.doubles.aws.front import Call

FOLDER = ROOT / "docs" / "permissions" / "aws"
BUCKET = f"trainplan-{ACCOUNT}-{backends.HOME}"
OURS = {"aws:ResourceTag/trainplan": "1"}
TRIED = " (dry run)"
"""Ends the name of a call that is only tried."""
_PREFIX = {"monitoring": "cloudwatch"}
"""Where the name that is signed for is not that of the actions."""


@dataclass
class Judge:
    """Everything that the calls of a world needed, by what it was, and for want of which a call was refused."""

    needed: dict[str, Need] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def refusal(self, call: Call, environ: Mapping[str, Any], policies: Sequence[str], withheld: Sequence[str]) -> str:
        """The first action that whoever calls does not have; "" where they have all."""
        try:
            wanted = needs_of(call, environ)
        except UnknownCallError as error:
            self.refused.append(str(error))
            return f"{call.service}:{call.operation}"
        held = _held(tuple(policies), tuple(withheld))
        lacking = next((need for need in wanted if not any(policy.allows(need) for policy in held)), None)
        if not call.operation.endswith(TRIED):  # which only asks whether it may
            self.needed.update({str(need): need for need in wanted})
            self.refused += [lacking.action] if lacking else []
        return lacking.action if lacking else ""


def needs_of(call: Call, environ: Mapping[str, Any]) -> list[Need]:
    """Everything that a call needs, as it came in. Raises UnknownCallError."""
    operation = call.operation.removesuffix(TRIED)
    parameters = parameters_of(call.service, operation, environ, call.body)
    known = {"account": ACCOUNT, "region": call.region}
    name = f"{_PREFIX.get(call.service, call.service)}:{operation}"
    return needs("aws", name, parameters, known, _tags)


@cache
def _held(policies: tuple[str, ...], withheld: tuple[str, ...]) -> tuple[Policy, ...]:
    found = [Policy.read(FOLDER / f"{name}.json", ACCOUNT, BUCKET) for name in policies]
    return tuple(policy.without(withheld) for policy in found)


def _tags(resource: str) -> dict[str, str]:
    """What a condition on the tags of a resource sees. What is gone passes: EC2 says then that it is not found."""
    _, _, _, region, _, name = resource.split(":", 5)
    kind, _, identifier = name.partition("/")
    if identifier == "default":
        return {}  # of the account's network: nobody has put our tag on its group
    found = backends.tags(kind, region, identifier)
    return OURS if found is None else {f"aws:ResourceTag/{key}": value for key, value in found.items()}
