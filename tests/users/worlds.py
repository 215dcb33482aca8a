"""Clouds as a Python program finds them: a person who is signed in to a double, which is told what happens there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tests.contract import aws_command, azure_command, gcp_command
from tests.contract.azure import documented
from tests.contract.gcp import TimedGcp
from tests.contract.gcp import documented as documented_for_google
from tests.doubles.google.scenario import FaultRule, Scenario
from tests.doubles.google.world import is_ours

if TYPE_CHECKING:
    import pytest

    from tests.doubles.aws.remote import Double as Aws
    from tests.doubles.azure.client import Double as Azure
    from tests.doubles.google.process import Google


class World(Protocol):
    """One cloud with an account that is set up, and somebody with the documented permissions of whoever launches."""

    name: str
    provider: type[Any]
    """What sleeps in its time."""

    def full(self) -> None:
        """No region has room for a machine."""

    def machines(self) -> int:
        """How many machines of ours were made, those that are gone as well."""

    def remaining(self) -> list[str]:
        """What of ours is there."""


class SignedInWorld(World, Protocol):
    """One whose double asks who calls, and has machines of any speed."""

    def slow(self) -> None:
        """Machines train a hundred thousand times as slowly as they would."""

    def forbid(self) -> None:
        """Whoever launches may no longer create a machine."""

    def sign_out(self) -> None:
        """Nothing of a sign-in is left on this computer."""


class AwsWorld:
    name = "aws"
    provider = aws_command.TimedAws

    def __init__(self, double: Aws, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._double, self._monkeypatch = double, monkeypatch
        aws_command.at_a_desk(double, home, monkeypatch)
        self._reset()

    def slow(self) -> None:
        self._reset(images_per_second=0.001)

    def full(self) -> None:
        self._double.script(operation="RunInstances", code="InsufficientInstanceCapacity", times=None)

    def forbid(self) -> None:
        self._reset(withheld=["ec2:RunInstances"])

    def sign_out(self) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            self._monkeypatch.delenv(name)

    def machines(self) -> int:
        return len(aws_command.machines(self._double))

    def remaining(self) -> list[str]:
        return self._double.remaining()

    def _reset(self, **scenario: Any) -> None:
        self._double.reset(setup="reaper", bucket=True, policies=["client"], **scenario)


class AzureWorld:
    name = "azure"
    provider = azure_command.AzureInItsTime

    def __init__(self, double: Azure, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._double, self._monkeypatch = double, monkeypatch
        azure_command.at_a_desk(double, home, monkeypatch)
        self._reset()

    def slow(self) -> None:
        self._reset(throughput_factor=0.00001)

    def full(self) -> None:
        self._double.control("rules", full=[["*", "*", "*"]])

    def forbid(self) -> None:
        role = documented("client")
        actions = [action for action in role["actions"] if not action.endswith("virtualMachines/write")]
        self._double.control("reset", granted=[{**role, "actions": actions}])

    def sign_out(self) -> None:
        for name in self._double.environment:
            self._monkeypatch.delenv(name)

    def machines(self) -> int:
        return sum(row["machine"] for row in self._double.control("ledger"))

    def remaining(self) -> list[str]:
        return [row["kind"] for row in self._double.control("ledger") if row["left"]]

    def _reset(self, **rules: Any) -> None:
        self._double.control("reset", granted=[documented("client")], **rules)


class GoogleWorld:
    name = "gcp"
    provider = TimedGcp

    def __init__(self, double: Google, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._double = double
        gcp_command.at_a_desk(double, home, monkeypatch)
        double.reset(Scenario())
        double.control("permit", {"permissions": documented_for_google("client", "client-own")})

    def full(self) -> None:
        insert, code = "compute.instances.insert", "ZONE_RESOURCE_POOL_EXHAUSTED"
        self._double.script(FaultRule(operation=insert, effect="operation_error", code=code, times=None))

    def machines(self) -> int:
        return sum(row["kind"] == "instance" for row in self._rows())

    def remaining(self) -> list[str]:
        return [row["kind"] for row in self._rows() if row["left"]]

    def _rows(self) -> list[dict[str, Any]]:
        return [row for row in self._double.control("ledger")["rows"] if is_ours(row["labels"])]


SIGNED_IN_WORLDS: dict[str, Callable[..., SignedInWorld]] = {"aws": AwsWorld, "azure": AzureWorld}
WORLDS: dict[str, Callable[..., World]] = {**SIGNED_IN_WORLDS, "google": GoogleWorld}
