"""The time of Azure, as the `Date` of its answers tells it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.doubles.clock import NOON
from tests.unit.providers.azure.conftest import Client
from trainplan.providers.abilities import ServerTime
from trainplan.providers.azure.api import ArmClient, Call
from trainplan.providers.azure.provider import make
from trainplan.providers.azure.settings import AzureSettings
from trainplan.providers.base import ProviderSettings
from trainplan.providers.cloud.server_time import ServerClock

LONG_AGO = NOON - timedelta(days=3650)
"""What this computer's clock says: the double's server sends today's date."""


def settings(world: Client, home: Path) -> ProviderSettings:
    return ProviderSettings(
        home=home, options=world.azure.options, environment=world.azure.environment, now=lambda: LONG_AGO
    )


@pytest.mark.parametrize(("path", "status"), [("/subscriptions", 200), ("/subscriptions/none/resourcegroups", 404)])
def test_every_answer_tells_the_time_a_refusal_too(world: Client, tmp_path: Path, path: str, status: int) -> None:
    clock = ServerClock(lambda: LONG_AGO)
    arm = ArmClient(AzureSettings.of(settings(world, tmp_path)), clock=clock)
    assert arm.send(Call(method="GET", path=path, api="2022-12-01")).status == status
    assert clock.offset is not None
    assert clock.offset > timedelta(days=3000)


def test_before_its_first_answer_nobody_knows_the_time(world: Client, tmp_path: Path) -> None:
    provider = make(settings(world, tmp_path))
    assert isinstance(provider, ServerTime)
    assert provider.server_time_offset() is None
    provider.account.arm.send(Call(method="GET", path="/subscriptions", api="2022-12-01"))
    assert (provider.server_time_offset() or timedelta(0)) > timedelta(days=3000)
    assert provider.rented.now() > LONG_AGO + timedelta(days=3000), "a machine's boot deadline is in Azure's time"
