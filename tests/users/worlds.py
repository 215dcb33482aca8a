"""Clouds as a Python program finds them: a person who is signed in to a double, which is told what happens there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tests.contract import aws_command, azure_command
from tests.contract.azure import documented

if TYPE_CHECKING:
    import pytest

    from tests.doubles.aws.remote import Double as Aws
    from tests.doubles.azure.client import Double as Azure


class World(Protocol):
    """One cloud with an account that is set up, and somebody with the documented permissions of whoever launches."""

    name: str
    provider: type[Any]
    """What sleeps in its time."""

    def slow(self) -> None:
        """Machines train a hundred thousand times as slowly as they would."""

    def full(self) -> None:
        """No region has room for a machine."""

    def forbid(self) -> None:
        """Whoever launches may no longer create a machine."""

    def sign_out(self) -> None:
        """Nothing of a sign-in is left on this computer."""

    def machines(self) -> int:
        """How many machines of ours were made, those that are gone as well."""

    def remaining(self) -> list[str]:
        """What of ours is there."""


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


WORLDS: dict[str, Callable[..., World]] = {"aws": AwsWorld, "azure": AzureWorld}
