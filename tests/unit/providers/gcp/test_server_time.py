"""The time of Google Cloud, as the `Date` of its answers tells it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.contract.gcp import PROJECT
from tests.doubles.clock import NOON
from tests.unit.providers.gcp.conftest import World
from trainplan.providers.abilities import ServerTime
from trainplan.providers.base import ProviderSettings
from trainplan.providers.cloud.server_time import ServerClock
from trainplan.providers.errors import ProviderError
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.api import GoogleApi
from trainplan.providers.gcp.provider import make
from trainplan.providers.gcp.settings import GcpSettings
from trainplan.providers.gcp.tpu.api import TpuCalls

LONG_AGO = NOON - timedelta(days=3650)
"""What this computer's clock says: the double's server sends today's date."""
ZONE = "us-central1-a"
_PLACEMENT = f"projects/{PROJECT}/locations/{ZONE}"


def _project(account: GcpAccount) -> None:
    account.ask("GET", "compute", f"/compute/v1/projects/{PROJECT}")


def _refused(account: GcpAccount) -> None:
    with pytest.raises(ProviderError):
        GoogleApi(account).instance(PROJECT, ZONE, "nothing")


def _list(account: GcpAccount) -> None:
    GoogleApi(account).everywhere("instances", PROJECT, "", "")


def _tpus(account: GcpAccount) -> None:
    TpuCalls(account).call("ListNodes", {"parent": _PLACEMENT})


@pytest.mark.parametrize("ask", [_project, _refused, _list, _tpus])
def test_every_answer_tells_the_time_a_refusal_too(world: World, ask: Callable[[GcpAccount], None]) -> None:
    clock = ServerClock(lambda: LONG_AGO)
    ask(GcpAccount(GcpSettings(project=PROJECT, endpoint=world.google.url), clock))
    assert clock.offset is not None
    assert clock.offset > timedelta(days=3000)


def test_before_its_first_answer_nobody_knows_the_time(world: World, tmp_path: Path) -> None:
    options = {"project": PROJECT, "endpoint": world.google.url}
    provider = make(ProviderSettings(home=tmp_path, options=options, environment={}, now=lambda: LONG_AGO))
    assert isinstance(provider, ServerTime)
    assert provider.server_time_offset() is None
    provider.account.identity()
    assert (provider.server_time_offset() or timedelta(0)) > timedelta(days=3000)
