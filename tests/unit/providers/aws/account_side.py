"""An account at the double, as what stands in it is looked at and made from here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.doubles.aws.remote import ENVIRONMENT, UNSET, Double
from trainplan.providers.aws.account import AwsAccount
from trainplan.providers.aws.api import SdkApi
from trainplan.providers.aws.settings import AwsSettings
from trainplan.providers.aws.setup import AwsSetUp
from trainplan.providers.aws.setup_steps import StandingResources
from trainplan.providers.stores.settings import StoreSettings

if TYPE_CHECKING:
    import pytest

    from trainplan.providers.abilities import SetupStep

HOME, ACCOUNT = "us-east-1", "123456789012"
BUCKET = f"trainplan-{ACCOUNT}-{HOME}"


def signed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """As whom the double knows, and nobody of this computer's."""
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert os.environ["AWS_DEFAULT_REGION"] == HOME


class CountedApi:
    """Every call that changes something is kept; the one after `most` is where the process dies."""

    def __init__(self, sends: SdkApi, most: int | None = None, home: str = HOME) -> None:
        self._sends = sends
        self.most = most
        self.home = home
        self.calls: list[tuple[str, str, str]] = []

    def call(self, service: str, region: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        if not operation.startswith(("Get", "Head", "List", "Describe")):
            if self.most is not None and self.writes == self.most:
                raise KeyboardInterrupt
            self.calls.append((service, region, operation))
        return self._sends.call(service, region, operation, parameters)

    @property
    def writes(self) -> int:
        return len(self.calls)


@dataclass
class Desk:
    """A command's own view of the account: its look-ups begin anew with each desk."""

    double: Double
    sends: SdkApi
    settings: AwsSettings = field(default_factory=AwsSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    most: int | None = None
    home: str = HOME
    waited: list[float] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.api = CountedApi(self.sends, self.most, self.home)
        self.account = AwsAccount(self.api, self.settings, self.double.now)
        self.at = StandingResources(self.account, self.store)
        self.set_up = AwsSetUp(self.at, self.waited.append)

    def carry_out(self, steps: list[SetupStep]) -> None:
        for step in steps:
            self.set_up.carry_out(step, self.messages.append)

    def lacking(self) -> list[str]:
        return [step.name for step in self.set_up.lacking()]

    def removable(self) -> list[str]:
        return [step.name for step in self.set_up.removable()]


def name_the_spot_role(sends: SdkApi) -> None:
    """moto gives it a name of its own; AWS' is in its guide on service-linked roles for Spot."""
    named = {"RoleName": "AWSServiceRoleForEC2Spot", "Path": "/aws-service-role/spot.amazonaws.com/"}
    sends.call("iam", HOME, "CreateRole", {**named, "AssumeRolePolicyDocument": '{"Version": "2012-10-17"}'})
