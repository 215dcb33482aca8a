"""Azure as the command line finds it on a computer whose time is the double's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.azure import AzureInItsTime, a_provider
from tests.desk import a_desk
from trainplan.providers import registry
from trainplan.providers.azure.api import ArmClient
from trainplan.providers.azure.settings import AzureSettings

if TYPE_CHECKING:
    import pytest

    from tests.doubles.azure.client import Double
    from trainplan.providers.base import ProviderSettings

FACTORY = f"{__name__}:make_provider"
DOUBLES: list[Double] = []
HOME = "eastus"


def make_provider(settings: ProviderSettings) -> AzureInItsTime:
    """What the registry calls: the adapter as it is, with the person's settings and sign-in, in the double's time."""
    double = DOUBLES[-1]
    signed_in = replace(settings, options={**double.options, **settings.options}, now=double.now)
    return a_provider(settings.home, double, ArmClient(AzureSettings.of(signed_in)), **settings.options)  # type: ignore[arg-type]


def at_a_desk(double: Double, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's computer that is signed in to the double, with the region of its set-up in the settings."""
    a_desk(home, monkeypatch, PLAN_AZURE_REGION=HOME, **double.environment)
    monkeypatch.setitem(registry.FACTORIES, "azure", FACTORY)
    monkeypatch.setattr(f"{__name__}.DOUBLES", [double])


def machines_asked_for(double: Double) -> list[dict[str, Any]]:
    """The body of every create of a machine, oldest first, those that were refused as well."""
    calls = double.control("calls")
    return [call["body"] for call in calls if call["method"] == "PUT" and "/virtualMachines/" in call["path"]]
