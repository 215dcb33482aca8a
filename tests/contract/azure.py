"""Azure's world: its real client over HTTPS, against a double in a process of its own whose time only sleepers move."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conftest import ROOT
from tests.doubles.azure.rules import PRINCIPAL, SUBSCRIPTION
from trainplan.providers.azure.account import AzureAccount
from trainplan.providers.azure.api import Arm, ArmClient, Call, Reply, recorded
from trainplan.providers.azure.launch import Pace
from trainplan.providers.azure.names import machine_role
from trainplan.providers.azure.provider import AzureProvider
from trainplan.providers.azure.settings import AzureSettings
from trainplan.providers.base import ProviderSettings, RunId, VendorRequest
from trainplan.providers.cloud.launch import Rented
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.store import ObjectStore, run_store

if TYPE_CHECKING:
    from tests.doubles.azure.client import Double

DIGEST = "sha256:" + "1" * 64
PUBLIC_KEY = "ssh-rsa AAAAB3NzaC1yc2E nobody"
GONE = "Microsoft.Authorization/roleAssignments/delete"
"""Refused for an assignment that is gone: the condition on the role cannot hold for it."""
_CREATES = ("PUT", "POST")
_LOOKS = ("retrieveBootDiagnosticsData",)


@dataclass(frozen=True)
class AzureInItsTime(AzureProvider):
    """Azure's provider in the time of the double (trainplan.providers.abilities.Timekeeper)."""

    def sleep(self, seconds: float) -> None:
        self.pace.sleep(seconds)


@dataclass
class Recorder:
    """A client in front of another one, which remembers what was sent through it."""

    arm: Arm
    sent: list[VendorRequest]

    def send(self, call: Call) -> Reply:
        if call.method in _CREATES and not call.name.endswith(_LOOKS):
            self.sent.append(recorded(call))
        return self.arm.send(call)

    def fetch(self, url: str) -> bytes:
        return self.arm.fetch(url)

    def person(self) -> str | None:
        return self.arm.person()


@dataclass(frozen=True)
class RecordingRented(Rented):
    sent: list[VendorRequest] = field(default_factory=list)

    def put(self, run_id: RunId, call: VendorRequest) -> None:
        self.sent.append(call)
        super().put(run_id, call)


def a_provider(
    home: Path, double: Double, arm: Arm | None = None, sent: list[VendorRequest] | None = None, **options: str
) -> AzureInItsTime:
    """The provider as a newly started command makes it, but for its container, its time and its keys."""
    settings = AzureSettings.of(
        ProviderSettings(
            home=home, options={**double.options, **options}, environment=double.environment, now=double.now
        )
    )
    kept = sent if sent is not None else []
    rented = RecordingRented(
        cloud="azure",
        service="blob",
        store=lambda run_id: a_store(double, run_id),
        region=lambda: "",
        now=double.now,
        digest=lambda _: DIGEST,
        own_image=settings.image,
        sent=kept,
    )
    return AzureInItsTime(
        account=AzureAccount(settings, Recorder(arm or ArmClient(settings), kept)),
        rented=rented,
        now=double.now,
        pace=Pace(sleep=double.sleep),
        public_key=lambda: PUBLIC_KEY,
        storage=options.get("account") or double.options.get("account", ""),
        container=options.get("bucket", ""),
    )


def a_store(double: Double, run_id: RunId) -> ObjectStore:
    return run_store(double.bucket(), run_id, patience=Patience(sleep=double.sleep))


def documented(name: str) -> dict[str, Any]:
    """A role of docs/permissions/azure, as its file is given to Azure, with the condition on its assignment."""
    folder = ROOT / "docs" / "permissions" / "azure"
    told = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    condition = (folder / f"{name}-condition.txt").read_text(encoding="utf-8").strip()
    condition = condition.replace("MACHINE_ROLE", machine_role(SUBSCRIPTION)).replace("MACHINE_IDENTITY", PRINCIPAL)
    return {"actions": told["Actions"], "notActions": [], "condition": condition, "conditionVersion": "2.0"}


class AzureHarness:
    """Its clients have the documented role of whoever launches, and nothing else."""

    provider_name = "azure"
    keeps_ended = False
    tells_training = False

    def __init__(self, home: Path, double: Double) -> None:
        self._home = home
        self.double = double
        self.double.control("reset", granted=[documented("client")])
        self._sent: list[VendorRequest] = []

    def provider(self) -> AzureInItsTime:
        return a_provider(self._home, self.double, sent=self._sent)

    def sent(self) -> Sequence[VendorRequest]:
        """A call that repeats another one makes nothing new: what it is about has the same name."""
        return [call for number, call in enumerate(self._sent) if call not in self._sent[:number]]

    def break_launch(self) -> None:
        self.double.control("rules", full=[["*", "*", "*"]])

    def break_listing(self) -> None:
        self.script(operation="GET resourcegroups", code="InternalServerError", times=None)

    def lose_reply(self) -> None:
        self.script(operation="PUT virtualMachines", effect="lost_reply")

    def script(self, **fault: object) -> None:
        self.double.control("script", faults=[fault])

    def clean(self) -> None:
        """The next test begins with an empty world."""
        denied = set(self.double.control("denied")) - {GONE}
        assert denied == set(), "docs/permissions/azure/client.json lacks what the adapter calls"
